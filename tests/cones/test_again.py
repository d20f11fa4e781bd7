"""Projections that begin where the last ones ended are the same projections."""

from __future__ import annotations

import torch

from provenet.cones import Cones
from provenet.cones.again import project_both
from provenet.cones.pca import cone_pca


def _cones(seed: int) -> Cones:
    draw = torch.Generator().manual_seed(seed)
    phi, inside = (torch.randn(n, 14, generator=draw, dtype=torch.float64) for n in (60, 9))
    return Cones.of(phi, inside @ phi.T >= 0, inside)


def test_nearby_vectors_of_either_sign_and_far_ones() -> None:
    for seed in range(20):
        plain = _cones(seed)
        cones = plain.remembering()
        draw = torch.Generator().manual_seed(100 + seed)
        g = torch.randn(9, 14, generator=draw, dtype=torch.float64)
        for spread, sign in ((0.0, 1.0), (0.01, 1.0), (0.1, -1.0), (10.0, 1.0), (0.0, -100.0)):
            g = sign * (g + spread * torch.randn(9, 14, generator=draw, dtype=torch.float64))
            found, wanted = project_both(cones, g, 0.0), project_both(plain, g, 0.0)
            torch.testing.assert_close(found.point, wanted.point, rtol=1e-8, atol=1e-8 * float(g.abs().max()))
            assert bool((found.multipliers >= 0).all())
            some = torch.tensor([7, 2])
            both = [cone_pca(one.restrict(some), g[some, :, None]).upper for one in (cones, plain)]
            torch.testing.assert_close(*both, rtol=1e-8, atol=0.0)
