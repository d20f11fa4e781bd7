"""Traps that once gave, or could have given, a false proof."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn

TINY = -(2.0**-55)  # lost beside one in some orders of summation, not in others


def cancelling(p: int = 24) -> np.ndarray:
    """A row whose side of the gate of ones is TINY, or zero if TINY is added last but one."""
    row = np.zeros(p)
    row[[15, 18, 21]] = -1.0, 1.0, TINY
    return row


def test_a_side_that_hangs_on_the_order_of_summation_is_refused() -> None:
    rng = np.random.default_rng(0)
    X = 0.01 * rng.standard_normal((40, 24))
    X[0] = cancelling()
    with pytest.raises(ValueError, match="gates: gate 0 passes so close"):
        pn.formulate("mlp", X, rng.standard_normal((40, 1)), gates=np.ones((1, 24)), beta=0.1)
    tokens = 0.01 * rng.standard_normal((10, 4, 24))
    tokens[0, 0] = cancelling()
    block = pn.PoolFormer(window=1, grid=(2, 2))
    with pytest.raises(ValueError, match="gates: gate 0 passes so close"):
        pn.formulate(block, tokens, rng.standard_normal((10, 1)), gates=np.ones((1, 24)), beta=0.1)


@pytest.mark.parametrize("block", ["mlp", "cnn", "attention", "mixer"])
def test_exact_ties_are_open(block: str) -> None:
    """Whole numbers that cancel: every order of summation gives zero."""
    X = np.array([[1.0, -1.0, 2.0, -2.0], [3.0, 1.0, -4.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
    shaped = {"mlp": X, "cnn": X[:, None], "attention": X.reshape(3, 2, 2), "mixer": X.reshape(3, 4, 1)}[block]
    kind: pn.blocks.Block | str = pn.CNN(kernel=4) if block == "cnn" else block
    p = {"mlp": 4, "cnn": 4, "attention": 4, "mixer": 16}[block]
    vectors = np.tile([[1.0, 1.0, -1.0, -1.0]], p // 4) if block == "attention" else np.ones((1, p))
    problem = pn.formulate(kind, shaped, np.ones((3, 1)), gates=vectors, beta=0.1)
    if block != "attention":
        assert problem.patterns.all()
    assert pn.solve(problem).certificate.status == "certified"


def test_a_map_that_does_not_keep_scale_is_taken_as_it_is() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3, 2)) * np.where(np.arange(20) < 5, 1.0, 20.0)[:, None, None]
    Y = rng.standard_normal((20, 1))

    def bent(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.abs() < 10, x, 1e3 * x * x.abs())

    problem = pn.formulate(pn.TokenMap(bent), X, Y, activation="linear", beta=1.0)
    rows = bent(torch.from_numpy(X)).mean(1)
    assert problem.beta_max == pytest.approx(float((rows.T @ torch.from_numpy(Y)).norm()), rel=1e-10)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("block", ["cnn", "poolformer", "fno", "mixer", "attention"])
def test_gradients_may_be_switched_off(block: str, mode: type) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 1, 4, 4)) if block == "cnn" else rng.standard_normal((8, 4, 3))
    Y = rng.standard_normal((8, 2))
    with mode():
        for activation in ("linear", "gated_relu"):
            solution = pn.solve(pn.formulate(block, X, Y, activation, gates=3, beta=1.0), tol=1e-4)
            assert solution.certificate.status == "certified"


def test_gates_of_one_group_are_none_of_anothers() -> None:
    """certify(module) speaks of the module's own (group, gate) pairs: a network proven on them stays proven."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 4, 4)), rng.standard_normal((20, 2))
    block = pn.BFNO(groups=2)
    vectors, group = rng.standard_normal((6, 8)), np.array([0, 0, 0, 1, 1, 1])
    problem = pn.formulate(block, X, Y, gates=vectors, gate_group=group, beta=0.5)
    network = pn.solve(problem, tol=1e-6).network()
    used = pn.formulate(block, X, Y, gates=network.gates, gate_group=network.group, beta=0.5)
    streamed = pn.certify(network, (X, Y), loss="squared", beta=0.5)
    assert streamed.dual == pytest.approx(pn.certify(used, network).dual, rel=1e-9)
    assert streamed.relative_gap <= 1e-5
