"""Cone-constrained PCA by its faces, in any dimension: exact wherever the search ends (CP §3.2, O(n^r) at worst).

max uᵀRu over unit u in the cone, R = GGᵀ, is attained inside some face, the cone on null(K_S) for a set S of facets,
and there at the top eigenvector of R on that subspace.  All sets of up to r − 1 of n facets would be O(n^{r−1})
eigenproblems.  But the top eigenvalue λ₁(S) bounds all faces of the face, so that most sets are never met; and

- where the top eigenvector w of a face, or −w, is in the cone, λ₁(S) is the face's maximum;
- else the maximum u* is on a facet that w violates, if wᵀu* ≥ 0, or −w, if not: along the arc from u* to w values only
  grow, so it must leave the cone at once.  Where all of the cone is on w's side (a projection says so), only facets
  that w violates are branched on.  Of those the first that is tight at u* is meant: earlier ones are not met again.

A facet whose normal is nearly a mixture of those in S is left out below S, where the face is then larger, and its
search begins anew: the bound holds.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones.base import Table
from provenet.cones.projection import project

_EPS = torch.finfo(torch.float64).eps
_HAIR = 1e-9  # a unit vector violating unit rows by less is taken to be in the cone
_TURN, _MOST_TURN = 64.0, 0.1  # how far rounding may turn an eigenvector, as in `cones.exact`
_BLURRED = 1e-8  # how far rounding may turn a face: beyond, the facet that does it is left out
_WAVE = 1_024  # faces met at a time
MOST_DIMENSIONS = 6  # beyond, facets are too many, and dear to find
_HULL_WORK = 2e3  # multiply-adds for each row and square of the dimension: what finding a cone's facets takes, about


class Searched(NamedTuple):
    """upper (B,) ≥ max ‖Gᵀu‖; unit u (B, r) of the cones with ‖Gᵀu‖ = value (B,), zero where none was met."""

    upper: Tensor
    value: Tensor
    u: Tensor


def affordable(cones: Table) -> bool:
    """Whether facets can be found in the time left; the search itself asks as it goes."""
    rows, r = cones.rows.shape
    known = cones.made("facets") is not None
    return r <= MOST_DIMENSIONS and (known or deadline.affords(_HULL_WORK * len(cones.signs) * rows * r * r))


class _Faces(NamedTuple):
    """Of the cones ``gate`` (M,): the facets S that are ``tight`` (M, r − m), an orthonormal basis (M, r, m) of each,
    the facets it sees and those that may join it (M, F), how far rounding may have turned it (M,), and a bound of uᵀRu
    on it (M,)."""

    gate: Tensor
    tight: Tensor
    basis: Tensor
    seen: Tensor
    allowed: Tensor
    turn: Tensor
    bound: Tensor

    def select(self, some: Tensor) -> _Faces:
        return _Faces(*(part[some] for part in self))


def search_faces(cones: Table, G: Tensor, upper: Tensor, goal: Tensor, most: int) -> Searched:
    """For G (B, r, c), upper bounds (B,) known before, and those that suffice; at most so many faces, or a deadline.

    The bound holds whenever the search ends: what is left open counts with the eigenvalue of the face above it."""
    search = _Search(cones, G, goal)
    r = G.shape[1]
    eye = torch.eye(r, dtype=G.dtype, device=G.device).expand(len(G), r, r)
    whole = _Faces(
        torch.arange(len(G), device=G.device),
        eye[:, 0, :0].long(),
        eye,
        search.there,
        search.there,
        torch.zeros_like(upper),
        upper.square(),
    )
    left, met = [whole], 0
    while left:
        faces = left.pop()
        faces = faces.select(faces.bound > torch.maximum(goal.square(), search.best)[faces.gate])
        if met >= most or deadline.over():
            search.close(faces.gate, faces.bound)
        elif len(faces.gate) > _WAVE:  # those with the largest bounds come first
            order = torch.argsort(faces.bound)
            left += [faces.select(order[:-_WAVE]), faces.select(order[-_WAVE:])]
        elif len(faces.gate):
            met += len(faces.gate)
            left.append(search.below(faces))
    # what was not looked at any more is no larger than what sufficed, or than a value that is reached
    done = torch.maximum(torch.maximum(search.closed, search.best), goal.square()).sqrt()
    return Searched(torch.minimum(done, upper), search.best.sqrt(), search.where)


class _Search:
    """K (B, F, r): unit normals of facets, ``there`` (B, F).  best (B,): the largest uᵀRu so far, at ``where`` (B, r);
    closed (B,): the largest bound of faces that are done with."""

    def __init__(self, cones: Table, G: Tensor, goal: Tensor):
        B, r, _ = G.shape
        self.cones, self.goal = cones, goal
        self.R = torch.bmm(G, G.mT)
        self.size = torch.linalg.matrix_norm(self.R)
        self.slack = 2 * r * _TURN / _MOST_TURN * _EPS * self.size
        self.K, self.there = cones.facets
        self.noise = 0.0 if cones.noise is None else float(cones.noise.max())
        self.hazy = r * (16 * r * _EPS + self.noise)  # ‖K_S B‖ for a basis B of a face
        self.best, self.where = G.new_zeros(B), cones.inside.clone()
        self.closed = G.new_zeros(B)

    def close(self, gate: Tensor, bound: Tensor) -> None:
        self.closed.scatter_reduce_(0, gate, bound, "amax")

    def below(self, faces: _Faces) -> _Faces:
        """The faces of these faces that are to be met; the others are done with."""
        gate, size = faces.gate, self.size[faces.gate]
        value, w, turned = self._top(faces)
        bound = torch.minimum(value + 2 * faces.turn * size + self.slack[gate], faces.bound)
        along = torch.bmm(self.K[gate], w[:, :, None])[:, :, 0]
        reach = (turned + faces.turn + self.noise)[:, None].clamp_min(_HAIR)
        inside, opposite = (((sign * along >= -reach) | ~faces.seen).all(1) for sign in (1, -1))
        done = inside | opposite
        self._met(gate[done], torch.where(inside[:, None], w, -w)[done])
        self.close(gate[done], bound[done])
        open_ = torch.nonzero(~done & (bound > torch.maximum(self.goal.square(), self.best)[gate])).flatten()
        if faces.basis.shape[2] == 1:  # a ray of which neither side is in the cone
            open_ = open_[:0]
        faces = faces.select(open_)._replace(bound=bound[open_])
        violated = (along[open_] < 0) | self._both_sides(faces.gate, w[open_])[:, None]
        return self._children(faces, violated & faces.allowed & faces.seen)

    def _top(self, faces: _Faces) -> tuple[Tensor, Tensor, Tensor]:
        """The largest eigenvalue on each face, its vector, on the side of the point inside, and how far rounding may
        turn it; nothing is said of that where the next eigenvalue is as close as rounding: `slack` covers it."""
        inner = faces.basis.mT @ self.R[faces.gate] @ faces.basis
        values, vectors = torch.linalg.eigh(0.5 * (inner + inner.mT))
        w = torch.bmm(faces.basis, vectors[:, :, -1:])[:, :, 0]
        w = torch.where((w * self.cones.inside[faces.gate]).sum(1, keepdim=True) < 0, -w, w)
        size = self.size[faces.gate]
        gap = values[:, -1] - values[:, -2] if values.shape[1] > 1 else size
        turn = _TURN * _EPS * size / gap.clamp_min(1e-300)
        return values[:, -1], w, torch.where(turn > _MOST_TURN, 0.0, turn)

    def _both_sides(self, gate: Tensor, w: Tensor) -> Tensor:
        """Whether wᵀu may be negative in the cone: no, where −w projects on zero."""
        if not len(gate):
            return torch.zeros_like(gate, dtype=torch.bool)
        found = project(self.cones.rows, self.cones.signs[gate], -w)
        return torch.linalg.vector_norm(found.point, dim=1) > _HAIR

    def _met(self, gate: Tensor, u: Tensor) -> None:
        along = torch.bmm(self.K[gate], u[:, :, None])[:, :, 0]
        there = ((along >= -_HAIR) | ~self.there[gate]).all(1)
        value = torch.einsum("mp,mpq,mq->m", u, self.R[gate], u).clamp_min(0)
        better = torch.nonzero(there & (value > self.best[gate])).flatten()
        self.best.scatter_reduce_(0, gate[better], value[better], "amax")
        top = better[value[better] == self.best[gate[better]]]
        self.where[gate[top]] = u[top]

    def _children(self, faces: _Faces, violated: Tensor) -> _Faces:
        """Each face with each of its violated facets (M, F) made tight."""
        parent, facet = torch.nonzero(violated, as_tuple=True)
        gate = faces.gate[parent]
        k = torch.bmm(self.K[gate, facet][:, None], faces.basis[parent])[:, 0]  # (M', m)
        basis = faces.basis[parent] @ _across(k / torch.linalg.vector_norm(k, dim=1, keepdim=True))
        tight = torch.cat([faces.tight[parent], facet[:, None]], dim=1)
        # what K_S makes of the basis is rounding: so far is that, at most, from the null space
        turn = self.hazy / torch.linalg.svdvals(self.K[gate[:, None], tight])[:, -1]
        seen = faces.seen[parent]
        felt = torch.linalg.vector_norm(self.K[gate] @ basis, dim=2)  # of each facet, what the face sees of it
        sees = seen & (felt >= torch.maximum(turn, self.hazy / _BLURRED * torch.ones_like(turn))[:, None])
        earlier = violated[parent] & (torch.arange(violated.shape[1], device=facet.device) <= facet[:, None])
        lost = (seen & ~sees).sum(1, keepdim=True) > 1  # more than the facet itself
        allowed = torch.where(lost, sees, faces.allowed[parent] & ~earlier & sees)
        return _Faces(gate, tight, basis, sees, allowed, turn, faces.bound[parent])


def _across(k: Tensor) -> Tensor:
    """Orthonormal bases (M, m, m − 1) of what is across unit vectors k (M, m), by Householder's reflection."""
    v = k.clone()
    v[:, 0] += torch.where(k[:, 0] < 0, -1.0, 1.0)
    eye = torch.eye(k.shape[1], dtype=k.dtype, device=k.device)
    H = eye - 2 * v[:, :, None] * v[:, None, :] / v.square().sum(1)[:, None, None]
    return H[:, :, 1:]
