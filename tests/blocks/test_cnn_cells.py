"""Cells that pool few positions are worked on one by one: the same operator, faster."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import provenet as pn
from provenet import batches
from provenet.operators.blocks import cnn
from provenet.testing import check_operator
from provenet.variable import Factors


def operator_of(pool: int, activation: str, side: int = 7, kernel: int = 3, padding: int = 1) -> Any:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(5, 2, side, side, generator=generator, dtype=torch.float64)
    Y = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    block = pn.CNN(kernel=kernel, padding=padding, pool=pool)
    return pn.formulate(block, X, Y, activation=activation, gates=4, beta=1.0).program.operator


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
@pytest.mark.parametrize("pool", [2, 3, 4, 7])
def test_cells_one_by_one(pool: int, activation: str, monkeypatch: Any) -> None:
    operator, rows = operator_of(pool, activation), slice(1, 4)
    residual = torch.randn(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert operator.narrow_cells
    assert operator.once().kept is None
    features = operator.features(rows)
    found = [operator.once().adjoint(residual), operator.adjoint(residual)]
    assert operator.kept is not None
    monkeypatch.setattr(cnn, "_NARROW", 10**6)
    dense = operator_of(pool, activation)
    assert not dense.narrow_cells
    torch.testing.assert_close(features, dense.features(rows), rtol=1e-12, atol=1e-13)
    expected = dense.adjoint(residual)
    for one in (*found, dense.once().adjoint(residual)):
        difference = torch.linalg.matrix_norm(one - expected, 2).max()
        assert float(difference) <= 2 * operator.rounding(residual)


def test_the_contract_holds_without_kept_features() -> None:
    operator = operator_of(3, "gated_relu", side=4, kernel=2, padding=0)  # a cell for each of 3 × 3 positions
    assert operator.narrow_cells
    check_operator(operator.once())


def test_hidden_values_are_made_once_a_step(monkeypatch: Any) -> None:
    """Without kept features, what neurons hand to their second layers is kept for the way back."""
    operator = operator_of(3, "gated_relu", side=4, kernel=2, padding=0)
    anew, generator = operator.once(), torch.Generator().manual_seed(2)
    left, right = (torch.randn(6, size, generator=generator, dtype=torch.float64) for size in (operator.p, operator.q))
    factors = Factors(left, right, torch.tensor([0, 1, 1, 2, 3, 3]))
    residual = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    expected, made = operator.kept.both_ways(factors), []
    pooled = type(anew).pooled
    monkeypatch.setattr(type(anew), "pooled", lambda self, rows, some: made.append(rows) or pooled(self, rows, some))
    prediction, back = anew.both_ways(factors)
    torch.testing.assert_close((prediction, *back(residual)), (expected[0], *expected[1](residual)))
    assert made == [slice(0, 5)]
    made.clear()
    monkeypatch.setattr(batches, "MOST_KEPT", 0)  # where they do not fit they are made twice
    torch.testing.assert_close(anew.both_ways(factors)[1](residual), expected[1](residual))
    assert made == [slice(0, 5)] * 2


def test_features_of_patches_that_are_not_pooled_are_kept_only_if_small(monkeypatch: Any) -> None:
    """They are the patches, once for every gate."""
    unpooled, pooled = operator_of(3, "gated_relu", side=4, kernel=2, padding=0), operator_of(2, "gated_relu")
    unpooled.outputs = unpooled.p + 1  # wider than patches
    monkeypatch.setattr(batches, "KEPT", 0)
    assert unpooled.kept is None
    assert pooled.kept is not None


def test_more_outputs_than_weights_gate_the_patches() -> None:
    """Every position a cell, as in the mixer of gated features: patches are narrower than the residual."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(5, 1, 3, 4, generator=generator, dtype=torch.float64)
    Y = torch.randn(5, 6, generator=generator, dtype=torch.float64)
    block = pn.CNN(kernel=(3, 1), pool=(1, 4), fit_intercept=True)
    operator = pn.formulate(block, X, Y, gates=4, beta=1.0).program.operator
    assert operator.narrow_cells
    assert operator.outputs > operator.p
    check_operator(operator.once())
