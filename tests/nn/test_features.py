"""Every module's features are its activated hidden values, neurons where the next block looks for its inputs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import provenet as pn
from provenet.nn.base import ACTIVATIONS
from provenet.testing.examples import Example, examples


def module_of(example: Example, activation: str) -> tuple[pn.nn.TwoLayer, Tensor]:
    """A network with random weights on X (5, …)."""
    X = torch.from_numpy(example.samples(5))
    block, generator = example.block, torch.Generator().manual_seed(0)
    p, q = block.weights(X, example.outputs)
    N = 4 * block.groups
    first, second, gates = (torch.randn(N, size, generator=generator, dtype=torch.float64) for size in (p, q, p))
    settings = dict(block.settings()) | ({"group": torch.arange(N) % block.groups} if block.groups > 1 else {})
    vectors = gates if activation == "gated_relu" else None
    return block.module.from_weights(first, second, vectors, activation == "relu", **settings), X


def activated_rows(example: Example, module: pn.nn.TwoLayer, X: Tensor) -> Tensor:
    """D_j Φ u_j of every neuron, (n, ρ, N), from the block's arrangement matrix."""
    block = example.block
    group = module.group if block.groups > 1 else torch.zeros(len(module.first), dtype=torch.long)
    columns = []
    for j, b in enumerate(group.tolist()):
        x, u = block.split(X)[b], module.first[j : j + 1].detach()
        side = block.sides(x, u)
        if module.relu:
            side = side.clamp_min(0)
        elif module.gates is not None:
            side = side * (block.sides(x, module.gates[j : j + 1]) >= 0)
        columns.append(side)
    return torch.cat(columns, 2)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_features_are_the_activated_rows(example: Example, activation: str) -> None:
    module, X = module_of(example, activation)
    features, N = module.features(X).detach(), len(module.first)
    if module.neuron_axis == 1:
        by_row = features.flatten(2).transpose(1, 2)
    else:
        by_row = features.reshape(len(X), -1, N, features[0].numel() // N // max(features[0, ..., 0].numel(), 1))
        by_row = by_row.transpose(2, 3).flatten(1, 2)
    torch.testing.assert_close(by_row, activated_rows(example, module, X), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_no_neurons_have_no_features(example: Example) -> None:
    module, X = module_of(example, "linear")
    nobody = torch.zeros(0, dtype=torch.long)
    settings = module.settings | ({"group": nobody} if example.block.groups > 1 else {})
    empty = type(module).from_weights(module.first[:0].detach(), module.second[:0].detach(), **settings)
    assert empty.features(X).numel() == 0
    assert len(empty.features(X)) == len(X)


def test_tokens_that_are_not_there_have_none() -> None:
    module = pn.nn.SelfAttention(3, 2)
    x, mask = torch.randn(2, 4, 3), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]).bool()
    features = module.features(x, mask).unflatten(2, (-1, 4))
    assert not features[0, 2:].any()
    assert not features[0, :, :, 2:].any()
    torch.testing.assert_close(features[0, :2, :, :2].flatten(1), module.features(x[:1, :2])[0])
