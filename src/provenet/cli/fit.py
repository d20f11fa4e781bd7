"""`provenet fit`: data in, a proven network and its report out."""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning

from provenet import batches
from provenet.cli import kept
from provenet.cli import options as o
from provenet.cli.console import FAILED, complain, counted, print_certificate, print_json, say, warn
from provenet.cli.fitting import Fitting, prepare
from provenet.cli.groups import FromFile, OfBlock, OfNetwork, OfSolver, grouped
from provenet.cli.progress import gap_bar
from provenet.cli.together import joined, of_all_rows, own_rows, restarts_on_failure
from provenet.data.shards import Shards
from provenet.estimators.base import ProvenEstimator
from provenet.estimators.scales import ScaleWarning, far_apart
from provenet.estimators.telling import watched
from provenet.files import check_writable
from provenet.io import save
from provenet.io.folder import check_replaceable, holds_certified
from provenet.memory import as_bytes
from provenet.report import report as write_report

_SHORTEST = 0.01  # seconds for the fit, where reading has taken all there was


@grouped
def fit(
    context: typer.Context,
    file: FromFile,
    block: OfBlock,
    network: OfNetwork,
    solver: OfSolver,
    out: Annotated[
        Path, typer.Option("--out", "-o", file_okay=False, help="Folder for the model and the report.")
    ] = Path("model"),
    task: o.TaskOption = "auto",
    beta: o.BetaOption = "auto",  # type: ignore[assignment]  # typer parses it
    cv: Annotated[int | None, typer.Option(min=2, help="Choose beta by cross-validation with so many folds.")] = None,
    betas: Annotated[int, typer.Option(min=2, help="With --cv: how many values of beta to try, at most.")] = 8,
    delta: o.Delta = 1.0,
    balanced: Annotated[bool, typer.Option("--balanced", help="Weigh classes against their frequency.")] = False,
    whiten: Annotated[
        bool, typer.Option("--whiten", help="Whiten the data first (ZCA); they need no more rows than columns.")
    ] = False,
    report: Annotated[bool, typer.Option(help="Write report.html into the folder.")] = True,
    holdout: Annotated[
        float | None,
        typer.Option(min=0.01, max=0.9, help="Keep this share of the rows from training, and score on them."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a certified model even by one that could not be certified.")
    ] = False,
    snapshots: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Folder for snapshots, from which a fit that was killed goes on. (under torchrun: beside --out)",
        ),
    ] = None,
    snapshot_every: Annotated[int, typer.Option(min=1, help="Steps between two snapshots.")] = 50,
    json: o.Json = False,
) -> None:
    """Train a network to a proven optimum; write it, its certificate and a report into a folder.

    Example: provenet fit iris.csv --target species --beta 0.01max --out iris

    Example: provenet fit iris.csv --target species --penalty 1,2 --out sparse-iris

    Example: torchrun --nproc-per-node 4 --max-restarts 3 -m provenet fit large.npz --out large

    Example: provenet fit patches.npz --block attention --tokens 49 --set scale=sqrt_d --out heads
    """
    began = time.perf_counter()
    context.with_resource(batches.within(as_bytes(solver.memory_limit)))
    check_replaceable(out)  # before the work, not after it
    check_writable(out)
    if cv is None:
        o.refuse_if_given(context, "betas", "it goes with --cv.")
    else:
        o.refuse_if_given(context, "beta", "--cv chooses beta; give one or the other.")
    more: dict[str, Any] = {"class_weight": "balanced" if balanced else None, "whiten": whiten}
    if whiten and block.block != "mlp":
        raise typer.BadParameter("it goes with --block mlp.", param_hint="--whiten")
    if whiten and network.standardize:
        raise typer.BadParameter("whitened data have a scale of their own.", param_hint="--standardize, --whiten")
    if cv is not None:
        more |= {"cv": cv, "betas": betas}
    if network.loss == "huber":
        more["delta"] = delta
    else:
        o.refuse_if_given(context, "delta", "it goes with --loss huber.")
    fitting = prepare(context, file, task, block, network, solver, search=cv is not None, holdout=holdout, **more)
    if fitting.task == "regression":
        o.refuse_if_given(context, "balanced", "a regression has no classes to weigh.")
    kept_out = None
    if isinstance(fitting.data.X, Shards) and (holdout is not None or cv is not None):
        raise typer.BadParameter(
            f"rows of {file.data.name} are read in shards, and none are kept apart; leave it out.",
            param_hint="--holdout" if cv is None else "--cv",
        )
    if cv is not None and cv > len(fitting.data.X):
        raise typer.BadParameter(f"{cv} folds of {len(fitting.data.X)} rows cannot be made.", param_hint="--cv")
    if holdout is not None:
        fitting, kept_out = fitting.held_out(holdout, network.seed)
    estimator, dataset = fitting.estimator, fitting.data
    if whiten and len(dataset.X) > dataset.X.shape[1]:
        rows, columns = dataset.X.shape
        raise typer.BadParameter(
            f"{rows} rows of {columns} columns cannot be whitened: XXᵀ = I needs no more rows than columns.",
            param_hint="--whiten",
        )
    warn_of_scales(fitting)
    if cv is None:
        estimator.set_params(beta=beta.said)
    name = "fitting" if cv is None else "choosing beta"
    with joined(out, snapshots, snapshot_every) as group:
        first = group is None or group.is_first
        X, y, weight, mask = own_rows(fitting, group)
        train(estimator, X, y, weight, quiet=json, name=name, mask=mask, spent=time.perf_counter() - began, tell=first)
        holds = estimator.certificate_.holds(solver.tol)
        if not (holds or force) and holds_certified(out):
            kept_one, out = out, out.with_name(f"{out.name}-uncertified")
            if first:
                warn(
                    f"{kept_one} has a certified model, which one that is not certified does not replace without "
                    "--force."
                )
        with kept.writing("model", out):
            split = {} if holdout is None else {"holdout": {"share": holdout, "seed": network.seed}}
            save(estimator, out, source=dataset.source.to_dict() | {"task": fitting.task} | split)
        estimator.solution_.problem.beta_max  # noqa: B018 — asked of all processes, and known from here on
    if not first:
        return
    page, failed = None, False
    if report:
        if group is not None:
            of_all_rows(estimator, fitting)
        seen = kept_out or fitting
        judged = _judged(seen)
        kind = "training" if kept_out is None else "test"
        about = {"feature_names": fitting.feature_names, "source": fitting.named, "judged_on": kind}
        try:
            with kept.writing("report", out / "report.html"):
                page = write_report(estimator, out / "report.html", *judged, **about)
        except OSError as error:  # a full disk, say: the work is safe
            complain(f"the report could not be written ({error}); the model is in {out}.")
            failed = True
    _tell(estimator, fitting, kept_out, out, page, json)
    if (failed or not holds) and not restarts_on_failure():
        raise typer.Exit(FAILED)


def _judged(seen: Fitting) -> tuple[Any, Any, Any]:
    """What a report judges a network by: all samples, or, of those in shards, some evenly spaced ones."""
    X, y = seen.data.X, seen.y
    if not isinstance(X, Shards):
        return X, y, seen.data.mask
    rows = batches.count(math.prod(X.shape[1:]), batches.BATCH)
    return X.spaced(rows).numpy(), y[:: X.stride(rows)], None


def warn_of_scales(fitting: Fitting) -> None:
    """Where nothing brings columns of a table to one scale."""
    estimator, names = fitting.estimator, fitting.feature_names
    if names is None or isinstance(fitting.data.X, Shards) or estimator.whiten or estimator._standardizes():
        return
    told = far_apart(fitting.data.X, 1, names)
    if told:
        warn(f"{told} Leave --no-standardize out, or bring them to one scale yourself.")


def train(
    estimator: ProvenEstimator,
    X: Any,
    y: Any,
    weight: Any,
    quiet: bool,
    name: str = "fitting",
    mask: Any = None,
    spent: float = 0.0,
    tell: bool = True,
) -> None:
    """Fit, with a bar on a terminal; a fit that stops short is told in a line.  tell: whether to say anything.

    ``spent``: seconds of the estimator's time limit, which is the whole command's, that have passed already."""
    asked = estimator.max_seconds
    if asked is not None:
        estimator.set_params(max_seconds=max(asked - spent, _SHORTEST))
    with (
        gap_bar(estimator.tol, quiet or not tell, name) as bar,
        watched(estimator, bar.show, warn if tell else None, bar.count),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.simplefilter("ignore", ScaleWarning)  # `warn_of_scales` has names
        estimator.fit(X, y, sample_weight=weight, mask=mask)
    estimator.set_params(max_seconds=asked)
    for warning in caught if tell else ():
        warn(str(warning.message))


def _score(estimator: ProvenEstimator, on: Fitting) -> float:
    data = on.data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # `_scored` says it
        return float(estimator.score(data.X, on.y, sample_weight=data.weight, mask=data.mask))


def _scored(name: str, score: float) -> str:
    return f"{name} {score:.4g}" if score == score else f"{name} not defined, of one row"


def _tell(
    estimator: ProvenEstimator, fitting: Fitting, kept_out: Fitting | None, out: Path, page: Path | None, json: bool
) -> None:
    name = "accuracy" if fitting.task == "classification" else "R²"
    data, score = fitting.data, _score(estimator, fitting)
    test = None if kept_out is None else _score(estimator, kept_out)
    solution, search = estimator.solution_, getattr(estimator, "beta_search_", None)
    if json:
        print_json(
            {
                "folder": str(out),
                "report": None if page is None else str(page),
                "task": fitting.task,
                "block": solution.problem.block.name,
                "samples": list(data.X.shape),
                "read": data.read or None,
                "method": solution.method,
                "status": solution.status.value,
                "steps": solution.steps,
                "seconds": solution.seconds,
                "neurons": solution.factors.n_neurons,
                "gates": {
                    "found": solution.problem.statement.sampler,
                    "count": len(solution.problem.patterns),
                    "seconds": solution.problem.gates.seconds,
                },
                "beta": solution.problem.beta,
                "beta_max": solution.problem.beta_max,
                "beta_search": None if search is None else search.to_dict(),
                "training_score": {"name": name, "value": score if score == score else None},
                "test_score": None if test is None else {"name": name, "value": test if test == test else None},
                "certificate": estimator.certificate_.to_dict(),
            }
        )
        return
    beta, beta_max = solution.problem.beta, solution.problem.beta_max
    if data.read:
        say(f"{fitting.path.name}: {data.read}")
    say(f"{fitting.task} on {' × '.join(map(str, data.X.shape))} data, training {_scored(name, score)}")
    if test is not None and kept_out is not None:
        say(f"on {counted(len(kept_out.data.X), 'row')} kept from training, test {_scored(name, test)}")
    neurons, steps = counted(solution.factors.n_neurons, "neuron"), counted(solution.steps, "step")
    say(f"{neurons} by {solution.method} in {steps}, {solution.seconds:.2g} s")
    if solution.problem.gate_vectors is not None:
        gates, sampler = solution.problem.gates, solution.problem.statement.sampler
        say(f"{counted(len(gates.patterns), 'gate')}, {sampler}, found in {gates.seconds:.2g} s")
    say(f"beta {beta:.3g}" + (f" = {beta / beta_max:.2g} beta_max" if beta_max > 0 else ""))
    if search is not None:
        say(str(search))
    print_certificate(estimator.certificate_)
    say(f"model   {out}")
    if page is not None:
        say(f"report  {page}")
