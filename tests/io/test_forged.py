"""Folders changed by someone who gives them digests that agree: refused with the reason, never another exception."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch

import provenet as pn
from provenet.io import folder as format_

RNG = np.random.default_rng(0)
X, TOKENS = RNG.standard_normal((12, 2)), RNG.standard_normal((6, 2, 2))


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    layers = [pn.Layer("mlp", n_gates=2), pn.Layer("mlp", n_gates=2)]
    return pn.save(pn.LayerwiseRegressor(layers=layers, beta=0.1).fit(X, X[:, 0]), tmp_path_factory.mktemp("a") / "m")


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    problem = pn.formulate(pn.BFNO(groups=2), TOKENS, RNG.standard_normal((6, 2)), gates=2, beta=0.2)
    return pn.save(pn.solve(problem), tmp_path_factory.mktemp("b") / "m")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    model = pn.ProvenClassifier(beta=0.1, gates="gaussian", n_gates=4).fit(X, X[:, 0] > 0)
    return pn.save(model, tmp_path_factory.mktemp("c") / "m")


def forge(original, place, header=lambda _: None, tensors=lambda _: None):
    """A copy with the header and the tensors changed by these, and all digests made to agree."""
    shutil.copytree(original, place)
    said = json.loads((place / "model.json").read_text())
    held = safetensors.torch.load_file(place / "model.safetensors")
    header(said)
    tensors(held)
    safetensors.torch.save_file(held, place / "model.safetensors")
    for name in said["files"]:
        said["files"][name] = format_._sha256((place / name).read_bytes())
    said["digest"] = format_._digest(said)
    (place / "model.json").write_text(json.dumps(said))
    return place


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("name", ["stages.1.network.second", "stages.0.network.gates"])
def test_weights_of_a_deep_network_are_finite_numbers(deep, tmp_path, name, kind):
    place = forge(deep, tmp_path / "m", tensors=lambda held: held.update({name: held[name].to(kind)}))
    with pytest.raises(ValueError, match="not finite numbers"):
        pn.load(place)


@pytest.mark.parametrize("shape", [[], [0], [2.0], [None]])
def test_a_deep_network_says_what_samples_it_takes(deep, tmp_path, shape):
    place = forge(deep, tmp_path / "m", header=lambda said: said["deep"].update(sample_shape=shape))
    with pytest.raises(ValueError, match="sample_shape is not a shape"):
        pn.load(place)


@pytest.mark.parametrize("name", ["group", "gate_group"])
def test_groups_are_counted(grouped, tmp_path, name):
    place = forge(grouped, tmp_path / "m", tensors=lambda held: held.update({name: held[name].to(torch.complex64)}))
    with pytest.raises(ValueError, match=f"{name} names groups"):
        pn.load(place)


def test_a_block_that_is_no_name_is_refused_as_one(fitted, tmp_path):
    def change(said):
        said["estimator"]["settings"]["block"] = {"list": [1]}

    loaded = pn.load(forge(fitted, tmp_path / "m", header=change))
    with pytest.raises(ValueError, match=r"block: \[1\] is unknown"):
        loaded.fit(X, X[:, 0] > 0)
