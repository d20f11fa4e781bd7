"""Two-layer networks of other programs, from files of weights: tensors are read, never code.

A file is a state dict, as safetensors.  It names weights, not what is done with them, so the block and its settings
must be told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from provenet.blocks import CNN, MLP
from provenet.files import check_regular, read_regular, write_atomically
from provenet.memory import check_fits
from provenet.statement import Statement
from provenet.variable import Factors

_OURS = {"first", "second", "gates", "group", "bias"}


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name; ValueError, with the reason, for any other.

    What ``torch.save`` writes is a pickle, and is not opened.
    """
    if path.suffix.lower() != ".safetensors":
        raise ValueError(
            f"{path}: weights are read from .safetensors files, which hold tensors and nothing else; write one with "
            "safetensors.torch.save_file(net.state_dict(), 'net.safetensors')."
        )
    check_fits(3 * check_regular(path), f"{path}: reading it", "Read it on a machine with more memory.")
    try:
        return safetensors.torch.load(read_regular(path))
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path}: it is not a safetensors file ({error}).") from None


def write_state(path: Path, state: Mapping[str, Tensor]) -> None:
    """As safetensors."""
    write_atomically(path, safetensors.torch.save({name: value.contiguous() for name, value in state.items()}))


def network_of(path: Path, state: Mapping[str, Tensor], statement: Statement, sample: tuple[int, ...]) -> nn.Module:
    """The network of the statement that has these weights, on samples of this shape.

    A state dict of ``provenet.nn``'s (first, second, …) is a network of the block.  Any other needs two weights and may
    have their biases: Linear, ReLU, Linear for "mlp"; Conv, ReLU, average pooling into the block's cells, Linear for
    "cnn".  ``provenet.certify`` says which biases it can take.
    """
    block = statement.block
    for name, value in state.items():
        if not bool(torch.isfinite(value).all()):
            raise ValueError(f"{path}: {name} has entries that are not finite.")
    if "first" in state and set(state) <= _OURS:
        if isinstance(block, MLP):  # a weight more than features is that of a column of ones
            block = MLP(fit_intercept=state["first"].shape[-1] == torch.Size(sample).numel() + 1)
        return _ours(path, state, replace(statement, block=block))
    if statement.activation != "relu" or not isinstance(block, (MLP, CNN)):
        raise ValueError(
            f"{path}: a network of other layers than provenet.nn's is read as a ReLU network of mlp or cnn."
        )
    (first, first_bias), (last, last_bias) = _two_layers(path, state, sample)
    if isinstance(block, CNN):
        return nn.Sequential(*_convolution(path, block, first, first_bias), _linear(last, last_bias))
    if first.ndim != 2:
        raise ValueError(f"{path}: its first weight has shape {tuple(first.shape)}, a convolution's; the block is cnn.")
    flatten = [nn.Flatten()] if len(sample) > 1 else []
    return nn.Sequential(*flatten, _linear(first, first_bias), nn.ReLU(), _linear(last, last_bias))


def named_as(state: Mapping[str, Tensor], sample: tuple[int, ...], network: nn.Module) -> dict[str, Tensor]:
    """The weights of ``network`` under the names of ``state``, which a network of the same kind had."""
    new = network.state_dict()
    if "first" in state:
        return dict(new)
    names = iter(_weight_names(Path(), state, sample))
    given: dict[str, Tensor] = {}
    for key, value in new.items():
        if key.endswith("weight"):
            name = next(names)
        given[name if key.endswith("weight") else _bias_name(name)] = value
    return given


def _ours(path: Path, state: Mapping[str, Tensor], statement: Statement) -> nn.Module:
    block, activation = statement.block, statement.activation
    gates, group = state.get("gates"), state.get("group")
    if (gates is None) != (activation != "gated_relu"):
        has = "no gates" if gates is None else "gates"
        raise ValueError(f"{path}: it has {has}, so its activation is not {activation}.")
    if "second" not in state or (group is None) != (block.groups == 1):
        raise ValueError(f"{path}: {', '.join(state)} are not the weights of a network of block {block.name!r}.")
    first, second = state["first"], state["second"]
    if first.ndim != 2 or second.ndim != 2 or len(first) != len(second):
        raise ValueError(f"{path}: first and second are (N, p) and (N, q), got {[*first.shape]} and {[*second.shape]}.")
    neurons = Factors(first, second, torch.arange(len(first)))
    return block.network(neurons, gates, statement.readout, group, activation == "relu", state.get("bias"))


def _two_layers(path: Path, state: Mapping[str, Tensor], sample: tuple[int, ...]) -> list[tuple[Tensor, Tensor | None]]:
    """(weight, bias) of the first and of the last layer."""
    names = _weight_names(path, state, sample)
    return [(state[name], state.get(_bias_name(name))) for name in names]


def _weight_names(path: Path, state: Mapping[str, Tensor], sample: tuple[int, ...]) -> list[str]:
    """The names of the two weights, the one that takes samples first; in the order of their names if both could."""
    weights = sorted((name for name in state if name.split(".")[-1] == "weight"), key=_naturally)
    if len(weights) != 2 or not set(state) <= {*weights, *map(_bias_name, weights)}:
        raise ValueError(
            f"{path}: a network of two layers has two weights and their biases, this has {_listed(state)}."
        )
    one, two = weights
    return (
        [two, one] if _follows(state[one], state[two], sample) > _follows(state[two], state[one], sample) else weights
    )


def _follows(later: Tensor, earlier: Tensor, sample: tuple[int, ...]) -> bool:
    """Whether ``earlier`` takes samples and ``later`` what it makes of them."""
    inputs = sample[0] if earlier.ndim > 2 else torch.Size(sample).numel()
    return later.ndim == 2 and earlier.shape[1] == inputs and later.shape[1] % len(earlier) == 0


def _bias_name(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, dtype=weight.dtype)
    return _filled(layer, weight, bias)


def _convolution(path: Path, block: CNN, weight: Tensor, bias: Tensor | None) -> list[nn.Module]:
    """Conv, ReLU, pooling and Flatten, walking as the block does."""
    dims = weight.ndim - 2
    if dims not in (1, 2):
        raise ValueError(f"{path}: its first weight has shape {tuple(weight.shape)}, which is no convolution's.")
    kind: Any = nn.Conv1d if dims == 1 else nn.Conv2d
    pool: Any = nn.AdaptiveAvgPool1d if dims == 1 else nn.AdaptiveAvgPool2d
    walk = {name: getattr(block, name) for name in ("stride", "padding", "dilation")}
    layer = kind(
        weight.shape[1], len(weight), tuple(weight.shape[2:]), **walk, bias=bias is not None, dtype=weight.dtype
    )
    return [_filled(layer, weight, bias), nn.ReLU(), pool(block.pool), nn.Flatten()]


def _filled(layer: Any, weight: Tensor, bias: Tensor | None) -> Any:
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


def _naturally(name: str) -> list[tuple[int, str]]:
    """The key of an order in which layer 10 comes after layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def _listed(state: Mapping[str, Tensor]) -> str:
    names = sorted(state)  # a file keeps no order
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "") if names else "nothing"
