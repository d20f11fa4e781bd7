"""What a stranger may try: a sentence that names what, where and what to do, or the right answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import GroupKFold

import provenet as pn
from provenet.solvers.path import path

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
Y = (X[:, 0] > 0).astype(int)
TOKENS = RNG.standard_normal((30, 4, 3))
FAST: dict[str, Any] = {"n_gates": 5, "beta": 0.5, "tol": 1e-2}
MASKED = np.ma.masked_array(X, mask=X > 1)


def fitted(samples: Any, targets: Any = Y, **settings: Any) -> Any:
    return pn.ProvenClassifier(**FAST | settings).fit(samples, targets)


def searched(**settings: Any) -> Any:
    return pn.ProvenClassifierCV(**{"n_gates": 5, "betas": 2, "cv": 2, "activation": "linear"} | settings).fit(X, Y)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "sparse tensor": (lambda: fitted(torch.tensor(X).to_sparse()), r"^X: sparse and nested tensors"),
    "sparse tensor, posed": (lambda: pn.formulate("mlp", torch.tensor(X).to_sparse(), Y), r"^X: sparse"),
    "nested tensor": (lambda: fitted(torch.nested.nested_tensor([torch.ones(3)] * 30)), r"^X: sparse and nested"),
    "meta tensor": (lambda: fitted(torch.empty(30, 3, device="meta")), r"^X: a tensor of the meta device"),
    "masked": (lambda: fitted(MASKED), r"^X: \d+ of its numbers are masked"),
    "masked targets": (lambda: fitted(X, np.ma.masked_array(Y, mask=Y > 0)), r"^y: \d+ of its numbers are masked"),
    "masked, posed": (lambda: pn.formulate("mlp", MASKED, Y), r"^X: \d+ of its numbers are masked"),
    "dates": (lambda: fitted(pd.DataFrame(X).assign(when=pd.Timestamp("2020"))), r"column 'when', row 0: .* no number"),
    "two columns of a name": (lambda: fitted(pd.DataFrame(X, columns=["a", "b", "a"])), r"several columns .* 'a'"),
    "dict": (lambda: fitted({"a": 1}), r"^X: not an array of numbers"),
    "text as numbers": (lambda: pn.ProvenRegressor().fit(X, np.where(Y, "u", "v")), r"^y: targets of a regression"),
    "class weight": (lambda: fitted(X, class_weight={0: None}), r"^class_weight: finite numbers"),
    "verbose": (lambda: fitted(X, verbose="abc"), r"^verbose: it must be a whole number"),
    "callback": (lambda: pn.solve(pn.formulate("mlp", X, Y), callback=3), r"^callback: a function"),  # type: ignore[arg-type]
    "no split": (lambda: searched(cv=[]), r"^cv: it makes no split"),
    "split of other samples": (lambda: searched(cv=[(np.arange(9), np.arange(28, 40))]), r"^cv: split 0 .* 30 samples"),
    "split into nothing": (lambda: searched(cv=[(np.arange(9), np.arange(0))]), r"^cv: split 0"),
    "groups": (lambda: searched(cv=GroupKFold(2)), r"^cv: GroupKFold asks for groups"),
    "window": (lambda: fitted(TOKENS, block=pn.PoolFormer(window=2.5)), r"^window: it must be odd"),  # type: ignore[arg-type]
    "no function": (lambda: fitted(TOKENS, block=pn.TokenMap(None)), r"^function: something that can be called"),  # type: ignore[arg-type]
    "function in place": (lambda: fitted(TOKENS, block=pn.TokenMap(lambda x: x.mul_(2))), r"^function: it changes"),
    "function of float32": (lambda: fitted(TOKENS, block=pn.TokenMap(lambda x: x.float())), r"^function: of float64"),
    "path of no number": (lambda: path(pn.formulate("mlp", X, Y), None), r"^betas: give"),  # type: ignore[arg-type]
    "path of a word": (lambda: path(pn.formulate("mlp", X, Y), 3, beta_ratio="a"), r"^beta_ratio:"),  # type: ignore[arg-type]
    "tol of a proof": (lambda: pn.certify(pn.formulate("mlp", X, Y), torch.nn.Linear(3, 2), tol="a"), r"^tol:"),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("name", list(WRONG))
def test_wrong_use_is_named(name: str) -> None:
    call, words = WRONG[name]
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_whitening_that_does_not_fit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provenet.memory.available_bytes", lambda: 2**25)
    with pytest.raises(MemoryError, match=r"whiten: a matrix of 5000 × 5000 features needs"):
        fitted(RNG.standard_normal((4, 5000)), [0, 1, 0, 1], whiten=True)


@pytest.mark.parametrize("tol", [np.inf, 5e-324])
def test_any_tolerance_has_a_plan(tol: float) -> None:
    found = pn.ProvenRegressor(**FAST | {"tol": tol}, max_steps=5)
    with np.errstate(all="ignore"):
        found.fit(X, X[:, 0])
    assert np.isfinite(found.certificate_.gap)


def test_a_generator_is_a_random_state() -> None:
    one, other = (fitted(X, random_state=np.random.default_rng(3)) for _ in range(2))
    assert one.certificate_.primal == other.certificate_.primal


def test_one_group_of_one_feature_behind_trained_gates() -> None:
    found = fitted(TOKENS[:, :, :1], block=pn.BFNO(groups=1), gates="trained")
    assert found.certificate_.holds(1e-2)


def test_small_floats_of_torch() -> None:
    assert fitted(torch.tensor(X).to(torch.float8_e4m3fn)).certificate_.holds(1e-2)
