"""`provenet fit`: data in, a proven network and its report out."""

from __future__ import annotations

import typer

from provenet.cli import importing, kept
from provenet.cli import options as o
from provenet.cli.console import FAILED
from provenet.cli.fit_options import OfBeta, OfFolder, OfSamples
from provenet.cli.groups import FromFile, OfBlock, OfNetwork, OfSolver, grouped


@grouped
def fit(
    context: typer.Context,
    file: FromFile,
    block: OfBlock,
    network: OfNetwork,
    solver: OfSolver,
    folder: OfFolder,
    decay: OfBeta,
    samples: OfSamples,
    json: o.Json = False,
) -> None:
    """Train a network to a proven optimum; write it, its certificate and a report into a folder.

    Example: provenet fit iris.csv --target species --beta 0.01max --out iris

    Example: provenet fit iris.csv --target species --penalty 1,2 --out sparse-iris

    Example: torchrun --nproc-per-node 4 --max-restarts 3 -m provenet fit large.npz --out large

    Example: provenet fit patches.npz --block attention --tokens 49 --set scale=sqrt_d --out heads
    """
    settings = decay.settings(context) | samples.settings(context, block, network)
    with importing():
        from provenet import batches
        from provenet.cli.fit_parts import judged, parted
        from provenet.cli.fit_told import tell
        from provenet.cli.fitting import prepare
        from provenet.cli.together import joined, of_all_rows, own_rows, restarts_on_failure
        from provenet.cli.training import train, warn_of_scales
        from provenet.deadline import Budget
        from provenet.io import save
        from provenet.memory import as_bytes
        from provenet.report import report as write_report
    budget, search = Budget(solver.max_seconds), decay.cv is not None
    context.with_resource(batches.within(as_bytes(solver.memory_limit)))
    folder.check()
    fitting = prepare(context, file, samples.task, block, network, solver, search, samples.holdout, **settings)
    fitting, kept_out = parted(context, samples, fitting, network.seed, decay.cv)
    estimator = fitting.estimator
    warn_of_scales(fitting)
    with joined(folder.out, folder.snapshots, folder.snapshot_every) as group:
        first, name = group is None or group.is_first, "choosing beta" if search else "fitting"
        train(estimator, own_rows(fitting, group), name, seconds=budget.left(), quiet=json, tell=first)
        holds = estimator.certificate_.holds(solver.tol)
        out = folder.for_model(holds, tell=first)
        with kept.writing("model", out):
            split = {} if kept_out is None else {"holdout": {"share": samples.holdout, "seed": network.seed}}
            save(estimator, out, source=fitting.data.source.to_dict() | {"task": fitting.task} | split)
        estimator.solution_.problem.beta_max  # noqa: B018 — asked of all processes, and known from here on
    if not first:
        return
    page = None
    if folder.report:
        if group is not None:
            of_all_rows(estimator, fitting)
        seen = judged(kept_out or fitting)
        kind = "training" if kept_out is None else "test"
        about = {"feature_names": fitting.feature_names, "source": fitting.named, "judged_on": kind}
        page = kept.report("model", out, lambda page: write_report(estimator, page, *seen, **about))
    tell(estimator, fitting, kept_out, out, page, json)
    failed = folder.report and page is None
    if (failed or not holds) and not restarts_on_failure():
        raise typer.Exit(FAILED)
