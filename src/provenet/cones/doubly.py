"""An upper bound of cone-constrained PCA in many dimensions: all pairs of facets at once (CP eq. 19, its oracle).

    max ⟨R, U⟩   over   tr U = 1,  U ⪰ 0,  K U Kᵀ ≥ 0,        R = GGᵀ,  K some facets of the cone,

by splitting.  Any S ≥ 0 bounds it, and with it max ‖Gᵀu‖² over unit u of the cone, by λ_max(R + KᵀSK): the splitting's
multipliers are such S, and the bound holds whatever their accuracy, and whichever facets are left out.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from provenet import deadline
from provenet.cones.base import Table
from provenet.cones.parts import Part, parts_of
from provenet.cones.relaxation import remember, remembered

_FACETS = 512  # of a cone, at most
_WALKERS, _WALKS = 4, 60  # who look for them, times p, and how far each goes
_FOUND = "facets"  # what is kept of them,
_SPLIT = ("copy", "push", "pull")  # and of where a splitting ended: the next one begins there
_LOOK, _STEPS = 50, 1_000  # steps between two bounds, and in all
_SLOW = 0.03  # of the way to the goal: a look that gains less is the last one
_WIDENED, _JOIN = (50, 100, 200), 48  # steps after which rows that are violated join, and how many
_VIOLATED = 1e-6
_BEYOND = 1.6  # over-relaxation
_WEIGHT = 5.0  # of the splitting, for R of a peak of one
_NUMBERS = 2**24  # of S in all gates of a batch, and of what is kept of it
_WIDEST = _FACETS + len(_WIDENED) * _JOIN  # rows of a gate


def doubly_bounded(cones: Table, G: Tensor, lower: Tensor, goal: Tensor) -> Tensor:
    """Upper bounds (B,) of max ‖G_kᵀu‖, for G (B, p, c), lower bounds (B,) and upper ones that suffice (B,)."""
    best = remembered(cones, G)
    open_ = torch.nonzero(best > goal).flatten()
    for some in open_.split(max(1, _NUMBERS // _FACETS**2)):
        if deadline.over() or some.numel() == 0:
            break
        own = cones.restrict(some)
        best[some] = torch.minimum(best[some], _split(own, _facets(own), G[some], lower[some], goal[some]))
    return best


def _facets(cones: Table) -> Tensor:
    """The numbers of rows of each cone that bound it, counted from one, (B, F): those met first on straight ways from
    points inside, or those that the last splitting had in the end.  Zeros fill up.  Cones that remember look for them
    once."""
    index = None if cones.recall is None else cones.recall.note(_FOUND)
    blank = cones.signs.new_zeros(len(cones.signs), _WIDEST, dtype=torch.long)
    index = blank if index is None else index.clone()
    new = torch.nonzero((index == 0).all(1)).flatten()  # others keep theirs, to which multipliers belong
    if new.numel():
        index[new] = _met_first(cones.restrict(new))
        if cones.recall is not None and not deadline.over():
            cones.recall.write(_FOUND, index)
    return index[:, : max(int((index > 0).sum(1).max()), 1)]


def _rows(cones: Table, index: Tensor) -> Tensor:
    """(B, F, p)."""
    row = (index - 1).clamp_min(0)
    return cones.rows[row] * (torch.gather(cones.signs, 1, row) * (index > 0))[:, :, None]


def _met_first(cones: Table) -> Tensor:
    """(B, `_WIDEST`), as `_facets` has them."""
    met = torch.zeros_like(cones.signs)
    whole = [Part(cones.rows, *(cones.space.arange(count)[None] for count in cones.rows.shape))]
    generator = torch.Generator().manual_seed(0)
    for part in parts_of(cones.rows) or whole:
        for rows, columns in zip(part.rows, part.columns, strict=True):
            for k, (signs, inside) in enumerate(zip(cones.signs[:, rows], cones.inside[:, columns], strict=True)):
                met[k, rows] = _walk(signs[:, None] * part.table, inside, generator)
    met = met * (cones.rows.abs().amax(1) > 0)
    count, index = met.topk(min(_FACETS, met.shape[1]), dim=1)
    return pad((index + 1) * (count > 0), (0, _WIDEST - index.shape[1]))


def _walk(K: Tensor, inside: Tensor, generator: torch.Generator) -> Tensor:
    """How often each of the rows K (N, p) is met first, (N,), by walkers in directions by chance (Smith 1984): each
    goes half the way to the wall it meets, and on from there."""
    p, met = K.shape[1], torch.zeros_like(K[:, 0])
    at = inside.expand(_WALKERS * p, p)
    for _ in range(_WALKS):
        if deadline.over():  # any facets do
            break
        room = (at @ K.T).clamp_min(1e-300)
        way = torch.randn(at.shape, generator=generator, device=generator.device).to(at) * torch.linalg.vector_norm(
            at, dim=1, keepdim=True
        )
        speed, first = (-(way @ K.T) / room).max(1)  # in parts of the way there
        met.index_add_(0, first, (speed > 0).to(met))
        at = at + 0.5 / speed.clamp_min(0.5)[:, None] * way
    return met


class _Split:
    """Alternating directions (Boyd et al. 2011) between U of trace one, its copy Z in the cone of positive semidefinite
    matrices, and W = KUKᵀ ≥ 0, in B gates at once, in float32; K are the rows ``index`` (B, F) of the
    cones, R of a peak of one.

    push (B, p, p), pull (B, F, F): the multipliers of U = Z and W = KUKᵀ."""

    def __init__(self, cones: Table, index: Tensor, R: Tensor):
        B, p = R.shape[:2]
        self.cones, self.R, self.pulls = cones, R, R.float()
        self.Z = torch.eye(p, device=R.device).expand(B, p, p) / p
        self.push = torch.zeros_like(self.Z)
        self.pull = self.W = self.Z.new_zeros(B, 0, 0)
        self.index = index[:, :0]
        kept = self._kept(index.shape[1])
        self.warm = self.Z.new_zeros(B, dtype=torch.bool) if kept is None else kept[0].abs().amax((1, 2)) > 0
        if kept is not None:
            self.Z = torch.where(self.warm[:, None, None], kept[0], self.Z)
            self.push, self.pull, self.index = kept[1], kept[2], index
        self._join(index[:, self.index.shape[1] :])

    def _kept(self, facets: int) -> list[Tensor] | None:
        """Z, push and pull as the last splitting of these gates left them; zeros of those that had none."""
        notes = [] if self.cones.recall is None else [self.cones.recall.note(name) for name in _SPLIT]
        found = [note for note in notes if note is not None]
        return [*found[:2], found[2][:, :facets, :facets]] if len(found) == len(_SPLIT) else None

    def keep(self) -> None:
        """For the next time: rows that no pair of any weight has are left out, if others have."""
        recall = self.cones.recall
        if recall is None or recall.gates * _WIDEST**2 > _NUMBERS:
            return
        carried = self.pull.abs().amax(2) * (self.index > 0)
        force, order = carried.sort(dim=1, descending=True)
        index = torch.gather(self.index, 1, order) * ((force > 0) | (force[:, :1] == 0))
        pull = torch.gather(self.pull, 1, order[:, :, None].expand_as(self.pull))
        pull = torch.gather(pull, 2, order[:, None, :].expand_as(pull))
        room = (0, _WIDEST - index.shape[1])
        for name, values in zip(_SPLIT, (self.Z, self.push, pad(pull, room * 2)), strict=True):
            recall.write(name, values)
        recall.write(_FOUND, pad(index, room))

    def _join(self, more: Tensor) -> None:
        """These rows (B, F'), too."""
        more = more[:, : _WIDEST - self.index.shape[1]]
        self.index = torch.cat([self.index, more], dim=1)
        self.K = _rows(self.cones, self.index).float()
        values, self.V = torch.linalg.eigh(torch.bmm(self.K.mT, self.K))
        self.stretch = 1 + values[:, :, None] * values[:, None, :]  # of U, in the basis V
        self.bare = (1 + values.square()).reciprocal()
        self.pull = pad(self.pull, (0, self.index.shape[1] - self.pull.shape[1]) * 2)
        old, self.W = self.W.shape[1], torch.bmm(torch.bmm(self.K, self.Z), self.K.mT).clamp_min(0)
        self.W[:, :old, :old] = torch.maximum(self.W[:, :old, :old], self.pull[:, :old, :old].clamp_min(0))

    def step(self) -> None:
        right = self.pulls / _WEIGHT + self.Z - self.push + torch.bmm(torch.bmm(self.K.mT, self.W - self.pull), self.K)
        H = torch.bmm(torch.bmm(self.V.mT, right), self.V) / self.stretch
        much = (H.diagonal(dim1=1, dim2=2).sum(1) - 1) / self.bare.sum(1)
        H.diagonal(dim1=1, dim2=2).sub_(much[:, None] * self.bare)
        U = torch.bmm(torch.bmm(self.V, H), self.V.mT)
        there = _BEYOND * torch.bmm(torch.bmm(self.K, U), self.K.mT) + (1 - _BEYOND) * self.W + self.pull
        U = _BEYOND * U + (1 - _BEYOND) * self.Z + self.push
        values, Q = torch.linalg.eigh(U)
        self.Z = torch.bmm(Q * values.clamp_min(0)[:, None, :], Q.mT)
        self.W = there.clamp_min(0)
        self.push, self.pull = U - self.Z, there - self.W

    def bound(self) -> tuple[Tensor, Tensor, Tensor]:
        """Squares of upper bounds (B,), KᵀSK (B, p, p) and ΣS (B,), for the S ≥ 0 that the multipliers are."""
        S, K = (-_WEIGHT * self.pull.double()).clamp_min(0), _rows(self.cones, self.index)
        S = 0.5 * (S + S.mT)
        total = torch.bmm(torch.bmm(K.mT, S), K)
        total, weight = 0.5 * (total + total.mT), S.sum((1, 2))
        depth = 8 * (2 * sum(self.K.shape[1:]) + 4) * torch.finfo(S.dtype).eps
        top = torch.linalg.eigvalsh(self.R + total)[:, -1]
        return top + depth * (self.R.diagonal(dim1=1, dim2=2).sum(1) + weight), total, weight

    def select(self, which: Tensor) -> None:
        self.cones = self.cones.restrict(which)
        for name in ("R", "pulls", "Z", "push", "pull", "W", "index", "K", "V", "stretch", "bare", "warm"):
            setattr(self, name, getattr(self, name)[which])

    def widen(self) -> None:
        """The rows that Z violates most join: those with an r for which K_sZK_rᵀ is least."""
        least = []
        for k in range(len(self.Z)):
            K = self.cones.signs[k, :, None] * self.cones.rows
            worst = (K @ self.Z[k].double() @ K.T).amin(1)
            worst[self.index[k][self.index[k] > 0] - 1] = 0.0
            value, row = worst.topk(min(_JOIN, len(worst)), largest=False)
            least.append((row + 1) * (value < -_VIOLATED))
        more = torch.stack(least)
        if bool((more > 0).any()):
            self._join(more)


def _split(cones: Table, index: Tensor, G: Tensor, lower: Tensor, goal: Tensor) -> Tensor:
    """Bounds (B,) for facets ``index`` (B, F)."""
    size = lower.clamp_min(1e-3 * torch.linalg.svdvals(G)[:, 0]).clamp_min(1e-300)
    unit, wanted = G / size[:, None, None], (goal / size).square()
    split = _Split(cones, index, torch.bmm(unit, unit.mT))
    best, kept = torch.full_like(size, torch.inf), torch.zeros_like(split.R)
    weights, going = torch.zeros_like(size), torch.arange(len(G), device=G.device)
    for step in range(1, _STEPS + 1):
        split.step()
        if step % _LOOK and not deadline.over():
            continue
        bound, total, weight = split.bound()
        before, better = best[going], bound < best[going]
        at = going[better]
        best[at], kept[at], weights[at] = bound[better], total[better], weight[better]
        joins = step in _WIDENED
        moves = before.isinf() | (before - best[going] > _SLOW * (before - wanted[going]))
        more = (best[going] > wanted[going]) & (moves | (~split.warm & (step <= max(_WIDENED))))
        going = going[more]
        split.keep()
        if going.numel() == 0 or deadline.over():
            break
        split.select(more)
        if joins:
            split.widen()
    remember(cones, kept, weights, size.square())
    return best.sqrt() * size * (1 + 4 * torch.finfo(G.dtype).eps)
