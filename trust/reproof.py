"""Random programs solved in float32 and proven in float64, each proof made once more by `provenet.verify`:

    python -m trust.reproof 1000 [first seed]

Blocks, losses, sizes, gates, β, tolerances and scales of the data are drawn.  What is compared: the objective of the
returned network, and that the lower bound of the certificate is none that the independent checker contradicts: its own,
from the same dual point, must be as large but for rounding, and never above an objective.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
import torch

from provenet.formulation import formulate
from provenet.problem import Problem
from provenet.proofs.independent import second_opinion
from provenet.solvers import Limits
from provenet.solvers.solve import solve_quietly

_ROUNDING = 1e-9  # of the objective
_BLOCKS = ("mlp", "mlp", "cnn", "attention", "mixer", "fno", "poolformer", "fnet")
_LOSSES = ("squared", "softmax", "logistic", "huber")


def drawn(seed: int) -> tuple[Problem, float]:
    """A problem, and the relative gap that is asked for."""
    rng = np.random.default_rng(seed)
    block, loss = str(rng.choice(_BLOCKS)), str(rng.choice(_LOSSES))
    n, c = int(rng.integers(5, 80)), int(rng.integers(2, 5))
    shape = {"mlp": (n, int(rng.integers(1, 9))), "cnn": (n, 1, 4, 4)}.get(block, (n, 4, 3))
    X = rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 3)
    targets: dict[str, Any] = {
        "squared": rng.standard_normal((n, c)) * 10.0 ** rng.uniform(-3, 3),
        "huber": rng.standard_normal((n, c)),
        "softmax": np.arange(n) % c,
        "logistic": rng.integers(2, size=n),
    }
    activation = str(rng.choice(["gated_relu", "gated_relu", "linear"]))
    settings: dict[str, Any] = {"activation": activation, "loss": loss, "gates": int(rng.integers(2, 20)), "seed": seed}
    if rng.random() < 0.3:
        settings["fit_intercept"] = "free"
    problem = formulate(block, X, targets[loss], **settings)
    return problem.with_beta(10.0 ** rng.uniform(-2.5, 0.1) * max(problem.beta_max, 1e-12)), 10.0 ** rng.uniform(-5, -1)


def contradiction(seed: int) -> str | None:
    """What the checker holds against a run, in words; None if nothing."""
    problem, tol = drawn(seed)
    solution = solve_quietly(problem, "lbfgs", Limits(tol, max_steps=200))
    told = solution.certificate
    verdict = second_opinion(problem, solution.network(), theta=told.theta)
    room = _ROUNDING * max(abs(told.primal), abs(verdict.primal))
    if abs(verdict.primal - told.primal) > room:
        return f"seed {seed}: the objective is {verdict.primal!r}, not {told.primal!r}"
    if told.dual > verdict.primal + room:
        return f"seed {seed}: the bound {told.dual!r} is above the objective {verdict.primal!r}"
    if told.dual > verdict.dual + room:
        return f"seed {seed}: the bound {told.dual!r} is not proven, but {verdict.dual!r}"
    return None


def main(count: int, first: int = 0) -> int:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found, began = 0, time.perf_counter()
    for seed in range(first, first + count):
        said = contradiction(seed)
        if said is not None:
            found += 1
            print(said, flush=True)
        elif (seed - first) % 50 == 49:
            print(f"{seed - first + 1} done, {found} contradicted, {time.perf_counter() - began:.0f} s", flush=True)
    print(f"{count} programs, {found} contradicted.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:])))
