"""Conditions of the papers under which a local minimum of the factorisation is global.

They suppose an exact local minimum, which no solver returns: reported beside the gap, never instead of it.
"""

from __future__ import annotations

import torch

from provenet.variable import Factors


def rank_conditions(factors: Factors, n_gates: int, p: int, q: int) -> dict[str, bool]:
    """BM Thm 3.3 (width p + q, or rank-deficient [U_k; V_k], at every gate) and Thm 3.5 (full rank at every gate)."""
    width = torch.bincount(factors.gate, minlength=n_gates)
    both = torch.cat([factors.left, factors.right], dim=1)
    deficient, full = True, True
    for k in range(n_gates):
        if width[k] == 0:
            # no neuron: an empty factor is trivially deficient only if a zero neuron is thought of; it has rank 0
            full = False
            continue
        rows = both[factors.gate == k]
        rank = int(torch.linalg.matrix_rank(rows))
        deficient &= rank < rows.shape[0]
        full &= rank >= min(p, q)
    return {
        "wide_enough": bool((width >= p + q).all()),
        "rank_deficient": deficient and bool((width > 0).all()),
        "full_rank": full,
    }
