"""ONNX export: the network's graph, written by hand, so that it says what the network computes and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import nn

from provenet.files import write_atomically
from provenet.io.onnx_graphs import GRAPHS, Graph
from provenet.io.onnx_layers import LayersGraph
from provenet.io.onnx_standard import standardise
from provenet.nn import MLP, Layers, SelfAttention, Standardised, TwoLayer
from provenet.nn.standardised import core


def export_onnx(
    network: nn.Module,
    path: str | PathLike[str],
    precision: str = "float32",
    sample_shape: Sequence[int] | None = None,
) -> Path:
    """Write ``network`` as an ONNX graph: input ``X`` (n, …), output ``outputs`` (n, c) or (n, s, c), n free.

    ``precision``: "float32", which every runtime takes fast, or "float64", the weights the certificate speaks of.
    ``sample_shape``: the shape of one sample, an estimator's ``sample_shape_``; the MLP and attention know theirs.  The
    graph takes no mask: of a sample with fewer tokens, give it those that are there.
    """
    onnx = _import_onnx()
    if isinstance(network, Layers):
        return _export_layers(onnx, network, Path(path), precision, sample_shape)
    outer, network = network, core(network)
    build = GRAPHS.get(type(network))
    if build is None or not isinstance(network, TwoLayer):
        raise ValueError(
            f"network: ONNX export knows {', '.join(kind.__name__ for kind in GRAPHS)}, got {type(network).__name__}. "
            "Keep its state_dict with torch.save, or its graph with torch.export."
        )
    _check_precision(precision)
    if sample_shape is None and type(network) not in (MLP, SelfAttention):
        raise ValueError(
            f"sample_shape: the graph of a {type(network).__name__} depends on the shape of a sample; give it, such as "
            "an estimator's sample_shape_."
        )
    graph = Graph(onnx, network, getattr(torch, precision), tuple(sample_shape or ()))
    build(graph)
    if isinstance(outer, Standardised):
        standardise(graph, outer)
    model = graph.model()
    onnx.checker.check_model(model, full_check=True)
    write_atomically(Path(path), model.SerializeToString())
    return Path(path)


def _export_layers(onnx: Any, layers: Layers, path: Path, precision: str, sample_shape: Sequence[int] | None) -> Path:
    """A deep network, all of whose stages have graphs."""
    _check_precision(precision)
    if sample_shape is None:
        raise ValueError("sample_shape: the graph of a deep network depends on the shape of a sample; give it.")
    unknown = [type(stage.network).__name__ for stage in layers if type(stage.network) not in GRAPHS]
    if unknown:
        raise ValueError(f"network: ONNX export knows {', '.join(k.__name__ for k in GRAPHS)}, got {unknown[0]}.")
    model = LayersGraph(onnx, layers, getattr(torch, precision), tuple(sample_shape)).model()
    onnx.checker.check_model(model, full_check=True)
    write_atomically(path, model.SerializeToString())
    return path


def _check_precision(precision: str) -> None:
    if precision not in ("float32", "float64"):
        raise ValueError(f"precision: {precision!r} is unknown; choose 'float32' or 'float64'.")


def _import_onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ValueError("ONNX export needs the package onnx: pip install 'provenet[onnx]'.") from None
    return onnx
