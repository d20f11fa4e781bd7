"""What is minimised is said once: a statement, the words it is told in, and what a problem makes of it."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.certificates import Standing
from provenet.gauges import BoundKind
from provenet.losses import LOSSES
from provenet.problem import Units
from provenet.statement import Scope, Statement

X = np.random.default_rng(0).standard_normal((6, 2))
Y = X[:, :1]


@pytest.mark.parametrize("word", [*Scope, *BoundKind, *Standing])
def test_words_are_strings_wherever_they_go(word: Any) -> None:
    plain = word.value
    assert (str(word), repr(word), f"{word}", f"{word:>20}") == (plain, repr(plain), plain, f"{plain:>20}")
    assert word == plain
    assert {plain: 1}[word] == 1
    assert json.loads(json.dumps({"word": word})) == {"word": plain}
    assert pickle.loads(pickle.dumps(word)) is copy.deepcopy(word) is word


def test_a_certificate_says_words() -> None:
    found = pn.solve(pn.formulate("mlp", X, Y, gates=3, beta=0.1)).certificate
    assert (found.scope, found.bound, found.status) == (Scope.FIXED_GATES, BoundKind.EXACT, Standing.CERTIFIED)
    told = json.loads(json.dumps(found.to_dict()))
    assert (told["scope"], told["bound"], told["status"]) == ("fixed_gates", "exact", "certified")


def test_a_problem_says_its_statement_with_all_its_settings() -> None:
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", loss="huber", beta=1, penalty=(2, 1))
    said = problem.statement
    assert said == Statement.of(
        "mlp", "huber", 1.0, activation="relu", loss_settings={"delta": 1.0}, penalty=(2, 1), complete=True
    )
    assert json.loads(json.dumps(said.to_dict())) == {
        "block": "mlp",
        "beyond_gates": False,
        "block_settings": {"fit_intercept": False},
        "activation": "relu",
        "complete": True,
        "sampler": "all",
        "readout": "mean",
        "loss": "huber",
        "loss_settings": {"delta": 1.0},
        "beta": 1.0,
        "penalty": [2, 1],
        "free_intercept": False,
    }
    assert (problem.beta, problem.activation, problem.penalty, problem.scope) == (1.0, "relu", (2, 1), said.scope)
    assert problem.with_beta(3).statement == replace(said, beta=3.0)


@pytest.mark.parametrize(
    ("match", "wrong"),
    [
        ("activation: 'tanh' is unknown", {"activation": "tanh"}),
        ("gates: 'all' enumerates the arrangements of ReLU", {"complete": True}),
        ("readout: 'last' is unknown", {"readout": "last"}),
        ("readout: block 'mlp' has one output a sample", {"readout": "tokens"}),
        ("penalty: .* goes with blocks 'mlp' and 'cnn'", {"block": pn.FNet(), "penalty": (1.0, 2.0)}),
        ("beta: it must be a positive", {"beta": 0.0}),
    ],
)
def test_there_is_no_wrong_statement(match: str, wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {"block": pn.MLP(), "loss": LOSSES["squared"], "beta": 1.0}
    assert Statement(**right).scope == "fixed_gates"
    with pytest.raises(ValueError, match=match):
        Statement(**(right | wrong))


def test_units_refuse_a_beta_that_no_program_can_hold() -> None:
    units = Units(1.0, 1.0, 1.0, 1.0, 1e300)
    assert units.normalised_beta(1.0) == 1e-300
    with pytest.raises(ValueError, match="out of all proportion"):
        units.normalised_beta(1e-300)
