"""Cone-constrained PCA: max ‖Gᵀu‖ over ‖u‖ ≤ 1, Ku ≥ 0, bounded from both sides (CP §3.2).

NP-hard in general.  Exact for one output (a projection), in up to three dimensions (faces), and in up to six wherever a
search of faces ends.  Else: a local search
from many starts below; above, the cheapest of the bounds that settles it: the spectral norm, the dual of the
copositive relaxation, by few pairs or in many dimensions by all, and branch and bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.cones.again import project_both
from provenet.cones.base import Table
from provenet.cones.exact import largest_in_cones
from provenet.cones.tightening import BOUNDS, Wanted, tightened
from provenet.vectors import power_of_two, unit

_TOLERANCE = 1e-9  # bounds closer than this, relatively, are one number
_HAIR = 1e-7  # of ‖g‖: unit rows violated by no more come from rounding
_A_HAIR_BELOW = 1 - 1e-9  # more than rounding adds to a bound
_NODES = 2_000  # of branch and bound, for each gate that the cheaper bounds leave open
_SMALLEST = 2.0**-300  # numbers whose squares, and sums of them, are numbers


@dataclass(frozen=True)
class ConePCA:
    """lower ≤ max ‖G_kᵀu‖ ≤ upper, each (B,); u (B, p): unit vectors of the cones that attain ``lower``.

    ``exact`` (B,) bool: lower and upper are one number.  ``decided`` (B,): which of `BOUNDS` gave ``upper``.
    """

    lower: Tensor
    upper: Tensor
    u: Tensor
    exact: Tensor
    decided: Tensor

    def bounds(self) -> list[str]:
        """The name of the bound that gave each ``upper``."""
        return [BOUNDS[k] for k in self.decided.tolist()]


def cone_pca(
    cones: Table,
    G: Tensor,
    enough: float = 0.0,
    nodes: int = _NODES,
    tolerance: float = _TOLERANCE,
    largest_only: bool = False,
    against: float = torch.inf,
    lost: float = torch.inf,
) -> ConePCA:
    """For G (B, p, c), one matrix a cone.

    enough: an upper bound no larger than this need not be tightened.  largest_only: nor one that is no larger than
    another gate's lower bound; the largest of all upper bounds is what is wanted, and where that is beyond ``against``,
    a tenth of the excess is accuracy enough; once it is known to be beyond ``lost``, any bound will do, but that branch
    and bound goes on for a while, for other gates that are nearly as far beyond.  nodes: of that, a gate; zero: none.
    tolerance: lower and upper this close, relatively, need not be tightened.  A deadline leaves bounds as loose as they
    are by then.
    """
    size = power_of_two(G)
    if not _SMALLEST < size < 1 / _SMALLEST:  # squares would vanish, or overflow
        limits = {"enough": enough / size, "against": against / size, "lost": lost / size}
        scaled = cone_pca(cones, G / size, nodes=nodes, tolerance=tolerance, largest_only=largest_only, **limits)
        return replace(scaled, lower=size * scaled.lower, upper=size * scaled.upper)
    if G.shape[2] == 1:
        return _one_output(cones, G[:, :, 0], _A_HAIR_BELOW * enough if enough < torch.inf else 0.0)
    if G.shape[1] <= 3:
        found = largest_in_cones(G, cones.faces)
        exact = found.upper <= found.lower * (1 + 10 * _TOLERANCE) + torch.finfo(G.dtype).tiny
        return ConePCA(found.lower, found.upper, found.u, exact, _all(G, "faces"))
    wanted = Wanted(enough, tolerance, (against, lost) if largest_only else None)
    lower, upper, u, decided = tightened(cones, G, wanted, nodes)
    exact = upper <= lower * (1 + 10 * tolerance) + torch.finfo(G.dtype).tiny
    return ConePCA(torch.minimum(lower, upper), upper, u, exact, decided)


def _all(like: Tensor, name: str) -> Tensor:
    """The bound of this name for everyone in a batch (B, …)."""
    return torch.full((len(like),), BOUNDS.index(name), device=like.device)


def _one_output(cones: Table, g: Tensor, enough: float) -> ConePCA:
    """max |gᵀu| is the longer of the projections of g and −g; multipliers bound it from above.

    Where a bound is short ``enough`` before its projection is found, the cone's inner point bounds from below.
    """
    B, p = g.shape
    both = project_both(cones, g, enough)
    length = torch.linalg.vector_norm(both.point, dim=1)
    eps = torch.finfo(g.dtype).eps
    rounding = (p + 4) * eps * (torch.linalg.vector_norm(g, dim=1).repeat(2) + both.multipliers.sum(1))
    upper = (length + rounding).view(2, B).amax(0)
    which, everyone = length.view(2, B).argmax(0), torch.arange(B, device=g.device)
    point = both.point.view(2, B, p)[which, everyone]
    found = both.violation <= _HAIR * torch.linalg.vector_norm(g, dim=1).repeat(2)  # where a deadline left the time
    exact = found.view(2, B)[which, everyone] & ((length.view(2, B).amax(0) > enough) | (enough == 0))
    u = unit(torch.where(exact[:, None], point, cones.inside))
    lower = (g * u).sum(1).abs()
    return ConePCA(torch.minimum(lower, upper), upper, u, exact, _all(g, "projection"))
