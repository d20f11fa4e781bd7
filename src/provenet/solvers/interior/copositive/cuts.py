"""Some of the walls aᵀTb ≥ 0 of the copositive relaxation, found where T violates them (CP eq. 19).

A cone of N rows has N(N − 1)/2 of them, and few matter.  Each has a multiplier s > 0 of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.cones import Table
from provenet.vectors import unit

_VIOLATED = -1e-3  # the cosine of a and b in the metric T, from which on a wall counts as violated
_SEEN = 2.0  # more than any cosine: a wall that is there already
_TRIES = 40
_MARGIN = 1.2  # new multipliers could be that much larger


@dataclass(frozen=True)
class Cuts:
    """rows first, second (P, L) of each wall; a, b (P, L, p), these rows with their signs; s (P, L), zero where there
    is no wall."""

    first: Tensor
    second: Tensor
    a: Tensor
    b: Tensor
    s: Tensor

    @staticmethod
    def none(gates: int, p: int, dtype: torch.dtype) -> Cuts:
        rows, index = torch.zeros(gates, 1, p, dtype=dtype), torch.zeros(gates, 1, dtype=torch.long)
        return Cuts(index, index, rows, rows, torch.zeros(gates, 1, dtype=dtype))

    @property
    def there(self) -> Tensor:
        return self.s > 0

    def combined(self, weight: Tensor) -> Tensor:
        """Σ_l weight_l (a_l b_lᵀ + b_l a_lᵀ)/2, (P, p, p)."""
        mixed = (self.a * weight[:, :, None]).mT @ self.b
        return 0.5 * (mixed + mixed.mT)

    def cosines(self, T: Tensor) -> Tensor:
        """aᵀTb/√(aᵀTa·bᵀTb), (P, L); more than one where there is no wall."""
        aT, bT = self.a @ T, self.b @ T
        size = ((aT * self.a).sum(2) * (bT * self.b).sum(2)).clamp_min(1e-300).sqrt()
        return torch.where(self.there, (aT * self.b).sum(2) / size, _SEEN)

    def centred(self, W: Tensor) -> Tensor:
        """Whether s·aᵀWb, which is one at the centre, is not far from it for any wall of a gate: (P,) bool."""
        product = self.s * (self.a @ W * self.b).sum(2)
        return (torch.where(self.there, product - 1, 0.0).abs() < 1).all(1)

    def with_violated(self, cones: Table, T: Tensor, R: Tensor, gates: Tensor, few: int, most: int) -> Cuts:
        """Up to ``few`` more walls of some gates, those that T (P, p, p) violates most.

        Their multipliers are so small that R = β²I − Σ sC − GGᵀ stays positive definite.  Beyond ``most`` walls a gate
        the least tight ones go.
        """
        few = min(few, most, cones.rows.shape[0])
        P = len(T)
        index = torch.zeros(2, P, few, dtype=torch.long)
        found = torch.zeros(P, few, dtype=torch.bool)
        for k in gates.tolist():
            if deadline.over():
                break
            seen = self.first[k][self.there[k]], self.second[k][self.there[k]]
            pairs = _violated(cones.rows, cones.signs[k], T[k], seen, few)
            index[:, k, : pairs.shape[1]], found[k, : pairs.shape[1]] = pairs, True
        every = torch.arange(P)[:, None]
        a, b = (cones.rows[i] * cones.signs[every, i][:, :, None] * found[:, :, None] for i in index)
        W = torch.linalg.inv(R)
        size = ((a @ W * a).sum(2) * (b @ W * b).sum(2)).clamp_min(1e-300)
        new = Cuts(index[0], index[1], a, b, torch.where(found, size.rsqrt(), 0.0))
        for _ in range(_TRIES):
            tight = torch.linalg.cholesky_ex(R - _MARGIN * new.combined(new.s)).info != 0
            if not bool(tight.any()):
                break
            new = replace(new, s=torch.where(tight[:, None], 0.5 * new.s, new.s))
        return self._joined(new, T, most)

    def _joined(self, new: Cuts, T: Tensor, most: int) -> Cuts:
        parts = [torch.cat(pair, dim=1) for pair in zip(vars(self).values(), vars(new).values(), strict=True)]
        rank = torch.cat([self.cosines(T), torch.where(new.there, -_SEEN, _SEEN)], dim=1)
        order = torch.argsort(rank, dim=1)
        width = max(min(int((parts[4] > 0).sum(1).max()), most), 1)
        order = order[:, :width]
        wide = order[:, :, None].expand(-1, -1, T.shape[1])
        return Cuts(*(torch.gather(part, 1, wide if part.ndim == 3 else order) for part in parts))


def _violated(rows: Tensor, signs: Tensor, T: Tensor, seen: tuple[Tensor, Tensor], few: int) -> Tensor:
    """(2, m): of rows i the ``few`` with the most negative cosine to another row j, in the metric T, and that j."""
    value, vectors = torch.linalg.eigh(T)
    spread = (rows * signs[:, None]) @ (vectors * value.clamp_min(0).sqrt())
    directions = unit(spread)
    known = torch.cat([seen[0], seen[1]]), torch.cat([seen[1], seen[0]])
    least, partner = [], []
    for some in torch.arange(len(rows)).split(batches.count(len(rows), batches.PASS)):
        cosine = directions[some] @ directions.T
        here = (known[0] >= some[0]) & (known[0] <= some[-1])
        cosine[known[0][here] - some[0], known[1][here]] = _SEEN
        smallest = cosine.min(dim=1)
        least.append(smallest.values)
        partner.append(smallest.indices)
    value, other = torch.cat(least), torch.cat(partner)
    order = torch.topk(value, min(2 * few, len(value)), largest=False).indices  # a pair may come from both sides
    order = order[value[order] < _VIOLATED]
    both = torch.stack([order, other[order]]).sort(dim=0).values
    fresh = ~(both[:, :, None] == both[:, None, :]).all(0).tril(-1).any(1)
    return both[:, fresh][:, :few]
