"""`provenet path`: the networks along β, from β_max down."""

from __future__ import annotations

import json as json_
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from provenet.cli import options as o
from provenet.cli.console import FAILED, as_csv, errors, print_json, print_table, say
from provenet.cli.fitting import prepare
from provenet.cli.groups import FromFile, OfBlock, OfNetwork, OfSolver, grouped
from provenet.files import write_atomically
from provenet.report import write_report
from provenet.solvers import Solution
from provenet.solvers.path import path as follow


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
    fitting = prepare(context, file, task, block, network, solver)
    problem = fitting.problem()
    console = errors()
    with Progress(console=console, transient=True, disable=json or not console.is_terminal) as progress:
        bar = progress.add_task("path", total=betas)
        limits = (solver.max_steps, solver.max_seconds)
        solutions = follow(
            problem, betas, solver.solver, solver.tol, ratio, *limits, progress=lambda _: progress.advance(bar)
        )
    rows = [_row(solution) for solution in solutions]
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "path.csv", as_csv(rows[0], (row.values() for row in rows)).encode())
    write_atomically(out / "path.json", (json_.dumps({"path": rows}, indent=2) + "\n").encode())
    page = write_report(
        out / "report.html",
        solution=solutions[-1],
        classes=getattr(fitting.estimator, "classes_", None),
        feature_names=fitting.feature_names,
        path=solutions,
    )
    if json:
        print_json({"folder": str(out), "report": str(page), "beta_max": problem.beta_max, "path": rows})
    else:
        _print(rows)
        say(f"path    {out / 'path.csv'}\nreport  {page}")
    if len(solutions) < betas or not all(s.certificate.holds(solver.tol) for s in solutions):
        raise typer.Exit(FAILED)


def _row(solution: Solution) -> dict[str, Any]:
    certificate, beta_max = solution.certificate, solution.problem.beta_max
    return {
        "beta": solution.problem.beta,
        "beta_over_beta_max": solution.problem.beta / beta_max if beta_max > 0 else None,
        "primal": certificate.primal,
        "dual": certificate.dual,
        "relative_gap": certificate.relative_gap,
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
