"""A sampler of gates of a user's: directions at right angles to one another, as many as there are, and then others."""

from __future__ import annotations

import numpy as np
import torch

from provenet.gates.gaussian import fill
from provenet.gates.pool import Found, Pool, Sampled
from provenet.gates.sight import Seen, Sight


def squarely(sight: Sight, count: int, seed: int | None) -> Sampled:
    return Sampled([_on(rows, count, seed) for rows in sight.groups])


def _on(rows: Seen, count: int, seed: int | None) -> Found:
    pool, draw = Pool(rows, count), np.random.default_rng(seed)
    for _ in range(1 + count // rows.p):
        pool.add(torch.from_numpy(np.linalg.qr(draw.standard_normal((rows.p, rows.p)))[0]))
    fill(pool, draw)  # Gaussian ones, where patterns were met twice
    return pool.found
