"""Gates from random hyperplanes: D_k = 1{Φ h_k ≥ 0}, h_k Gaussian."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_ROUNDS = 20  # draws at most this many times the gates asked for


def patterns(rows: Tensor, vectors: Tensor) -> Tensor:
    """1{Φ h_k ≥ 0}, (N, P) bool, for rows Φ (N, p) and vectors (P, p)."""
    return rows @ vectors.T >= 0


def undecided(rows: Tensor, vectors: Tensor) -> Tensor:
    """Where rounding decides on which side of a gate a row lies, (N, P) bool; exact ties, which are open, are not.

    There one order of summation opens the gate and another may close it: the problem and the network would differ.
    """
    side, other_order = rows @ vectors.T, rows.flip(1) @ vectors.flip(1).T
    noise = (rows.shape[1] + 1) * torch.finfo(rows.dtype).eps * (rows.abs() @ vectors.abs().T)
    return ((side != 0) | (other_order != 0)) & (side.abs() <= noise)


def sample_gates(rows: Tensor, count: int, seed: int | None) -> tuple[Tensor, Tensor]:
    """``count`` Gaussian gates with distinct, not all-zero patterns on Φ = ``rows`` (N, p); fewer if there are fewer.

    Returns vectors (P, p) and patterns (N, P).  The draw depends on the seed and p only, so that repeating a row
    changes nothing.
    """
    generator = np.random.default_rng(seed)
    p = rows.shape[1]
    seen: set[bytes] = set()
    vectors: list[Tensor] = []
    columns: list[Tensor] = []
    draw = torch.empty(0, p, dtype=rows.dtype)
    for _ in range(_ROUNDS):
        draw = torch.from_numpy(generator.standard_normal((count, p))).to(rows.dtype)
        pattern = patterns(rows, draw)
        fresh = _fresh(pattern, seen, count - len(seen))
        vectors.append(draw[fresh])
        columns.append(pattern[:, fresh])
        if len(seen) == count:
            break
    if not seen:  # every draw missed all rows: the opposite of any of them opens at every row
        vectors, columns = [-draw[:1]], [patterns(rows, -draw[:1])]
    return torch.cat(vectors), torch.cat(columns, dim=1)


def _fresh(pattern: Tensor, seen: set[bytes], wanted: int) -> list[int]:
    """Columns not all zero and not yet ``seen``, at most ``wanted``; ``seen`` is updated."""
    packed = np.packbits(pattern.T.numpy(), axis=1)
    keep: list[int] = []
    for k, row in enumerate(packed):
        key = row.tobytes()
        if len(keep) < wanted and key not in seen and row.any():
            seen.add(key)
            keep.append(k)
    return keep
