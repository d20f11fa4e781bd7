"""A network's outputs on data of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from provenet import batches
from provenet.blocks.base import Block
from provenet.data.shards import Shards

Samples = Tensor | NDArray[Any] | Shards


def outputs_in_batches(network: nn.Module, X: Samples, mask: Tensor | None, size: int) -> Tensor:
    """What the network says of X (n, …): (n, c), or (n, s, c) for every token; ``size`` samples at a time.

    X may be in any precision: no more than a batch is cast to float64.  ``mask`` (n, s) says which tokens are there,
    None: all; whatever the others hold.
    """
    with torch.no_grad():
        first = _outputs(network, X, mask, slice(0, size))
        out = first.new_empty(len(X), *first.shape[1:])  # written as they come: kept apart, they would tear up the heap
        out[:size] = first
        for i in range(size, len(X), size):
            out[i : i + size] = _outputs(network, X, mask, slice(i, i + size))
        return out


def _outputs(network: nn.Module, X: Samples, mask: Tensor | None, rows: slice) -> Tensor:
    part = X[rows]
    x = part.to(torch.float64) if isinstance(part, Tensor) else torch.from_numpy(np.array(part, dtype=np.float64))
    if mask is None:
        return network(x)
    there = mask[rows]
    return network(x.masked_fill(~there.unsqueeze(-1), 0.0), there)


def batch_size(block: Block, network: nn.Module, X: Samples) -> int:
    """How many samples of X a network of the block sees at a time: its hidden layer may be far wider than the data."""
    sample = torch.zeros(1, *X.shape[1:], dtype=torch.float64)
    neurons = len(network.get_parameter("first"))
    rho = block.on(sample, block.groups).rho
    return batches.count(max(neurons * rho, sample.numel()), batches.PASS)
