"""`certify(…, sharpen=seconds)` of modules with gates, or none: bounded by the best network of their problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from module_help import Batches, cases, mlp, posed
from sklearn.exceptions import ConvergenceWarning

import provenet as pn
from provenet import memory
from provenet.blocks import block_of
from provenet.formulation import pose
from provenet.statement import Statement
from provenet.testing.examples import Example
from provenet.variable import Factors

LONG = 60.0  # seconds, which no problem here takes


def last_of_each_block() -> list[Any]:
    """The last case of each is gated, with an output a token where there are some."""
    return list({case.values[0].block.name: case for case in cases()}.values())


@pytest.mark.parametrize(("example", "activation", "readout"), [*last_of_each_block(), *list(cases())[:1]])
def test_every_block_is_bounded_by_its_optimum(example: Example, activation: str, readout: str) -> None:
    problem, module, data = posed(example, activation, readout)
    best = pn.solve(problem, tol=1e-4)
    said: dict[str, Any] = {"loss": "squared", "beta": 0.3}
    own, sharp = (pn.certify(module, Batches(data, 4), **said, sharpen=seconds) for seconds in (0.0, LONG))
    assert own.dual <= sharp.dual <= best.certificate.primal * (1 + 1e-12)
    assert sharp.dual >= best.certificate.primal * (1 - 2e-4)
    assert (sharp.primal, sharp.polar_max, sharp.scope) == (own.primal, own.polar_max, own.scope)
    assert sharp.dual_of == "solved network"


def test_a_group_without_neurons() -> None:
    """The problem that is solved has gates for it, and no higher an optimum."""
    example = next(case.values[0] for case in cases() if case.values[0].block.groups == 2)
    problem, module, (X, Y) = posed(example, "gated_relu", "mean")
    mine = torch.nonzero(module.group == 1).flatten()
    factors = problem.factors(module)
    alone: Any = problem.network(Factors(factors.left[mine], factors.right[mine], factors.gate[mine]))
    own, sharp = (pn.certify(alone, X, Y, loss="squared", beta=0.3, sharpen=seconds) for seconds in (0.0, LONG))
    assert own.dual < sharp.dual <= own.primal


@pytest.mark.parametrize("loss", ["softmax", "huber"])
def test_weights_means_and_biases(loss: str) -> None:
    _, module, (X, Y) = mlp()
    targets = np.eye(2)[np.argmax(Y, 1)] if loss == "softmax" else Y
    weight = np.linspace(0.5, 1.5, len(X))
    for bias, said in ((None, {"beta": 0.3, "sample_weight": weight}), (0.1, {"beta": 0.03, "mean": True})):
        module.bias = None if bias is None else torch.nn.Parameter(torch.full((2,), bias, dtype=torch.float64))
        sharp = pn.certify(module, (X, targets), loss=loss, **said, sharpen=LONG)  # type: ignore[call-overload]
        own = pn.certify(module, (X, targets), loss=loss, **said)  # type: ignore[call-overload]
        statement = Statement.of(block_of(module), loss, sharp.beta, free_intercept=bias is not None)
        problem = pose(statement, X, targets, module.gates, sample_weight=said.get("sample_weight"))
        best = pn.solve(problem, tol=1e-4).certificate
        assert own.dual < sharp.dual <= best.primal * (1 + 1e-12)
        assert sharp.dual >= best.primal * (1 - 2e-4)


def test_no_time_and_no_room_leave_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _, module, data = mlp()
    said: dict[str, Any] = {"loss": "squared", "beta": 0.3}
    own = pn.certify(module, data, **said)
    assert pn.certify(module, data, **said, sharpen=1e-9) == own
    monkeypatch.setattr(memory, "fits", lambda needed: False)
    with pytest.warns(ConvergenceWarning, match=r"sharpen: it needs .* by the network's own gradient"):
        assert pn.certify(module, data, **said, sharpen=LONG) == own


def test_what_holds_already_is_not_solved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _, (X, Y) = mlp()
    best = pn.solve(problem, tol=1e-6).network()
    monkeypatch.setattr("provenet.proofs.modules.sharpened", None)  # whoever calls it fails
    assert pn.certify(best, X, Y, loss="squared", beta=0.3, sharpen=LONG).status == "certified"
