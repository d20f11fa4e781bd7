"""What the last search of each gate has met: a dual point moves little between two looks, and so do tight rows."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from provenet.cones.projection import Projection

_CORNERS = 48  # of each gate,
_NUMBERS = 2**23  # in all of them


class _Kept(NamedTuple):
    """Of P gates, K corners each: directions v (P, K, r), zero where there is none, in the bases (P, r, c); tight rows
    (P, K, m) and their multipliers."""

    basis: Tensor
    v: Tensor
    rows: Tensor
    multipliers: Tensor


class Recall:
    """Of P gates, or of some of them, for whom it is the same memory.  It makes a search quicker, and its bounds no
    less true: whatever multipliers are, they certify."""

    def __init__(self, gates: int, whole: Recall | None = None, chosen: Tensor | None = None):
        self._gates, self._whole, self._chosen = gates, whole or self, chosen
        self._kept: _Kept | None = None
        self._notes: dict[str, Tensor] = {}

    @property
    def gates(self) -> int:
        """Of the whole memory."""
        return self._gates

    def restrict(self, gates: Tensor) -> Recall:
        return Recall(self._gates, self._whole, gates if self._chosen is None else self._chosen[gates])

    def note(self, name: str) -> Tensor | None:
        """What was last written down under this name for its gates, (B, …); zeros for those that nothing was for."""
        notes = self._whole._notes.get(name)
        return None if notes is None else notes[self._here(notes)]

    def write(self, name: str, values: Tensor) -> None:
        """``values`` (B, …) for its gates, in place of what was there."""
        notes = self._whole._notes.get(name)
        if notes is None or notes.shape[1:] != values.shape[1:]:
            notes = self._whole._notes[name] = values.new_zeros(self._gates, *values.shape[1:])
        notes[self._here(notes)] = values

    def basis(self, G: Tensor, own: Tensor, most: Tensor) -> Tensor:
        """The directions (B, r, c) of v in each gate's last search, where no more than ``most`` (B,) of G (B, p, c) is
        left out in them; else its ``own``, and what was kept is forgotten: it was in other coordinates."""
        kept = self._whole._kept
        if kept is None or kept.basis.shape[1:] != own.shape[1:]:
            self._whole._kept = None
            return own
        chosen = self._here(G)
        basis = kept.basis[chosen]
        fits = left_out(G, basis) <= most
        kept.v[chosen[~fits]] = 0.0
        return torch.where(fits[:, None, None], basis, own)

    def near(self, gate: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """The corner next to each v (M, r): the cosine of the angle (M,), not positive where none is known, tight rows
        and multipliers (M, m)."""
        kept = self._whole._kept
        if kept is None:
            return None
        gate = gate if self._chosen is None else self._chosen[gate]
        cosine, k = torch.bmm(kept.v[gate], v[:, :, None]).squeeze(2).max(1)
        return cosine, kept.rows[gate, k], kept.multipliers[gate, k]

    def keep(self, basis: Tensor, gate: Tensor, v: Tensor, found: Projection) -> None:
        """The first corners v (V, r) of each gate (V,) in a basis (B, r, c), in place of what was known of these."""
        P, (B, r, c), m = self._gates, basis.shape, found.rows.shape[1]
        most = min(_CORNERS, _NUMBERS // max(P * m, 1))
        if most < 2 * r:
            return
        order = torch.argsort(gate, stable=True)
        count = torch.bincount(gate, minlength=B)
        place = torch.arange(len(gate), device=gate.device) - (count.cumsum(0) - count)[gate[order]]
        order, place = order[place < most], place[place < most]
        own = gate[order] if self._chosen is None else self._chosen[gate[order]]
        kept = self._whole._kept
        if kept is None or kept.basis.shape[1:] != (r, c) or kept.rows.shape[2] != m:
            kept = _Kept(
                v.new_zeros(P, r, c),
                v.new_zeros(P, most, r),
                v.new_zeros(P, most, m, dtype=torch.long),
                v.new_zeros(P, most, m),
            )
        chosen = self._here(v)
        kept.basis[chosen], kept.v[chosen] = basis, 0.0
        kept.v[own, place], kept.rows[own, place] = v[order], found.rows[order]
        kept.multipliers[own, place] = found.multipliers[order]
        self._whole._kept = kept

    def _here(self, like: Tensor) -> Tensor:
        """Its gates, as the whole memory counts them."""
        return torch.arange(self._gates, device=like.device) if self._chosen is None else self._chosen


def left_out(G: Tensor, basis: Tensor) -> Tensor:
    """‖G − GVᵀV‖_F (B,): at least what directions outside an orthonormal basis V (B, r, c) can pull."""
    return torch.linalg.matrix_norm(G - torch.bmm(torch.bmm(G, basis.mT), basis))
