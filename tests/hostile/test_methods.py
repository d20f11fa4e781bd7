"""Each method by itself on hard problems: a proof, or an honest status; never an exception, never a NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.solvers import METHODS

Fit = Callable[..., pn.Solution]

RNG = np.random.default_rng(3)
X = RNG.standard_normal((12, 3))
LABEL = (X[:, 0] > 0).astype(int)
REAL = X @ RNG.standard_normal((3, 2)) + RNG.standard_normal((12, 2))
WIDE = RNG.standard_normal((3, 40))
TWINS = np.repeat(X[:3], 4, axis=0)

HARD: dict[str, dict[str, Any]] = {
    "tiny beta": {"X": X, "Y": REAL, "ratio": 1e-9},
    "vanishing beta": {"X": X, "Y": REAL, "beta": 1e-200},
    "tiny beta, softmax": {"X": X, "Y": LABEL, "loss": "softmax", "ratio": 1e-7},
    "tiny beta, logistic": {"X": X, "Y": LABEL, "loss": "logistic", "beta": 1e-100},
    "narrow huber": {"X": X, "Y": REAL, "loss": "huber", "loss_settings": {"delta": 1e-12}},
    "interpolation": {"X": WIDE, "Y": REAL[:3], "ratio": 1e-6},
    "n << d": {"X": WIDE, "Y": REAL[:3]},
    "twins that disagree": {"X": TWINS, "Y": REAL},
    "1e150": {"X": X * 1e150, "Y": REAL * 1e-150},
    "scales in X": {"X": X * [1e-120, 1.0, 1e30], "Y": REAL},
    "an outlier": {"X": np.vstack([X, 1e12 * X[:1]]), "Y": np.vstack([REAL, 1e6 * REAL[:1]])},
    "one sample": {"X": X[:1], "Y": REAL[:1]},
    "rank one": {"X": X[:, :1] @ np.ones((1, 4)), "Y": REAL},
    "weights far apart": {"X": X, "Y": REAL, "sample_weight": 10.0 ** np.linspace(-100, 100, 12)},
    "zero X": {"X": 0 * X, "Y": REAL},
}

EASY_AFTER_ALL = ("1e150", "scales in X", "one sample", "rank one", "twins that disagree", "n << d", "zero X")


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.filterwarnings("ignore:cvx. CLARABEL failed:RuntimeWarning")
def test_hard_problems(fit: Fit, method: str, name: str) -> None:
    settings = {"gates": 5, "solve": {"method": method, "max_steps": 60, "max_seconds": 4.0}} | HARD[name]
    try:
        solution = fit(**settings)
    except ValueError as error:
        if not str(error).startswith("method: "):
            raise
        pytest.skip(str(error))  # it refuses, and says why
    assert solution.certificate.gap >= -1e-12 * solution.certificate.primal
    if name in EASY_AFTER_ALL and method == "auto":
        assert solution.status is pn.Status.SOLVED
