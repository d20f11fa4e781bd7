"""The cones of a block's arrangements, without a table of their rows."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.blocks.on_data import OnData
from provenet.blocks.rows import Rows
from provenet.cones import ImplicitCones, ImplicitRows, PickedSigns
from provenet.gates import Gates
from provenet.vectors import unit


def implicit_cones(on: OnData, gates: Gates) -> ImplicitCones:
    """The cones of these gates.  The rows of all groups follow one another; those of other groups than its own do not
    bound a cone."""
    assert gates.vectors is not None
    groups, count = on.groups, len(on.groups[0])

    def of(span: slice) -> tuple[Rows, slice]:
        """The group of some rows, and their samples."""
        rho, first = groups[0].rho, span.start % count
        return groups[span.start // count], slice(first // rho, (first + span.stop - span.start) // rho)

    def apply(u: Tensor, span: slice) -> Tensor:
        rows, samples = of(span)
        return rows.sides(u, samples)

    def noise(u: Tensor, span: slice) -> Tensor:
        rows, samples = of(span)
        return rows.noise(u, samples)

    def pick(index: Tensor) -> Tensor:
        if len(groups) == 1:
            return groups[0].some(index)
        out = torch.empty(*index.shape, on.p, dtype=torch.float64)
        for b, rows in enumerate(groups):
            own = index // count == b
            out[own] = rows.some(index[own] % count)
        return out

    length = torch.cat([rows.lengths() for rows in groups])
    signs = gates.patterns.to(torch.int8).mul_(2).sub_(1)
    if gates.group is not None:
        whole = torch.zeros(len(signs), len(groups), count, dtype=torch.int8)
        whole[torch.arange(len(signs)), gates.group] = signs
        signs = whole.flatten(1)
    rows = ImplicitRows(apply, pick, noise, length, on.p, groups[0].rho, len(groups), on.block.row_parts(on.X))
    return ImplicitCones(rows, PickedSigns.of(signs), unit(gates.vectors))
