"""The regularisation path: one problem at many β, each solved from the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np

from provenet.deadline import Budget
from provenet.problem import Problem
from provenet.solvers.loop import Callback, Limits, Method
from provenet.solvers.solution import Solution
from provenet.solvers.solve import solve_quietly
from provenet.solvers.status import Status


def path(
    problem: Problem,
    betas: int | Sequence[float] = 20,
    method: str | Method[Any] = "auto",
    tol: float = 1e-6,
    beta_ratio: float = 1e-3,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    progress: Callable[[Solution], Any] | None = None,
) -> list[Solution]:
    """Solutions of a problem at strictly decreasing β, each warm-started from the one before.

    Ctrl-C and the end of the time end the path after the solution they interrupt: what was found until then is
    returned.

    Parameters
    ----------
    problem : Problem
        At any β; its data, gates and loss are those of the path.
    betas : int or sequence of float, default 20
        How many, log-spaced from β_max (where the zero network is optimal) down to ``beta_ratio``·β_max; or the values
        themselves.
    method : str or Method, default "auto"
        As in `provenet.solve`.
    tol : float, default 1e-6
        The relative gap asked for, at each β.
    max_steps : int, optional
        A limit of each run.
    beta_ratio : float, default 1e-3
        See ``betas``.
    max_seconds : float, optional
        A limit of the whole path.
    callback : function, optional
        Gets a `Record` at each look at a gap; a true answer ends the path.
    progress : function, optional
        Gets every `Solution` as it is found.

    Returns
    -------
    list of Solution
        Each with its ``problem``, whose ``beta`` it is, and its certificate.
    """
    if isinstance(betas, Integral):
        grid = beta_grid(problem.beta_max, int(betas), beta_ratio)
    elif isinstance(betas, Iterable):
        grid = list(betas)
    else:
        raise ValueError(f"betas: give a number of values, or a list of them, got {betas!r}.")
    solutions: list[Solution] = []
    with suppress(KeyboardInterrupt):  # between two solutions
        for found in along(problem, grid, method, Limits(tol, max_steps, max_seconds), callback):
            solutions.append(found)
            if progress is not None:
                progress(found)
    if not solutions:
        raise KeyboardInterrupt
    return solutions


def along(
    problem: Problem,
    betas: Sequence[float],
    method: str | Method[Any],
    limits: Limits,
    callback: Callback | None = None,
) -> Iterator[Solution]:
    """As `path`, one solution after the other."""
    budget = Budget(limits.max_seconds)
    _check_decreasing(betas)
    last: Solution | None = None
    for beta in betas:
        if budget.over and last is not None:
            return
        rest = replace(limits, max_seconds=budget.left())
        at, start = (problem, None) if last is None else (last.problem, last.factors)  # it may have grown
        last = solve_quietly(at.with_beta(beta), method, rest, start, callback)
        yield last
        if last.status is Status.INTERRUPTED:
            return


def beta_grid(beta_max: float, count: int, beta_ratio: float = 1e-3) -> list[float]:
    """``count`` log-spaced β from ``beta_max`` down to ``beta_ratio``·``beta_max``.

    Where β_max is zero (nothing to fit) the zero network is optimal at every β, and the grid starts at one.
    """
    if count < 2:
        raise ValueError(f"betas: a path has at least two values of beta, got {count}.")
    if isinstance(beta_ratio, bool) or not isinstance(beta_ratio, Real) or not 0 < beta_ratio < 1:
        raise ValueError(f"beta_ratio: it must lie between 0 and 1, got {beta_ratio!r}.")
    top = beta_max if beta_max > 0 else 1.0
    return (top * np.geomspace(1.0, beta_ratio, count)).tolist()


def _check_decreasing(betas: Sequence[float]) -> None:
    if not betas:
        raise ValueError("betas: it is empty.")
    if any(after >= before for before, after in pairwise(betas)):
        raise ValueError("betas: a path goes from the largest beta down; sort them in strictly decreasing order.")
