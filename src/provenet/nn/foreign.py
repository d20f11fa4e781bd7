"""Ordinary torch networks of two layers as modules of ours, and back.

What is read, as an ``nn.Sequential``:

- ``[Flatten,] Linear, [ReLU,] Linear``: the MLP, linear without a ReLU.
- ``Conv1d | Conv2d, [ReLU,] [average pooling,] Flatten, Linear``: the CNN, any average pooling as its matrix.

Identity and dropout, which in evaluation is one, may stand anywhere; sequences within a sequence are what is in them.
Of a module of another class the two layers are named, with the average pooling between them, and it is asked for with
a ReLU between them or without; whoever reads one has to compare outputs.

A bias of the first layer is the weight of a column of ones (of a last entry of each patch, in a convolution), and
weight decay is taken to act on it as on any weight.  A bias of the last layer becomes that of our module; one that is
zero is left out, unless it is to be kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from provenet.nn import CNN, MLP, TwoLayer
from provenet.nn.cnn import Convolution

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)
_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)
_IDLE = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_KINDS = (
    "nn.Sequential([Flatten,] Linear, [ReLU,] Linear) and "
    "nn.Sequential(Conv1d or Conv2d, [ReLU,] [average pooling,] Flatten, Linear), with dropout anywhere"
)


class Reading(NamedTuple):
    """A module of ours that computes the same, in float64, and how to write another one back; ``flatten``: of X."""

    network: TwoLayer
    back: Callable[[TwoLayer], nn.Module]
    flatten: bool = False


class _Layers(NamedTuple):
    """The names of the layers with weights, and what is between them."""

    first: str
    last: str
    pool: nn.Module | None = None
    relu: bool = True
    flatten: bool = False


def read_module(
    module: nn.Module,
    sample: tuple[int, ...],
    layers: Sequence[str] | None = None,
    keep_zero_bias: bool = False,
    relu: bool = True,
) -> Reading:
    """``module`` on samples of this shape; a module of ours is read as it is.

    keep_zero_bias: of the last layer.  layers: the names of the two layers, or of them and the pooling
    between them, of a module of any class; relu: whether a ReLU is between those.
    """
    if isinstance(module, TwoLayer):
        if layers is not None:
            raise ValueError("layers: a module of provenet.nn is read as it is.")
        dtype = module.first.dtype
        network = copy.deepcopy(module).to(device="cpu", dtype=torch.float64).eval()
        return Reading(network, lambda other: copy.deepcopy(other).to(dtype))
    found = _in_sequence(module) if layers is None else _named(module, layers, sample, relu)
    first = module.get_submodule(found.first)
    read = _read_mlp(module, found) if isinstance(first, nn.Linear) else _read_cnn(module, found, sample)
    bias: Any = read.network.bias
    if bias is not None and not keep_zero_bias and not bool((bias != 0).any()):
        read.network.bias = None  # as if it had been left out of training
    return read


def _in_sequence(module: nn.Module) -> _Layers:
    at = [(name, layer) for name, layer in _leaves(module) if not isinstance(layer, _IDLE)]
    names, layers, kinds = [name for name, _ in at], [layer for _, layer in at], [type(layer) for _, layer in at]
    flatten = kinds[:1] == [nn.Flatten]
    if kinds[flatten:] in ([nn.Linear, nn.ReLU, nn.Linear], [nn.Linear, nn.Linear]):
        if flatten:
            _check_flatten(layers[0])
        return _Layers(names[flatten], names[-1], relu=nn.ReLU in kinds, flatten=flatten)
    relu = kinds[1:2] == [nn.ReLU]
    pooled = len(kinds) == 4 + relu and kinds[1 + relu] in _POOLS
    if kinds[1 + relu + pooled :] == [nn.Flatten, nn.Linear] and kinds[0] in _CONVOLUTIONS:
        _check_flatten(layers[-2])
        return _Layers(names[0], names[-1], layers[1 + relu] if pooled else None, relu)
    listed = ", ".join(kind.__name__ for kind in kinds)
    raise ValueError(f"module: nn.Sequential({listed}) is no two-layer network; those that can be read are {_KINDS}.")


def _leaves(module: nn.Module, above: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The layers of a sequence and of those within it, with their names."""
    for name, layer in module.named_children():
        if type(layer) is nn.Sequential:
            yield from _leaves(layer, f"{above}{name}.")
        else:
            yield above + name, layer


def _named(module: nn.Module, layers: Sequence[str], sample: tuple[int, ...], relu: bool) -> _Layers:
    if isinstance(layers, str) or not 2 <= len(layers) <= 3:
        raise ValueError(
            "layers: the names of the first and the last layer, or of the first, the pooling and the last; got "
            f"{layers!r}."
        )
    found = dict(module.named_modules())
    for name in layers:
        if name not in found:
            has = ", ".join(repr(each) for each in found if each) or "none"
            raise ValueError(f"layers: {type(module).__name__} has no {name!r}; its modules are {has}.")
    first, last = found[layers[0]], found[layers[-1]]
    if type(last) is not nn.Linear or type(first) not in (nn.Linear, *_CONVOLUTIONS):
        raise ValueError(
            "layers: a Linear, Conv1d or Conv2d and then a Linear are needed, got "
            f"{type(first).__name__} and {type(last).__name__}."
        )
    pool = found[layers[1]] if len(layers) == 3 else None
    if pool is not None and (type(pool) not in _POOLS or isinstance(first, nn.Linear)):
        raise ValueError(f"layers: between a convolution and the last layer goes average pooling, not {pool}.")
    return _Layers(layers[0], layers[-1], pool, relu, flatten=isinstance(first, nn.Linear) and len(sample) > 1)


def _with_layers(module: nn.Module, new: Mapping[str, nn.Module]) -> nn.Module:
    """A copy of the module with other layers in these places."""
    other = copy.deepcopy(module)
    for name, layer in new.items():
        above, _, last = name.rpartition(".")
        setattr(other.get_submodule(above), last, layer)
    return other


def _check_flatten(layer: Any) -> None:
    if (layer.start_dim, layer.end_dim) != (1, -1):
        raise ValueError("module: its Flatten must be that of whole samples, start_dim=1 and end_dim=-1.")


def _bias(last: Any) -> Tensor | None:
    return None if last.bias is None else _double(last.bias)


def _double(tensor: Tensor) -> Tensor:
    if tensor.is_meta:
        raise ValueError("module: its weights are on the meta device, and hold no numbers.")
    return tensor.detach().to(device="cpu", dtype=torch.float64)


def _like(layer: Any, weight: Tensor, bias: Tensor | None = None, **sizes: int) -> Any:
    """A layer of the same kind with these weights, and the sizes they change; nothing random is drawn on the way."""
    other = copy.deepcopy(layer)
    vars(other).update(sizes)
    other.weight = nn.Parameter(weight.to(layer.weight.dtype, copy=True).contiguous())
    other.bias = None if bias is None else nn.Parameter(bias.to(layer.weight.dtype, copy=True))
    return other


def _neurons(network: TwoLayer) -> tuple[Tensor, Tensor]:
    """Both layers, (N, p) and (N, q); one of zeros where there is none, as torch has no convolution without any."""
    left, right = network.first.detach(), network.second.detach()
    return (left, right) if len(left) else (left.new_zeros(1, left.shape[1]), right.new_zeros(1, right.shape[1]))


def _read_mlp(module: nn.Module, at: _Layers) -> Reading:
    first: Any = module.get_submodule(at.first)
    last: Any = module.get_submodule(at.last)
    weights = _double(first.weight)
    has_bias = first.bias is not None
    if has_bias:
        weights = torch.cat([weights, _double(first.bias)[:, None]], dim=1)
    network = MLP.from_weights(weights, _double(last.weight).T, relu=at.relu, bias=_bias(last), fit_intercept=has_bias)

    def back(other: TwoLayer) -> nn.Module:
        left, right = _neurons(other)
        d = first.in_features
        one = _like(first, left[:, :d], left[:, d] if has_bias else None, out_features=len(left))
        return _with_layers(module, {at.first: one, at.last: _like(last, right.T, other.bias, in_features=len(left))})

    return Reading(network, back, at.flatten)


def _read_cnn(module: nn.Module, at: _Layers, sample: tuple[int, ...]) -> Reading:
    conv: Any = module.get_submodule(at.first)
    last: Any = module.get_submodule(at.last)
    if conv.groups != 1 or conv.padding_mode != "zeros":
        raise ValueError("module: the convolution must have groups=1 and padding_mode='zeros'.")
    dims = 1 if isinstance(conv, nn.Conv1d) else 2
    if len(sample) != dims + 1:
        raise ValueError(f"X: {type(conv).__name__} needs samples of {dims + 1} dimensions, got shape {sample}.")
    walk = {"kernel": conv.kernel_size, "stride": conv.stride, "padding": _padding(conv), "dilation": conv.dilation}
    positions = Convolution(**walk).positions((1, *sample))
    pool = _pooling(nn.Identity() if at.pool is None else at.pool, positions)
    cells = len(pool)
    m, c = conv.out_channels, last.out_features
    if last.in_features != m * cells:
        raise ValueError(
            f"X: on samples of shape {sample} the last Linear gets {m * cells} numbers, but takes {last.in_features}."
        )
    weights = _double(conv.weight).flatten(1)
    has_bias = conv.bias is not None
    if has_bias:
        weights = torch.cat([weights, _double(conv.bias)[:, None]], dim=1)
    second = _double(last.weight).view(c, m, cells).transpose(0, 1).reshape(m, c * cells)
    settings = walk | {"pool": pool, "fit_intercept": has_bias}
    network = CNN.from_weights(weights, second, relu=at.relu, bias=_bias(last), **settings)

    def back(other: TwoLayer) -> nn.Module:
        left, right = _neurons(other)
        N, p = len(left), conv.weight[0].numel()
        filters = left[:, :p].reshape(N, *conv.weight.shape[1:])
        one = _like(conv, filters, left[:, p] if has_bias else None, out_channels=N)
        weight = right.view(N, c, cells).transpose(0, 1).reshape(c, N * cells)
        return _with_layers(module, {at.first: one, at.last: _like(last, weight, other.bias, in_features=N * cells)})

    return Reading(network, back)


def _padding(conv: Any) -> tuple[int, ...]:
    if not isinstance(conv.padding, str):
        return tuple(conv.padding)
    if conv.padding == "valid":
        return (0,) * len(conv.kernel_size)
    around = [d * (k - 1) for k, d in zip(conv.kernel_size, conv.dilation, strict=True)]
    if any(size % 2 for size in around):
        raise ValueError(
            "module: padding='same' with an even kernel pads the two sides differently, which is not read."
        )
    return tuple(size // 2 for size in around)


def _pooling(pool: nn.Module, positions: tuple[int, ...]) -> tuple[tuple[float, ...], ...]:
    """The matrix (a, K) of an average pooling: what it makes of each position alone."""
    K = torch.Size(positions).numel()
    alone = torch.eye(K, dtype=torch.float64).view(K, 1, *positions)
    matrix = copy.deepcopy(pool)(alone).reshape(K, -1).T
    return tuple(tuple(row) for row in matrix.tolist())
