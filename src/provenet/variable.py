"""The one variable of every block, in its two shapes.

A *stack* is a plain tensor ``(P, p, q)``: the convex weights ``Z_k``, one matrix a gate.
`Factors` are neurons: ``Z_k = Σ_{j : gate_j = k} u_j v_jᵀ``.  A network is its factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from provenet.space import Placed, Space
from provenet.vectors import unit

Stack = Tensor


@dataclass(frozen=True)
class Factors(Placed):
    """Neurons ``(u_j, v_j)``, each behind one gate (BM eq. 17, 18).

    left: (N, p) first-layer weights.  right: (N, q) second-layer weights.  gate: (N,) gate of each neuron.
    """

    left: Tensor
    right: Tensor
    gate: Tensor

    @property
    def n_neurons(self) -> int:
        return self.left.shape[0]

    def penalty(self) -> Tensor:
        """½ Σ_j (‖u_j‖² + ‖v_j‖²), what weight decay multiplies by β."""
        return 0.5 * (self.left.square().sum() + self.right.square().sum())

    def stack(self, n_gates: int) -> Stack:
        """The convex weights (P, p, q) these neurons add up to."""
        p, q = self.left.shape[1], self.right.shape[1]
        out = self.left.new_zeros(n_gates, p, q)
        return out.index_add_(0, self.gate, self.left[:, :, None] * self.right[:, None, :])

    def sizes(self) -> Tensor:
        """‖u_j‖‖v_j‖, (N,)."""
        return torch.linalg.vector_norm(self.left, dim=1) * torch.linalg.vector_norm(self.right, dim=1)

    def balanced(self, needed: float = 0.0) -> Factors:
        """Both layers of a neuron of one length, which costs least; without neurons of no more than ``needed`` of the
        largest's size."""
        size = self.sizes()
        kept = self.select(size > needed * size.max() if size.numel() else size > 0)
        left, right = (torch.linalg.vector_norm(part, dim=1, keepdim=True) for part in (kept.left, kept.right))
        ratio = (right / left).sqrt()
        return Factors(kept.left * ratio, kept.right / ratio, kept.gate)

    def with_unit_left(self) -> Factors:
        """First layers of unit length, the second ones taking up their lengths; zeros stay zeros."""
        return Factors(
            unit(self.left), self.right * torch.linalg.vector_norm(self.left, dim=1, keepdim=True), self.gate
        )

    def scaled(self, factor: float) -> Factors:
        """Both layers times ``factor``: the stack times ``factor²``."""
        return Factors(self.left * factor, self.right * factor, self.gate)

    @property
    def space(self) -> Space:
        return Space.of(self.left)

    @staticmethod
    def empty(p: int, q: int, space: Space | None = None) -> Factors:
        space = space or Space()
        return Factors(space.zeros(0, p), space.zeros(0, q), space.zeros(0, dtype=torch.long))

    @staticmethod
    def join(*parts: Factors) -> Factors:
        return Factors(
            torch.cat([f.left for f in parts]),
            torch.cat([f.right for f in parts]),
            torch.cat([f.gate for f in parts]),
        )

    def select(self, keep: Tensor | slice) -> Factors:
        return Factors(self.left[keep], self.right[keep], self.gate[keep])


class ByGate:
    """Rows gathered by gate, padded with zeros to the widest: (N, …) ↔ (gates, width, …).

    names (K,): the gates in use; group (N,): which of them a row has; counts (K,): rows of each; slot (N,): its place.
    """

    def __init__(self, gate: Tensor):
        self.names, self.group, self.counts = torch.unique(gate, return_inverse=True, return_counts=True)
        self.width = int(self.counts.max()) if gate.numel() else 0
        order = torch.argsort(self.group, stable=True)
        first = torch.cumsum(self.counts, 0) - self.counts
        self.slot = torch.empty_like(self.group)
        self.slot[order] = torch.arange(gate.numel(), device=gate.device) - first[self.group[order]]

    @staticmethod
    def of(gate: Tensor) -> ByGate:
        """The same for one and the same tensor, as steps ask with it: how wide it is, the host has to wait for."""
        if gate.is_inference():  # nobody counts how often such a tensor is changed
            return ByGate(gate)
        known = _KNOWN.get(gate)
        if known is None or known[0] != gate._version:
            known = _KNOWN[gate] = gate._version, ByGate(gate)
        return known[1]

    @cached_property
    def members(self) -> list[tuple[int, Tensor]]:
        """Each gate in use, as the host's number, and which rows are its."""
        order = torch.argsort(self.group, stable=True).split(self.counts.tolist())
        return list(zip(self.names.tolist(), order, strict=True))

    def gather(self, rows: Tensor) -> Tensor:
        """(N, …) → (gates, width, …)."""
        blocks = rows.new_zeros(len(self.names), self.width, *rows.shape[1:])
        blocks[self.group, self.slot] = rows
        return blocks

    def scatter(self, blocks: Tensor) -> Tensor:
        """The inverse of `gather`."""
        return blocks[self.group, self.slot]


_KNOWN: Any = WeakTensorKeyDictionary()  # of gates (N,): how often the tensor was changed by then, and its `ByGate`


class Neurons(NamedTuple):
    """A network's weights: first (N, p), second (N, q), the gate vector (N, p) and the feature group (N,) of each."""

    first: Tensor
    second: Tensor
    gates: Tensor | None = None
    group: Tensor | None = None
    relu: bool = False


def factorise(stack: Stack, gates: Tensor | None = None) -> Factors:
    """The cheapest neurons of a stack: an SVD a gate, √σ into each layer (AT App. A).

    Their penalty is the stack's nuclear norm.  ``gates`` names the gates of the stack's rows when the stack
    holds only some of them.
    """
    p, q = stack.shape[1:]
    active = torch.nonzero(stack.abs().amax(dim=(1, 2)) > 0).flatten()
    if active.numel() == 0:
        return Factors.empty(p, q, Space.of(stack))
    if min(p, q) == 1:  # one neuron a gate: the SVD is a norm
        return _factorise_vectors(stack[active], active if gates is None else gates[active])
    U, sigma, Vh = torch.linalg.svd(stack[active], full_matrices=False)
    keep = sigma > sigma.max() * torch.finfo(stack.dtype).eps
    block, rank = torch.nonzero(keep, as_tuple=True)
    root = sigma[block, rank].sqrt()[:, None]
    names = active if gates is None else gates[active]
    return Factors(U[block, :, rank] * root, Vh[block, rank, :] * root, names[block])


def _factorise_vectors(stack: Stack, names: Tensor) -> Factors:
    size = stack.shape[1] * stack.shape[2]
    flat = stack.reshape(-1, size)
    largest = flat.abs().amax(dim=1, keepdim=True)
    unit = flat / largest  # so that no square under- or overflows
    length = torch.linalg.vector_norm(unit, dim=1, keepdim=True)
    direction, norm = unit / length, length * largest
    root = norm.sqrt()
    one = torch.ones_like(norm)
    left, right = (direction, one) if stack.shape[2] == 1 else (one, direction)
    return Factors(left * root, right * root, names)
