"""The graph of a deep network: those of its stages, one after the other, each cut where its features are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from provenet.io.onnx_graphs import GRAPHS, Graph
from provenet.io.onnx_nodes import Nodes
from provenet.nn import CNN, Layers, Stage
from provenet.nn.layers import downsampled_shape


class _Part(Graph):
    """A block's own graph, that remembers which node its hidden values are."""

    hidden: str
    upto: int

    def gated(self, hidden: Callable[[Tensor], str]) -> str:
        self.hidden = super().gated(hidden)
        self.upto = len(self.nodes)
        return self.hidden


class LayersGraph(Nodes):
    """Those of all stages; ``name`` and ``shape``: of what the next one reads."""

    def __init__(self, onnx: Any, layers: Layers, dtype: torch.dtype, sample: tuple[int, ...]):
        super().__init__(onnx, dtype)
        self.sample, self.name, self.shape = sample, "X", sample
        for number, stage in enumerate(layers):
            self._stage(stage, last=number + 1 == len(layers))

    def _reshaped(self, name: str, sizes: tuple[int, ...]) -> str:
        return self.add("Reshape", name, self.weight(torch.tensor([0, *sizes])))

    def _stage(self, stage: Stage, last: bool) -> None:
        self._prepare(stage)
        seen = self.name
        if last or stage.passes != "features":
            self.name = self._block(stage, features=False)
            if not last and stage.passes == "residual":
                self.name = self.add("Add", seen, self.name)
        else:
            self.name = self._block(stage, features=True)
            self.shape = tuple(stage.passed(torch.zeros(1, *self._raw)).shape[1:])
            self.name = self._reshaped(self.name, self.shape)
            return
        if not last:
            self.shape = tuple(stage.passed(torch.zeros(1, *self._raw)).shape[1:])

    def _prepare(self, stage: Stage) -> None:
        """Space to depth, then features brought to one size."""
        self._raw, r, axis = self.shape, stage.downsample, stage.network.neuron_axis
        if r > 1:
            self._space_to_depth(r, axis)
        if stage.normalise is None:
            return
        mean, scale, places = stage.normalise.mean, stage.normalise.scale, len(self.shape) - 1
        if scale.ndim == 1:
            sizes = (-1, *[1] * places) if axis == 1 else (-1,)
            centred = self.add("Sub", self.name, self.weight(mean.view(sizes)))
            self.name = self.add("Mul", centred, self.weight(scale.view(sizes)))
            return
        first = [0, *range(2, places + 2), 1] if axis == 1 else list(range(places + 2))
        back = [0, places + 1, *range(1, places + 1)] if axis == 1 else first
        centred = self.add("Sub", self.add("Transpose", self.name, perm=first), self.weight(mean))
        self.name = self.add("Transpose", self.add("MatMul", centred, self.weight(scale)), perm=back)

    def _space_to_depth(self, r: int, axis: int) -> None:
        shape = downsampled_shape(self.shape, r, axis)
        if axis == 1:
            channels, *space = self.shape
            split = [size for each in space for size in (each // r, r)]
            self.name = self._reshaped(self.name, (channels, *split))
            inner, outer = range(3, 2 + len(split), 2), range(2, 2 + len(split), 2)
            self.name = self.add("Transpose", self.name, perm=[0, 1, *inner, *outer])
        self.name, self.shape = self._reshaped(self.name, shape), shape

    def _block(self, stage: Stage, features: bool) -> str:
        """The block's nodes under names of their own; its outputs, or its activated hidden values."""
        part = _Part(self.onnx, stage.network, self.dtype, self.shape)
        GRAPHS[type(stage.network)](part)
        prefix = f"s{len(self.nodes)}."
        names = {"X": self.name} | {name: f"{prefix}{name}" for name in part.weights}
        self.weights |= {names[name]: value for name, value in part.weights.items()}
        for node in part.nodes[: part.upto] if features else part.nodes:
            node.input[:] = [names.get(name, f"{prefix}{name}") for name in node.input]
            node.output[:] = [f"{prefix}{name}" for name in node.output]
            self.nodes.append(node)
        if not features:
            self.outputs = part.output_shape
            return f"{prefix}outputs"
        name = f"{prefix}{part.hidden}"
        kept = stage.kept_neurons
        if kept is not None:
            name = self.add("Gather", name, self.weight(kept), axis=1 if len(self.shape) == 1 else 2)
        return self.add("Transpose", name, perm=[0, 2, 1]) if isinstance(stage.network, CNN) else name

    def model(self) -> Any:
        self.add("Identity", self.name)
        self.nodes[-1].output[0] = "outputs"
        return self.whole("provenet_layers", ["n", *self.sample], self.outputs)
