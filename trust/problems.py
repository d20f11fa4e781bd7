"""Random small problems of every block, activation and loss, and rivals for what is claimed of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import provenet as pn
from provenet.proofs.independent import second_opinion
from provenet.solvers import Limits, Solution
from provenet.solvers.plan import Refused
from provenet.solvers.solve import solve_quietly
from provenet.testing.bank import make_targets
from provenet.testing.examples import Example, difference
from provenet.verify import Data, Verdict
from trust.figure import pick

LOSSES = ("squared", "softmax", "logistic", "huber")
ACTIVATIONS = (*("linear", "gated_relu") * 5, "gated_relu", "relu")  # which takes ten times as long as the others
RIVALS = ("cvx", "cone_bm", "frank_wolfe", "bm", "admm")
BLOCKS = (  # small, for a conic solver solves each
    Example("mlp", (2,)),
    Example("mlp", (2,), settings={"fit_intercept": True}),
    Example("cnn", (1, 3, 3), settings={"kernel": 2, "pool": 1}),
    Example("cnn", (2, 4), settings={"kernel": 2, "stride": 2, "padding": 1, "pool": 2}),
    Example("attention", (2, 2)),
    Example("attention", (2, 1), settings={"scale": "sqrt_d"}, masked=True),
    Example("mixer", (2, 2), outputs=1),
    Example("fno", (3, 1)),
    Example("fno", (4, 1), settings={"grid": (2, 2)}),
    Example("bfno", (2, 2), settings={"groups": 2}),
    Example("poolformer", (4, 2), settings={"grid": (2, 2)}),
    Example("fnet", (2, 2)),
    Example("token_map", (2, 1), settings={"function": difference}),
)


@dataclass(frozen=True)
class Posed:
    """A problem, and the arrays it was posed with."""

    problem: pn.Problem
    data: Data
    words: str

    def checked(self, network: Any, theta: Any = None) -> Verdict:
        """The independent checker on a network, from the arrays themselves."""
        return second_opinion(self.problem, network, self.data, theta)


def posed(case: int) -> Posed:
    """Blocks, losses and activations in turn, all else at random."""
    rng = np.random.default_rng([case, 2])
    example = BLOCKS[case % len(BLOCKS)]
    loss = LOSSES[case // len(BLOCKS) % len(LOSSES)]
    activation = ACTIVATIONS[case // (len(BLOCKS) * len(LOSSES)) % len(ACTIVATIONS)]
    n, readout = int(rng.integers(1, 7)), pick(rng, list(example.readouts))
    X, mask = _samples(rng, example, n), example.mask(n, case)
    rows = (n, example.sample[0]) if readout == "tokens" else (n,)
    outputs = 1 if activation == "relu" and example.name in ("mlp", "cnn", "fnet") else example.outputs
    Y = make_targets(rng, loss, rows, max(outputs, 2) if loss == "softmax" else outputs)
    if loss in ("squared", "huber"):
        Y = Y * 10.0 ** rng.integers(-3, 4) + pick(rng, [0.0, 0.0, 1.0, 100.0])
    weight = rng.uniform(0.1, 3.0, n) if rng.random() < 0.3 else None
    settings: dict[str, Any] = {"activation": activation, "loss": loss, "readout": readout, "mask": mask}
    settings |= {"gates": int(rng.integers(1, 4)), "seed": case, "sample_weight": weight}
    if rng.random() < 0.4:
        settings["fit_intercept"] = "free"
    if rng.random() < 0.3 and n > 1:
        settings["standardize"] = True
    if loss == "huber":
        settings["loss_settings"] = {"delta": float(10.0 ** rng.uniform(-2, 1))}
    problem = pn.formulate(example.block, X, Y, beta=1.0, **settings)
    if problem.beta_max > 0:  # of rounding's size where nothing of the data reaches the readout
        least = 1e-10 * problem.units.beta
        problem = problem.with_beta(max(problem.beta_max * 10.0 ** rng.uniform(-2.5, 0.1), least))
    return Posed(problem, Data(X, Y, weight, mask), f"{example}, {activation}, {loss}, n {n}")


def _samples(rng: np.random.Generator, example: Example, n: int) -> np.ndarray:
    """Of any units; sometimes rounded, so that rows and zeros repeat, sometimes all of one direction."""
    X = rng.standard_normal((n, *example.sample))
    how = rng.random()
    if how < 0.2:
        X = np.round(X)
    elif how < 0.3:
        X[:] = X[:1]
    elif how < 0.4:
        X[..., -1] = 0.0
    return X * 10.0 ** rng.integers(-3, 4)


def solved(problem: pn.Problem, method: str = "auto", seconds: float = 1.0, tol: float = 1e-6) -> Solution:
    return solve_quietly(problem, method, Limits(tol, None, seconds))


def rival(problem: pn.Problem, ran: str, seconds: float = 0.5) -> tuple[str, Any] | None:
    """A network of the same problem by CVXPY, or where that cannot take it by a method that did not run."""
    for name in RIVALS:
        if name == "cvx" or name not in ran:
            try:
                return name, solved(problem, name, seconds, 1e-7).network()
            except Refused:
                continue
    return None


def of_zero(problem: pn.Problem) -> float:
    """The objective of the network without neurons."""
    return float(problem.loss.value(torch.zeros_like(problem.loss.target)))
