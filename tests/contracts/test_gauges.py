from __future__ import annotations

import pytest
import torch

from provenet.gauges import Bounds, NuclearNorm
from provenet.gauges.spectral import spectral_norms
from provenet.testing import check_gauge


def test_gauge() -> None:
    check_gauge(NuclearNorm())


@pytest.mark.parametrize("shape", [(6, 7, 3), (6, 3, 7)])
@pytest.mark.parametrize("step", [1e-9, 1e-5, 1e-2, 0.5])
def test_prox_is_the_svd_of_the_textbook(shape: tuple[int, int, int], step: float) -> None:
    """Gram side and SVD agree, on ill-conditioned blocks too."""
    generator = torch.Generator().manual_seed(0)
    stack = torch.randn(shape, generator=generator, dtype=torch.float64)
    U, sigma, Vh = torch.linalg.svd(stack, full_matrices=False)
    sigma = sigma * torch.logspace(0, -10, 3, dtype=torch.float64)
    expected = (U * (sigma - step).clamp_min(0)[:, None, :]) @ Vh
    out, values = NuclearNorm().prox((U * sigma[:, None, :]) @ Vh, step)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-11)
    torch.testing.assert_close(values, (sigma - step).clamp_min(0).sum(-1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(20, 40, 6), (20, 6, 40), (3, 80, 80)])
def test_upper_bound_is_above_the_spectral_norm(shape: tuple[int, int, int]) -> None:
    stack = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    sigma = torch.linalg.svdvals(stack)[:, 0]
    bounds = NuclearNorm().polar(stack)
    assert bool((bounds.upper >= sigma).all())
    assert bool((bounds.lower <= sigma).all())
    torch.testing.assert_close(spectral_norms(stack), sigma, rtol=1e-13, atol=0)


def test_a_lower_bound_in_place_of_the_upper_is_found() -> None:
    class PowerIterations(NuclearNorm):
        def polar(self, stack: torch.Tensor) -> Bounds:
            v = torch.ones(stack.shape[0], stack.shape[2], 1, dtype=stack.dtype)
            for _ in range(2):
                v = stack.transpose(1, 2) @ (stack @ v)
                v = v / torch.linalg.vector_norm(v, dim=1, keepdim=True).clamp_min(1e-300)
            sigma = torch.linalg.vector_norm(stack @ v, dim=(1, 2))
            return Bounds(sigma, sigma)

    with pytest.raises(AssertionError):
        check_gauge(PowerIterations(), shapes=((4, 5, 3),))
