"""A deep model in a folder, and from the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layerwise_help import fitted, same_weights, small_layers, weights_of
from typer.testing import CliRunner

import provenet as pn
from provenet.cli import app
from provenet.layerwise import Recipe
from provenet.layerwise.presets import PRESETS


@pytest.fixture(scope="module")
def model(digits: Any) -> Any:
    return fitted(pn.LayerwiseClassifier(layers=small_layers(epochs=2)[:2], early_stopping=False), *digits)


def test_a_loaded_model_is_the_one_that_was_saved(model: Any, digits: Any, tmp_path: Path) -> None:
    X, _ = digits
    again = pn.load(pn.save(model, tmp_path / "deep"))
    assert type(again) is pn.LayerwiseClassifier
    assert same_weights(weights_of(again), weights_of(model))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert str(again.stages_) == str(model.stages_)
    assert again.stages_[1].certificate == model.stages_[1].certificate
    assert again.get_params()["layers"] == model.layers
    names = {path.name for path in (tmp_path / "deep").iterdir()}
    assert names == {"model.json", "model.safetensors", "certificate.json"}


def test_regressors_and_recipes_too(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    recipe = replace(PRESETS["cpu"], n_gates=3, epochs=2, least_steps=0)
    model = fitted(pn.LayerwiseRegressor(layers=2, preset=recipe, early_stopping=False), X, X[:, 0])
    again = pn.load(pn.save(model, tmp_path / "deep"))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.preset == recipe
    before = {name: value for name, value in recipe.to_dict().items() if name not in ("rates", "whiten")}
    assert Recipe.from_dict(before | {"rate": 0.1}) == replace(recipe, rates=(0.1,), whiten=())


def test_what_is_not_whole_is_refused(model: Any, tmp_path: Path) -> None:
    folder = pn.save(model, tmp_path / "deep")
    with pytest.raises(ValueError, match="not fitted"):
        pn.save(pn.LayerwiseClassifier(), tmp_path / "other")
    whole = (folder / "certificate.json").read_text()
    (folder / "certificate.json").write_text(whole.replace("e-0", "e-1", 1) if "e-0" in whole else whole + " ")
    with pytest.raises(ValueError, match="not the file that"):
        pn.load(folder)


def test_a_network_changed_by_hand_is_not_saved(model: Any, digits: Any, tmp_path: Path) -> None:
    pn.save(model, tmp_path / "deep")
    changed = pn.load(tmp_path / "deep")
    changed.network_ = pn.nn.Layers([changed.network_[0]])
    changed.network_[0].network.first.data[0, 0] += 1
    changed.stages_ = type(changed.stages_)(model.stages_.stages[:1])
    with pytest.raises(ValueError, match="stage 1 is not the one"):
        pn.save(changed, tmp_path / "again")


def layerwise(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["layerwise", *map(str, arguments)])


def test_the_command(digits: Any, tmp_path: Path) -> None:
    X, y = digits
    data, out = tmp_path / "digits.npz", tmp_path / "model"
    np.savez(data, X=X[:150], y=y[:150], X_test=X[150:200], y_test=y[150:200])
    settings = ("--stages", 2, "--gates", 4, "--epochs", 2, "--no-certify", "--beta", "1e-2mean")
    answer = layerwise(data, "-o", out, *settings, "--json")
    assert answer.exit_code == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert 0 <= told["test"] <= 1
    assert told["stages"][0]["score"] > 0.5
    model = pn.load(out)
    assert model.score(X[150:200], y[150:200]) == told["test"]
    answer = CliRunner().invoke(app, ["predict", str(out), str(data), "--proba", "--json"])
    assert json.loads(answer.stdout)["prediction"] == model.predict(X[:150]).tolist()
    np.testing.assert_allclose(json.loads(answer.stdout)["p(0)"], model.predict_proba(X[:150])[:, 0], atol=1e-6)
    answer = layerwise(data, "-o", out, *settings)
    assert answer.exit_code == 1
    assert "holds a run" in answer.stderr
    answer = layerwise(data, "-o", out, *settings, "--resume")
    assert answer.exit_code == 0
    assert "test accuracy" in answer.stdout
    assert "stage  block" in answer.stdout
    answer = layerwise(data, "-o", out, "--resume", "--stages", 2, "--gates", 5, "--epochs", 2, "--no-certify")
    assert answer.exit_code == 1
    assert "n_gates was 4, now 5" in " ".join(answer.stderr.split())


def test_what_a_stage_that_is_solved_tells(digits: Any, tmp_path: Path) -> None:
    """Greyscale images without their axis of channels are tokens, which is said; steps are not a line each."""
    X, y = digits
    np.savez(tmp_path / "flat.npz", X=X[:100, 0], y=y[:100])
    answer = layerwise(tmp_path / "flat.npz", "-o", tmp_path / "model", "--stages", 1, "--gates", 2)
    assert answer.exit_code == 0, answer.stderr
    assert "8 tokens of 8 features; greyscale images are (n, 1, height, width)" in " ".join(answer.stderr.split())
    assert answer.stderr.count("solving") < 10


def test_what_an_npz_file_may_hold_wrong_is_told_before_the_work(digits: Any, tmp_path: Path) -> None:
    X, y = digits
    colours = X[:40].repeat(3, axis=1)
    np.savez(tmp_path / "mixed.npz", X=colours, y=y[:40], X_test=X[:9], y_test=y[:9])
    answer = layerwise(tmp_path / "mixed.npz", "-o", tmp_path / "model")
    assert answer.exit_code == 1
    assert "X_test: its samples have shape (1, 8, 8), those of X (3, 8, 8)" in " ".join(answer.stderr.split())
    assert not (tmp_path / "model").exists()
    np.savez(tmp_path / "last.npz", X=colours.transpose(0, 2, 3, 1), y=y[:40])
    answer = layerwise(tmp_path / "last.npz", "-o", tmp_path / "model", "--stages", 1, "--gates", 2)
    assert "8 channels of 8 × 3 pixels; images are (n, channels, height, width)" in " ".join(answer.stderr.split())


def test_export(model: Any, digits: Any, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pn.save(model, tmp_path / "deep")
    answer = CliRunner().invoke(app, ["export", str(tmp_path / "deep"), "--out", str(tmp_path / "deep.onnx")])
    assert answer.exit_code == 0, answer.stderr
    X = digits[0].astype(np.float32)
    (logits,) = onnxruntime.InferenceSession(tmp_path / "deep.onnx").run(None, {"X": X})
    assert (logits.argmax(1) == model.decision_function(X).argmax(1)).mean() > 0.99


def test_a_set_that_is_not_there(tmp_path: Path) -> None:
    answer = layerwise(tmp_path / "fashion-mnist", "-o", tmp_path / "model")
    assert answer.exit_code == 2
    assert "github.com/zalandoresearch/fashion-mnist" in " ".join(answer.stderr.split())
