"""A method given as an object comes back with its settings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.io import load, save
from provenet.io.settings import decode, encode
from provenet.solvers.neurons.bm import BM
from provenet.solvers.neurons.newton import NewtonSettings
from provenet.solvers.plan import METHODS
from provenet.solvers.reference.cvx import CVX
from provenet.solvers.stacks.admm import ADMM

CHANGED = [
    BM(seed=3, rank=None, spread=0.5, newton=NewtonSettings(cg_steps=7)),
    CVX("SCS", {"eps": 1e-7, "verbose": False}),
    ADMM(rho=0.25),
]


@pytest.mark.parametrize("method", [kind() for kind in METHODS.values()] + CHANGED, ids=lambda m: type(m).__name__)
def test_every_method_comes_back(method: Any) -> None:
    written = json.loads(json.dumps(encode("solver", method), allow_nan=False))
    assert decode(written) == method


def test_a_loaded_estimator_would_be_fitted_as_the_saved_one_was(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    fitted = pn.ProvenRegressor(solver=BM(seed=3), n_gates=4).fit(X, X[:, 0])
    loaded = load(save(fitted, tmp_path / "model"))
    assert loaded.solver == BM(seed=3)
    assert loaded.fit(X, X[:, 0]).n_iter_ == fitted.n_iter_


@pytest.mark.parametrize("method", ["auto", ADMM(rho=0.25)])
def test_a_solution_says_what_it_was_asked_of(tmp_path: Path, method: Any) -> None:
    """In the user's units, as it was given."""
    X = 100 * np.random.default_rng(0).normal(size=(20, 2))
    solution = pn.solve(pn.formulate("mlp", X, X[:, :1], gates=4, beta=0.1), method, tol=1e-2)
    saved = load(save(solution, tmp_path / "model"))
    assert saved.asked == solution.asked == method
    assert saved.run["method"] == solution.method


def test_a_name_is_a_name(tmp_path: Path) -> None:
    """As all folders had it before methods had settings in them."""
    assert decode(encode("solver", "bm")) == "bm"


@dataclass(frozen=True)
class Own(ADMM):
    pass


def test_a_class_of_ones_own_is_told_and_left_out() -> None:
    with pytest.warns(UserWarning, match="solver: .*cannot be written"):
        written = encode("solver", Own())
    assert set(written) == {"not_saved"}


@pytest.mark.parametrize("saved", [{"method": "own", "settings": {}}, {"method": "bm"}, {"method": 3}])
def test_damage_is_noticed(saved: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"method|settings"):
        decode(saved)
