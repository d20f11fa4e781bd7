"""`provenet path`: the networks along β, from β_max down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provenet.cli import importing, kept
from provenet.cli import options as o
from provenet.cli.console import FAILED, print_json, say
from provenet.cli.groups import FromFile, OfBlock, OfNetwork, OfSolver, grouped

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
    with importing():
        from provenet import batches
        from provenet.cli.fitting import prepare
        from provenet.cli.path_files import PathFiles
        from provenet.cli.path_solved import print_rows, solved, spread
        from provenet.deadline import Budget
        from provenet.files import check_writable
        from provenet.memory import as_bytes
        from provenet.report import write_report
        from provenet.solvers import Limits
        from provenet.solvers.path import along, beta_grid
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
    solutions = solved(along(problem, grid, solver.solver, limits), record, betas, quiet=json)
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
        print_rows(spread(rows, _MOST_SHOWN))
        say(f"path    {record.table}" + ("" if page is None else f"\nreport  {page}"))
    if page is None or len(solutions) < betas or not all(s.certificate.holds(solver.tol) for s in solutions):
        raise typer.Exit(FAILED)
