"""Ordinary torch networks of two layers as modules of ours, and back.

What is read, as an ``nn.Sequential``:

- ``[Flatten,] Linear, ReLU, Linear``: the MLP.  A bias of the first layer is the weight of a column of ones, and weight
  decay is taken to act on it as on any weight.
- ``Conv1d | Conv2d, ReLU, [average pooling,] Flatten, Linear``: the CNN, any average pooling as its matrix.

A bias of the last layer that is not zero is a free intercept: no weight decay acts on it.  A bias of the convolution is
no part of the block: it must be absent or zero.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from provenet.nn import CNN, MLP, TwoLayer
from provenet.nn.cnn import Convolution

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)
_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)
_KINDS = (
    "nn.Sequential([Flatten,] Linear, ReLU, Linear) and "
    "nn.Sequential(Conv1d or Conv2d, ReLU, [average pooling,] Flatten, Linear)"
)


class Reading(NamedTuple):
    """A module of ours that computes the same, in float64, and how to write another one back; ``flatten``: of X."""

    network: TwoLayer
    back: Callable[[TwoLayer], nn.Module]
    flatten: bool = False


def read_module(module: nn.Module, sample: tuple[int, ...]) -> Reading:
    """``module`` on samples of this shape; a module of ours is read as it is."""
    if isinstance(module, TwoLayer):
        dtype = module.first.dtype
        network = copy.deepcopy(module).to(device="cpu", dtype=torch.float64).eval()
        return Reading(network, lambda other: copy.deepcopy(other).to(dtype))
    layers = [layer for layer in module if not isinstance(layer, nn.Identity)]  # type: ignore[attr-defined]
    kinds = [type(layer) for layer in layers]
    flatten = kinds[:1] == [nn.Flatten]
    if kinds[flatten:] == [nn.Linear, nn.ReLU, nn.Linear]:
        if flatten:
            _check_flatten(layers[0])
        return _read_mlp(layers, flatten)
    pooled = len(kinds) == 5 and kinds[2] in _POOLS
    if kinds[1:2] + kinds[2 + pooled :] == [nn.ReLU, nn.Flatten, nn.Linear] and kinds[0] in _CONVOLUTIONS:
        _check_flatten(layers[-2])
        return _read_cnn(layers, pooled, sample)
    names = ", ".join(kind.__name__ for kind in kinds)
    raise ValueError(
        f"module: nn.Sequential({names}) is no two-layer ReLU network; those that can be read are {_KINDS}."
    )


def _check_flatten(layer: Any) -> None:
    if (layer.start_dim, layer.end_dim) != (1, -1):
        raise ValueError("module: its Flatten must be that of whole samples, start_dim=1 and end_dim=-1.")


def _free_bias(last: Any) -> Tensor | None:
    """The bias of the last layer; None where it is absent, or zero, as if it had been left out of training."""
    return None if last.bias is None or not bool((last.bias != 0).any()) else _double(last.bias)


def _double(tensor: Tensor) -> Tensor:
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


def _read_mlp(layers: list[Any], flatten: bool) -> Reading:
    first, last = layers[flatten], layers[-1]
    weights = _double(first.weight)
    has_bias = first.bias is not None
    if has_bias:
        weights = torch.cat([weights, _double(first.bias)[:, None]], dim=1)
    network = MLP.from_weights(
        weights, _double(last.weight).T, relu=True, bias=_free_bias(last), fit_intercept=has_bias
    )

    def back(other: TwoLayer) -> nn.Module:
        left, right = _neurons(other)
        d = first.in_features
        one = _like(first, left[:, :d], left[:, d] if has_bias else None, out_features=len(left))
        two = _like(last, right.T, other.bias, in_features=len(left))
        return nn.Sequential(*([nn.Flatten()] if flatten else []), one, nn.ReLU(), two)

    return Reading(network, back, flatten)


def _read_cnn(layers: list[Any], pooled: bool, sample: tuple[int, ...]) -> Reading:
    conv, last = layers[0], layers[-1]
    if conv.bias is not None and bool((conv.bias != 0).any()):
        raise ValueError(
            "module: the convolution has a bias that is not zero, which is no part of the block. Train with bias=False."
        )
    if conv.groups != 1 or conv.padding_mode != "zeros":
        raise ValueError("module: the convolution must have groups=1 and padding_mode='zeros'.")
    dims = 1 if isinstance(conv, nn.Conv1d) else 2
    if len(sample) != dims + 1:
        raise ValueError(f"X: {type(conv).__name__} needs samples of {dims + 1} dimensions, got shape {sample}.")
    walk = {"kernel": conv.kernel_size, "stride": conv.stride, "padding": _padding(conv), "dilation": conv.dilation}
    positions = Convolution(**walk).positions((1, *sample))
    pool = _pooling(layers[2] if pooled else nn.Identity(), positions)
    cells = len(pool)
    m, c = conv.out_channels, last.out_features
    if last.in_features != m * cells:
        raise ValueError(
            f"X: on samples of shape {sample} the last Linear gets {m * cells} numbers, but takes {last.in_features}."
        )
    second = _double(last.weight).view(c, m, cells).transpose(0, 1).reshape(m, c * cells)
    network = CNN.from_weights(
        _double(conv.weight).flatten(1), second, relu=True, bias=_free_bias(last), pool=pool, **walk
    )

    def back(other: TwoLayer) -> nn.Module:
        left, right = _neurons(other)
        N = len(left)
        one = _like(conv, left.view(N, *conv.weight.shape[1:]), out_channels=N)
        weight = right.view(N, c, cells).transpose(0, 1).reshape(c, N * cells)
        two = _like(last, weight, other.bias, in_features=N * cells)
        between = copy.deepcopy(layers[2:-1])
        return nn.Sequential(one, nn.ReLU(), *between, two)

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
