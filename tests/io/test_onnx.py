"""The exported graph computes what the network computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.io import export_onnx

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


def test_the_zero_network(tmp_path):
    model = pn.ProvenRegressor(beta=1e6, n_gates=10).fit(X, Y)
    session = onnxruntime.InferenceSession(export_onnx(model.network_, tmp_path / "net.onnx"))
    (outputs,) = session.run(None, {"X": X.astype("float32")})
    np.testing.assert_array_equal(outputs, np.zeros((40, 2)))


def test_what_cannot_be_exported(tmp_path):
    with pytest.raises(ValueError, match="got Linear"):
        export_onnx(torch.nn.Linear(2, 2), tmp_path / "net.onnx")
    with pytest.raises(ValueError, match="precision"):
        export_onnx(pn.nn.MLP.from_weights(torch.ones(1, 2), torch.ones(1, 1)), tmp_path / "net.onnx", "int8")
    assert not (tmp_path / "net.onnx").exists()
