"""Deep networks made of blocks: each reads what the one before passes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pixel_unshuffle

from provenet.nn.base import TwoLayer
from provenet.nn.normalise import Normalise

PASSES = ("features", "outputs", "residual")


class Stage(nn.Module):
    """A block within a deep network: how its inputs are prepared, the block's module, and what is passed on.

    Parameters
    ----------
    network : TwoLayer
        The block's module.
    passes : str
        The block's "features"; its "outputs"; or the "residual" x + outputs, where x is what the block saw.
    downsample : int
        r, space to depth, before all else; nothing is lost.
    normalise : Normalise, optional
        What is done to features then.
    kept : Tensor (M,), optional
        The neurons whose features are passed on; None: all.
    """

    def __init__(
        self,
        network: TwoLayer,
        *,
        passes: str = "features",
        downsample: int = 1,
        normalise: Normalise | None = None,
        kept: Tensor | None = None,
    ):
        super().__init__()
        if passes not in PASSES:
            raise ValueError(f"passes: {passes!r} is unknown; choose one of {', '.join(map(repr, PASSES))}.")
        if kept is not None and passes != "features":
            raise ValueError(f"kept: it says which features are passed on, not {passes}.")
        self.network, self.passes, self.downsample = network, passes, downsample
        self.normalise = normalise
        self.register_buffer("kept", None if kept is None else kept.clone())

    def prepared(self, x: Tensor) -> Tensor:
        """What the block sees of x."""
        x = space_to_depth(x, self.downsample, self.network.neuron_axis).to(self.network.first.dtype)
        return x if self.normalise is None else self.normalise(x)

    def forward(self, x: Tensor) -> Tensor:
        """The block's outputs."""
        return self.network(self.prepared(x))

    def passed(self, x: Tensor) -> Tensor:
        """What the next stage reads."""
        seen = self.prepared(x)
        if self.passes == "features":
            return self._chosen(self.network.features(seen))
        outputs = self.network(seen)
        if self.passes == "outputs":
            return outputs
        if outputs.shape != seen.shape:
            raise ValueError(
                f"passes: a residual adds outputs {tuple(outputs.shape[1:])} to inputs {tuple(seen.shape[1:])}; their "
                "shapes must be the same. Pass on the features."
            )
        return seen + outputs

    @property
    def kept_neurons(self) -> Tensor | None:
        """Those whose features are passed on, (M,); None: all."""
        return self._buffers["kept"]

    def _chosen(self, features: Tensor) -> Tensor:
        kept = self.kept_neurons
        if kept is None:
            return features
        axis = self.network.neuron_axis
        by_neuron = features.unflatten(axis, (len(self.network.first), -1))  # r values a neuron, side by side
        at = axis if axis > 0 else axis - 1
        return by_neuron.index_select(at, kept).flatten(at, at + 1)

    def extra_repr(self) -> str:
        kept = self.kept_neurons
        some = "" if kept is None else f", {len(kept)} neurons of {len(self.network.first)}"
        return f"passes={self.passes!r}{some}, downsample={self.downsample}"


class Layers(nn.Module):
    """Stages, one after the other: (n, …) → the last one's outputs.  A plain module: float32, float64, any device.

    Parameters
    ----------
    stages : iterable of Stage
        From the first to the last.
    """

    def __init__(self, stages: Iterable[Stage]):
        super().__init__()
        self.stages = nn.ModuleList(stages)
        if not len(self.stages):
            raise ValueError("stages: a deep network needs one or more.")

    def forward(self, x: Tensor) -> Tensor:
        return self[-1](self.passed(x, len(self) - 1))

    def passed(self, x: Tensor, depth: int) -> Tensor:
        """What stage number ``depth`` reads, from zero on: x itself, or what the stages before it pass on."""
        for stage in self:
            if depth <= 0:
                break
            x, depth = stage.passed(x), depth - 1
        return x

    def outputs(self, x: Tensor) -> list[Tensor]:
        """What every stage says of x, the first to the last."""
        said = []
        for stage in self:
            said.append(stage(x))
            x = stage.passed(x) if len(said) < len(self) else x
        return said

    def __len__(self) -> int:
        return len(self.stages)

    def __iter__(self) -> Iterator[Stage]:
        return (_as_stage(stage) for stage in self.stages)

    def __getitem__(self, number: int) -> Stage:
        return _as_stage(self.stages[number])


def _as_stage(module: Any) -> Stage:
    assert isinstance(module, Stage)
    return module


def space_to_depth(x: Tensor, r: int, axis: int) -> Tensor:
    """r neighbours a dimension become features of one place; invertible.  Channels (axis 1) of images and sequences;
    features (axis −1) of tokens, r tokens to one."""
    if r == 1:
        return x
    sizes = x.shape[2:] if axis == 1 else x.shape[1:-1]
    if not sizes or any(size % r for size in sizes):
        raise ValueError(
            f"downsample: {r} does not divide the places of samples of shape {tuple(x.shape[1:])}; choose another, "
            "or pad them."
        )
    if axis != 1:
        return x.reshape(len(x), x.shape[1] // r, r * x.shape[2])
    if len(sizes) == 2:
        return pixel_unshuffle(x, r)
    return x.unflatten(2, (-1, r)).transpose(2, 3).flatten(1, 2)


def downsampled_shape(sample: Sequence[int], r: int, axis: int) -> tuple[int, ...]:
    """The shape of a sample after `space_to_depth`."""
    return tuple(space_to_depth(torch.empty(1, *sample, device="meta"), r, axis).shape[1:])
