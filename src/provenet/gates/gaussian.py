"""Gates from random hyperplanes: D_k = 1{Φ h_k ≥ 0}, h_k Gaussian (BM §2, AT §2)."""

from __future__ import annotations

import numpy as np
import torch

from provenet.gates.pool import Found, Pool, Sampled
from provenet.gates.sight import Seen, Sight

_ROUNDS = 20  # draws at most this many times the gates asked for


def gaussian(sight: Sight, count: int, seed: int | None) -> Sampled:
    return Sampled([sample_gates(rows, count, seed) for rows in sight.groups])


def sample_gates(rows: Seen, count: int, seed: int | None) -> Found:
    """``count`` Gaussian gates with distinct, not all-zero patterns; fewer if there are fewer.

    Returns vectors (P, p) and patterns (P, N).  The draw depends on the seed and p only, so that repeating a row
    changes nothing.
    """
    pool = Pool(rows, count)
    fill(pool, np.random.default_rng(seed))
    return pool.found


def fill(pool: Pool, generator: np.random.Generator) -> None:
    """Gaussian gates for all that is missing; one at least, whatever the rows."""
    p = pool.rows.p
    draw = torch.empty(0, p, dtype=torch.float64)
    for _ in range(_ROUNDS):
        if not pool.missing:
            return
        draw = torch.from_numpy(generator.standard_normal((pool.count, p)))
        pool.add(draw)
    if not len(pool):  # every draw missed all rows, or grazed one: the opposite of those that missed opens at every row
        pool.force(-draw[:1])
