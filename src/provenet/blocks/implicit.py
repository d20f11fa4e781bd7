"""The cones of a block's arrangements, without a table of their rows."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet import batches
from provenet.blocks.base import Block
from provenet.cones import ImplicitCones, ImplicitRows


def implicit_cones(
    block: Block, X: Tensor, patterns: Tensor, gate_vectors: Tensor, gate_group: Tensor | None
) -> ImplicitCones:
    """For X in float64, patterns (P, n·ρ), gate vectors (P, p) and, where the block has groups, the group (P,) of each.

    The rows of all groups follow one another; those of other groups than its own do not bound a cone.
    """
    count, p = patterns.shape[1], gate_vectors.shape[1]
    groups, rho = range(block.groups), count // len(X)

    def apply(u: Tensor) -> Tensor:
        return torch.cat([_by_vector(block.sides(X, u, b)) for b in groups], dim=1)

    def noise(u: Tensor) -> Tensor:
        return torch.cat([_by_vector(block.noise(X, u, b).expand(-1, rho, -1)) for b in groups], dim=1)

    def pick(index: Tensor) -> Tensor:
        if block.groups == 1:
            return block.some_rows(X, index)
        out = X.new_empty(*index.shape, p)
        for b in groups:
            own = index // count == b
            out[own] = block.some_rows(X, index[own] % count, b)
        return out

    every = torch.arange(count * block.groups).split(batches.count(p, batches.PASS))
    length = torch.cat([torch.linalg.vector_norm(pick(some), dim=1) for some in every])
    signs = torch.where(patterns, 1, -1).to(torch.int8)
    if gate_group is not None:
        whole = torch.zeros(len(signs), block.groups, count, dtype=torch.int8)
        whole[torch.arange(len(signs)), gate_group] = signs
        signs = whole.flatten(1)
    inside = gate_vectors / torch.linalg.vector_norm(gate_vectors, dim=1, keepdim=True)
    return ImplicitCones(ImplicitRows(apply, pick, noise, length, p), signs, inside)


def _by_vector(sides: Tensor) -> Tensor:
    """(n, ρ, m) → (m, n·ρ)."""
    return sides.permute(2, 0, 1).flatten(1)
