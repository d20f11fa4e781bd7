from __future__ import annotations

import numpy as np
import pytest
import torch

from provenet import batches
from provenet.blocks import BFNO
from provenet.formulation import formulate
from provenet.operators import MLPOperator
from provenet.operators.wrappers.signed import SignedOperator
from provenet.testing import check_operator


def operator(n: int, d: int, gates: int, outputs: int) -> MLPOperator:
    generator = torch.Generator().manual_seed(n + 10 * d + 100 * gates)
    X = torch.randn(n, d, generator=generator, dtype=torch.float64)
    pattern = torch.rand(n, gates, generator=generator) < 0.6
    return MLPOperator(X, pattern, outputs)


@pytest.mark.parametrize(
    ("n", "d", "gates", "outputs"),
    [(7, 3, 5, 2), (7, 5, 3, 1), (4, 9, 2, 3), (1, 1, 1, 1), (6, 2, 1, 4), (30, 4, 12, 1)],
)
def test_mlp_operator(n: int, d: int, gates: int, outputs: int) -> None:
    check_operator(operator(n, d, gates, outputs))


@pytest.mark.parametrize("gates", [3, 8])
def test_mlp_operator_is_the_formula(gates: int) -> None:
    """A(Z) = Σ_k D_k X Z_k, written out."""
    op = operator(6, 4, gates, 2)
    stack = torch.randn(op.stack_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = sum(op.pattern[:, k, None] * (op.X @ stack[k]) for k in range(gates))
    torch.testing.assert_close(op.forward(stack), expected)


def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are worked on in tiles; a tile of one row gives the same."""
    monkeypatch.setattr(batches, "CACHE", 0)
    check_operator(operator(7, 3, 5, 2))


def test_a_wrong_adjoint_is_found() -> None:
    class Wrong(MLPOperator):
        def adjoint(self, residual: torch.Tensor) -> torch.Tensor:
            return super().adjoint(residual) * (1 + 1e-4)

    op = operator(7, 3, 5, 2)
    with pytest.raises(AssertionError, match="dot test"):
        check_operator(Wrong(op.X, op.pattern, 2))


def test_what_restrict_copies_is_counted() -> None:
    """A column of the pattern for every gate, as truth values and, while that is little, as numbers."""
    op = operator(7, 3, 5, 2)
    assert op.held_bytes == 7 * 5 * 9
    assert op.restrict(torch.tensor([4, 1])).held_bytes == 7 * 2 * 9
    assert SignedOperator.both(op).held_bytes == 7 * 10 * 9


def test_a_large_pattern_is_never_held_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = operator(40, 3, 5, 2), operator(40, 3, 5, 2)
    stack, residual = (torch.randn(*shape, dtype=torch.float64) for shape in ((5, 3, 2), (40, 2)))
    expected = few.forward(stack), few.adjoint(residual)
    monkeypatch.setattr(batches, "WAVE", 40 * 5 * 8 - 1)
    found = many.forward(stack), many.adjoint(residual)
    assert many.held_bytes == 40 * 5
    numbers = [
        name for name, value in vars(many).items() if isinstance(value, torch.Tensor) and value.is_floating_point()
    ]
    assert numbers == ["X"]
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))


def test_groups_hold_what_their_parts_hold() -> None:
    X = np.random.default_rng(0).standard_normal((6, 4, 4))
    op = formulate(BFNO(groups=2), X, np.ones((6, 2)), gates=3).program.operator
    n, P, s, width = 6, 3, 4, 2
    assert op.held_bytes == 2 * (P * n * s + n * P * s * width * 8)  # patterns, and the features that are kept
    assert op.restrict(torch.tensor([0, 4])).held_bytes == 2 * (n * s + n * s * width * 8)
