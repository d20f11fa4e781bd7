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
from provenet.nn import MLP, Layers, SelfAttention, Standardised
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
    if precision not in ("float32", "float64"):
        raise ValueError(f"precision: {precision!r} is unknown; choose 'float32' or 'float64'.")
    graph = _deep if isinstance(network, Layers) else _single
    model = graph(onnx, network, getattr(torch, precision), sample_shape).model()
    onnx.checker.check_model(model, full_check=True)
    write_atomically(Path(path), model.SerializeToString())
    return Path(path)


def _single(onnx: Any, outer: Any, dtype: torch.dtype, sample_shape: Sequence[int] | None) -> Graph:
    network: Any = core(outer)
    _check_known(network)
    if sample_shape is None and type(network) not in (MLP, SelfAttention):
        raise ValueError(
            f"sample_shape: the graph of a {type(network).__name__} depends on the shape of a sample; give it, such as "
            "an estimator's sample_shape_."
        )
    graph = Graph(onnx, network, dtype, tuple(sample_shape or ()))
    GRAPHS[type(network)](graph)
    if isinstance(outer, Standardised):
        standardise(graph, outer)
    return graph


def _deep(onnx: Any, layers: Any, dtype: torch.dtype, sample_shape: Sequence[int] | None) -> LayersGraph:
    if sample_shape is None:
        raise ValueError("sample_shape: the graph of a deep network depends on the shape of a sample; give it.")
    for stage in layers:
        _check_known(stage.network)
    return LayersGraph(onnx, layers, dtype, tuple(sample_shape))


def _check_known(network: nn.Module) -> None:
    if type(network) not in GRAPHS:
        raise ValueError(
            f"network: ONNX export knows {', '.join(kind.__name__ for kind in GRAPHS)}, got {type(network).__name__}. "
            "Keep its state_dict with torch.save, or its graph with torch.export."
        )


def _import_onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ValueError("ONNX export needs the package onnx: pip install 'provenet[onnx]'.") from None
    return onnx
