"""What every graph is made of: nodes and weights, as they are added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_OPSET = 17


class Nodes:
    """``onnx``: the package, which is imported late.  Weights are written in ``dtype``, whole numbers as they are."""

    def __init__(self, onnx: Any, dtype: torch.dtype):
        self.onnx, self.dtype = onnx, dtype
        self.element = onnx.TensorProto.FLOAT if dtype == torch.float32 else onnx.TensorProto.DOUBLE
        self.nodes: list[Any] = []
        self.weights: dict[str, Tensor] = {}

    def weight(self, value: Tensor) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = value
        return name

    def add(self, kind: str, *inputs: str, **settings: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **settings))
        return name

    def whole(self, name: str, inputs: Sequence[int | str], outputs: Sequence[int | str]) -> Any:
        """The model from ``X`` to ``outputs`` of these shapes."""
        helper, numpy_helper = self.onnx.helper, self.onnx.numpy_helper
        arrays = {
            name: (w.to(self.dtype) if w.is_floating_point() else w).detach().contiguous().numpy()
            for name, w in self.weights.items()
        }
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("X", self.element, inputs)],
            [helper.make_tensor_value_info("outputs", self.element, outputs)],
            [numpy_helper.from_array(array, name) for name, array in arrays.items()],
        )
        opset = helper.make_opsetid("", _OPSET)
        return helper.make_model(graph, opset_imports=[opset], producer_name="provenet", ir_version=8)
