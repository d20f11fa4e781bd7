"""`provenet path`: the networks along β, from β_max down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from provenet import batches
from provenet.cli import kept
from provenet.cli import options as o
from provenet.cli.console import FAILED, print_json, print_table, say, warn
from provenet.cli.fitting import prepare
from provenet.cli.groups import FromFile, OfBlock, OfNetwork, OfSolver, grouped
from provenet.cli.path_files import PathFiles
from provenet.cli.progress import bar
from provenet.deadline import Budget
from provenet.files import check_writable
from provenet.memory import as_bytes
from provenet.report import write_report
from provenet.solvers import Limits, Solution, Status
from provenet.solvers.path import along, beta_grid

_MOST_SHOWN = 200  # points of a path in the report and on the screen; the files have all


@grouped
def path(
    context: typer.Context,
    file: FromFile,
    block: OfBlock,
    network: OfNetwork,
    solver: OfSolver,
    out: Annotated[
        Path, typer.Option("--out", "-o", file_okay=False, help="Folder for the path and its report.")
    ] = Path("path"),
    betas: Annotated[int, typer.Option(min=2, help="How many values of beta, log-spaced.")] = 20,
    ratio: Annotated[
        float, typer.Option(min=1e-12, max=0.999, help="The smallest beta, as a share of beta_max.")
    ] = 1e-3,
    task: o.TaskOption = "auto",
    json: o.Json = False,
) -> None:
    """Solve at many values of beta, each from the last; write path.csv, path.json and a report with pictures.

    Example: provenet path iris.csv --target species --betas 15 --out iris-path
    """
    budget = Budget(solver.max_seconds)
    check_writable(out)
    fitting = prepare(context, file, task, block, network, solver)
    context.with_resource(batches.within(as_bytes(solver.memory_limit)))
    with budget.within():
        problem = fitting.problem()
    if problem.memory is not None:
        raise typer.BadParameter(
            f"{file.data.name} would be gone over in shards, again for each beta; fit at one beta, or allow more.",
            param_hint="--memory-limit",
        )
    out.mkdir(parents=True, exist_ok=True)
    record = PathFiles(out)
    grid, limits = beta_grid(problem.beta_max, betas, ratio), Limits(solver.tol, solver.max_steps, budget.left())
    solutions = _solved(along(problem, grid, solver.solver, limits), record, betas, quiet=json)
    about = {
        "solution": solutions[-1],
        "classes": getattr(fitting.estimator, "classes_", None),
        "feature_names": fitting.feature_names,
        "source": fitting.named,
        "path": spread(solutions, _MOST_SHOWN),
    }
    rows, page = record.rows, kept.report("path", out, lambda page: write_report(page, **about))
    if json:
        shown = None if page is None else str(page)
        print_json({"folder": str(out), "report": shown, "beta_max": problem.beta_max, "path": rows})
    else:
        _print(spread(rows, _MOST_SHOWN))
        say(f"path    {record.table}" + ("" if page is None else f"\nreport  {page}"))
    if page is None or len(solutions) < betas or not all(s.certificate.holds(solver.tol) for s in solutions):
        raise typer.Exit(FAILED)


def _solved(found: Iterator[Solution], record: PathFiles, betas: int, quiet: bool) -> list[Solution]:
    """All that are found, each written at once, until Ctrl-C or the time ends it."""
    solutions, interrupted = list[Solution](), False
    with bar(MofNCompleteColumn(), TimeRemainingColumn(), quiet=quiet) as progress:
        task = progress.add_task("path", total=betas)
        try:
            for solution in found:
                with kept.writing("path", record.folder):
                    solutions.append(solution)
                    record.add(_row(solution))
                progress.advance(task)
        except KeyboardInterrupt:  # between two solutions
            if not solutions:
                raise
            interrupted = True
    record.finish()
    stopped = interrupted or solutions[-1].status is Status.INTERRUPTED
    if stopped or len(solutions) < betas:
        how = "interrupted" if stopped else "out of time"
        warn(f"{how} after {len(solutions)} of {betas} values of beta; those are written.")
    return solutions


def spread(values: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the values, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _row(solution: Solution) -> dict[str, Any]:
    certificate, beta_max = solution.certificate, solution.problem.beta_max
    return {
        "beta": solution.problem.beta,
        "beta_over_beta_max": solution.problem.beta / beta_max if beta_max > 0 else None,
        "primal": certificate.primal,
        "dual": certificate.dual,
        "relative_gap": max(certificate.relative_gap, 0.0),
        "status": solution.status.value,
        "steps": solution.steps,
        "seconds": round(solution.seconds, 6),
        "neurons": solution.factors.n_neurons,
        "active_gates": int(solution.factors.gate.unique().numel()),
    }


def _print(rows: Sequence[dict[str, Any]]) -> None:
    shown = [
        [
            f"{r['beta']:.3e}",
            f"{r['primal']:.6g}",
            f"{r['relative_gap']:.1e}",
            str(r["neurons"]),
            str(r["steps"]),
            r["status"],
        ]
        for r in rows
    ]
    print_table(["beta", "primal", "relative gap", "neurons", "steps", "status"], shown)
