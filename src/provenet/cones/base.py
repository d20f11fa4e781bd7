"""What every region can do: cones {u : K_k u ≥ 0} of the rows of one Φ, one a gate, K_k = (2D_k − I)Φ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from typing_extensions import Self

from provenet.cones.exact import Faces
from provenet.cones.projection import Rows
from provenet.cones.recall import Recall
from provenet.cones.signs import Signs
from provenet.space import Placed, Space


class Region(Placed, ABC):
    """Where neurons may be.  rows Φ (N, p): of unit length, or zero.  signs (P, N): ±1, zero for rows that do not bound
    a cone.  inside (P, p): a unit vector of each interior."""

    rows: Tensor | Rows
    signs: Signs
    inside: Tensor
    recall: Recall | None = None  # what searches remember of each other, where they do
    remembered = ("recall",)
    doubt: float = 0.0  # how many times the rounding of a pull rows that count as one may add to it

    @property
    def space(self) -> Space:
        return Space.of(self.inside)

    @abstractmethod
    def restrict(self, gates: Tensor) -> Region:
        """The cones of these gates."""

    def remembering(self) -> Self:
        """The same, of which one search remembers what the one before it met; where that is of no use, itself."""
        return self

    @abstractmethod
    def within(self, basis: Tensor) -> Region:
        """The same cones in the coordinates of an orthonormal basis (p, r) that spans all rows."""

    @abstractmethod
    def slack(self, u: Tensor, gate: Tensor) -> Tensor:
        """K_k(j) u_j, (N', N) for u (N', p)."""

    @abstractmethod
    def pulled_inside(self, u: Tensor, gate: Tensor) -> Tensor:
        """u (N', p) moved until K_k u ≥ 0 in any order of summation; where it is so already, u."""

    @property
    @abstractmethod
    def tables(self) -> Sequence[tuple[Tensor, Table]]:
        """Gates that share rows, and their cones with these rows written down; none where that is too much."""

    def bounded(self, G: Tensor) -> Tensor:
        """Upper bounds (P,) of max ‖G_kᵀu‖ for G (P, p, c), where rows are not written down and something else is known
        of the cones; else infinite."""
        return G.new_full((len(G),), torch.inf)

    def exact(self, outputs: int) -> bool:
        """Whether `peaks` for c = ``outputs`` are the largest there are."""
        return False

    @abstractmethod
    def peaks(self, G: Tensor, above: float = 0.0) -> Tensor:
        """Unit vectors u_k of the cones (P, p) with ‖G_kᵀu_k‖ as large as can be found, for G (P, p, c).

        above: the search may be short where it finds a value beyond this."""

    def split(self, u: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
        """u = a − b with a, b (N', p) in the cones: shifted along the points inside, which is dear in narrow cones."""
        g = self.inside[gate]
        a = self.pulled_inside(u, gate)
        return a, ((a - u) * g).sum(1, keepdim=True).clamp_min(0) / g.square().sum(1, keepdim=True) * g


class Table(Region):
    """Rows that are written down.  noise (N,): what rounding may have done to them, of their length; None: nothing."""

    rows: Tensor
    signs: Tensor
    noise: Tensor | None

    @abstractmethod
    def restrict(self, gates: Tensor) -> Table: ...

    @abstractmethod
    def within(self, basis: Tensor) -> Table: ...

    @property
    @abstractmethod
    def faces(self) -> Faces:
        """Facets and rays of every cone, p ≤ 3."""

    @property
    @abstractmethod
    def facets(self) -> tuple[Tensor, Tensor]:
        """Unit normals (P, F, p) of every cone's facets, and which are there (P, F); for few dimensions."""
