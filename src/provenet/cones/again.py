"""Projections of both signs of a vector on each cone, begun where the last ones of nearly the same vectors ended."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.cones.base import Table
from provenet.cones.projection import Projection, Warm, project

_NEAR = 0.9  # the cosine from which tight rows are mostly the same
_VECTORS, _ROWS, _MULTIPLIERS = "projected", "tight rows", "multipliers"  # what is kept of them


def project_both(cones: Table, g: Tensor, enough: float) -> Projection:
    """Of g and of −g (B, p), one after the other; ``enough`` as `project` has it."""
    B = len(g)
    both, signs = torch.cat([g, -g]), cones.signs.repeat(2, 1)
    recall = cones.recall
    if recall is None:
        return project(cones.rows, signs, both, enough=enough)
    size = torch.linalg.vector_norm(g, dim=1).clamp_min(torch.finfo(g.dtype).tiny)
    start, near = _known(cones, g / size[:, None])
    parts, places = [], []
    for some, warm in ((near, start), (~near, None)):
        places.append(torch.nonzero(some.repeat(2)).flatten())
        if len(places[-1]):
            begun = None if warm is None else Warm(*(part[places[-1]] for part in warm))
            if begun is not None:
                begun = Warm(begun.rows, begun.multipliers * size.repeat(2)[places[-1], None])
            parts.append(project(cones.rows, signs[places[-1]], both[places[-1]], begun, enough))
    found = Projection.of_all(parts).select(torch.argsort(torch.cat(places)))
    recall.write(_VECTORS, g / size[:, None])
    recall.write(_ROWS, found.rows.view(2, B, -1).transpose(0, 1))
    recall.write(_MULTIPLIERS, (found.multipliers / size.repeat(2)[:, None]).view(2, B, -1).transpose(0, 1))
    return found


def _known(cones: Table, unit_g: Tensor) -> tuple[Warm | None, Tensor]:
    """What is known of both signs (2B, m), for unit vectors, and of which gates (B,): dual points come with either
    sign."""
    recall = cones.recall
    last = None if recall is None else recall.note(_VECTORS)
    if recall is None or last is None:
        return None, torch.zeros(len(unit_g), dtype=torch.bool, device=unit_g.device)
    cosine = (last * unit_g).sum(1)
    rows, multipliers = recall.note(_ROWS), recall.note(_MULTIPLIERS)
    assert rows is not None
    assert multipliers is not None
    turned = (cosine < 0)[:, None, None]
    rows, multipliers = (torch.where(turned, part.flip(1), part) for part in (rows, multipliers))
    return Warm(*(part.transpose(0, 1).flatten(0, 1) for part in (rows, multipliers))), cosine.abs() >= _NEAR
