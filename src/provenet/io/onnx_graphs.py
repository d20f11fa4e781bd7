"""The graph of every block, as ONNX nodes.

Every block but two reads rows Φ(X) (n, ρ, p) that weights multiply; a few nodes make them from X: a matrix for pooling
and Fourier transforms, a gather for patches and cyclic shifts.  Attention and the mixer are products of three tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import unfold

from provenet.io.onnx_nodes import Nodes
from provenet.nn import BFNO, CNN, FNO, MLP, FNet, Mixer, PoolFormer, SelfAttention, TwoLayer
from provenet.nn.cnn import pooling_matrix
from provenet.nn.tokens import pool_tokens


class Graph(Nodes):
    """Those of one network; one without neurons gets one of zeros, which changes nothing."""

    def __init__(self, onnx: Any, network: TwoLayer, dtype: torch.dtype, shape: tuple[int, ...]):
        super().__init__(onnx, dtype)
        self.shape, self.network = shape, network
        self.input_shape: list[int | str] = ["n", *shape]
        self.output_shape: list[int | str] = ["n"]
        self.first = _some(network.first.detach())
        self.second = _some(network.second.detach())
        self.gates = None if network.gates is None else _some(network.gates)

    network: Any  # each block's module has settings of its own

    def gated(self, hidden: Callable[[Tensor], str]) -> str:
        """hidden(first), zero where hidden(gates), or it itself, is negative."""
        slope = hidden(self.first)
        if self.network.relu:
            return self.add("Relu", slope)
        if self.gates is None:
            return slope
        is_open = self.add("GreaterOrEqual", hidden(self.gates), self.weight(torch.zeros(())))
        return self.add("Mul", slope, self.add("Cast", is_open, to=self.element))

    def read_out(self, name: str, axis: int) -> str:
        """The mean over tokens, where the readout is that."""
        if getattr(self.network, "readout", "mean") == "mean":
            return self.add("ReduceMean", name, axes=[axis], keepdims=0)
        self.output_shape.append(self.input_shape[1])
        return name

    def finish(self, name: str, outputs: int) -> None:
        if self.network.bias is not None:
            name = self.add("Add", name, self.weight(self.network.bias.detach()))
        self.nodes[-1].output[0] = "outputs"
        assert name == f"v{len(self.nodes) - 1}", "the last node is the output"
        self.output_shape.append(outputs)

    def model(self) -> Any:
        return self.whole(f"provenet_{type(self.network).__name__.lower()}", self.input_shape, self.output_shape)


def _some(weights: Tensor) -> Tensor:
    return weights if len(weights) else weights.new_zeros(1, weights.shape[1])


def _mlp(graph: Graph) -> None:
    """(XU ∘ 1{XG ≥ 0}) V, X with a last column of ones where there is an intercept."""
    rows = "X"
    intercept = int(graph.network.fit_intercept)
    graph.input_shape = ["n", graph.first.shape[1] - intercept]
    if intercept:
        rows = graph.add("Pad", "X", graph.weight(torch.tensor([0, 0, 0, 1])), graph.weight(torch.ones(())))
    hidden = graph.gated(lambda weights: graph.add("MatMul", rows, graph.weight(weights.T)))
    graph.finish(graph.add("MatMul", hidden, graph.weight(graph.second)), graph.second.shape[1])


def _token_rows(graph: Graph, rows: str) -> None:
    """Rows (n, s, p) times the first layer, gated, read out, times the second."""
    s = graph.shape[0]
    hidden = graph.gated(lambda weights: graph.add("MatMul", rows, graph.weight(_placed(graph, weights, s).T)))
    second = _placed(graph, graph.second, 1)
    graph.finish(graph.add("MatMul", graph.read_out(hidden, 1), graph.weight(second)), second.shape[1])


def _placed(graph: Graph, weights: Tensor, parts: int) -> Tensor:
    """Weights (N, parts·width) of the features, or outputs, of a group, with zeros for the other groups."""
    network = graph.network
    if not isinstance(network, BFNO):
        return weights
    group = network.group if len(network.group) else torch.zeros(1, dtype=torch.long)
    out = weights.new_zeros(len(weights), parts, network.chosen.groups, weights.shape[1] // parts)
    out[torch.arange(len(weights)), :, group] = weights.view(len(weights), parts, -1)
    return out.flatten(1)


def _poolformer(graph: Graph) -> None:
    s = graph.shape[0]
    pool = pool_tokens(torch.eye(s, dtype=torch.float64)[None], graph.network.chosen)[0]
    _token_rows(graph, graph.add("MatMul", graph.weight(pool), "X"))


def _fnet(graph: Graph) -> None:
    """Re(F_s X F_d) = C_s X C_d − S_s X S_d."""
    halves = []
    transforms = [torch.fft.fft(torch.eye(size, dtype=torch.complex128)) for size in graph.shape]
    for part in ("real", "imag"):
        over_tokens, over_features = (graph.weight(getattr(transform, part)) for transform in transforms)
        halves.append(graph.add("MatMul", graph.add("MatMul", over_tokens, "X"), over_features))
    _token_rows(graph, graph.add("Sub", *halves))


def _fno(graph: Graph) -> None:
    """Row t has X[t + τ] at place τ: cyclic shifts, gathered."""
    s, d = graph.shape
    height, width = graph.network.chosen.grid_of(s)
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    y, x = y.flatten(), x.flatten()
    shifted = (y[:, None] + y) % height * width + (x[:, None] + x) % width  # (s, s): where t + τ is
    index = (shifted[:, :, None] * d + torch.arange(d)).flatten(1)
    _token_rows(graph, _gathered(graph, index))


def _gathered(graph: Graph, index: Tensor, zero: bool = False) -> str:
    """(n, *index.shape): entries of each sample, one after the other; with ``zero`` the last index is an extra zero."""
    flat = graph.add("Reshape", "X", graph.weight(torch.tensor([0, prod(graph.shape)])))
    if zero:
        flat = graph.add("Pad", flat, graph.weight(torch.tensor([0, 0, 0, 1])))
    return graph.add("Gather", flat, graph.weight(index), axis=1)


def _cnn(graph: Graph) -> None:
    """Patches (n, K, p), gathered; hidden values (n, K, N), pooled to (n, a, N)."""
    convolution = graph.network.convolution
    dims = len(graph.shape) - 1
    positions = convolution.positions((1, *graph.shape))
    sizes = [convolution.per_dimension(name, dims) for name in ("kernel", "dilation", "padding", "stride")]
    channels, *space = graph.shape
    places = torch.arange(1, prod(graph.shape) + 1, dtype=torch.float64).view(1, channels, *space)  # zero is padding
    if dims == 1:
        places = places.unsqueeze(2)
        sizes = [(row, *size) for row, size in zip((1, 1, 0, 1), sizes, strict=True)]
    index = unfold(places, *sizes)[0].T.long() - 1  # (K, p)
    patches = _gathered(graph, torch.where(index < 0, prod(graph.shape), index), zero=True)
    taps = index.shape[1]

    def values(weights: Tensor) -> str:
        made = graph.add("MatMul", patches, graph.weight(weights[:, :taps].T))
        return graph.add("Add", made, graph.weight(weights[:, taps])) if convolution.fit_intercept else made

    hidden = graph.gated(values)
    pooled = graph.add("MatMul", graph.weight(pooling_matrix(convolution, positions)), hidden)
    second = graph.second.view(len(graph.second), -1, convolution.cells(dims))  # (N, c, a)
    graph.finish(graph.add("Einsum", pooled, graph.weight(second), equation="naj,jca->nc"), second.shape[1])


def _attention(graph: Graph) -> None:
    """(X W₁ Xᵀ, gated) X W₂ for every head; any number of tokens."""
    d = isqrt(graph.first.shape[1])
    graph.input_shape = ["n", "s", d]

    def hidden(weights: Tensor) -> str:
        return graph.add("Einsum", "X", graph.weight(weights.view(-1, d, d)), "X", equation="nsa,jab,ntb->nsjt")

    attended = graph.add("Einsum", graph.gated(hidden), "X", equation="nsjt,ntb->nsjb")
    second = graph.second.view(len(graph.second), d, -1) / graph.network.chosen.divisor(d)
    graph.finish(
        graph.add("Einsum", graph.read_out(attended, 1), graph.weight(second), equation="...jb,jbc->...c"),
        second.shape[2],
    )


def _mixer(graph: Graph) -> None:
    """(W₁ X, gated) W₂."""
    s, d = graph.shape

    def hidden(weights: Tensor) -> str:
        return graph.add("Einsum", graph.weight(weights.view(-1, s, s)), "X", equation="jts,nsf->ntjf")

    second = graph.second.view(len(graph.second), d, -1)
    mixed = graph.read_out(graph.gated(hidden), 1)
    graph.finish(graph.add("Einsum", mixed, graph.weight(second), equation="...jf,jfc->...c"), second.shape[2])


GRAPHS: dict[type[nn.Module], Callable[[Graph], None]] = {
    MLP: _mlp,
    CNN: _cnn,
    SelfAttention: _attention,
    Mixer: _mixer,
    FNO: _fno,
    BFNO: _fno,
    PoolFormer: _poolformer,
    FNet: _fnet,
}
