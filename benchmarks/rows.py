"""The rows of the comparison with other solvers, one at a time, each a problem, a target and whether it is met."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from benchmarks import peers, problems, relu, relu_exact
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

    def cells(self) -> tuple[str, ...]:
        ratio = f"{self.theirs.seconds / self.ours.seconds:.1f}×" if self.theirs else "–"
        return (self.problem, *_measured(self.ours), self.ours.note, self.peer, *_measured(self.theirs), ratio,
                self.target, "yes" if self.met else "NO")  # fmt: skip


HEADER = ("problem", "provenet", "gap", "how", "peer", "its time", "its gap", "ratio", "target", "met")


def _measured(result: Result | None) -> tuple[str, str]:
    return (f"{result.seconds:.3f} s", f"{result.relative_gap:.1e}") if result else ("–", "–")


def gated() -> Iterator[Row]:
    """Gated ReLU against Clarabel, and against first-order methods."""
    for beta in (1e-1, 1e-2, 1e-3, 1e-4):
        problem, name = problems.spiral(beta), f"spiral 150 × 2, c = 3, P = 100, β = {beta:g}"
        ours = best_of(5, name, lambda p=problem: peers.provenet(p, 1e-8))
        theirs = best_of(3, f"{name}: Clarabel", lambda p=problem: peers.clarabel(p))
        met = ours.relative_gap <= 1e-8 and theirs.seconds >= 3 * ours.seconds
        yield Row(name, ours, "Clarabel", theirs, "≤ 1e-8, 3×", met)
    for n, d, gates, factor, repeats in ((1000, 20, 100, 5, 3), (2000, 50, 500, 8, 1)):
        problem, name = problems.teacher(n, d, gates, 0.01), f"one output {n} × {d}, P = {gates}, β = .01 β_max"
        ours = best_of(3, name, lambda p=problem: peers.provenet(p, 1e-6))
        for peer, once in (
            ("pyscnn 1e-9", lambda p=problem: peers.pyscnn(p, 1e-9)),
            ("celer 1e-6", lambda p=problem: peers.celer(p, 1e-6)),
        ):
            theirs = best_of(repeats, f"{name}: {peer}", once)
            met = ours.relative_gap <= 1e-6 and theirs.seconds >= factor * ours.seconds
            yield Row(name, ours, peer, theirs, f"≤ 1e-6, {factor}×", met)


def relu_one_output() -> Iterator[Row]:
    """ReLU with one output, against Clarabel and the clock."""
    for target in relu.TARGETS:
        ours, theirs = relu.measure(target)
        yield Row(target.name, ours, "Clarabel" if theirs else "–", theirs, target.words, target.met(ours, theirs))


def relu_every_arrangement() -> Iterator[Row]:
    """ReLU over all arrangements, against the clock."""
    for case in relu_exact.cases():
        yield Row(case.name, case.ours, "–", None, case.words, case.met)


def digits() -> Iterator[Row]:
    """Handwritten digits on all cores, against the clock."""
    for loss in ("squared", "softmax"):
        problem, name = problems.digits(loss), f"digits, {loss}, P = 500, {_CORES} cores"
        for tol, seconds in ((1e-4, 10), (1e-6, 20)):
            ours = best_of(1, f"{name} to {tol:g}", lambda p=problem, t=tol: peers.provenet(p, t))
            met = ours.relative_gap <= tol and ours.seconds < seconds
            yield Row(name, ours, "–", None, f"≤ {tol:g} in {seconds} s", met)
