"""The bound of branch and bound's cells: above whatever a cell holds, and the largest of it where T is linear."""

from __future__ import annotations

import pytest
import torch

from provenet.cones.cells import largest_in_cells


def cells(count: int, r: int, seed: int, spread: float = 1.0) -> torch.Tensor:
    """Unit corners (count, r, r) of one orthant each, no two at an obtuse angle."""
    generator = torch.Generator().manual_seed(seed)
    middle = torch.rand(count, 1, r, generator=generator, dtype=torch.float64) + 0.1
    corners = middle + spread * torch.rand(count, r, r, generator=generator, dtype=torch.float64)
    return corners / corners.norm(dim=2, keepdim=True)


def mixtures(corners: torch.Tensor, images: torch.Tensor, samples: int = 4_000) -> torch.Tensor:
    """The largest ‖Σ α_i w_i‖ / ‖Σ α_i v_i‖ of many α ≥ 0, many of them on facets, (M,)."""
    generator = torch.Generator().manual_seed(1)
    alpha = torch.rand(samples, corners.shape[1], generator=generator, dtype=torch.float64)
    alpha = alpha * (torch.rand(alpha.shape, generator=generator) < 0.7)
    alpha = torch.cat([alpha[alpha.amax(1) > 0], torch.eye(corners.shape[1], dtype=torch.float64)])
    v, w = torch.einsum("sk,mkr->msr", alpha, corners), torch.einsum("sk,mkp->msp", alpha, images)
    return (w.norm(dim=2) / v.norm(dim=2)).amax(1)


@pytest.mark.parametrize("r", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-7])
def test_no_mixture_is_above_the_bound_however_flat_the_cell(r: int, spread: float) -> None:
    corners = cells(60, r, seed=r, spread=spread)
    images = torch.randn(60, r, 5, generator=torch.Generator().manual_seed(r), dtype=torch.float64)
    assert bool((largest_in_cells(corners, images) >= mixtures(corners, images)).all())


@pytest.mark.parametrize("r", [2, 3, 4])
def test_the_bound_is_the_largest_of_the_cell(r: int) -> None:
    """Not of the sphere: for most of these cells the top singular vector of T lies outside."""
    corners = cells(60, r, seed=10 + r)
    T = torch.randn(60, 5, r, generator=torch.Generator().manual_seed(r), dtype=torch.float64)
    images = torch.bmm(corners, T.mT)
    bound, truth = largest_in_cells(corners, images), mixtures(corners, images)
    assert bool((bound >= truth).all())
    assert float((bound / truth).max()) <= 1.02
    assert float((torch.linalg.matrix_norm(T, 2) / truth).median()) > 1.05


def test_corners_that_coincide_make_no_false_bound() -> None:
    corners = cells(10, 3, seed=3)
    corners[:, 1] = corners[:, 0]
    images = torch.randn(10, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    images[:, 1] = images[:, 0]
    assert bool((largest_in_cells(corners, images) >= mixtures(corners, images)).all())
