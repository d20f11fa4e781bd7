"""Bounds of cone-constrained PCA from the cheapest on, until each settles its gate or nothing is left to try.

Few outputs: branch and bound, which finds its lower bounds itself.  Else a local search comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones.base import Table
from provenet.cones.branch import MOST_OUTPUTS, branch_and_bound, output_rank
from provenet.cones.doubly import doubly_bounded
from provenet.cones.face_search import MOST_DIMENSIONS, affordable, search_faces
from provenet.cones.relaxation import relaxed, remembered
from provenet.cones.search import ascent, climb

BOUNDS = ("projection", "faces", "spectral", "relaxation", "branch", "face search")
_FEW_OUTPUTS = 4  # directions of outputs up to which branch and bound comes first
_MANY = 32  # dimensions from which all pairs of facets at once are quicker than few of them, one after the other
_MOST_NODES = 60_000  # of branch and bound, for all gates together
_FEW_DIMENSIONS = 4  # up to which faces are quicker to search than few outputs
_FACES, _MOST_FACES = 20_000, 400_000  # met by a search of faces, for a gate, and for all together
_TOGETHER = 128  # gates relaxed at a time
_CLIMB_SHARE = 0.3  # of what a deadline leaves: lower bounds say where upper ones are needed, which is what counts
_EXCESS_SHARE = 0.1  # of how far the largest is beyond what it is compared with
_AS_BAD = 0.3  # of how far the largest is beyond what is lost: other gates as far are looked for,
_LONGER = 8  # for so many waves of branch and bound more


@dataclass(frozen=True)
class Wanted:
    """How well bounds have to be known; see `cone_pca`.  ``only`` (against, lost): the largest is wanted; None: every
    gate's."""

    enough: float
    tolerance: float
    only: tuple[float, float] | None

    @property
    def lost(self) -> float:
        return torch.inf if self.only is None else self.only[1]

    def suffices(self, lower: Tensor, each: bool = False) -> Tensor:
        """Upper bounds (B,) that need not be tightened, where these are the lower ones; ``each``: where one is lost,
        only those of gates that are, or cannot be, nearly as bad."""
        goal = (lower * (1 + self.tolerance)).clamp_min(self.enough)
        if self.only is None:
            return goal
        largest, (against, lost) = float(lower.max()), self.only
        if largest > lost:
            nearly = lost + _AS_BAD * (largest - lost)
            return torch.where(lower > nearly, torch.inf, nearly) if each else torch.full_like(goal, torch.inf)
        return goal.clamp_min(max(largest * (1 + self.tolerance), largest + _EXCESS_SHARE * (largest - against)))


def tightened(cones: Table, G: Tensor, wanted: Wanted, nodes: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(lower, upper, u, decided) of G (B, p, c), as in `ConePCA`; each bound only where the ones before it have not
    settled the gate."""
    run, rank = _Tightening(cones, G, wanted, nodes), output_rank(G)
    last = run.branch if rank <= MOST_OUTPUTS else run.climb
    rest = [run.branch, run.ascend, run.search_faces, run.relax]
    if rank > _FEW_OUTPUTS:
        rest = [run.ascend, run.relax, last, run.relax]
    few_faces = G.shape[1] <= (MOST_DIMENSIONS if rank > _FEW_OUTPUTS else _FEW_DIMENSIONS)
    for tighten in ([run.ascend, run.search_faces] if few_faces else []) + rest:
        if run.open.numel():
            tighten()
    return run.lower, run.upper, run.u, run.decided


class _Tightening:
    """The bounds as they are by now, of every gate; each method tightens those of some."""

    def __init__(self, cones: Table, G: Tensor, wanted: Wanted, nodes: int):
        self.cones, self.G, self.wanted, self.nodes = cones, G, wanted, nodes
        sigma = torch.linalg.svdvals(G)[:, 0]
        self.lower, self.u = torch.zeros_like(sigma), cones.inside.clone()
        self.upper = sigma * (1 + (G.shape[1] + G.shape[2]) * 8 * torch.finfo(G.dtype).eps)
        self.decided = torch.full((len(G),), BOUNDS.index("spectral"), device=G.device)
        if cones.recall is not None:
            self._below(torch.arange(len(G), device=G.device), remembered(cones, G), "relaxation")

    @property
    def open(self) -> Tensor:
        """The gates that are not settled."""
        return torch.nonzero(self.upper > self.wanted.suffices(self.lower)).flatten()

    def ascend(self) -> None:
        found = ascent(self.cones, self.G)
        self._above(torch.arange(len(self.G), device=self.G.device), found.value, found.u)

    def climb(self) -> None:
        gates = self.open
        with deadline.within(_CLIMB_SHARE * deadline.left()):
            found = climb(self.cones.restrict(gates), self.G[gates])
        self._above(gates, found.value, found.u)

    def relax(self) -> None:
        for gates in self.open.split(_TOGETHER):
            if deadline.over():
                return
            cones, G, goal = self.cones.restrict(gates), self.G[gates], self.wanted.suffices(self.lower)[gates]
            if G.shape[1] < _MANY:
                tight = relaxed(cones, G, self.u[gates], goal)
            else:
                tight = doubly_bounded(cones, G, self.lower[gates], goal)
            self._below(gates, tight, "relaxation")

    def search_faces(self) -> None:
        gates = self.open
        if self.nodes == 0 or not affordable(self.cones) or deadline.over():
            return
        try:
            _ = self.cones.facets  # kept for the next time
        except deadline.TooLong:
            return
        most, goal = min(_FACES * gates.numel(), _MOST_FACES), self.wanted.suffices(self.lower)[gates]
        found = search_faces(self.cones.restrict(gates), self.G[gates], self.upper[gates], goal, most)
        self._above(gates, found.value, found.u)
        self._below(gates, found.upper, "face search")

    def branch(self) -> None:
        gates = self.open
        if gates.numel() == 0 or self.nodes == 0 or deadline.over():
            return
        known, waves = self.lower.clone(), 0

        def goal(found: Tensor) -> Tensor:
            nonlocal waves
            known[gates] = torch.maximum(self.lower[gates], found)
            waves += float(known.max()) > self.wanted.lost
            return self.wanted.suffices(known, each=waves <= _LONGER)[gates]

        budget = min(self.nodes * gates.numel(), _MOST_NODES)
        leaf = branch_and_bound(self.cones.restrict(gates), self.G[gates], self.upper[gates], goal, budget)
        self._above(gates, leaf.lower, leaf.u)
        self._below(gates, leaf.upper, "branch")

    def _above(self, gates: Tensor, value: Tensor, where: Tensor) -> None:
        """Lower bounds of some gates, and the unit vectors that attain them, where they are better."""
        better = value > self.lower[gates]
        self.u[gates[better]], self.lower[gates[better]] = where[better], value[better]

    def _below(self, gates: Tensor, upper: Tensor, name: str) -> None:
        """Upper bounds of some gates, where they are better."""
        self.decided[gates[upper < self.upper[gates]]] = BOUNDS.index(name)
        self.upper[gates] = torch.minimum(self.upper[gates], upper)
