"""An upper bound of cone-constrained PCA: the dual of its copositive relaxation (CP eq. 3, §4.2), pair by pair.

For u with Ku ≥ 0 and a, b of the dual cone, sums of rows of K with weights that are not negative, uᵀ(abᵀ)u ≥ 0.  So

    max ‖Gᵀu‖²  ≤  λ_max(GGᵀ + Σ_m S_m sym(a_m b_mᵀ))      over unit u in the cone,    for any pairs and S ≥ 0.

Cones of many samples are narrow, and a few pairs know it.  At a peak u, GGᵀu = f²u − Σ_i μ_i a_i with μ ≥ 0 on rows a_i
that hold it back.  With e in the dual cone and the least h_i that has b_i = h_i e − a_i there, too, S_i = 2μ_i/(b_iᵀu)
makes u an eigenvector, of value f²; across it −S_i a_ia_iᵀ is the larger the narrower the cone, so that often no other
eigenvalue is beyond f²: the bound is the peak itself.  Where one is, a small semidefinite program has the best S, and
pairs that its own solution violates join, round by round: to any a the b of the dual cone with the least aᵀUb is
Proj_K(Ua) − Ua.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.cones.barrier import Pairs, a_step, minimise
from provenet.cones.base import Table
from provenet.cones.projection import Projection, project

_ROUNDS = 12
_EACH, _MOST_WORK = 10, 3e10  # factorisations of a round, about, and multiply-adds of all rounds
_WIDTHS = 6  # projections that a width takes, at most
_NONE = 1e-7  # of a unit row: a projection this short is none
_FLAT = 1e-6  # of a vector: what a centre sees of it, so that it is as good as across
_FIRST, _LAST, _FINER = 1e-3, 1e-8, 0.1  # accuracy of rounds, of λ_max(GGᵀ), and by how much it falls
_VIOLATED = 1e-9
_SUM, _WEIGHT = "sum of pairs", "its weight"  # what is kept of them for the next time
_PRODUCTS = 10  # that a projection takes, about
_CARRIES = 1e-4  # S of a pair that stays, of the largest


class _Vectors(NamedTuple):
    """Vectors (…, p) of the dual cones, of unit length or zero, and what their rounding is in proportion to (…)."""

    at: Tensor
    weight: Tensor


def relaxed(cones: Table, G: Tensor, u: Tensor, target: Tensor) -> Tensor:
    """Upper bounds (B,) of max ‖G_kᵀu‖, for G (B, p, c), good points u (B, p) of the cones and bounds that suffice."""
    size = torch.linalg.svdvals(G)[:, 0].square().clamp_min(1e-300)
    goal = target.square() / size
    eps = torch.finfo(G.dtype).eps
    depth = 8 * (sum(G.shape[1:]) + cones.rows.shape[0] + 4) * eps  # of a sum of products of these lengths
    best = torch.full_like(size, 1 + depth)
    p = G.shape[1]
    unit = torch.bmm(G, G.mT) / size[:, None, None]
    best = torch.minimum(best, _known(cones, unit, size, depth))
    open_ = torch.nonzero(best > goal).flatten()
    if open_.numel() and deadline.affords(len(open_) * a_step(2 * p, p)):
        rounds = _Rounds(cones.restrict(open_), unit[open_], u[open_], goal[open_], depth)
        best[open_] = torch.minimum(best[open_], rounds.bound())
        remember(rounds.cones, rounds.total, rounds.weight, size[open_])
    return (best.clamp_min(0) * size).sqrt() * (1 + 4 * eps)


def remember(cones: Table, total: Tensor, weight: Tensor, size: Tensor) -> None:
    """Keeps Σ S sym(abᵀ) (B, p, p) and Σ S·weight (B,) for the next time, both in units of ``size`` (B,)."""
    if cones.recall is not None:
        cones.recall.write(_SUM, total * size[:, None, None])
        cones.recall.write(_WEIGHT, weight * size)


def remembered(cones: Table, G: Tensor) -> Tensor:
    """What the sum of pairs that was kept proves of max ‖G_kᵀu‖ (B,); infinite where there is none."""
    if cones.recall is None or cones.recall.note(_WEIGHT) is None:
        return torch.full_like(G[:, 0, 0], torch.inf)
    size = torch.linalg.svdvals(G)[:, 0].square().clamp_min(1e-300)
    depth = 8 * (sum(G.shape[1:]) + cones.rows.shape[0] + 4) * torch.finfo(G.dtype).eps
    square = _known(cones, torch.bmm(G, G.mT) / size[:, None, None], size, depth)
    return (square.clamp_min(0) * size).sqrt() * (1 + 4 * torch.finfo(G.dtype).eps)


def held(cones: Table, G: Tensor) -> tuple[Tensor, Tensor]:
    """The sums T_k (B, p, p) of pairs that are kept, uᵀT_ku ≥ 0 for u in the cones, zeros where there is none, and what
    each proves of max ‖G_kᵀu‖ (B,)."""
    total = None if cones.recall is None else cones.recall.note(_SUM)
    if total is None:
        total = G.new_zeros(len(G), G.shape[1], G.shape[1])
    return total, remembered(cones, G)


def hold(cones: Table, share: Tensor) -> None:
    """Only so much (B,) of each is kept from now on; a share of a sum of pairs is one, too."""
    for name in (_SUM, _WEIGHT):
        kept = None if cones.recall is None else cones.recall.note(name)
        if kept is not None and cones.recall is not None:
            cones.recall.write(name, kept * share.view(-1, *([1] * (kept.ndim - 1))))


def _known(cones: Table, R: Tensor, size: Tensor, depth: float) -> Tensor:
    """Squares (B,), in units of ``size`` (B,), as R (B, p, p) is; infinite where nothing is known."""
    total, weight = (None if cones.recall is None else cones.recall.note(name) for name in (_SUM, _WEIGHT))
    if total is None or weight is None:
        return torch.full_like(size, torch.inf)
    top = torch.linalg.eigvalsh(R + total / size[:, None, None])[:, -1] + depth * (1 + weight / size)
    return torch.where(weight > 0, top, torch.inf)


class _Rounds:
    """Of gates that are open (B,): R (B, p, p) of norm one, peaks u (B, p), squares of bounds that suffice (B,).

    best (B,): squares of the upper bounds so far; total (B, p, p), weight (B,): Σ S sym(abᵀ) and Σ S·weight there."""

    def __init__(self, cones: Table, R: Tensor, u: Tensor, goal: Tensor, depth: float):
        self.cones, self.R, self.u, self.goal, self.depth = cones, R, u, goal, depth
        self.centre = _next_to(cones, cones.inside)
        self.best = torch.full_like(goal, 1 + depth)
        self.total, self.weight = torch.zeros_like(R), torch.zeros_like(goal)

    def bound(self) -> Tensor:
        """Squares (B,) of upper bounds."""
        rows, pairs, S = self._at_peaks()
        open_ = torch.arange(len(self.goal), device=self.goal.device)
        open_ = open_[self._proves(pairs, S, open_)]
        linear = Pairs(*self._with_centre(rows))
        pairs, S = pairs.joined(linear).select(open_), torch.cat([S, torch.zeros_like(S)], dim=1)[open_]
        work, accuracy = 0.0, _FIRST
        for _ in range(_ROUNDS):
            count, width, p = pairs.left.shape
            work += _EACH * count * float(width) ** 3
            if count == 0 or work > _MOST_WORK or not deadline.affords(count * a_step(width, p)):
                break
            wanted = torch.full_like(self.goal[open_], accuracy)
            _, S, U = minimise(self.R[open_], pairs, S, self.goal[open_], wanted)
            going = self._proves(pairs, S, open_)
            open_, pairs, S, U = open_[going], pairs.select(going), S[going], U[going]
            if len(open_) == 0 or not deadline.affords(len(open_) * self._a_search(rows)):
                break
            more, violated = self._violated(open_, U, _Vectors(rows.at[open_], rows.weight[open_]))
            if accuracy <= _LAST:
                open_, pairs, S, more = open_[violated], pairs.select(violated), S[violated], more.select(violated)
            accuracy = max(accuracy * _FINER, _LAST)
            pairs, S = _joined(pairs, S, more)
        return self.best

    def _proves(self, pairs: Pairs, S: Tensor, gates: Tensor) -> Tensor:
        """What S (B', M) proves for some gates, rounding included, is kept where it is better; whether it is not yet
        enough (B',)."""
        total, weight = pairs.total(S), (S * pairs.weight).sum(1)
        value = torch.linalg.eigvalsh(self.R[gates] + total)[:, -1] + self.depth * (1 + weight)
        better = value < self.best[gates]
        at = gates[better]
        self.best[at], self.total[at], self.weight[at] = value[better], total[better], weight[better]
        return self.best[gates] > self.goal[gates]

    def _at_peaks(self) -> tuple[_Vectors, Pairs, Tensor]:
        """The rows that hold the peaks back, (B, m, p), each with its width, and the S (B, m) that makes the peaks
        eigenvectors."""
        cones, u = self.cones, self.u
        held = project(cones.rows, cones.signs, torch.bmm(self.R, u[:, :, None]).squeeze(2))
        many = max(int((held.multipliers > 0).sum(1).max()), 1)
        force, order = torch.topk(held.multipliers, many, dim=1)
        row = torch.gather(held.rows, 1, order)
        used = (force > 0).to(u.dtype)
        at = cones.rows[row] * (torch.gather(cones.signs, 1, row) * used)[:, :, None]
        rows = _Vectors(at, used)
        across = self._widths(rows)
        pairs = Pairs(at, across.at, across.weight * used)
        reach = (across.at * u[:, None]).sum(2)
        S = torch.where(reach > _FLAT, 2 * force / reach.clamp_min(_FLAT), 0.0)
        return rows, pairs, S

    def _widths(self, rows: _Vectors) -> _Vectors:
        """To each row a the vector h·e − a of the dual cone, with h little more than has to be.

        h is the largest aᵀw/eᵀw over w of the cone; Proj_K(a − he) is a w with a larger one, while there is one."""
        gate, slot = torch.nonzero(rows.weight > 0, as_tuple=True)
        a, e, signs = rows.at[gate, slot], self.centre.at[gate], self.cones.signs[gate]
        inside = self.cones.inside[gate]
        h = (a * inside).sum(1) / (e * inside).sum(1).clamp_min(_FLAT)
        point, weight = torch.zeros_like(a), torch.zeros_like(h)
        left, last = torch.arange(len(a), device=a.device), None
        for _ in range(_WIDTHS):
            g = a[left] - h[left, None] * e[left]
            last = project(self.cones.rows, signs[left], g, last, enough=_NONE)
            point[left], weight[left] = last.point - g, torch.linalg.vector_norm(g, dim=1) + last.multipliers.sum(1)
            height = (e[left] * last.point).sum(1)
            wider = (a[left] * last.point).sum(1) / height.clamp_min(1e-300)
            length = torch.linalg.vector_norm(last.point, dim=1)
            more = (length > _NONE) & (height > _FLAT * length) & (wider > h[left])
            left, last = left[more], last.select(more)
            if left.numel() == 0 or deadline.over():
                break
            h[left] = wider[more]
        found = _Vectors(torch.zeros_like(rows.at), torch.zeros_like(rows.weight))
        found.at[gate, slot], found.weight[gate, slot] = _unit(point, weight)
        return found

    def _with_centre(self, rows: _Vectors) -> tuple[Tensor, Tensor, Tensor]:
        centre = self.centre.at[:, None].expand_as(rows.at)
        return rows.at, centre, rows.weight * self.centre.weight[:, None]

    def _a_search(self, rows: _Vectors) -> float:
        """Multiply-adds of looking for violated pairs in one gate: projections, each a few products with all rows."""
        return 2.0 * _PRODUCTS * (rows.at.shape[1] + 1) * self.cones.rows.numel()

    def _violated(self, gates: Tensor, U: Tensor, rows: _Vectors) -> tuple[Pairs, Tensor]:
        """For U (B', p, p) of these gates: to their rows and centres the b with the least aᵀUb, and to those once more;
        and whether any is negative (B',)."""
        centre = _Vectors(self.centre.at[gates, None], self.centre.weight[gates, None])
        first = _Vectors(*(torch.cat(both, dim=1) for both in zip(rows, centre, strict=True)))
        second, one = self._partners(gates, U, first)
        third, two = self._partners(gates, U, second)
        left = torch.cat([first.at, third.at], dim=1) * torch.cat([one, two], dim=1)[:, :, None]
        right = torch.cat([second.at, second.at], dim=1)
        weight = torch.cat([first.weight * second.weight, third.weight * second.weight], dim=1)
        return Pairs(left, right, weight), one.any(1)

    def _partners(self, gates: Tensor, U: Tensor, some: _Vectors) -> tuple[_Vectors, Tensor]:
        """To a (B', m, p) the b of the dual cone with the least aᵀUb, and whether that is negative (B', m)."""
        B, m, p = some.at.shape
        pull = _unit(torch.bmm(some.at, U).flatten(0, 1), some.weight.flatten())[0]
        found = _in_parts(self.cones, gates.repeat_interleave(m), pull)
        b = _Vectors(*_unit(found.point - pull, 1 + found.multipliers.sum(1)))
        negative = (b.at * pull).sum(1).view(B, m) < -_VIOLATED
        b = _Vectors(b.at.view(B, m, p) * negative[:, :, None], b.weight.view(B, m) * negative)
        return b, negative


def _in_parts(cones: Table, gate: Tensor, g: Tensor) -> Projection:
    """Projections of g (Q, p) on the cones of their gates, as many at a time as fit."""
    parts = torch.arange(len(g), device=g.device).split(batches.count(cones.rows.shape[0], batches.BLOCK))
    return Projection.of_all([project(cones.rows, cones.signs[gate[some]], g[some]) for some in parts])


def _unit(vectors: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (Q, p) of unit length and their weights (Q,) in proportion; both zero where there is next to nothing."""
    length = torch.linalg.vector_norm(vectors, dim=1)
    real = length > _VIOLATED
    scale = torch.where(real, length.clamp_min(_VIOLATED).reciprocal(), 0.0)
    return vectors * scale[:, None], weight * scale


def _next_to(cones: Table, u: Tensor) -> _Vectors:
    """Kᵀλ, λ ≥ 0, the points (B, p) of the dual cones next to u; in narrow cones that is u."""
    found = project(cones.rows, cones.signs, -u)  # −u + Kᵀλ
    return _Vectors(*_unit(found.point + u, 1 + found.multipliers.sum(1)))


def _joined(pairs: Pairs, S: Tensor, more: Pairs) -> tuple[Pairs, Tensor]:
    """The pairs that carry most, no more than a symmetric matrix has entries, and all of ``more``; with their S."""
    count, _, p = pairs.left.shape
    if count == 0:
        return pairs, S
    carried = S * (_CARRIES * S.amax(1, keepdim=True) < S)
    many = max(min(int((carried > 0).sum(1).max()), p * (p + 1) // 2), 1)
    kept, index = torch.topk(carried, many, dim=1)
    old = pairs.chosen(index)
    old = Pairs(old.left * (kept > 0)[:, :, None], old.right, old.weight)
    return old.joined(more), torch.cat([kept, S.new_zeros(count, more.weight.shape[1])], dim=1)
