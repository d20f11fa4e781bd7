"""A block bound to its data: what is looked up once, and what groups see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.blocks import Table


@pytest.mark.parametrize("gates", [3, "all"])
def test_a_formulation_writes_the_rows_down_once(monkeypatch: pytest.MonkeyPatch, gates: Any) -> None:
    made = []
    table = Table.of
    monkeypatch.setattr(Table, "of", lambda rows, noise: made.append(rows.shape) or table(rows, noise))
    X = np.random.default_rng(0).standard_normal((9, 2))
    pn.formulate("mlp", X, X[:, :1], "relu", gates=gates)
    assert made == [(9, 2)]
    pn.formulate("mlp", X, X[:, :1], "gated_relu", gates=3)
    assert len(made) == 1


def test_what_rounding_decides_is_asked_only_of_vectors_that_are_near_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, noise = [], pn.MLP.noise
    monkeypatch.setattr(pn.MLP, "noise", lambda self, X, vectors: asked.append(len(vectors)) or noise(self, X, vectors))
    draw = np.random.default_rng(0)
    X, vectors = torch.from_numpy(draw.standard_normal((200, 6))), torch.from_numpy(draw.standard_normal((50, 6)))
    rows = pn.MLP(fit_intercept=False).on(X, 1).groups[0]
    assert not bool(rows.patterns(vectors)[1].any())
    assert asked == [1]
    vectors[7] -= X[3] * (vectors[7] @ X[3]) / X[3].square().sum()
    assert torch.nonzero(rows.patterns(vectors)[1]).flatten().tolist() == [7]
    assert asked == [1, 1, 1]
    assert rows.patterns(vectors[:0])[0].shape == (0, 200)


def test_rows_of_any_size_are_written_at_one_size_and_come_back() -> None:
    rows = torch.tensor([[3e300, -1.0], [0.0, 0.0], [5e-300, 1e-300], [1.0, 0.25]], dtype=torch.float64)
    table = Table.of(rows, noise=torch.ones(4, dtype=torch.float64))
    assert bool((table.rows.abs() <= 1).all())
    assert torch.equal(table.rows.abs().amax(1) >= 0.5, rows.any(1))
    assert torch.equal(table.in_units_of(1.0), rows)
    assert torch.equal(table.in_units_of(4.0), rows / 4)
    assert table.noise is not None
    assert torch.equal(table.noise * table.unit, torch.ones(4, dtype=torch.float64))


def test_groups_see_their_own_features() -> None:
    X = torch.from_numpy(np.random.default_rng(0).standard_normal((4, 3, 6)))
    on = pn.BFNO(groups=3).on(X, outputs=6)
    assert (len(on.groups), on.p, on.q, on.rho) == (3, 6, 2, 3)
    vectors = torch.from_numpy(np.random.default_rng(1).standard_normal((2, 6)))
    for b, rows in enumerate(on.groups):
        alone = pn.FNO().on(X[:, :, 2 * b : 2 * b + 2], outputs=2).groups[0]
        assert torch.equal(rows.sides(vectors), alone.sides(vectors))
        assert (rows.outputs, len(rows)) == (2, 12)
    gates = on.open_gates()
    assert gates.group is not None
    assert gates.group.tolist() == [0, 1, 2]
    assert on.operator(gates, 1.0).output_shape == (4, 6)
    assert on.table is None


def test_a_table_is_the_mlp_s_own_rows_with_ones_for_the_bias() -> None:
    X = torch.tensor([[1.0, 2.0], [0.5, -4.0]], dtype=torch.float32)
    table = pn.MLP(fit_intercept=True).on(X, 1).table
    assert table is not None
    assert table.in_units_of(1.0).tolist() == [[1.0, 2.0, 1.0], [0.5, -4.0, 1.0]]
    assert table.rows.dtype == torch.float64


@pytest.mark.parametrize("block", [pn.MLP, pn.CNN])
def test_an_intercept_is_there_or_not(block: Any) -> None:
    """A damaged file may say anything; half an intercept would be half a column."""
    for junk in (0.5, "yes", None):
        with pytest.raises(ValueError, match="fit_intercept: it must be True or False"):
            block(fit_intercept=junk)
