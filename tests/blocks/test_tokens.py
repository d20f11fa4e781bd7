"""PoolFormer, FNet and any h(X) against AT eq. 158–160 in numpy, their operators and optima, and bad input."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import provenet as pn
from provenet import batches
from provenet.blocks import Block
from provenet.testing import check_block, check_operator

ACTIVATIONS = ("linear", "gated_relu")
READOUTS = ("mean", "tokens")


def differences(X: Tensor) -> Tensor:
    """A map of ours, (n, s, d) → (n, s − 1, 2d)."""
    return torch.cat([X[:, 1:], X[:, 1:] - X[:, :-1]], dim=2)


def pooling_matrix(height: int, width: int, window: int) -> np.ndarray:
    """P of AT eq. 158: each token's neighbours within the grid, averaged."""
    P = np.zeros((height * width, height * width))
    reach = window // 2
    for i, j in product(range(height), range(width)):
        near = [
            k * width + m
            for k, m in product(range(height), range(width))
            if abs(k - i) <= reach and abs(m - j) <= reach
        ]
        P[i * width + j, near] = 1 / len(near)
    return P


def dft(size: int) -> np.ndarray:
    return np.exp(-2j * np.pi * np.outer(np.arange(size), np.arange(size)) / size)


def pooled(x: np.ndarray, height: int, width: int, window: int) -> np.ndarray:
    return pooling_matrix(height, width, window) @ x


def fourier(x: np.ndarray) -> np.ndarray:
    """AT eq. 159: Re(F_s X F_dᵀ)."""
    return (dft(x.shape[0]) @ x @ dft(x.shape[1]).T).real


def differences_by_hand(x: np.ndarray) -> np.ndarray:
    return np.hstack([x[1:], np.diff(x, axis=0)])


CASES: list[tuple[Block, type[Any], dict[str, Any], tuple[int, int], Any]] = [
    (pn.PoolFormer(), pn.nn.PoolFormer, {}, (9, 2), lambda x: pooled(x, 3, 3, 3)),
    (
        pn.PoolFormer(grid=(2, 4), window=5),
        pn.nn.PoolFormer,
        {"grid": (2, 4), "window": 5},
        (8, 2),
        lambda x: pooled(x, 2, 4, 5),
    ),
    (pn.PoolFormer(window=1), pn.nn.PoolFormer, {"window": 1}, (4, 2), lambda x: x),
    (pn.FNet(), pn.nn.FNet, {}, (5, 3), fourier),
    (pn.FNet(), pn.nn.FNet, {}, (1, 4), fourier),
    (pn.TokenMap(differences), pn.nn.TokenMap, {"function": differences}, (4, 2), differences_by_hand),
]
IDS = [f"{block.name}-{s}x{d}" for block, _, _, (s, d), _ in CASES]


def fresh(module: type[Any], settings: dict[str, Any], d: int, c: int, activation: str, readout: str) -> Any:
    rest = {"rank": 2, "n_gates": 3, "activation": activation, "readout": readout}
    p = 2 * d if module is pn.nn.TokenMap else d
    function = [settings["function"]] if module is pn.nn.TokenMap else []
    return module(*function, p, c, **rest, **{k: v for k, v in settings.items() if k != "function"}).double()


def problem_of(block: Block, X: np.ndarray, activation: str, readout: str, c: int = 2) -> pn.Problem:
    s = X.shape[1] - isinstance(block, pn.TokenMap)
    shape = (X.shape[0], s, c) if readout == "tokens" else (X.shape[0], c)
    Y = np.random.default_rng(9).standard_normal(shape)
    problem = pn.formulate(block, X, Y, activation, 3, beta=1.0, readout=readout)
    return problem.with_beta(0.1 * problem.beta_max)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("block", "module", "settings", "shape", "h"), CASES, ids=IDS)
def test_the_module_is_the_papers_formula(
    block: Block,
    module: type[Any],
    settings: dict[str, Any],
    shape: tuple[int, int],
    h: Any,
    activation: str,
    readout: str,
) -> None:
    """AT eq. 160: Σ_j (1{h(X) g_j ≥ 0} ∘ h(X) u_j) v_jᵀ."""
    X = np.random.default_rng(0).standard_normal((5, *shape))
    network = fresh(module, settings, shape[1], 2, activation, readout)
    first, second = network.first.detach().numpy(), network.second.detach().numpy()
    phi = np.stack([h(x) for x in X])
    hidden = phi @ first.T
    if network.gates is not None:
        hidden = hidden * (phi @ network.gates.numpy().T >= 0)
    expected = hidden @ second
    with torch.no_grad():
        outputs = network(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(outputs, expected.mean(1) if readout == "mean" else expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("block", "shape"), [(case[0], case[3]) for case in CASES], ids=IDS)
def test_contracts(block: Block, shape: tuple[int, int], activation: str, readout: str) -> None:
    X = np.random.default_rng(0).standard_normal((5, *shape))
    if not (isinstance(block, pn.TokenMap) and readout == "tokens"):  # check_block has a target for every token of X
        check_block(block, X, activation, outputs=2, readout=readout)
    operator = problem_of(block, X, activation, readout).program.operator
    check_operator(operator)
    reduced = operator.reduced()
    if reduced is not None:
        check_operator(reduced[0])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("block", [pn.PoolFormer(), pn.FNet()], ids=lambda block: block.name)
def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch, block: Block, activation: str) -> None:
    """A sample at a time, nothing prepared or kept."""
    for budget in ("BATCH", "KEPT_INPUTS", "MOST_KEPT"):
        monkeypatch.setattr(batches, budget, 0)
    X = np.random.default_rng(0).standard_normal((4, 4, 2))
    check_operator(problem_of(block, X, activation, "mean").program.operator)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("block", [pn.PoolFormer(), pn.FNet(), pn.TokenMap(differences)], ids=lambda block: block.name)
def test_the_optimum_is_cvxpys(block: Block, activation: str, readout: str) -> None:
    X = np.random.default_rng(1).standard_normal((6, 4, 2))
    problem = problem_of(block, X, activation, readout)
    ours, reference = pn.solve(problem, tol=1e-6), pn.solve(problem, "cvx", tol=1e-5)
    assert ours.certificate.holds(1e-6)
    assert ours.certificate.primal == pytest.approx(reference.certificate.primal, rel=1e-5)
    assert pn.certify(problem, ours.network()).primal == pytest.approx(ours.certificate.primal, rel=1e-10)


def test_fnet_is_an_mlp_on_fourier_features() -> None:
    """AT App. C.7: with one token the block is an MLP on h(X)."""
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((20, 1, 4)), rng.standard_normal((20, 2))
    gates = rng.standard_normal((4, 4))
    features = np.stack([fourier(x)[0] for x in X])
    fnet = pn.solve(pn.formulate("fnet", X, Y, gates=gates, beta=0.5), tol=1e-8)
    mlp = pn.solve(pn.formulate("mlp", features, Y, gates=gates, beta=0.5), tol=1e-8)
    assert fnet.certificate.primal == pytest.approx(mlp.certificate.primal, rel=1e-7)


@pytest.mark.parametrize("name", ["poolformer", "fnet"])
@pytest.mark.parametrize("shape", [(5, 4), (5, 2, 3, 4)])
def test_wrong_rank_of_x(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"X: block '{name}' needs tokens of shape \(n, s, d\), got"):
        pn.formulate(name, np.ones(shape), np.ones((5, 1)))


@pytest.mark.parametrize(
    ("block", "tokens", "message"),
    [
        (pn.PoolFormer(), 5, "grid: 5 tokens make no square; give grid="),
        (pn.PoolFormer(grid=(2, 3)), 5, r"grid: 2 × 3 = 6 tokens, but X has 5"),
        (pn.PoolFormer(grid=(2, 3), window=7), 6, "window: 7 × 7 is larger than any neighbourhood on a 2 × 3 grid; 5"),
        (pn.TokenMap(lambda X: X.mean(1)), 5, r"function: of \(4, 5, 2\) it must make \(n, s, p\), got \(4, 2\)"),
        (pn.TokenMap(lambda X: None), 5, "it must make .* got NoneType"),
        (pn.TokenMap(lambda X: X - X.mean(0)), 5, "function: it makes of a sample alone something else"),
    ],
)
def test_bad_input(block: Block, tokens: int, message: str) -> None:
    X = np.random.default_rng(0).standard_normal((4, tokens, 2))
    with pytest.raises(ValueError, match=message):
        pn.formulate(block, X, np.ones((4, 1)))


@pytest.mark.parametrize("window", [0, 2, -1])
def test_windows_have_a_centre(window: int) -> None:
    with pytest.raises(ValueError, match="window: it must be odd"):
        pn.PoolFormer(window=window)
