"""`provenet certify` on a state dict: networks trained elsewhere, read as tensors, never as code."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import provenet as pn

SETTINGS = ("--loss", "squared", "--beta", 0.1)


@pytest.fixture
def plane(tmp_path):
    draw = np.random.default_rng(0)
    X, Y = draw.standard_normal((15, 2)), draw.standard_normal((15, 3))
    np.savez(tmp_path / "plane.npz", X=X, y=Y)
    return X, Y


def linear(bias: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4, bias=bias), nn.ReLU(), nn.Linear(4, 3, bias=bias)).double()
    if bias:
        nn.init.zeros_(net[2].bias)
    return net


@pytest.mark.parametrize("bias", [False, True])
def test_linear_relu_linear(run, plane, bias):
    net = linear(bias)
    save_file(net.state_dict(), "net.safetensors")
    answer = run("certify", "net.safetensors", "plane.npz", *SETTINGS, "--json")
    assert answer.code == 1  # it was not trained
    told = answer.json["certificate"]
    by_hand = pn.certify(net, *plane, loss="squared", beta=0.1)
    assert told["primal"] == pytest.approx(by_hand.primal, rel=1e-12)
    assert told["dual"] == pytest.approx(by_hand.dual, rel=1e-9)
    assert told["scope"] == "all_arrangements"


def test_a_better_network_under_the_same_names(run, plane):
    net = linear(bias=True)
    # named so that the order of names is not the order of layers
    names = {"0.weight": "hidden.weight", "0.bias": "hidden.bias", "2.weight": "answer.weight", "2.bias": "answer.bias"}
    save_file({names[key]: value for key, value in net.state_dict().items()}, "net.safetensors")
    answer = run("certify", "net.safetensors", "plane.npz", *SETTINGS, "--improved", "better.safetensors", "--json")
    assert answer.json["improved"] == "better.safetensors"
    better = load_file("better.safetensors")
    assert set(better) == {"hidden.weight", "hidden.bias", "answer.weight"}
    again = run("certify", "better.safetensors", "plane.npz", *SETTINGS, "--json").json
    assert again["certificate"]["primal"] < answer.json["certificate"]["primal"]


def test_the_optimum_holds(run, plane):
    X, Y = plane
    solution = pn.solve(pn.formulate("mlp", X, Y, "relu", gates="all", beta=0.1), tol=1e-6)
    save_file(solution.network().state_dict(), "ours.safetensors")
    answer = run("certify", "ours.safetensors", "plane.npz", *SETTINGS)
    assert answer.code == 0, answer.err
    assert "The certificate holds." in answer.out


def test_a_mean_loss_labels_and_columns(run, flowers):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 5, bias=False), nn.ReLU(), nn.Linear(5, 3, bias=False))
    save_file(net.state_dict(), "net.safetensors")
    options = ("-t", "kind", "--drop", "count", "--loss", "softmax", "--json")
    total = run("certify", "net.safetensors", flowers, *options, "--beta", 6)
    mean = run("certify", "net.safetensors", flowers, *options, "--beta", 0.1, "--mean")
    assert "lily, rose, tulip, in this order" in total.err
    assert total.json["certificate"]["primal"] == pytest.approx(mean.json["certificate"]["primal"], rel=1e-12)


def test_a_convolution(run, tmp_path):
    draw = np.random.default_rng(0)
    X, Y = draw.standard_normal((5, 1, 5, 5)), draw.standard_normal((5, 2))
    np.savez("images.npz", X=X.reshape(5, 25), y=Y)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 2, stride=2, padding=1, bias=False), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(3, 2, bias=False),
    ).double()  # fmt: skip
    save_file(net.state_dict(), "net.safetensors")
    how = ("--block", "cnn", "--image", "1x5x5", "--set", "stride=2", "--set", "padding=1", "--json")
    told = run("certify", "net.safetensors", "images.npz", *SETTINGS, *how).json["certificate"]
    by_hand = pn.certify(net, X, Y, loss="squared", beta=0.1)
    assert told["primal"] == pytest.approx(by_hand.primal, rel=1e-12)
    assert told["dual"] == pytest.approx(by_hand.dual, rel=1e-6)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (nn.Linear(2, 3).state_dict(), "this has bias, weight"),
        ({}, "this has nothing"),
        (linear().state_dict() | {"4.weight": torch.ones(3, 3)}, "two weights"),
        ({"0.weight": torch.full((4, 2), torch.nan), "2.weight": torch.ones(3, 4)}, "finite"),
        ({"0.weight": torch.ones(4, 7), "2.weight": torch.ones(3, 4)}, "7"),
        ({"0.weight": torch.ones(4, 1, 3, 3), "2.weight": torch.ones(3, 4)}, "cnn"),
        ({"first": torch.ones(4, 2), "second": torch.ones(3, 3)}, "(N, p)"),
    ],
)
def test_files_that_are_no_such_network(run, plane, state, says):
    save_file(state, "net.safetensors")
    answer = run("certify", "net.safetensors", "plane.npz", *SETTINGS)
    assert answer.code == 1
    assert says in answer.err
    assert answer.out == ""


def test_a_last_bias_is_a_free_intercept(run, plane):
    """Trained or not, it is judged as it is: one of ones is far from the best, and the gap says so."""
    save_file(linear(True).state_dict() | {"2.bias": torch.ones(3)}, "net.safetensors")
    answer = run("certify", "net.safetensors", "plane.npz", *SETTINGS)
    assert answer.code == 1
    assert "not_certified" in answer.out


@pytest.mark.parametrize(
    ("outputs", "y", "loss", "says"),
    [
        (2, np.arange(12) % 3, "softmax", "2 output(s), data.npz 3 classes"),
        (1, np.arange(12) % 3, "logistic", "1 output(s), data.npz 3 classes"),
        (2, np.arange(12) % 2, "logistic", "2 output(s), data.npz 1 target(s)"),
        (2, np.ones((12, 3)), "squared", "2 output(s), data.npz 3 target(s)"),
    ],
)
@pytest.mark.parametrize("ours", [False, True])
def test_other_outputs_than_targets_are_wrong_use(run, outputs, y, loss, says, ours):
    np.savez("data.npz", X=np.random.default_rng(0).standard_normal((12, 2)), y=y)
    names = ("first", "second") if ours else ("0.weight", "2.weight")
    layers = torch.ones(4, 2), torch.ones(4, outputs)
    save_file({names[0]: layers[0], names[1]: layers[1] if ours else layers[1].T.contiguous()}, "net.safetensors")
    answer = run("certify", "net.safetensors", "data.npz", "--loss", loss, "--beta", 0.1)
    assert answer.code == 2
    assert says in " ".join(answer.err.replace("│", " ").split())


def test_more_outputs_than_classes_are_judged(run):
    np.savez("data.npz", X=np.random.default_rng(0).standard_normal((12, 2)), y=np.arange(12) % 2)
    save_file({"0.weight": torch.ones(4, 2), "2.weight": torch.ones(3, 4)}, "net.safetensors")
    answer = run("certify", "net.safetensors", "data.npz", "--loss", "softmax", "--beta", 0.1, "--json")
    assert answer.json["certificate"]["primal"] > 0


class _Evil:
    def __reduce__(self):
        return (open, ("evil.txt", "w"))


@pytest.mark.parametrize("name", ["net.pt", "net.pth", "net.bin", "net.safetensors"])
def test_pickles_are_never_opened(run, plane, name, tmp_path):
    for content in (pickle.dumps(_Evil()), b"junk", b""):
        Path(name).write_bytes(content)
        answer = run("certify", name, "plane.npz", *SETTINGS)
        assert answer.code == 1
        assert "safetensors" in answer.err
        assert not (tmp_path / "evil.txt").exists()


def test_wrong_use(run, plane, model, flowers):
    save_file(linear().state_dict(), "net.safetensors")
    for options in ([], ["--loss", "squared"], ["--beta", 1]):
        answer = run("certify", "net.safetensors", "plane.npz", *options)
        assert answer.code == 2
        assert "--loss, --beta" in answer.err
    help_of_loss = " ".join(run("certify", "--help").out.replace("│", " ").split()).split("--loss ")[-1]
    assert "default" not in help_of_loss.split("--beta")[0]
    for options in (["--beta", 1], ["--target", "kind"], ["--mean"], ["--improved", "x"], ["--set", "kernel=3"]):
        answer = run("certify", model, flowers, *options)
        assert answer.code == 2
        assert options[0] in answer.err
