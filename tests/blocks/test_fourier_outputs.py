"""FNO with many outputs: in parts of them, or by features made anew for each batch, it is the same operator."""

import pytest
import torch

from provenet import batches
from provenet.operators.blocks import fourier_mean
from provenet.operators.blocks.fourier import FNOTokensOperator, FourierOperator
from provenet.operators.blocks.fourier_mean import FNOMeanOperator
from provenet.variable import Factors

N, S, D, GATES, GRID = 7, 6, 4, 3, (2, 3)


def _data(outputs: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    X = torch.randn(N, S, D, generator=draw, dtype=torch.float64)
    patterns = torch.rand(GATES, N, S, generator=draw) < 0.5
    return X, patterns, torch.randn(GATES, S * D, outputs, generator=draw, dtype=torch.float64)


@pytest.mark.parametrize("outputs", [1, 5, 8, 9, 20])
def test_outputs_in_parts_are_each_ones_own(outputs: int) -> None:
    X, patterns, stack = _data(outputs)
    whole = FNOTokensOperator(X, patterns, outputs, GRID)
    residual = torch.randn(N, S, outputs, dtype=torch.float64)
    for c in range(outputs):
        one = FNOTokensOperator(X, patterns, 1, GRID)
        torch.testing.assert_close(whole.forward(stack)[..., c], one.forward(stack[..., c : c + 1])[..., 0])
        mine, other = whole.adjoint(residual)[..., c], one.adjoint(residual[..., c : c + 1])[..., 0]
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("outputs", [2, 20])
def test_by_features_or_by_outputs(outputs: int) -> None:
    X, patterns, stack = _data(outputs)
    kept, anew = FNOMeanOperator(X, patterns, outputs, GRID), FNOMeanOperator(X, patterns, outputs, GRID).once()
    assert kept.kept is not None
    assert anew.kept is None
    residual = torch.randn(N, outputs, dtype=torch.float64)
    for forward in (anew.forward, lambda z: FourierOperator.forward(anew, z)):
        torch.testing.assert_close(forward(stack), kept.forward(stack))
    for adjoint in (anew.adjoint, lambda r: FourierOperator.adjoint(anew, r)):
        torch.testing.assert_close(adjoint(residual), kept.adjoint(residual))


@pytest.mark.parametrize("grid", [(2, 3), (3, 2), (1, 6), (6, 1)])
def test_neurons_by_parseval(grid: tuple[int, int]) -> None:
    X, patterns, _ = _data(2)
    kept, anew = FNOMeanOperator(X, patterns, 2, grid), FNOMeanOperator(X, patterns, 2, grid).once()
    draw = torch.Generator().manual_seed(1)
    left, right = (torch.randn(5, size, generator=draw, dtype=torch.float64) for size in (S * D, 2))
    factors = Factors(left, right, torch.tensor([0, 2, 1, 2, 0]))
    residual = torch.randn(N, 2, dtype=torch.float64)
    prediction, back = anew.both_ways(factors)
    torch.testing.assert_close(prediction, kept.forward_factors(factors))
    for mine, other in zip(back(residual), kept.adjoint_factors(residual, factors), strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("grid", [(2, 3), (3, 2), (1, 6), (6, 1), (1, 1), (8, 9)])
@pytest.mark.parametrize("few", [0, 1000])
def test_neurons_that_meet_features_and_those_that_do_not(
    few: int, grid: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fourier_mean, "_FEW", few)
    monkeypatch.setattr(fourier_mean, "_ROWS", 2**16)  # frequencies go some at a time
    monkeypatch.setattr(batches, "CACHE", 2**18)
    s, draw = grid[0] * grid[1], torch.Generator().manual_seed(0)
    X = torch.randn(N, s, D, generator=draw, dtype=torch.float64)
    patterns = torch.rand(GATES, N, s, generator=draw) < 0.5
    anew, kept = FNOMeanOperator(X, patterns, 2, grid, 0.5).once(), FNOMeanOperator(X, patterns, 2, grid, 0.5)
    assert kept.kept is not None
    stack = torch.randn(GATES, s * D, 2, generator=draw, dtype=torch.float64)
    left, right = (torch.randn(5, size, generator=draw, dtype=torch.float64) for size in (s * D, 2))
    factors = Factors(left, right, torch.tensor([2, 0, 2, 2, 0]))
    residual = torch.randn(N, 2, generator=draw, dtype=torch.float64)
    torch.testing.assert_close(anew.forward(stack), kept.forward(stack))
    torch.testing.assert_close(anew.adjoint(residual), kept.adjoint(residual))
    torch.testing.assert_close(anew.forward_factors(factors), kept.forward_factors(factors))
    torch.testing.assert_close(anew.alone(factors, slice(1, 3)), kept.alone(factors, slice(1, 3)))
    for mine, other in zip(
        anew.adjoint_factors(residual, factors), kept.adjoint_factors(residual, factors), strict=True
    ):
        torch.testing.assert_close(mine, other)
    for names in ([0, 2], [2, 0, 1]):  # some, and all in another order
        gates, size = torch.tensor(names), (len(names), 3)
        basis = torch.randn(*size, s * D, generator=draw, dtype=torch.float64)
        few_rows = torch.randn(*size, 2, generator=draw, dtype=torch.float64)
        torch.testing.assert_close(
            anew.narrowed(gates, basis).forward(few_rows), kept.narrowed(gates, basis).forward(few_rows)
        )


def test_large_features_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are tokens, once for every gate, and each group of a B-FNO would keep as much."""
    X, patterns, _ = _data(5)
    monkeypatch.setattr(batches, "KEPT", 0)
    assert FNOMeanOperator(X, patterns, 5, GRID).kept is None
