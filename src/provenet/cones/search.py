"""Local search for max ‖Gᵀu‖ over unit vectors of a cone, from many starts, in many cones at once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones.base import Region
from provenet.cones.branch import branch_and_bound
from provenet.cones.projection import project
from provenet.cones.signs import some

_STEPS = 40
_POLISH = 100
_GLANCE = 4
_ROUGH, _NODES = 1.03, 60  # how far upper bounds of a survey may be off, and its projections a gate
_NEXT_TO = 1e-5  # of a value: what is this close above it is not looked for
_STILL = 1e-13  # relative growth below which a climb has ended,
_ENOUGH = 5e-3  # and a glance
_HAIR = 1e-8  # a unit vector violating unit rows by less is in the cone
_PEAKS = "peaks"  # what is kept of them
_MOMENT = 5e7  # multiply-adds
_WORK = 2**23  # (gates × starts × (rows + p³)) at a time: so a deadline finds some gates done


class Climb(NamedTuple):
    """value (B,) = ‖G_kᵀu_k‖, u (B, p) unit vectors of the cones."""

    value: Tensor
    u: Tensor


def climb(cones: Region, G: Tensor) -> Climb:
    """Power steps u ← Proj_K(GGᵀu)/‖·‖, which never descend: GGᵀu is the gradient of a convex function.

    They start at both signs of G's left singular vectors and at the point inside; the best is then run to its end.
    Gates that a deadline leaves no time for stay at the point inside.
    """
    B, p, _ = G.shape
    if deadline.over():
        return Climb(torch.linalg.vector_norm(torch.bmm(G.mT, cones.inside[:, :, None]), dim=(1, 2)), cones.inside)
    size = max(1, _WORK // max((cones.rows.shape[0] + p**3) * (2 * min(G.shape[1:]) + 1), 1))
    if size < B:
        parts = [climb(cones.restrict(gates), G[gates]) for gates in torch.arange(B, device=G.device).split(size)]
        return Climb(torch.cat([part.value for part in parts]), torch.cat([part.u for part in parts]))
    left = torch.linalg.svd(G, full_matrices=False)[0].mT  # (B, min(p, c), p)
    starts = torch.cat([left, -left, cones.inside[:, None]], dim=1)
    count = starts.shape[1]
    everyone = torch.arange(B, device=G.device)
    gate = everyone.repeat_interleave(count)
    value, u = _steps(cones, G, starts.reshape(-1, p), gate, _STEPS)
    best = value.view(B, count).argmax(1)
    value, u = _steps(cones, G, u.view(B, count, p)[everyone, best], everyone, _POLISH)
    return Climb(value, u)


def ascent(cones: Region, G: Tensor) -> Climb:
    """Power steps from the points inside alone, or from where the last search has ended, if that is higher: next to all
    that a climb finds, at a tenth of its cost, where cones are narrow.  Where time is
    over, what is known, if a step takes longer than a moment."""
    start = cones.inside
    known = None if cones.recall is None else cones.recall.note(_PEAKS)
    if known is not None:
        start = higher(G, known, start)
    if deadline.over() and cones.rows.shape[0] * start.numel() > _MOMENT:
        return Climb(torch.linalg.vector_norm(torch.bmm(G.mT, start[:, :, None]), dim=(1, 2)), start)
    found = Climb(*_steps(cones, G, start, torch.arange(len(G), device=G.device), _STEPS))
    if cones.recall is not None:
        cones.recall.write(_PEAKS, found.u)
    return found


def glance(cones: Region, G: Tensor, start: Tensor | None = None) -> Climb:
    """What a few power steps find from ``start`` (B, p), or the points inside where these are higher: near the best
    where cones are narrow, at a tenth of the cost of a climb."""
    start = cones.inside if start is None else higher(G, start, cones.inside)
    return Climb(*_steps(cones, G, start, torch.arange(len(G), device=G.device), _GLANCE, _ENOUGH))


def higher(G: Tensor, some: Tensor, others: Tensor) -> Tensor:
    """Of unit vectors (B, p) each the one that pulls harder."""
    one, other = (torch.linalg.vector_norm(torch.bmm(u[:, None], G), dim=(1, 2)) for u in (some, others))
    return torch.where((one > other)[:, None], some, others)


def survey(cones: Region, G: Tensor, above: float = 0.0) -> Climb:
    """Power steps from the better of what a glance and a branch and bound have seen: for few outputs quicker than a
    climb, and it misses less.

    above: the branch and bound is rough where a value beyond this is found, and goes on where none is."""
    if not len(G):
        return Climb(G.new_zeros(0), cones.inside)
    seen = glance(cones, G)
    none_there = above * (1 + _NEXT_TO)

    def suffices(lower: Tensor) -> Tensor:
        return torch.where(lower > none_there, _ROUGH * lower, none_there)

    found = branch_and_bound(cones, G, G.new_full((len(G),), torch.inf), suffices, _NODES * len(G))
    better = (found.lower > seen.value)[:, None]
    u = torch.where(better, found.u, seen.u)
    return Climb(*_steps(cones, G, u, torch.arange(len(G), device=G.device), _STEPS))


def _steps(
    cones: Region, G: Tensor, u: Tensor, gate: Tensor, steps: int, still: float = _STILL
) -> tuple[Tensor, Tensor]:
    signs, size = some(cones.signs, gate), torch.linalg.matrix_norm(G)[gate]
    value, point = u.new_zeros(len(u)), cones.inside[gate].clone()
    moving = torch.arange(len(u), device=u.device)
    last = None
    for _ in range(steps):
        pull = _times(G.mT, _times(G, u, gate[moving]), gate[moving])
        last = project(cones.rows, some(signs, moving), pull, last)
        norm = torch.linalg.vector_norm(last.point, dim=1, keepdim=True)
        feasible = (norm[:, 0] > 1e-12 * size[moving] ** 2) & (last.violation <= _HAIR * norm[:, 0])
        u = torch.where(feasible[:, None], last.point / norm.clamp_min(1e-300), cones.inside[gate[moving]])
        now = torch.linalg.vector_norm(_times(G, u, gate[moving]), dim=1)
        better, grows = now > value[moving], now > value[moving] * (1 + still)
        value[moving[better]], point[moving[better]] = now[better], u[better]
        moving, u = moving[grows], u[grows]
        if moving.numel() == 0 or deadline.over():
            break
        last = last.select(grows)
    return value, point


def _times(G: Tensor, u: Tensor, gate: Tensor) -> Tensor:
    """u_jᵀ G_k(j) for every j; large matrices come one gate at a time, and are not copied for each j."""
    return u @ G[0] if len(G) == 1 else torch.bmm(u[:, None], G[gate]).squeeze(1)
