"""Every block's model comes back from its folder, with its groups, grids, masks and proof."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.blocks import BLOCKS
from provenet.io import folder, load, posed_data, save
from provenet.testing.examples import EXAMPLES

EVERY = [example for name in BLOCKS for example in EXAMPLES[name]]
SMALL = {"n_gates": 4, "tol": 1e-3, "beta": 0.2}


@pytest.mark.parametrize("activation", ["gated_relu", "linear"])
@pytest.mark.parametrize("example", EVERY, ids=str)
def test_a_model_of_every_block_comes_back(example, activation, tmp_path):
    X, mask = example.samples(20), example.mask(20)
    Y = X.reshape(20, -1)[:, :1] * np.linspace(1, -1, example.outputs)
    masked = {} if mask is None else {"mask": mask}
    fitted = pn.ProvenRegressor(block=example.block, activation=activation, **SMALL).fit(X, Y, **masked)
    loaded = load(save(fitted, tmp_path / "model"))
    assert loaded.block == example.block
    assert loaded.sample_shape_ == X.shape[1:]
    assert loaded.n_features_in_ == fitted.n_features_in_
    np.testing.assert_array_equal(loaded.predict(X, **masked), fitted.predict(X, **masked))
    problem = loaded.saved_.problem(*posed_data(loaded, X, Y, mask=mask))
    assert loaded.saved_.data_differences(problem) == []
    assert problem.program.operator.stack_shape == fitted.solution_.problem.program.operator.stack_shape
    assert pn.certify(problem, loaded.network_, tol=1e-3) == fitted.certificate_


@pytest.mark.parametrize("name", [name for name, kind in BLOCKS.items() if kind.tokens])
def test_a_readout_of_tokens_comes_back(name, tmp_path):
    example = EXAMPLES[name][0]
    X = example.samples(20)
    Y = X[..., :1] * np.linspace(1, -1, example.outputs)
    solution = pn.solve(pn.formulate(example.block, X, Y, gates=4, beta=0.2, readout="tokens"), tol=1e-3)
    loaded = load(save(solution, tmp_path / "model"))
    assert loaded.statement.readout == "tokens"
    assert torch.equal(loaded.network(torch.from_numpy(X)), solution.network()(torch.from_numpy(X)))
    assert loaded.certify(X, Y, tol=1e-3) == solution.certificate


@pytest.mark.parametrize("name", [name for name, kind in BLOCKS.items() if kind.masks])
def test_another_mask_is_noticed(name, tmp_path):
    X, mask = EXAMPLES[name][0].samples(20), np.ones((20, 3), dtype=bool)
    mask[0, 1] = False
    saved = load(save(pn.ProvenRegressor(block=name, **SMALL).fit(X, X[:, 0], mask=mask), tmp_path / "model")).saved_
    assert saved.data_differences(saved.problem(X, X[:, 0], mask=mask)) == []
    without = saved.data_differences(saved.problem(X, X[:, 0]))
    assert "the mask is not that of the fit" in without


def test_a_block_that_is_a_function_is_refused(tmp_path):
    X = EXAMPLES["token_map"][0].samples(20)
    block = pn.TokenMap(lambda x: x - x.roll(1, 1))
    fitted = pn.ProvenRegressor(block=block, **SMALL).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"block: 'token_map' holds a Python function .*state_dict"):
        save(fitted, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def edited(path, change):
    """The model with another header, its digest in order: a file written by something else."""
    header = json.loads((path / "model.json").read_text())
    change(header)
    header["digest"] = folder._digest(header)
    (path / "model.json").write_text(json.dumps(header))
    return path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda h: h["problem"].update(block="perceptron"), "'perceptron' is unknown"),
        (lambda h: h["problem"]["block_settings"].update(colour=1), "colour"),
        (lambda h: h["problem"]["block_settings"].update(grid=[7, 7]), "grid"),
        (lambda h: h["problem"]["block_settings"].update(window="wide"), "window|'<'"),
        (lambda h: h["data"].update(samples=[20, 6, 3]), "a neuron has 2 and 2 weights, but 3 and 2 are needed"),
        (lambda h: h["data"].update(samples=[20, 10**9, 10**9]), "beyond all memory"),
        (lambda h: h["data"].update(samples=[20, -6, 2]), "not a shape"),
        (lambda h: h["data"].update(mask_sha256=3), "mask_sha256"),
    ],
)
def test_headers_that_contradict_the_weights(change, says, tmp_path):
    X = EXAMPLES["poolformer"][0].samples(20)
    save(pn.ProvenRegressor(block=EXAMPLES["poolformer"][0].block, **SMALL).fit(X, X[:, 0]), tmp_path / "model")
    with pytest.raises(ValueError, match=says):
        load(edited(tmp_path / "model", change))
