"""ONNX export: the network's graph, written by hand, so that it says what the network computes and nothing else."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from provenet.io.folder import write_atomically
from provenet.nn import MLP

_OPSET = 17


def export_onnx(network: nn.Module, path: str | PathLike[str], precision: str = "float32") -> Path:
    """Write ``network`` as an ONNX graph: input ``X`` (n, d), output ``outputs`` (n, c), n free.

    ``precision``: "float32", which every runtime takes fast, or "float64", the weights the certificate speaks of.
    """
    onnx = _import_onnx()
    if not isinstance(network, MLP):
        raise ValueError(f"network: ONNX export knows the MLP block only, got {type(network).__name__}.")
    if precision not in ("float32", "float64"):
        raise ValueError(f"precision: {precision!r} is unknown; choose 'float32' or 'float64'.")
    model = _mlp_graph(onnx, network, getattr(torch, precision))
    onnx.checker.check_model(model, full_check=True)
    write_atomically(Path(path), model.SerializeToString())
    return Path(path)


def _mlp_graph(onnx: Any, network: MLP, dtype: torch.dtype) -> Any:
    """X ↦ (XU ∘ 1{XG ≥ 0}) V, or σ(XU) V; the column of ones of ``fit_intercept`` becomes the biases of U and G."""
    helper = onnx.helper
    element = onnx.TensorProto.FLOAT if dtype == torch.float32 else onnx.TensorProto.DOUBLE
    weights: dict[str, Tensor] = {"V": network.second.detach()}
    nodes = _affine(helper, weights, network.first.detach(), network.fit_intercept, "U", "slope")
    hidden = "slope"
    if network.gates is not None:
        nodes += _affine(helper, weights, network.gates, network.fit_intercept, "G", "side")
        weights["zero"] = torch.zeros(())
        nodes.append(helper.make_node("GreaterOrEqual", ["side", "zero"], ["open"]))
        nodes.append(helper.make_node("Cast", ["open"], ["mask"], to=element))
        nodes.append(helper.make_node("Mul", ["slope", "mask"], ["hidden"]))
        hidden = "hidden"
    if network.relu:
        nodes.append(helper.make_node("Relu", ["slope"], ["hidden"]))
        hidden = "hidden"
    nodes.append(helper.make_node("MatMul", [hidden, "V"], ["outputs"]))
    features = network.first.shape[1] - int(network.fit_intercept)
    graph = helper.make_graph(
        nodes,
        "provenet_mlp",
        [helper.make_tensor_value_info("X", element, ["n", features])],
        [helper.make_tensor_value_info("outputs", element, ["n", network.second.shape[1]])],
        [onnx.numpy_helper.from_array(w.to(dtype).contiguous().numpy(), name) for name, w in weights.items()],
    )
    opset = helper.make_opsetid("", _OPSET)
    return helper.make_model(graph, opset_imports=[opset], producer_name="provenet", ir_version=8)


def _affine(
    helper: Any, weights: dict[str, Tensor], rows: Tensor, fit_intercept: bool, name: str, output: str
) -> list[Any]:
    """X·rowsᵀ, the last column of ``rows`` a bias where there is an intercept."""
    if not fit_intercept:
        weights[name] = rows.T
        return [helper.make_node("MatMul", ["X", name], [output])]
    weights[name], weights[f"{name}_bias"] = rows[:, :-1].T, rows[:, -1]
    return [
        helper.make_node("MatMul", ["X", name], [f"{output}_linear"]),
        helper.make_node("Add", [f"{output}_linear", f"{name}_bias"], [output]),
    ]


def _import_onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ValueError("ONNX export needs the package onnx: pip install 'provenet[onnx]'.") from None
    return onnx
