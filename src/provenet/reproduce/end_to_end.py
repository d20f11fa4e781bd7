"""The usual way: all layers of a CNN trained at once, for as long as something else took."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import OneCycleLR

from provenet.layerwise.augment import augmented
from provenet.reproduce.experiment import Piece

Arrays = tuple[NDArray[Any], NDArray[Any]]
_BATCH, _RATE, _DECAY = 128, 3e-3, 5e-4
_TRIED, _MOST_EPOCHS = 4, 50  # steps that tell how long one takes; more epochs than this would be wasted


def trained_at_once(
    convolutions: Sequence[dict[str, Any]],
    width: int,
    training: Arrays,
    test: Arrays,
    seconds: float,
    augment: Sequence[str],
) -> Piece:
    """Test accuracy after so many seconds of CPU time: Adam, one cycle, batches of 128.

    convolutions: kernel, stride, padding and pool of every layer, as `provenet.nn.Convolution` has them.
    """
    (X, y), draw = training, torch.Generator().manual_seed(0)
    classes, code = np.unique(y, return_inverse=True)
    torch.manual_seed(0)
    network = _network(X.shape[1:], convolutions, width, len(classes))
    network.eval()
    began = time.process_time()
    for k in range(_TRIED):  # no step is made
        rows = slice(k * _BATCH, (k + 1) * _BATCH)
        cross_entropy(network(_images(X[rows])), torch.from_numpy(code[rows])).backward()
    network.zero_grad()
    each = (time.process_time() - began) / _TRIED
    an_epoch = -(-len(X) // _BATCH)
    steps = max(10, min(int(seconds / each), _MOST_EPOCHS * an_epoch))
    optimiser = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=_DECAY)
    schedule = OneCycleLR(optimiser, _RATE, total_steps=steps)
    network.train()
    began = time.process_time()
    for step in range(steps):
        if step % an_epoch == 0:
            order = torch.randperm(len(X), generator=draw).numpy()
        rows = order[step % an_epoch * _BATCH :][:_BATCH]
        x = augmented(_images(X[rows]), augment, draw)
        cross_entropy(network(x), torch.from_numpy(code[rows])).backward()
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
    cpu = time.process_time() - began
    return {"test": _accuracy(network, classes, *test), "cpu": cpu, "steps": steps, "epochs": steps / an_epoch}


def _network(sample: tuple[int, ...], convolutions: Sequence[dict[str, Any]], width: int, c: int) -> nn.Sequential:
    """Convolution, normalisation, ReLU for every layer; then the last one's pooling, and a linear layer."""
    layers: list[nn.Module] = [nn.BatchNorm2d(sample[0])]
    channels = sample[0]
    for each in convolutions:
        convolution = nn.Conv2d(channels, width, each["kernel"], each["stride"], each["padding"], bias=False)
        layers += [convolution, nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    cells = convolutions[-1]["pool"]
    layers += [nn.AdaptiveAvgPool2d(cells), nn.Flatten(), nn.Linear(width * math.prod((cells, cells)), c)]
    return nn.Sequential(*layers)


def _images(X: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(X.astype(np.float32))


@torch.no_grad()
def _accuracy(network: nn.Sequential, classes: NDArray[Any], X: NDArray[Any], y: NDArray[Any]) -> float:
    network.eval()
    said = [network(_images(X[i : i + 500])).argmax(1).numpy() for i in range(0, len(X), 500)]
    return float((classes[np.concatenate(said)] == y).mean())
