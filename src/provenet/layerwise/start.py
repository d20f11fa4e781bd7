"""Where a stage begins: gates, and neurons of the right size behind them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.layerwise.inputs import Inputs, spaced
from provenet.layerwise.layer import Layer
from provenet.layerwise.modules import module_of
from provenet.layerwise.whitening import drawn, rows_of, whitening_root
from provenet.nn import TwoLayer

_LOOK = 256  # samples that tell how large hidden values are
_ROWS = 10_000  # of patches, at least, and four times their length, tell how these vary
_OUTPUT_SIZE = 0.1  # of a fresh stage: small beside what it is to learn


def gate_vectors(layer: Layer, p: int, seed: int) -> Tensor:
    """(n_gates, p) Gaussian, in float32, so that no cast changes a gate."""
    assert layer.n_gates is not None
    return torch.randn(layer.n_gates, p, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Start:
    """A network of which training begins; root: R (p, p) of `provenet.layerwise.whitening`, where its first layer is
    to be stepped in white coordinates."""

    network: TwoLayer
    root: Tensor | None


def fresh_start(layer: Layer, inputs: Inputs, outputs: int, seed: int, ridge: float | None, batch: int) -> Start:
    """A module of the layer's block on these inputs, its hidden values of order one, its outputs small, and both layers
    of every neuron of the same length, as they are at an optimum.

    It is made of a few samples, which all processes have, and so is the same in each.  Where gates are to be trained it
    is a ReLU network as yet, with one neuron for each.  ridge: of whitening, which is
    done where it costs no more than a step on ``batch`` samples; None: it is not.
    """
    assert layer.n_gates is not None
    assert layer.rank is not None
    block, look = layer.made_block, inputs.everywhere(torch.arange(min(_LOOK, inputs.total)))
    p, q = block.weights(look.to(torch.float64), outputs)
    relu = layer.activation == "relu" or (layer.activation == "gated_relu" and layer.gates == "trained")
    groups = block.groups
    count = groups * (layer.rank if layer.activation == "linear" else layer.n_gates * (1 if relu else layer.rank))
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(count, p, generator=generator)
    second = torch.randn(count, q, generator=generator)
    gates = None
    if layer.activation == "gated_relu" and not relu:
        gates = torch.cat([gate_vectors(layer, p, seed + 1 + b) for b in range(groups)])
        gates = gates.repeat_interleave(layer.rank, 0)
    root = None
    each = _rows_a_sample(layer, look[:1], p, q)
    if ridge is not None and p <= 2 * batch * each:
        some = spaced(inputs.total, max(_LOOK, -(-max(_ROWS, 4 * p) // each)))
        rows = rows_of(layer, inputs.everywhere(some), outputs)
        root = whitening_root(rows, ridge)
        first = drawn(rows, root, count, generator) @ root
    group = torch.arange(groups).repeat_interleave(count // groups) if groups > 1 else None
    network = module_of(block, first, second, gates, relu, layer.readout, group)
    _size(network, look)
    return Start(network, root)


@torch.no_grad()
def _rows_a_sample(layer: Layer, one: Tensor, p: int, q: int) -> int:
    """How many hidden values a neuron has on a sample."""
    group = torch.zeros(1, dtype=torch.long) if layer.made_block.groups > 1 else None
    weights = torch.zeros(1, p), torch.zeros(1, q)
    return module_of(layer.made_block, *weights, None, False, layer.readout, group).features(one).numel()


@torch.no_grad()
def _size(network: TwoLayer, look: Tensor) -> None:
    """Scale outputs, then share the scale between the layers."""
    outputs = network(look)
    size = float(outputs.square().mean().sqrt())
    network.second.mul_(_OUTPUT_SIZE / size if size > 0 else 1.0)
    balance(network)


@torch.no_grad()
def balance(network: TwoLayer) -> None:
    """The same function, both layers of every neuron equally long: no other way of sharing costs less."""
    left, right = network.first.norm(dim=1), network.second.norm(dim=1)
    share = torch.where((left > 0) & (right > 0), (right / left.clamp_min(1e-30)).sqrt(), 1.0)
    network.first.mul_(share[:, None])
    network.second.div_(share[:, None])


@torch.no_grad()
def with_gates(network: TwoLayer, layer: Layer, seed: int) -> TwoLayer:
    """A ReLU network as a gated one, its first layer the gates: the same function (a point of that gated program).

    With ``rank`` m each neuron becomes m, told apart by a little noise.
    """
    assert layer.rank is not None
    m = layer.rank
    gates = network.first.detach().clone()
    group = network.get_buffer("group") if layer.made_block.groups > 1 else None
    first, second = (
        weight.detach().repeat_interleave(m, 0) / m**0.5 if m > 1 else weight.detach().clone()
        for weight in (network.first, network.second)
    )
    if m > 1:
        noise = torch.randn(first.shape, generator=torch.Generator().manual_seed(seed))
        first = first + 0.1 * first.norm(dim=1, keepdim=True) * noise / first.shape[1] ** 0.5
        gates = gates.repeat_interleave(m, 0)
        group = None if group is None else group.repeat_interleave(m, 0)
    return module_of(layer.made_block, first, second, gates, False, layer.readout, group)
