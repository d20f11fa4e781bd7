"""A deep network is its stages, one after the other: in torch, in ONNX, and in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import provenet as pn
from provenet.io import export_onnx
from provenet.nn.layers import space_to_depth
from provenet.nn.normalise import Moments
from provenet.nn.rebuild import describe_layers, rebuild_layers

nn = pn.nn


def normaliser(kind: str, d: int, axis: int, shape: tuple[int, ...]) -> nn.Normalise:
    moments = Moments(kind, axis)
    moments.add(torch.randn(40, *shape, generator=torch.Generator().manual_seed(d)) * 3 + 1)
    return moments.normalise()


def images() -> tuple[nn.Layers, tuple[int, ...]]:
    return nn.Layers(
        [
            nn.Stage(
                nn.CNN(2, 3, kernel=3, padding=1, pool=2, n_gates=5),
                kept=torch.tensor([0, 2, 4]),
                normalise=normaliser("standard", 2, 1, (2, 8, 8)),
            ),
            nn.Stage(
                nn.CNN(12, 3, kernel=3, padding=1, pool=2, n_gates=4),
                downsample=2,
                normalise=normaliser("whiten", 12, 1, (12, 4, 4)),
            ),
            nn.Stage(nn.CNN(4, 3, kernel=2, stride=2, pool=2, n_gates=2, rank=2)),
        ]
    ), (2, 8, 8)


def sequences() -> tuple[nn.Layers, tuple[int, ...]]:
    first = nn.Stage(nn.CNN(4, 3, dims=1, kernel=2, n_gates=3), downsample=2)
    return nn.Layers([first, nn.Stage(nn.CNN(3, 3, dims=1, kernel=2, n_gates=3))]), (2, 10)


def tokens() -> tuple[nn.Layers, tuple[int, ...]]:
    return nn.Layers(
        [
            nn.Stage(
                nn.Mixer(4, 3, 2, n_gates=3), kept=torch.tensor([2, 0]), normalise=normaliser("whiten", 3, -1, (4, 3))
            ),
            nn.Stage(nn.PoolFormer(6, 2, grid=(2, 2), n_gates=5)),
            nn.Stage(nn.FNO(2, 10, 2, n_gates=3), downsample=2),
            nn.Stage(nn.SelfAttention(3, 2, n_gates=2)),
            nn.Stage(nn.FNet(4, 2, n_gates=3, activation="relu")),
            nn.Stage(nn.BFNO(2, 3, 3, groups=3, n_gates=1, activation="linear")),
        ]
    ), (4, 3)


def residuals() -> tuple[nn.Layers, tuple[int, ...]]:
    return nn.Layers(
        [
            nn.Stage(nn.PoolFormer(3, 3, grid=(2, 2), readout="tokens", n_gates=4), passes="residual"),
            nn.Stage(nn.FNet(3, 5, readout="tokens", n_gates=4), passes="outputs"),
            nn.Stage(nn.Mixer(4, 5, 2, n_gates=3)),
        ]
    ), (4, 3)


def tables() -> tuple[nn.Layers, tuple[int, ...]]:
    first = nn.Stage(nn.MLP(4, 2, fit_intercept=True, n_gates=6), kept=torch.tensor([1, 3, 5]))
    return nn.Layers([first, nn.Stage(nn.MLP(3, 2, n_gates=4), normalise=normaliser("standard", 3, -1, (3,)))]), (4,)


KINDS = (images, sequences, tokens, residuals, tables)


def some(shape: tuple[int, ...], n: int = 6) -> Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def one_by_one(layers: nn.Layers, x: Tensor) -> Tensor:
    """By hand: each block's module on what the last one passed."""
    for number, stage in enumerate(layers):
        seen = space_to_depth(x, stage.downsample, stage.network.neuron_axis)
        seen = seen if stage.normalise is None else stage.normalise(seen)
        outputs = stage.network(seen)
        if number + 1 == len(layers):
            return outputs
        if stage.passes == "features":
            x = stage.network.features(seen)
            kept = stage.kept_neurons
            if kept is not None and stage.network.neuron_axis == 1:
                x = x[:, kept]
            elif kept is not None:
                x = x.unflatten(-1, (len(stage.network.first), -1))[..., kept, :].flatten(-2)
        else:
            x = outputs if stage.passes == "outputs" else seen + outputs
    raise AssertionError


@pytest.mark.parametrize("kind", KINDS)
def test_layers_are_their_stages_one_by_one(kind: Any) -> None:
    layers, shape = kind()
    layers, x = layers.double(), some(shape)
    torch.testing.assert_close(layers(x), one_by_one(layers, x), rtol=1e-12, atol=1e-12)
    assert torch.equal(layers.outputs(x)[-1], layers(x))
    assert torch.equal(layers.outputs(x)[0], layers[0](x))
    assert torch.equal(layers.passed(x, 1), layers[0].passed(x))


@pytest.mark.parametrize("kind", KINDS)
def test_the_graph_computes_the_same(kind: Any, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    layers, shape = kind()
    layers, x = layers.double(), some(shape)
    path = export_onnx(layers, tmp_path / "deep.onnx", "float64", shape)
    for n in (6, 1):
        (outputs,) = onnxruntime.InferenceSession(path).run(None, {"X": x[:n].numpy()})
        np.testing.assert_allclose(outputs, layers(x[:n]).detach().numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_and_tensors_are_all_there_is(kind: Any) -> None:
    layers, shape = kind()
    again = rebuild_layers(describe_layers(layers), layers.state_dict())
    x = some(shape)
    assert torch.equal(again(x), layers(x))
    assert repr(again) == repr(layers)


@pytest.mark.parametrize(("shape", "axis"), [((2, 4, 6), 1), ((3, 6), 1), ((4, 3), -1)])
def test_space_to_depth_loses_nothing(shape: tuple[int, ...], axis: int) -> None:
    x = some(shape)
    small = space_to_depth(x, 2, axis)
    assert small.numel() == x.numel()
    assert small.shape[1:] != x.shape[1:]
    assert torch.equal(small.flatten().sort().values, x.flatten().sort().values)


def test_space_to_depth_keeps_neighbours_together() -> None:
    x = torch.arange(16.0).view(1, 1, 4, 4)
    assert space_to_depth(x, 2, 1)[0, :, 0, 0].tolist() == [0, 1, 4, 5]


@pytest.mark.parametrize("axis", [1, -1])
def test_normalised_features_have_variance_one(axis: int) -> None:
    x = some((5, 5), 200) * torch.arange(1, 6).view(1, -1, 1).movedim(1, axis) + 7
    for kind in ("standard", "whiten"):
        moments = Moments(kind, axis)
        for part in x.split(30):
            moments.add(part)
        rows = moments.normalise().double()(x).movedim(axis, -1).flatten(0, 1)
        covariance = rows.T.cov()
        torch.testing.assert_close(covariance.diagonal(), torch.ones(5).double(), rtol=2e-3, atol=0)
        if kind == "whiten":
            torch.testing.assert_close(covariance, torch.eye(5).double(), rtol=0, atol=2e-3)


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ValueError, match="downsample: 2 does not divide"):
        space_to_depth(torch.zeros(1, 1, 5, 4), 2, 1)
    with pytest.raises(ValueError, match="residual adds outputs"):
        nn.Stage(nn.MLP(3, 2), passes="residual").passed(torch.zeros(1, 3))
    with pytest.raises(ValueError, match="passes: 'all'"):
        nn.Stage(nn.MLP(3, 2), passes="all")
    with pytest.raises(ValueError, match="one or more"):
        nn.Layers([])
    with pytest.raises(ValueError, match="sample_shape"):
        export_onnx(images()[0], "nowhere.onnx")
