"""Every block from the command line: its shapes, settings, readouts and masks."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import provenet as pn
from provenet.blocks import BLOCKS
from provenet.io import load
from provenet.testing.examples import EXAMPLES

FAST = ("--gates", 4, "--tol", 1e-3, "--beta", "0.2max", "--no-report")


def spoken(settings):
    """Settings as a command line says them."""
    values = {name: "x".join(map(str, v)) if isinstance(v, tuple) else v for name, v in settings.items()}
    return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_is_fitted_predicts_and_is_certified(run, name):
    example = EXAMPLES[name][0]
    X, mask = example.samples(24), EXAMPLES[name][-1].mask(24)
    X = EXAMPLES[name][-1].samples(24) if mask is not None else X
    arrays = {"X": X, "y": np.where(X.reshape(24, -1)[:, 0] > 0, "up", "down")}
    np.savez("data.npz", **arrays, **({} if mask is None else {"mask": mask}))
    answer = run("fit", "data.npz", "--block", name, *spoken(example.settings), *FAST, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["block"] == name
    assert answer.json["samples"] == list(X.shape)
    loaded = load("model")
    if example.settings:
        assert loaded.block == example.block
    predicted = run("predict", "model", "data.npz", "--json").json["prediction"]
    masked = {} if mask is None else {"mask": mask}
    assert predicted == loaded.predict(X, **masked).tolist()
    assert run("export", "model", "--precision", "float64", "--json").json["out"] == "model.onnx"
    told = run("certify", "model", "data.npz", "--json")
    assert told.code == 0, told.err
    assert told.json["data_differences"] == []
    assert told.json["independent_relative_gap"] == pytest.approx(told.json["certificate"]["relative_gap"], rel=1e-4)


def test_flat_rows_are_read_as_tokens_and_the_model_remembers(run):
    X = EXAMPLES["poolformer"][0].samples(24)
    np.savez("flat.npz", X=X.reshape(24, 12), y=X[:, 0])
    np.savez("deep.npz", X=X, y=X[:, 0])
    tokens = ("--block", "poolformer", "--set", "grid=2x3")
    assert run("fit", "flat.npz", "--tokens", 6, *tokens, *FAST, "-o", "flat").code == 0
    assert run("fit", "deep.npz", "--tokens", 6, *tokens, *FAST, "-o", "deep").code == 0
    np.testing.assert_array_equal(load("flat").predict(X), load("deep").predict(X))
    assert run("predict", "flat", "flat.npz").out == run("predict", "flat", "deep.npz").out
    assert run("certify", "flat", "flat.npz", "--json").json["data_differences"] == []
    np.savez("short.npz", X=X.reshape(24, 12)[:, :10], y=X[:, 0])
    short = run("predict", "flat", "short.npz")
    assert short.code == 2
    assert "rows of 10 numbers cannot be read as 6 × 2 = 12" in short.err


def test_images_from_a_table(run, tmp_path):
    X = EXAMPLES["cnn"][0].samples(24)
    rows = np.column_stack([X.reshape(24, -1), X[:, 0, 0, 0] > 0])
    np.savetxt(tmp_path / "images.csv", rows, delimiter=",")
    options = ("--block", "cnn", "--image", "2x4x3", "--set", "kernel=2", "--set", "pool=2x1")
    answer = run("fit", "images.csv", "-t", "-1", *options, *FAST, "--json")
    assert answer.code == 0, answer.err
    assert load("model").block == pn.CNN(kernel=2, pool=(2, 1))
    assert load("model").sample_shape_ == (2, 4, 3)
    assert run("certify", "model", "images.csv").code == 0
    assert len(run("predict", "model", "images.csv").out.splitlines()) == 25


def test_a_target_and_a_label_for_every_token(run):
    X = EXAMPLES["fnet"][0].samples(24)
    options = ("--block", "fnet", "--readout", "tokens", *FAST)
    np.savez("values.npz", X=X, y=X)
    assert run("fit", "values.npz", *options, "-o", "values").code == 0
    header = run("predict", "values", "values.npz").out.splitlines()[0]
    assert header.split('","')[0] == '"prediction(0,0)'
    assert run("certify", "values", "values.npz").code == 0
    np.savez("labels.npz", X=X, y=np.where(X[..., 0] > 0, "up", "down"))
    assert run("fit", "labels.npz", *options, "-o", "labels", "--json").json["task"] == "classification"
    rows = list(csv.DictReader(run("predict", "labels", "labels.npz", "--proba").out.splitlines()))
    assert list(rows[0])[:4] == ["prediction(0)", "prediction(1)", "prediction(2)", "p(0,down)"]
    assert float(rows[0]["p(2,down)"]) + float(rows[0]["p(2,up)"]) == pytest.approx(1)
    assert run("certify", "labels", "labels.npz").code == 0


def test_a_path_of_tokens(run, tmp_path):
    X = EXAMPLES["fnet"][0].samples(24)
    np.savez("data.npz", X=X.reshape(24, 6), y=X[:, 0, 0])
    answer = run("path", "data.npz", "--block", "fnet", "--tokens", 3, "--betas", 3, "--gates", 4, "--tol", 1e-2)
    assert answer.code == 0, answer.err
    assert "FNet" in (tmp_path / "path" / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--block", "perceptron"], "'perceptron' is unknown; choose one of mlp"),
        (["--block", "poolformer"], "block poolformer does not take rows of 12 numbers"),
        (["--block", "cnn"], "--image"),
        (["--block", "poolformer", "--tokens", "5"], "rows of 12 numbers cannot be read as 5 tokens"),
        (["--block", "cnn", "--image", "1x5x5"], "rows of 12 numbers cannot be read as 1 × 5 × 5 = 25"),
        (["--block", "cnn", "--image", "big"], "'big' is not channels and sizes such as 1x28x28"),
        (["--block", "cnn", "--image", "1x3x4", "--set", "kernel=9"], "kernel"),
        (["--block", "cnn", "--tokens", "6"], "has no tokens"),
        (["--block", "fnet", "--image", "1x3x4"], "takes no images"),
        (["--tokens", "6"], "block mlp has no tokens"),
        (["--readout", "tokens"], "block mlp has one output a sample"),
        (["--block", "fnet", "--tokens", "6", "--no-intercept"], "goes with --block mlp"),
        (
            ["--block", "poolformer", "--tokens", "6", "--set", "size=3"],
            "no setting 'size'; its settings are grid, window",
        ),
        (["--block", "fnet", "--tokens", "6", "--set", "size=3"], "it has no settings"),
        (["--block", "poolformer", "--tokens", "6", "--set", "window"], "give a value, window=VALUE"),
        (["--block", "poolformer", "--tokens", "6", "--set", "window=2.5"], "window: '2.5' is not a value for it"),
        (["--block", "poolformer", "--tokens", "6", "--set", "window=2"], "window: it must be odd"),
        (["--block", "poolformer", "--tokens", "6", "--set", "grid=2x2"], "grid: 2 × 2 = 4 tokens, but X has 6"),
        (["--set", "fit_intercept=false"], "has an option of its own, --intercept"),
        (["--block", "bfno", "--tokens", "3", "--set", "groups=3"], "groups"),
    ],
)
def test_wrong_use(run, options, says, tmp_path):
    generator = np.random.default_rng(0)
    np.savez("data.npz", X=generator.normal(size=(10, 12)), y=np.arange(10) % 2)
    answer = run("fit", "data.npz", *options)
    assert answer.code == 2
    assert says in " ".join(answer.err.replace("│", " ").split())
    assert not (tmp_path / "model").exists()


def test_a_mask_that_no_block_can_use(run):
    np.savez("data.npz", X=np.ones((4, 3, 2)), y=[0, 1, 0, 1], mask=np.ones((4, 3)))
    answer = run("fit", "data.npz", "--block", "fnet", *FAST)
    assert answer.code == 2
    assert "it holds a mask, but block 'fnet' has a fixed number of tokens" in answer.err
    np.savez("plain.npz", X=np.random.default_rng(0).normal(size=(4, 3, 2)), y=[0, 1, 0, 1])
    assert run("fit", "plain.npz", "--block", "fnet", *FAST).code == 0
    for command in ("predict", "certify"):
        assert run(command, "model", "data.npz").code == 2
