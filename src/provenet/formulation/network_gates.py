"""The units of a network as gates."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from provenet.blocks import OnData
from provenet.nn import MLP, TwoLayer
from provenet.nn.foreign import read_module
from provenet.nn.standardised import core
from provenet.vectors import unit

_OFF = 1e-9  # of its length: how far a ReLU unit that grazes a row is moved


class UnitsAsGates(NamedTuple):
    """vectors (P, p), and the group (P,) of each where the block has groups.  layers: (P, p) and (P, q), of a ReLU
    network; of a gated one they are no ReLU network's."""

    vectors: Tensor
    group: Tensor | None
    layers: tuple[Tensor, Tensor] | None = None


def gates_of(module: nn.Module, on: OnData) -> UnitsAsGates:
    """Those of a network of the block, ours or torch's own, however it was trained: the gates of a gated one, the first
    layers of a ReLU network."""
    network = _read(core(module), on)
    if network.activation == "linear":
        raise ValueError("gates: the network is linear and has no gates; give a gated or ReLU network.")
    if not isinstance(network, on.block.module):
        raise ValueError(
            f"gates: the network is a provenet.nn.{type(network).__name__}, but block {on.block.name!r} needs the "
            f"gates of a provenet.nn.{on.block.module.__name__}."
        )
    vectors = network.first.detach() if network.gates is None else network.gates
    vectors = _with_intercept(network, vectors, on)
    if vectors.shape[1] != on.p:
        raise ValueError(
            f"gates: the network's first layer has {vectors.shape[1]} weights a neuron; on this X block "
            f"{on.block.name!r} has {on.p}."
        )
    group = network.get_buffer("group") if on.block.groups > 1 else None
    _check_same_rows(network, vectors, group, on)
    if not network.relu:
        return UnitsAsGates(vectors, group)
    kept = vectors.any(1)
    vectors, group = vectors[kept], None if group is None else group[kept]
    layers = vectors, network.second.detach()[kept]
    return UnitsAsGates(_off_the_rows(vectors, group, on), group, layers)


def how_many_units(module: nn.Module, on: OnData) -> int:
    return len(_read(core(module), on).first)


def _read(module: nn.Module, on: OnData) -> TwoLayer:
    """As a module of ours, in float64; what the last layer adds to the outputs is none of the gates' business."""
    if isinstance(module, nn.Sequential):
        module = copy.deepcopy(module)
        if len(module) and isinstance(module[-1], nn.Linear):
            module[-1].register_parameter("bias", None)
    elif not isinstance(module, TwoLayer):
        raise ValueError(
            f"gates: the units of a provenet.nn module or of an nn.Sequential of two layers can be gates, not those of "
            f"{type(module).__name__}."
        )
    try:
        return read_module(module, tuple(on.X.shape[1:])).network
    except ValueError as error:
        raise ValueError(f"gates: {error}") from None


def _with_intercept(network: TwoLayer, vectors: Tensor, on: OnData) -> Tensor:
    """Vectors with a last entry for the column of ones, or without, as the block has it."""
    has, wanted = (bool(each.get("fit_intercept", False)) for each in (network.settings, on.block.settings()))
    if has == wanted:
        return vectors
    if not isinstance(network, MLP):
        raise ValueError("gates: network and block disagree about fit_intercept; their settings differ.")
    if wanted:
        return torch.cat([vectors, torch.zeros_like(vectors[:, :1])], dim=1)
    if bool(vectors[:, -1].any()):
        raise ValueError(
            "gates: the network's first layer has biases, which gates of a block without a column of ones have not; "
            "take fit_intercept=True."
        )
    return vectors[:, :-1]


def _check_same_rows(network: TwoLayer, vectors: Tensor, group: Tensor | None, on: OnData) -> None:
    """The network must see the data as the block does, kernel, grid and all: its hidden values are the block's Φu."""
    if isinstance(network, MLP):
        return
    x = on.X[:1].to(torch.float64)
    with torch.no_grad():
        hidden = network.hidden(network.lift(x), vectors).flatten().sort().values
    parts = on.block.split(x)
    own = [vectors if group is None else vectors[group == b] for b in range(len(parts))]
    sides = (
        torch.cat([on.block.sides(part, some).flatten() for part, some in zip(parts, own, strict=True)]).sort().values
    )
    if hidden.shape != sides.shape or not torch.allclose(
        hidden, sides, rtol=1e-6, atol=1e-6 * float(sides.abs().max())
    ):
        raise ValueError(
            f"gates: the network's hidden values on this X are others than those of block {on.block.name!r}; their "
            f"settings differ: {dict(network.settings)} and {dict(on.block.settings())}."
        )


def _off_the_rows(vectors: Tensor, group: Tensor | None, on: OnData) -> Tensor:
    """ReLU units that graze a row moved off it: where a hidden value is zero but for rounding, either side will do."""
    moved = vectors.clone()
    chance = unit(torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    for b, rows in enumerate(on.groups):
        own = torch.arange(len(vectors)) if group is None else torch.nonzero(group == b).flatten()
        torn = own[rows.patterns(vectors[own])[1]]
        length = torch.linalg.vector_norm(vectors[torn], dim=1, keepdim=True)
        moved[torn] = vectors[torn] + _OFF * length * chance[torn]
    return moved
