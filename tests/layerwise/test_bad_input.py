"""What is wrong, where, and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layerwise_help import fitted, small_layers

import provenet as pn

X, y = np.random.default_rng(0).normal(size=(40, 1, 8, 8)), np.arange(40) % 3


def refused(match: str, X: Any = X, y: Any = y, **settings: Any) -> None:
    settings = {"layers": small_layers()[:1], "certify": False} | settings
    with pytest.raises(ValueError, match=match):
        fitted(pn.LayerwiseClassifier(**settings), X, y)


def test_data() -> None:
    refused(r"samples have unequal shapes, such as \(1, 8, 8\) and \(1, 9, 9\)", [X[0], np.zeros((1, 9, 9))])
    refused("y: labels are missing", y=None)
    refused("y: 1 labels are missing", y=np.r_[np.nan, np.arange(39.0) % 3])
    refused("40 samples need 40 labels", y=y[:-1])
    refused("one class only", y=np.zeros(40))
    refused("2 entries are not finite", X=np.where(np.arange(64).reshape(8, 8) == 3, np.nan, X[:2]), y=y[:2])
    refused("X: not an array of numbers", X=np.array([["a", "b"]] * 40))
    refused("X: a table", X=np.zeros(40))
    with pytest.raises(ValueError, match="1 targets are not finite"):
        pn.LayerwiseRegressor(layers=small_layers()[:1]).fit(X, np.r_[np.inf, np.zeros(39)])


def test_images_too_small_for_the_stages_are_told_before_any_work() -> None:
    layers = [pn.Layer(pn.CNN(kernel=3, stride=2), n_gates=4)] * 4
    refused(r"stage 3 of 4, on samples of shape \(4, 1, 1\): kernel: .* smaller kernel", layers=layers)
    refused(r"stage 1 of 1.*downsample: 3 does not divide", layers=[pn.Layer(pn.CNN(), downsample=3)])
    refused(r"stage 1 of 1.*needs tokens", layers=[pn.Layer("mixer")])
    refused(r"stage 1 of 1.*needs images", X=X.reshape(40, -1))
    refused(r"stage 2 of 2.*'mlp' needs a table", layers=[*small_layers()[:1], pn.Layer("mlp")])
    refused(
        r"stage 1 of 1.*residual adds outputs \(3,\) to inputs \(1, 8, 8\)", layers=[pn.Layer("cnn", passes="residual")]
    )


def test_greyscale_given_as_rgb() -> None:
    model = fitted(pn.LayerwiseClassifier(layers=small_layers(epochs=1)[:1], certify=False), X, y)
    with pytest.raises(ValueError, match=r"samples of shape \(1, 8, 8\), got \(3, 8, 8\)"):
        model.predict(np.repeat(X, 3, axis=1))


def test_settings() -> None:
    refused("preset: 'gpu' is unknown; choose one of 'paper', 'cpu'", preset="gpu")
    refused("loss: 'logistic' is not one of LayerwiseClassifier", loss="logistic")
    refused("layers: at least one", layers=0)
    refused("layers: a list of provenet.Layer", layers=["cnn"])
    refused("validation_fraction: between 0 and 1", validation_fraction=1.5)
    refused("validation_fraction: 0.001 of 40 samples are 0", validation_fraction=0.001)
    refused("cache: a size such as", cache="much")
    refused("sharpen: seconds from zero on", sharpen=-1.0)
    refused("augment: 'turn' is unknown", augment=("turn",))
    refused(r"augment: a list of words is needed, such as \['flip'\]", augment="flip")
    refused(r"augment: it is for images.* samples of shape \(64,\)", X=X.reshape(40, -1), layers=1, augment=["flip"])
    refused("tol: it must be a positive, finite number", tol=0)
    refused("max_seconds: a positive number, or None", max_seconds=-1)
    refused("finish: a whole number of steps from zero on", finish=1.5)
    refused("no longer finite", layers=small_layers(rate=1e30)[:1])
    for wrong, match in (
        ({"block": "cone"}, "block: 'cone' is unknown"),
        ({"gates": "many"}, "gates: 'many' is unknown"),
        ({"passes": "all"}, "passes: 'all' is unknown"),
        ({"normalise": "yes"}, "normalise: 'yes' is unknown"),
        ({"n_gates": 0}, "n_gates: a whole number from one on"),
        ({"epochs": 1.5}, "epochs: a whole number"),
        ({"rate": -1}, "rate: a positive"),
        ({"beta": "lots"}, "beta: 'lots' is neither a number nor one such as '5e-4mean' or '0.01max'"),
        ({"beta": "0mean"}, "beta: it must be a positive, finite number"),
        ({"readout": "tokens"}, "has no tokens"),
    ):
        with pytest.raises(ValueError, match=match):
            pn.Layer(**wrong)


def test_a_share_of_beta_max() -> None:
    layers = small_layers(engine="solve", gates="gaussian", beta="2max")[:2]
    model = fitted(pn.LayerwiseClassifier(layers=layers, validation_fraction=None), X, y)
    assert len(model.stages_) == 1  # nothing to pass on
    assert model.stages_[0].filters == 0
    refused("share of beta_max needs a stage that is posed", layers=small_layers(beta="0.1max")[:1])


def test_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pn.ranks.joined():
        layers = [*small_layers()[:1], pn.Layer("cnn", activation="relu", engine="solve", n_gates=3)]
        refused("stage 2 of 2: activation 'relu' is solved over cones of all rows.*engine='minibatch'", layers=layers)
        refused("y: 1 labels are missing", y=np.r_[np.nan, np.arange(39.0) % 3])
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    refused(r"torchrun has started several processes of this; fit within provenet.ranks.joined\(\)")
