"""Waves of tokens on a grid: an orthonormal basis in which shifts are products entry by entry."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from provenet.space import Space

Grid = tuple[int, int]


class Waves(NamedTuple):
    """Cosines and sines of tokens, an orthonormal basis: m frequencies, one of each pair whose waves are the same.

    frequency (m,): its place among those of `half`; scale (m,): of waves of length one; table (2m, s): two waves of a
    frequency side by side, the second one zero where there is no other.
    """

    frequency: Tensor
    scale: Tensor
    table: Tensor

    @staticmethod
    def of(grid: Grid, space: Space) -> Waves:
        height, width = grid
        half, s, host = width // 2 + 1, height * width, Space()
        down, right = host.arange(height).repeat_interleave(half), host.arange(half).repeat(height)
        place, mirrored = down + height * right, -down % height + height * (-right % width)
        frequency = torch.nonzero(place <= mirrored).flatten()
        paired = (place < mirrored)[frequency]
        scale = ((1 + paired.to(host.dtype)) / s).sqrt()
        rows, columns = host.arange(height).repeat_interleave(width), host.arange(width).repeat(height)
        turns = width * down[frequency, None] * rows + height * right[frequency, None] * columns
        angle = (turns % s).to(host.dtype) * (2 * math.pi / s)
        waves = torch.stack([angle.cos(), -angle.sin() * paired[:, None]], 1) * scale[:, None, None]
        return Waves(*(space.move(part) for part in (frequency, scale, waves.flatten(0, 1))))
