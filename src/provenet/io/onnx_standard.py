"""Standardising, as ONNX nodes before and after those of a network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from provenet.io.onnx_graphs import Graph
from provenet.nn import Standardised


def standardise(graph: Graph, network: Standardised) -> None:
    """Let the finished graph of the network inside take raw samples, and return outputs in the targets' units."""
    _check_held(network, graph.dtype)
    places = len(graph.input_shape) - 2  # after the channels of images
    sizes = (-1, *[1] * places) if network.axis == 1 else (-1,)
    for node in graph.nodes:
        node.input[:] = ["ready" if name == "X" else name for name in node.input]
    mean, scale = (graph.weight(part.detach().view(sizes)) for part in (network.mean, network.scale))
    before = [_node(graph, "Sub", "X", mean, "centred"), _node(graph, "Mul", "centred", scale, "ready")]
    after = []
    if network.target_mean is not None and network.target_spread is not None:
        graph.nodes[-1].output[0] = "said"
        # in this order: a runtime may fold one factor, next to a product, into it, in float32
        spread, middle = network.target_spread, graph.weight(network.target_mean / network.target_spread)
        after = [_node(graph, "Add", "said", middle, "up"), _node(graph, "Mul", "up", graph.weight(spread), "outputs")]
    graph.nodes = [*before, *graph.nodes, *after]


def _node(graph: Graph, kind: str, one: str, two: str, name: str) -> Any:
    return graph.onnx.helper.make_node(kind, [one, two], [name])


def _check_held(network: Standardised, dtype: torch.dtype) -> None:
    """float32 has neither 1e300 nor its inverse."""
    parts: dict[str, Tensor] = dict(network.named_buffers(recurse=False))
    for name, value in parts.items():
        cast = value.to(dtype)
        if not bool(torch.isfinite(cast).all()) or bool(((cast == 0) & (value != 0)).any()):
            raise ValueError(
                f"precision: the {name.replace('_', ' ')} of a feature or target is beyond float32; export in float64."
            )
