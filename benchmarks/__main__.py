"""``make bench``: tables of ratios from one run, one thread (two where a row says so)."""

from __future__ import annotations

import platform
import subprocess
import sys
import warnings
from dataclasses import dataclass
from datetime import date

import torch
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import operators, peers, problems, relu, relu_exact
from benchmarks.peers import Result, best_of

_CORES = torch.get_num_threads()


@dataclass(frozen=True)
class Row:
    problem: str
    ours: Result
    peer: str
    theirs: Result | None
    target: str
    met: bool


def against_clarabel() -> list[Row]:
    rows = []
    for beta in (1e-1, 1e-2, 1e-3, 1e-4):
        problem = problems.spiral(beta)
        ours = best_of(5, lambda p=problem: peers.provenet(p, 1e-8))
        theirs = best_of(3, lambda p=problem: peers.clarabel(p))
        met = ours.relative_gap <= 1e-8 and theirs.seconds >= 3 * ours.seconds
        rows.append(Row(f"spiral 150 × 2, c = 3, P = 100, β = {beta:g}", ours, "Clarabel", theirs, "≤ 1e-8, 3×", met))
    return rows


def against_first_order() -> list[Row]:
    rows = []
    for n, d, gates, factor, repeats in ((1000, 20, 100, 5, 3), (2000, 50, 500, 8, 1)):
        problem = problems.teacher(n, d, gates, 0.01)
        ours = best_of(3, lambda p=problem: peers.provenet(p, 1e-6))
        name = f"one output {n} × {d}, P = {gates}, β = .01 β_max"
        for peer, once in (
            ("pyscnn 1e-9", lambda p=problem: peers.pyscnn(p, 1e-9)),
            ("celer 1e-6", lambda p=problem: peers.celer(p, 1e-6)),
        ):
            theirs = best_of(repeats, once)
            met = ours.relative_gap <= 1e-6 and theirs.seconds >= factor * ours.seconds
            rows.append(Row(name, ours, peer, theirs, f"≤ 1e-6, {factor}×", met))
    return rows


def relu_one_output() -> list[Row]:
    rows = []
    for target in relu.TARGETS:
        ours, theirs = relu.measure(target)
        peer = "Clarabel" if theirs else "–"
        rows.append(Row(target.name, ours, peer, theirs, target.words, target.met(ours, theirs)))
    return rows


def relu_every_arrangement() -> list[Row]:
    return [Row(case.name, case.ours, "–", None, case.words, case.met) for case in relu_exact.cases()]


def digits() -> list[Row]:
    rows = []
    for loss in ("squared", "softmax"):
        problem = problems.digits(loss)
        for tol, seconds in ((1e-4, 10), (1e-6, 20)):
            ours = best_of(1, lambda p=problem, t=tol: peers.provenet(p, t))
            met = ours.relative_gap <= tol and ours.seconds < seconds
            rows.append(
                Row(f"digits, {loss}, P = 500, {_CORES} cores", ours, "–", None, f"≤ {tol:g} in {seconds} s", met)
            )
    return rows


def memory() -> str:
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.peak"], capture_output=True, text=True, check=True
    ).stdout.split()
    used, allowed = int(answer[0]), int(answer[1])
    verdict = "met" if used <= allowed else "NOT met"
    return f"Peak memory of a fit: {used / 2**20:.0f} MiB of {allowed / 2**20:.0f} MiB allowed: {verdict}."


def operator_costs() -> Table:
    """A and A* on neurons against the bare matmuls and FFTs, one thread."""
    table = Table("block", "how", "A and A* on neurons", "bare products", "ratio", "target", "met")
    for cost in operators.costs():
        met = "yes" if cost.ratio <= operators.TARGET else "NO"
        ours, bare = f"{cost.ours * 1e3:.1f} ms", f"{cost.bare * 1e3:.1f} ms"
        table.add_row(cost.name, cost.how, ours, bare, f"{cost.ratio:.2f}", f"≤ {operators.TARGET}", met)
    return table


def main() -> None:
    warnings.simplefilter("ignore")
    console = Console(width=150)
    torch.set_num_threads(1)
    with threadpool_limits(limits=1):
        rows = against_clarabel() + against_first_order() + relu_one_output() + relu_every_arrangement()
        costs = operator_costs()
    torch.set_num_threads(_CORES)
    rows += digits()
    table = Table("problem", "provenet", "gap", "how", "peer", "its time", "its gap", "ratio", "target", "met")
    for row in rows:
        ratio = f"{row.theirs.seconds / row.ours.seconds:.1f}×" if row.theirs else "–"
        theirs = (f"{row.theirs.seconds:.3f} s", f"{row.theirs.relative_gap:.1e}") if row.theirs else ("–", "–")
        table.add_row(
            row.problem,
            f"{row.ours.seconds:.3f} s",
            f"{row.ours.relative_gap:.1e}",
            row.ours.note,
            row.peer,
            *theirs,
            ratio,
            row.target,
            "yes" if row.met else "NO",
        )
    console.print(table)
    console.print(costs)
    console.print(memory())
    console.print(f"{date.today()}, {platform.machine()}, {_CORES} cores, Python {platform.python_version()}")


if __name__ == "__main__":
    main()
