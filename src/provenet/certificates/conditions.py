"""Conditions of the papers under which a point of the factorisation is globally optimal.

They suppose an exact local minimum or stationary point, which no solver returns: reported beside the gap, never
instead of it.  With several gates each must hold at every gate.
"""

from __future__ import annotations

import torch

from provenet.variable import ByGate, Factors


def rank_conditions(factors: Factors, n_gates: int, p: int, q: int) -> dict[str, bool]:
    """wide_enough: m ≥ p + q; rank_deficient: rank [U_k; V_k] < m (both BM Thm 3.3); full_rank: rank U_k = rank V_k =
    min(p, q) (BM Thm 3.5)."""
    width = torch.bincount(factors.gate, minlength=n_gates)
    if factors.n_neurons == 0 or bool((width == 0).any()):  # a gate without neurons satisfies none of them
        return {"wide_enough": False, "rank_deficient": False, "full_rank": False}
    gates = ByGate(factors.gate)  # filled up with zeros, which no rank counts
    left, right = gates.gather(factors.left), gates.gather(factors.right)
    rank = torch.linalg.matrix_rank
    full = torch.minimum(rank(left), rank(right)) >= min(p, q)
    return {
        "wide_enough": bool((width >= p + q).all()),
        "rank_deficient": bool((rank(torch.cat([left, right], dim=2)) < width).all()),
        "full_rank": bool(full.all()),
    }
