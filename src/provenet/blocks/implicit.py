"""The cones of a block's arrangements, without a table of their rows."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.blocks.on_data import OnData
from provenet.cones import ImplicitCones, ImplicitRows
from provenet.gates import Gates
from provenet.vectors import unit


def implicit_cones(on: OnData, gates: Gates) -> ImplicitCones:
    """The cones of these gates.  The rows of all groups follow one another; those of other groups than its own do not
    bound a cone."""
    assert gates.vectors is not None
    groups, count = on.groups, len(on.groups[0])

    def apply(u: Tensor) -> Tensor:
        return torch.cat([rows.sides(u) for rows in groups], dim=1)

    def noise(u: Tensor) -> Tensor:
        return torch.cat([rows.noise(u) for rows in groups], dim=1)

    def pick(index: Tensor) -> Tensor:
        if len(groups) == 1:
            return groups[0].some(index)
        out = torch.empty(*index.shape, on.p, dtype=torch.float64)
        for b, rows in enumerate(groups):
            own = index // count == b
            out[own] = rows.some(index[own] % count)
        return out

    length = torch.cat([rows.lengths() for rows in groups])
    signs = torch.where(gates.patterns, 1, -1).to(torch.int8)
    if gates.group is not None:
        whole = torch.zeros(len(signs), len(groups), count, dtype=torch.int8)
        whole[torch.arange(len(signs)), gates.group] = signs
        signs = whole.flatten(1)
    return ImplicitCones(ImplicitRows(apply, pick, noise, length, on.p), signs, unit(gates.vectors))
