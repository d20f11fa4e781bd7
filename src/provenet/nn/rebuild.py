"""Deep networks ↔ settings and tensors: what a file holds of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from provenet.nn.attention import SelfAttention
from provenet.nn.base import TwoLayer
from provenet.nn.cnn import CNN
from provenet.nn.fourier import BFNO, FNO
from provenet.nn.layers import Layers, Stage
from provenet.nn.mixer import Mixer
from provenet.nn.mlp import MLP
from provenet.nn.normalise import Normalise
from provenet.nn.tokens import FNet, PoolFormer

_KINDS: tuple[type[TwoLayer], ...] = (MLP, CNN, SelfAttention, Mixer, FNO, BFNO, PoolFormer, FNet)
KINDS = {kind.__name__: kind for kind in _KINDS}


def describe(stage: Stage) -> dict[str, Any]:
    """What a stage is besides its tensors, ready for JSON."""
    kind = type(stage.network).__name__
    if KINDS.get(kind) is not type(stage.network):
        raise ValueError(f"network: {kind} holds a Python function or is a class of yours, which no file can hold.")
    return {
        "kind": kind,
        "settings": stage.network.settings,
        "relu": stage.network.relu,
        "passes": stage.passes,
        "downsample": stage.downsample,
        "normalise": None if stage.normalise is None else stage.normalise.axis,
    }


def rebuild(described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Stage:
    """The stage with these tensors, a state dict of it; ValueError where they do not belong together."""
    _check_numbers(tensors)
    try:
        kind, settings = KINDS[described["kind"]], dict(described["settings"])
        first, second, gates = tensors["network.first"], tensors["network.second"], tensors.get("network.gates")
        if "network.group" in tensors:
            settings["group"] = tensors["network.group"]
        network = kind.from_weights(first, second, gates, described["relu"], tensors.get("network.bias"), **settings)
        axis = described["normalise"]
        normalise = None if axis is None else Normalise(tensors["normalise.mean"], tensors["normalise.scale"], axis)
        passes, downsample = described["passes"], described["downsample"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"stage: it is not described as a stage is ({error!r}).") from None
    return Stage(network, passes=passes, downsample=downsample, normalise=normalise, kept=tensors.get("kept"))


def _check_numbers(tensors: Mapping[str, Tensor]) -> None:
    """Weights, gates, means and scales are finite numbers; groups of neurons and kept features are counted."""
    for name, tensor in tensors.items():
        counted = name in ("network.group", "kept")
        if tensor.is_complex() or tensor.is_floating_point() is counted or not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"stage: {name} holds values that are not {'indices' if counted else 'finite numbers'}.")


def describe_layers(layers: Layers) -> list[dict[str, Any]]:
    return [describe(stage) for stage in layers]


def rebuild_layers(described: list[dict[str, Any]], state: Mapping[str, Tensor]) -> Layers:
    """The deep network of a state dict."""
    stages = []
    for number, each in enumerate(described):
        prefix = f"stages.{number}."
        stages.append(
            rebuild(each, {name.removeprefix(prefix): t for name, t in state.items() if name.startswith(prefix)})
        )
    return Layers(stages)
