"""Images changed at random, so that every epoch sees others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from provenet.layerwise.inputs import Inputs, together
from provenet.nn import Stage

AUGMENT = ("flip", "crop")


@dataclass(frozen=True)
class Augmented:
    """Images of the first stage, changed in these ways, and what a stage's block sees of them."""

    images: Inputs
    ways: tuple[str, ...]
    below: tuple[Stage, ...]
    stage: Stage

    def __post_init__(self) -> None:
        object.__setattr__(self, "below", tuple(_quick(stage) for stage in self.below))

    @torch.no_grad()
    def rows(self, index: Any, seed: int) -> Tensor:
        x = augmented(self.images.rows(index), self.ways, torch.Generator().manual_seed(seed))
        size = together(self.below[0].network, self.below[0].prepared(x[:1])) if self.below else len(x)
        return torch.cat([self._seen(part) for part in x.split(size)])

    def _seen(self, x: Tensor) -> Tensor:
        for stage in self.below:
            x = stage.passed(x)
        return self.stage.prepared(x)


def _quick(stage: Stage) -> Stage:
    """The same function; where neurons are their own gates, without computing hidden values twice."""
    network = stage.network
    if network.gates is None or not torch.equal(network.gates, network.first):
        return stage
    relu = type(network).from_weights(
        network.first.detach(), network.second.detach(), None, True, network.bias, **network.settings
    )
    return Stage(
        relu, passes=stage.passes, downsample=stage.downsample, normalise=stage.normalise, kept=stage.kept_neurons
    )


def check_ways(ways: Sequence[str], sample: tuple[int, ...]) -> None:
    """ValueError unless samples of this shape can be changed in these ways."""
    for way in ways:
        if way not in AUGMENT:
            raise ValueError(f"augment: {way!r} is unknown; choose among {', '.join(map(repr, AUGMENT))}.")
    if ways and len(sample) != 3:
        raise ValueError(f"augment: it is for images (n, channels, height, width), got samples of shape {sample}.")


def augmented(x: Tensor, ways: Sequence[str], generator: torch.Generator) -> Tensor:
    """(b, channels, height, width): each image flipped left to right or not; shifted by up to an eighth of its sides,
    zeros coming in."""
    if "flip" in ways:
        flip = torch.rand(len(x), generator=generator) < 0.5
        x = torch.where(flip.view(-1, 1, 1, 1), x.flip(3), x)
    return _shifted(x, generator) if "crop" in ways else x


def _shifted(x: Tensor, generator: torch.Generator) -> Tensor:
    b, _, height, width = x.shape
    up, left = max(1, height // 8), max(1, width // 8)
    wide = pad(x, (left, left, up, up))
    down = torch.randint(2 * up + 1, (b, 1), generator=generator) + torch.arange(height)
    right = torch.randint(2 * left + 1, (b, 1), generator=generator) + torch.arange(width)
    sample = torch.arange(b)[:, None, None]
    return wide[sample, :, down[:, :, None], right[:, None, :]].permute(0, 3, 1, 2).contiguous()
