"""Who is compared on a program: `auto`, every method by name, and others' solvers where they are installed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from provenet.bench.speed.peers import PEERS, Peer
from provenet.problem import Problem
from provenet.reductions import STANDARD, reduced
from provenet.solvers import METHODS, Limits, Record
from provenet.solvers.solve import solve_quietly

_ASKED_FOR = ("cvx", "cutting_plane", "active_ipm")  # references, and what only finishes


@dataclass(frozen=True)
class Run:
    """What came out: a network to be judged, None where there is none of the problem's kind; ``ran``: what did it;
    ``theta``: a dual point, in the problem's units, where there is one besides the network's own gradient."""

    network: nn.Module | None
    ran: str = ""
    theta: Tensor | None = None


@dataclass(frozen=True)
class Entrant:
    """``efforts``: what it is asked for, one after the other, tolerances or numbers of steps; None: the case's gaps.
    train(problem, effort, seconds): stopped after so many seconds of the processor, where it can be."""

    name: str
    train: Callable[[Problem, float, float], Run]
    efforts: tuple[float, ...] | None = None
    ours: bool = False


def entrants(problem: Problem) -> list[Entrant]:
    """`auto` first: how long it takes says how long others are waited for."""
    methods = [name for name in METHODS if name not in _ASKED_FOR and not _refused(problem, name)]
    ours = [Entrant(name, _trained_by(name), ours=True) for name in ("auto", *methods)]
    theirs = [Entrant(peer.name, _trained(peer), peer.efforts) for peer in PEERS if peer.refuses(problem) is None]
    return ours + theirs


def _trained(peer: Peer) -> Callable[[Problem, float, float], Run]:
    return lambda problem, effort, seconds: Run(peer.train(problem, effort, seconds))


def _trained_by(method: str) -> Callable[[Problem, float, float], Run]:
    def train(problem: Problem, tol: float, seconds: float) -> Run:
        began = time.process_time()

        def late(_: Record) -> bool:
            return time.process_time() - began > seconds

        limits = Limits(tol, max_seconds=None if seconds == math.inf else 4 * seconds)  # beside other work
        solution = solve_quietly(problem, method, limits, callback=late)
        return Run(solution.network(), f"{solution.method}, {solution.steps} steps", solution.certificate.theta)

    return train


def _refused(problem: Problem, method: str) -> bool:
    """By itself: the name of a family may stand for another member of it, which has a row of its own."""
    program = reduced(problem.program, STANDARD)[0] if METHODS[method].reduces else problem.program
    return METHODS[method]().refuses(program) is not None
