"""The exported graph computes what the network computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.blocks import BLOCKS
from provenet.io import export_onnx
from provenet.testing.examples import EXAMPLES

onnxruntime = pytest.importorskip("onnxruntime")

X = np.random.default_rng(2).normal(size=(40, 3))
Y = np.stack([np.abs(X[:, 0]), X[:, 1] * X[:, 2]], axis=1)


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
def test_onnxruntime_agrees(activation, fit_intercept, precision, tolerance, tmp_path):
    model = pn.ProvenRegressor(activation=activation, fit_intercept=fit_intercept, beta=0.01, n_gates=10).fit(X, Y)
    session = onnxruntime.InferenceSession(export_onnx(model.network_, tmp_path / "net.onnx", precision))
    for n in (40, 1):
        (outputs,) = session.run(None, {"X": X[:n].astype(precision)})
        assert outputs.dtype == precision
        np.testing.assert_allclose(outputs, model.predict(X[:n]), rtol=0, atol=tolerance * np.abs(Y).max())


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
@pytest.mark.parametrize("example", [e for name in BLOCKS for e in EXAMPLES[name] if not e.masked], ids=str)
def test_every_block_and_readout(example, activation, tmp_path):
    X = example.samples(20)
    for readout in example.readouts:
        Y = X.reshape(20, -1)[:, :1] * np.linspace(1, -1, example.outputs)
        if readout == "tokens":
            Y = X[..., :1] * np.linspace(1, -1, example.outputs)
        problem = pn.formulate(example.block, X, Y, activation, 4, beta=1.0, readout=readout)
        for share in (0.2, 2.0):  # above beta_max there are no neurons
            network = pn.solve(problem.with_beta(share * problem.beta_max), tol=1e-2).network()
            path = export_onnx(network, tmp_path / "net.onnx", "float64", X.shape[1:])
            (outputs,) = onnxruntime.InferenceSession(path).run(None, {"X": X[:7]})
            expected = network(torch.from_numpy(X[:7])).detach().numpy()
            assert outputs.shape == expected.shape
            np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-12 * np.abs(Y).max())


def test_attention_takes_any_number_of_tokens(tmp_path):
    network = pn.nn.SelfAttention(3, 2, rank=2, n_gates=4, scale="sqrt_d")
    session = onnxruntime.InferenceSession(export_onnx(network, tmp_path / "net.onnx"))
    for s in (1, 5):
        x = torch.randn(4, s, 3)
        (outputs,) = session.run(None, {"X": x.numpy()})
        np.testing.assert_allclose(outputs, network(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_the_zero_network(tmp_path):
    model = pn.ProvenRegressor(beta=1e6, n_gates=10).fit(X, Y)
    session = onnxruntime.InferenceSession(export_onnx(model.network_, tmp_path / "net.onnx"))
    (outputs,) = session.run(None, {"X": X.astype("float32")})
    np.testing.assert_allclose(outputs, np.tile(Y.mean(0), (40, 1)), rtol=1e-6)  # of standardised targets: their means


def test_what_cannot_be_exported(tmp_path):
    with pytest.raises(ValueError, match="got Linear"):
        export_onnx(torch.nn.Linear(2, 2), tmp_path / "net.onnx")
    with pytest.raises(ValueError, match="precision"):
        export_onnx(pn.nn.MLP.from_weights(torch.ones(1, 2), torch.ones(1, 1)), tmp_path / "net.onnx", "int8")
    with pytest.raises(ValueError, match="sample_shape: the graph of a FNet"):
        export_onnx(pn.nn.FNet(2, 2), tmp_path / "net.onnx")
    with pytest.raises(ValueError, match=r"got TokenMap.*torch.save"):
        export_onnx(pn.nn.TokenMap(lambda x: x, 2, 2), tmp_path / "net.onnx")
    assert not (tmp_path / "net.onnx").exists()
