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

from provenet import deadline
from provenet.cones.again import project_both
from provenet.cones.base import Table
from provenet.cones.branch import MOST_OUTPUTS, branch_and_bound, output_rank
from provenet.cones.doubly import doubly_bounded
from provenet.cones.exact import largest_in_cones
from provenet.cones.face_search import MOST_DIMENSIONS, affordable, search_faces
from provenet.cones.relaxation import relaxed, remembered
from provenet.cones.search import ascent, climb
from provenet.vectors import power_of_two, unit

BOUNDS = ("projection", "faces", "spectral", "relaxation", "branch", "face search")
_TOLERANCE = 1e-9  # bounds closer than this, relatively, are one number
_HAIR = 1e-7  # of ‖g‖: unit rows violated by no more come from rounding
_A_HAIR_BELOW = 1 - 1e-9  # more than rounding adds to a bound
_FEW_OUTPUTS = 4  # directions of outputs up to which branch and bound comes first
_MANY = 32  # dimensions from which all pairs of facets at once are quicker than few of them, one after the other
_NODES = 2_000  # of branch and bound, for each gate that the cheaper bounds leave open
_MOST_NODES = 60_000  # for all gates together
_FEW_DIMENSIONS = 4  # up to which faces are quicker to search than few outputs
_FACES, _MOST_FACES = 20_000, 400_000  # met by a search of faces, for a gate, and for all together
_TOGETHER = 128  # gates relaxed at a time
_SMALLEST = 2.0**-300  # numbers whose squares, and sums of them, are numbers
_CLIMB_SHARE = 0.3  # of what a deadline leaves: lower bounds say where upper ones are needed, which is what counts
_EXCESS_SHARE = 0.1  # of how far the largest is beyond what it is compared with
_AS_BAD = 0.3  # of how far the largest is beyond what is lost: other gates as far are looked for,
_LONGER = 8  # for so many waves of branch and bound more


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
    return _bounded(cones, G, enough, nodes, tolerance, (against, lost) if largest_only else None)


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


def _bounded(
    cones: Table, G: Tensor, enough: float, nodes: int, tolerance: float, only: tuple[float, float] | None
) -> ConePCA:
    """Each bound only where the ones before it have not settled the gate; ``only`` (against, lost) the largest is
    wanted, None: every gate's.

    Few outputs: branch and bound, which finds its lower bounds itself.  Else a local search comes first."""
    sigma = torch.linalg.svdvals(G)[:, 0]
    upper = sigma * (1 + (G.shape[1] + G.shape[2]) * 8 * torch.finfo(G.dtype).eps)
    decided = _all(G, "spectral")
    if cones.recall is not None:
        known = remembered(cones, G)
        decided[known < upper], upper = BOUNDS.index("relaxation"), torch.minimum(upper, known)
    lower, u = torch.zeros_like(upper), cones.inside.clone()

    def suffices(lower: Tensor, each: bool = False) -> Tensor:
        """Upper bounds (B,) that need not be tightened, where these are the lower ones; ``each``: where one is lost,
        only those of gates that are, or cannot be, nearly as bad."""
        goal = (lower * (1 + tolerance)).clamp_min(enough)
        if only is None:
            return goal
        largest, (against, lost) = float(lower.max()), only
        if largest > lost:
            nearly = lost + _AS_BAD * (largest - lost)
            return torch.where(lower > nearly, torch.inf, nearly) if each else torch.full_like(goal, torch.inf)
        return goal.clamp_min(max(largest * (1 + tolerance), largest + _EXCESS_SHARE * (largest - against)))

    def open_gates() -> Tensor:
        return torch.nonzero(upper > suffices(lower)).flatten()

    def better(gates: Tensor, value: Tensor, where: Tensor) -> None:
        improved = value > lower[gates]
        u[gates[improved]], lower[gates[improved]] = where[improved], value[improved]

    def ascend() -> None:
        found = ascent(cones, G)
        better(torch.arange(len(G), device=G.device), found.value, found.u)

    def search() -> None:
        gates = open_gates()
        with deadline.within(_CLIMB_SHARE * deadline.left()):
            found = climb(cones.restrict(gates), G[gates])
        better(gates, found.value, found.u)

    def relax() -> None:
        for gates in open_gates().split(_TOGETHER):
            if deadline.over():
                return
            some, goal = cones.restrict(gates), suffices(lower)[gates]
            if G.shape[1] < _MANY:
                tight = relaxed(some, G[gates], u[gates], goal)
            else:
                tight = doubly_bounded(some, G[gates], lower[gates], goal)
            decided[gates[tight < upper[gates]]] = BOUNDS.index("relaxation")
            upper[gates] = torch.minimum(upper[gates], tight)

    def search_all_faces() -> None:
        gates = open_gates()
        if nodes == 0 or not affordable(cones) or deadline.over():
            return
        try:
            _ = cones.facets  # kept for the next time
        except deadline.TooLong:
            return
        most = min(_FACES * gates.numel(), _MOST_FACES)
        found = search_faces(cones.restrict(gates), G[gates], upper[gates], suffices(lower)[gates], most)
        decided[gates[found.upper < upper[gates]]] = BOUNDS.index("face search")
        better(gates, found.value, found.u)
        upper[gates] = torch.minimum(upper[gates], found.upper)

    def branch() -> None:
        gates = open_gates()
        if gates.numel() == 0 or nodes == 0 or deadline.over():
            return
        known, lost, waves = lower.clone(), torch.inf if only is None else only[1], 0

        def own(found: Tensor) -> Tensor:
            nonlocal waves
            known[gates] = torch.maximum(lower[gates], found)
            waves += float(known.max()) > lost
            return suffices(known, each=waves <= _LONGER)[gates]

        budget = min(nodes * gates.numel(), _MOST_NODES)
        leaf = branch_and_bound(cones.restrict(gates), G[gates], upper[gates], own, budget)
        decided[gates[leaf.upper < upper[gates]]] = BOUNDS.index("branch")
        better(gates, leaf.lower, leaf.u)
        upper[gates] = torch.minimum(upper[gates], leaf.upper)

    rank = output_rank(G)
    last = branch if rank <= MOST_OUTPUTS else search
    rest = [branch, ascend, search_all_faces, relax] if rank <= _FEW_OUTPUTS else [ascend, relax, last, relax]
    few_faces = G.shape[1] <= (MOST_DIMENSIONS if rank > _FEW_OUTPUTS else _FEW_DIMENSIONS)
    first = [ascend, search_all_faces] if few_faces else []
    for tighten in first + rest:
        if open_gates().numel():
            tighten()
    exact = upper <= lower * (1 + 10 * tolerance) + torch.finfo(G.dtype).tiny
    return ConePCA(torch.minimum(lower, upper), upper, u, exact, decided)
