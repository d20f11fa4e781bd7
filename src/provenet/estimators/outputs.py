"""A network's outputs on data of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from provenet import batches
from provenet.blocks.base import Block


def outputs_in_batches(
    network: nn.Module, block: Block, X: NDArray[Any], there: Tensor | None = None
) -> NDArray[np.float64]:
    """What the network says of X (n, …): (n, c), or (n, s, c) for every token; in float64, batch by batch.

    ``there`` (n, s) says which tokens count, None: all.  X may be in any precision; no more than a batch is cast.
    """
    rows = batches.count(_numbers_a_sample(network, block, X[:1]), batches.WAVE)
    found = []
    with torch.no_grad():
        for i in range(0, len(X), rows):
            x = torch.from_numpy(np.array(X[i : i + rows], dtype=np.float64))
            found.append(_outputs(network, x, None if there is None else there[i : i + rows]).numpy())
    return np.concatenate(found)


def _outputs(network: nn.Module, x: Tensor, there: Tensor | None) -> Tensor:
    if there is None:
        return network(x)
    return network(x.masked_fill(~there.unsqueeze(-1), 0.0), there)  # whatever the other tokens held


def _numbers_a_sample(network: nn.Module, block: Block, one: NDArray[Any]) -> int:
    """Hidden values of one sample, or its own numbers if these are more."""
    neurons, p = network.get_parameter("first").shape
    sample = torch.from_numpy(np.zeros_like(one, dtype=np.float64))
    rho = block.sides(sample, torch.zeros(1, p, dtype=torch.float64)).shape[1]
    return max(neurons * rho, sample.numel())
