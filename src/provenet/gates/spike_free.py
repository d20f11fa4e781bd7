"""Rows that are orthogonal to one another are spike-free (CP eq. 7): one gate, open everywhere, is all there is.

With Φ = diag(ℓ)Q and QQᵀ = I, whatever u is, u' = Qᵀdiag(ℓ)⁻¹(Φu)₊ has Φu' = (Φu)₊ and ‖u'‖ ≤ ‖u‖: a neuron of any
arrangement can be replaced by one behind the open gate that costs no more.  Whitened data are such rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.vectors import unit

_NEARLY = 1e-3  # ‖QQᵀ − I‖ up to which rows count as orthogonal; what it is enters every bound
_SAMPLE = 32  # rows that are looked at first


def spike_free_stretch(rows: Tensor) -> float | None:
    """κ such that every (Φu)₊ is some Φu' ≥ 0 with ‖u'‖ ≤ κ‖u‖, for Φ (N, p); None where the rows are not orthogonal.

    κ² = (1 + δ)/(1 − δ) for ‖QQᵀ − I‖ ≤ δ, what rounding hides included: one but for the data's own accuracy.
    """
    N, p = rows.shape
    if not 2 <= N <= p or not bool(rows.any(1).all()):
        return None
    Q = unit(rows)
    some = Q[torch.linspace(0, N - 1, min(N, _SAMPLE)).long()]
    if int(((some @ Q.T).abs() > _NEARLY).sum()) > len(some):  # more than each row with itself
        return None
    excess = Q @ Q.T
    excess.diagonal().sub_(1)
    rounding = N * (p + 8) * torch.finfo(rows.dtype).eps  # in every entry (p + 8)·eps at most, of unit rows
    delta = float(torch.linalg.matrix_norm(excess)) + rounding
    return ((1 + delta) / (1 - delta)) ** 0.5 if delta <= _NEARLY else None


def open_gate(rows: Tensor) -> tuple[Tensor, Tensor]:
    """A vector (1, p) on the open side of all orthogonal rows (N, p), and its pattern (1, N)."""
    return unit(rows).sum(0, keepdim=True), torch.ones(1, len(rows), dtype=torch.bool)
