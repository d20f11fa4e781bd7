"""A path as it is solved, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from provenet.cli import kept
from provenet.cli.console import print_table, warn
from provenet.cli.path_files import PathFiles
from provenet.cli.progress import bar
from provenet.solvers import Solution, Status


def solved(found: Iterator[Solution], record: PathFiles, betas: int, quiet: bool) -> list[Solution]:
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


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
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
