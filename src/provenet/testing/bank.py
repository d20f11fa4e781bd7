"""A small bank of problems: every block and loss, several outputs, weights, intercept, wide and degenerate data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from provenet.blocks import MLP
from provenet.formulation import formulate
from provenet.problem import Problem
from provenet.proofs.independent import second_opinion
from provenet.solvers import solve
from provenet.testing.examples import Example, examples
from provenet.verify import Data, Verdict


@dataclass(frozen=True)
class Case:
    """A problem, and the arrays and settings it was posed with.

    Parameters
    ----------
    name : str
        What is printed of it.
    X, Y : arrays
        Samples and targets.
    problem : Problem
        Posed on them.
    sample_weight : array (n,), optional
        The samples' weights.
    mask : array (n, s), optional
        Which tokens are there.
    """

    name: str
    X: np.ndarray
    Y: np.ndarray
    problem: Problem
    sample_weight: np.ndarray | None = None
    mask: np.ndarray | None = None

    @cached_property
    def optimum(self) -> float:
        """p* by CVXPY."""
        return solve(self.problem, "cvx", tol=1e-7).certificate.primal

    def verify(self, network: Any, theta: Tensor | None = None) -> Verdict:
        """The independent checker on a network for this problem; theta: a dual point beside the network's own."""
        return second_opinion(self.problem, network, Data(self.X, self.Y, self.sample_weight, self.mask), theta)

    def __str__(self) -> str:
        return self.name


def problem_bank() -> list[Case]:
    return [*_mlp_cases(), *_block_cases()]


def _mlp_cases() -> Iterator[Case]:
    for loss in ("squared", "softmax", "logistic", "huber"):
        for outputs in (1, 3):
            yield make_case(loss, outputs=outputs)
    yield make_case("squared", outputs=2, activation="linear")
    yield make_case("softmax", outputs=3, activation="linear", weighted=True)
    yield make_case("logistic", outputs=2, weighted=True, fit_intercept=True)
    yield make_case("squared", outputs=1, weighted=True, fit_intercept=True)
    yield make_case("squared", outputs=3, weighted=True)
    yield make_case("squared", outputs=3, n=6, d=12, gates=3)
    yield make_case("squared", outputs=2, ratio=0.01)
    yield make_case("huber", outputs=1, weighted=True, repeated=True)
    yield make_case("squared", outputs=1, gates=1, n=1, d=1)


def _block_cases() -> Iterator[Case]:
    """Two a block: gated with the mean of the tokens, linear with all of them; the MLP has its own."""
    turn = 0
    for example in examples():
        if example.name == "mlp":
            continue
        gated = turn % 2 == 0
        loss = ("squared", "squared", "softmax", "huber")[turn % 4]
        yield example_case(
            example, loss, "gated_relu" if gated else "linear", "mean" if gated else example.readouts[-1]
        )
        turn += 1


def example_case(
    example: Example,
    loss: str = "squared",
    activation: str = "gated_relu",
    readout: str = "mean",
    n: int = 8,
    gates: int = 3,
    ratio: float = 0.1,
    seed: int = 0,
) -> Case:
    """A random problem of a block with β = ratio·β_max, where that is not zero."""
    rng = np.random.default_rng(seed + 1)
    X, mask = example.samples(n, seed), example.mask(n, seed)
    tokens = (example.sample[0],) if readout == "tokens" else ()
    Y = make_targets(rng, loss, (n, *tokens), example.outputs)
    problem = formulate(example.block, X, Y, activation, gates, loss, 1.0, readout, seed, mask=mask)
    if problem.beta_max > 0:  # it is zero where the only gates are closed
        problem = problem.with_beta(ratio * problem.beta_max)
    return Case(f"{example}-{loss}-{activation}-{readout}", X, Y, problem, mask=mask)


def make_targets(rng: np.random.Generator, loss: str, rows: tuple[int, ...], outputs: int) -> np.ndarray:
    if loss == "softmax":
        return np.eye(outputs)[rng.integers(0, outputs, rows)]
    if loss == "logistic":
        return rng.integers(0, 2, (*rows, outputs)).astype(float)
    return rng.standard_normal((*rows, outputs))


def make_case(
    loss: str,
    n: int = 18,
    d: int = 3,
    outputs: int = 2,
    gates: int = 8,
    activation: str = "gated_relu",
    ratio: float = 0.1,
    weighted: bool = False,
    fit_intercept: bool = False,
    repeated: bool = False,
    seed: int = 0,
) -> Case:
    """A random problem of the MLP with β = ratio·β_max."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    Y: np.ndarray
    if loss == "softmax":
        Y = rng.integers(0, max(outputs, 2), n)
        Y[0] = max(outputs, 2) - 1  # so that every class is counted
    elif loss == "logistic":
        Y = rng.integers(0, 2, (n, outputs)).astype(float)
    else:
        Y = X @ rng.standard_normal((d, outputs)) + 2 * rng.standard_normal((n, outputs))
    if repeated:
        X, Y = np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0)
    weight = rng.integers(0, 4, len(X)).astype(float) if weighted else None
    block = MLP(fit_intercept=fit_intercept)
    problem = formulate(block, X, Y, activation, gates, loss, beta=1.0, sample_weight=weight, seed=seed)
    problem = problem.with_beta(ratio * problem.beta_max)
    traits = [f"{len(X)}x{d}", activation, f"ratio={ratio:g}"]
    traits += [
        name for name, on in (("weighted", weighted), ("intercept", fit_intercept), ("repeated", repeated)) if on
    ]
    return Case(f"{loss}-{outputs}-" + "-".join(traits), X, Y, problem, weight)
