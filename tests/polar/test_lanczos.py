"""The probable bound of σ_max: never below it, close to it, and failing as seldom as it says."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from provenet.polar import lanczos
from provenet.polar.lanczos import Tridiagonals, spectral_bounds

RANK = 120


def orthonormal(size: int, rank: int, generator: torch.Generator) -> Tensor:
    return torch.linalg.qr(torch.randn(size, rank, generator=generator, dtype=torch.float64)).Q


def matrix(sigma: Tensor, p: int = 300, q: int = 200, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return orthonormal(p, len(sigma), generator) * sigma @ orthonormal(q, len(sigma), generator).T


def products_of(stack: Tensor) -> lanczos.Products:
    def both(u: Tensor, v: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
        return (stack[gate] @ v[:, :, None])[:, :, 0], (stack[gate].mT @ u[:, :, None])[:, :, 0]

    return both


def bounds_of(stack: Tensor, steps: int = 100, tol: float = 1e-6, seed: int | None = 0) -> tuple[Tensor, Tensor]:
    return spectral_bounds(products_of(stack), *stack.shape, 1e-15, steps, tol, seed)


def index(rank: int = RANK) -> Tensor:
    return torch.arange(rank, dtype=torch.float64)


SPECTRA = {
    "flat": torch.ones(RANK, dtype=torch.float64),
    "geometric": 0.8 ** index(),
    "harmonic": 1 / (1 + index()),
    "linear": 1 - index() / RANK,
    "cluster at the top": torch.where(index() < 40, 1 - 1e-5 * index(), 0.5),
    "one of rank": torch.where(index() < 1, 1.0, 0.0),
    "twins": torch.where(index() < 2, 1.0, 0.9),
    "tiny": 1e-100 * (1 - index() / RANK),
    "huge": 1e100 * (1 - index() / RANK),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("steps", [3, 10, 100])
def test_bounds_hold_from_both_sides(name: str, steps: int) -> None:
    sigma = SPECTRA[name]
    lower, upper = bounds_of(matrix(sigma)[None], steps) if name not in ("tiny", "huge") else _scaled(sigma, steps)
    true = float(sigma.max())
    assert float(lower) <= true * (1 + 1e-12)
    assert true * (1 - 1e-12) <= float(upper) < float("inf")
    if steps == 100:
        assert float(upper) <= true * (1 + 2e-6)


def _scaled(sigma: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    stack = matrix(sigma)[None]
    return spectral_bounds(products_of(stack), *stack.shape, 1e-15 * float(sigma.max()), steps, 1e-6, 0)


def test_a_start_almost_orthogonal_to_the_top_does_not_deceive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanczos converges to the second singular value first; the bound waits for what may still hide."""
    sigma = torch.where(index() < 1, 1.0, 0.5 * 0.95 ** index())
    G = matrix(sigma)
    top_left, _, top_right = torch.linalg.svd(G, full_matrices=False)
    tops = {300: top_left[:, 0], 200: top_right[0]}
    plain = Tridiagonals.start

    def nearly_blind(m: int, size: int, generator: torch.Generator) -> Tridiagonals:
        run, top = plain(m, size, generator), tops[size]
        share = 1.01 * lanczos._least_share(size, 1, lanczos.PAIRS)  # as bad as the stated probability allows
        off = run.ahead - (run.ahead @ top)[:, None] * top
        unit = off / off.norm(dim=1, keepdim=True)
        ahead = (1 - share**2) ** 0.5 * unit + share * top
        return Tridiagonals(run.basis, ahead, run.alpha, run.beta, run.lost)

    monkeypatch.setattr(Tridiagonals, "start", staticmethod(nearly_blind))
    for steps in range(2, 30):
        lower, upper = bounds_of(G[None], steps, tol=1e-12)
        assert float(upper) >= 1 - 1e-12, (steps, float(lower))


def test_every_gate_gets_its_own_bound_and_small_ones_need_no_care() -> None:
    stack = torch.stack([matrix(s * SPECTRA["linear"], seed=k) for k, s in enumerate((0.1, 1.0, 0.999, 0.3))])
    lower, upper = bounds_of(stack)
    true = torch.linalg.matrix_norm(stack, 2)
    assert bool((upper >= true).all())
    assert bool((lower <= true * (1 + 1e-12)).all())
    assert float(upper.max()) <= 1 + 2e-6


def test_nothing_is_bounded_by_almost_nothing() -> None:
    lower, upper = bounds_of(torch.zeros(1, 30, 20, dtype=torch.float64))
    assert float(lower) <= 0
    assert 0 <= float(upper) < 1e-9


def test_a_vector_and_a_number() -> None:
    for shape in ((1, 1), (1, 7), (7, 1)):
        G = torch.randn(1, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        lower, upper = bounds_of(G)
        true = float(torch.linalg.matrix_norm(G, 2))
        assert float(lower) <= true * (1 + 1e-12)
        assert true <= float(upper) <= true * (1 + 1e-6)


def test_it_fails_as_often_as_it_says_and_not_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a failure probability large enough to be seen, on a spectrum made to catch it: the top is hidden in a bulk."""
    failure, gates = 0.2, 400
    monkeypatch.setattr(lanczos, "FAILURE", failure * gates)  # the stated one is shared by the gates
    monkeypatch.setattr(lanczos, "PAIRS", 1)
    G = matrix(torch.where(index(30) < 1, 1.0, 0.1), 60, 40)
    stack = G.expand(gates, 60, 40)
    for steps in (1, 2, 3):
        _, upper = spectral_bounds(products_of(stack), gates, 60, 40, 1e-15, steps, 1e-12, seed=steps)
        failed = float((upper < 1 - 1e-9).double().mean())
        assert failed <= failure + 4 * (failure * (1 - failure) / gates) ** 0.5, steps


def test_the_least_share_has_the_stated_probability() -> None:
    generator = torch.Generator().manual_seed(0)
    b = torch.randn(20_000, 30, generator=generator, dtype=torch.float64)
    first = (b[:, 0] / b.norm(dim=1)).abs()
    for eta in (0.5, 0.1, 0.03):
        gates = lanczos.FAILURE / eta ** (2 * lanczos.PAIRS)
        share = lanczos._least_share(30, gates, lanczos.PAIRS)  # type: ignore[arg-type]
        assert float((first < share).double().mean()) == pytest.approx(eta, abs=0.012)


def test_fresh_randomness_agrees() -> None:
    stack = matrix(SPECTRA["geometric"])[None]
    one, other = bounds_of(stack, seed=None)[1], bounds_of(stack, seed=None)[1]
    assert float(one) == pytest.approx(float(other), rel=1e-5)


@pytest.mark.parametrize("name", SPECTRA)
def test_bounds_of_dear_products_hold_with_fewer_starts(name: str) -> None:
    if name in ("tiny", "huge"):
        return
    sigma = SPECTRA[name]
    true, stack = float(sigma.max()), matrix(sigma)[None]
    for steps in (3, 10, 60):
        aim = (steps, 1e-4, None, 0.0, math.inf, True)
        lower, upper = spectral_bounds(products_of(stack), *stack.shape, 1e-12, *aim)
        assert float(lower) <= true * (1 + 1e-12)
        assert true * (1 - 1e-12) <= float(upper) < float("inf")


def test_what_is_enough_or_lost_is_left_alone() -> None:
    """Bounds end where the upper one suffices, or where the lower one shows that none can; both still hold."""
    stack, taken = matrix(SPECTRA["linear"])[None], []

    def counted(u: Tensor, v: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
        taken.append(len(u))
        return products_of(stack)(u, v, gate)

    found = []
    for enough, lost in ((0.0, math.inf), (1.3, math.inf), (0.0, 0.7)):
        taken.clear()
        lower, upper = spectral_bounds(counted, *stack.shape, 1e-13, 100, 1e-6, 0, enough, lost, True)
        assert float(lower) <= 1 + 1e-12 <= float(upper) * (1 + 1e-11)
        found.append((len(taken), float(lower), float(upper)))
    (whole, *_), (some, _, upper), (few, lower, _) = found
    assert some < whole
    assert upper <= 1.3
    assert few < whole
    assert lower > 0.7
