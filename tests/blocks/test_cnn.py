"""The CNN: its module against loops from the papers' formulas, its operator and optimum, and bad input."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import batches
from provenet.testing import check_block, check_operator

ACTIVATIONS = ("linear", "gated_relu")
IMAGES = (6, 2, 5, 4)
SEQUENCES = (6, 3, 7)
rng = np.random.default_rng(0)
GEOMETRIES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    (IMAGES, {}),
    (IMAGES, {"kernel": (2, 3), "padding": (0, 2)}),
    (IMAGES, {"kernel": 2, "stride": (2, 1), "padding": 1, "pool": 2}),
    (IMAGES, {"kernel": (3, 2), "dilation": (2, 1), "padding": (1, 0), "pool": (1, 3)}),
    (IMAGES, {"kernel": 1, "pool": (3, 2)}),  # 5 rows in 3 cells: neighbours share a row
    (IMAGES, {"kernel": 2, "pool": rng.standard_normal((3, 12))}),
    (SEQUENCES, {"kernel": 3, "stride": 2, "padding": 1}),
    (SEQUENCES, {"kernel": (2,), "dilation": 3, "pool": 2}),
    (SEQUENCES, {"kernel": 2, "pool": 4}),
    (SEQUENCES, {"kernel": 4, "pool": [[0.5, -1.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]]}),
    ((5, 1, 4), {"kernel": 4}),  # one channel, one position
]


def samples(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape)


def fresh(shape: tuple[int, ...], settings: dict[str, Any], activation: str, outputs: int = 3) -> pn.nn.CNN:
    dims = len(shape) - 2
    return pn.nn.CNN(shape[1], outputs, **settings, rank=2, n_gates=3, activation=activation, dims=dims).double()


def by_hand(x: np.ndarray, u: np.ndarray, g: np.ndarray | None, v: np.ndarray, settings: dict[str, Any]) -> np.ndarray:
    """BM eq. 22 for one sample (channels, …) with loops: Σ_j V_j P_a (D_j Φ u_j)."""
    dims = x.ndim - 1

    def each(name: str, default: int) -> tuple[int, ...]:
        value = settings.get(name, default)
        return (value,) * dims if isinstance(value, int) else tuple(value)

    kernel, stride, padding, dilation = each("kernel", 3), each("stride", 1), each("padding", 0), each("dilation", 1)
    padded = np.zeros((x.shape[0], *(size + 2 * pad for size, pad in zip(x.shape[1:], padding, strict=True))))
    padded[(slice(None), *(slice(pad, pad + size) for size, pad in zip(x.shape[1:], padding, strict=True)))] = x
    counts = [
        len(range(0, size - d * (k - 1), s))
        for size, k, s, d in zip(padded.shape[1:], kernel, stride, dilation, strict=True)
    ]
    positions = list(product(*map(range, counts)))
    patches = []
    for at in positions:
        patch = []
        for channel, *offset in product(range(x.shape[0]), *map(range, kernel)):
            where = (t * s + o * d for t, s, o, d in zip(at, stride, offset, dilation, strict=True))
            patch.append(padded[(channel, *where)])
        patches.append(patch)
    phi = np.array(patches)  # (K, p)
    if np.ndim(settings.get("pool", 1)) == 2:
        P = np.array(settings["pool"])
    else:
        rows = []
        for cell in product(*map(range, each("pool", 1))):
            member = [
                all(
                    t * m < (i + 1) * count and (t + 1) * m > i * count
                    for t, i, m, count in zip(at, cell, each("pool", 1), counts, strict=True)
                )
                for at in positions
            ]
            rows.append(np.array(member) / np.sum(member))
        P = np.array(rows)
    out = np.zeros(v.shape[1] // len(P))
    for j in range(len(u)):
        hidden = phi @ u[j]
        if g is not None:
            hidden = hidden * (phi @ g[j] >= 0)
        out += v[j].reshape(-1, len(P)) @ (P @ hidden)
    return out


def problem(shape: tuple[int, ...], settings: dict[str, Any], activation: str, **more: Any) -> pn.Problem:
    Y = np.random.default_rng(2).standard_normal((shape[0], 2))
    return pn.formulate(pn.CNN(**settings), samples(shape), Y, activation=activation, **{"gates": 4, **more})


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("shape", "settings"), GEOMETRIES)
def test_the_module_is_the_papers_formula(shape: tuple[int, ...], settings: dict[str, Any], activation: str) -> None:
    network = fresh(shape, settings, activation)
    X = samples(shape)
    first, second = network.first.detach().numpy(), network.second.detach().numpy()
    gates = None if network.gates is None else network.gates.numpy()
    expected = np.stack([by_hand(x, first, gates, second, settings) for x in X])
    found = network(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("shape", "settings"), GEOMETRIES)
def test_contracts(shape: tuple[int, ...], settings: dict[str, Any], activation: str) -> None:
    check_block(pn.CNN(**settings), samples(shape), activation)
    check_operator(problem(shape, settings, activation).program.operator)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("shape", "settings"), GEOMETRIES[2:8])
def test_contracts_through_the_hidden_layer(
    shape: tuple[int, ...], settings: dict[str, Any], activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_KEPT", 0)
    operator = problem(shape, settings, activation).program.operator
    assert operator.kept is None
    check_operator(operator)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((5, 1, 3, 3), {"kernel": 2, "pool": 2}),
        ((5, 2, 4), {"kernel": 2}),
        ((5, 1, 4), {"kernel": 2, "pool": [[1.0, -1.0, 2.0]]}),
    ],
)
def test_auto_reaches_the_optimum_of_cvxpy(shape: tuple[int, ...], settings: dict[str, Any], activation: str) -> None:
    posed = problem(shape, settings, activation, gates=3)
    posed = posed.with_beta(0.1 * posed.beta_max)
    ours, reference = pn.solve(posed, tol=1e-8), pn.solve(posed, method="cvx", tol=1e-7)
    assert ours.status is pn.Status.SOLVED
    assert ours.certificate.relative_gap <= 1e-8
    assert ours.certificate.primal == pytest.approx(reference.certificate.primal, rel=1e-6)
    network = ours.network()
    value = posed.loss.value(network(posed.X).detach()) + posed.beta * network.penalty().detach()
    assert float(value) == pytest.approx(ours.certificate.primal, rel=1e-9)


def test_global_pooling_by_a_matrix_is_the_average() -> None:
    """The user's row of 1/K and pool=1 pose one problem; a row of ones scales outputs by K: beta by K too."""
    K = 12
    average, by_matrix, total = (
        problem(IMAGES, {"kernel": 2, "pool": pool}, "gated_relu")
        for pool in (1, np.full((1, K), 1 / K), np.ones((1, K)))
    )
    assert by_matrix.beta_max == pytest.approx(average.beta_max, rel=1e-12)
    assert total.beta_max == pytest.approx(K * average.beta_max, rel=1e-12)


def test_a_pooling_matrix_of_any_size_is_solved() -> None:
    rows = rng.standard_normal((2, 12))
    values = []
    for size in (1e-120, 1.0, 1e120):
        posed = problem(IMAGES, {"kernel": 2, "pool": rows * size}, "gated_relu")
        solution = pn.solve(posed.with_beta(0.1 * posed.beta_max), tol=1e-6)
        assert solution.certificate.holds(1e-6)
        values.append(solution.certificate.primal)
    assert values == pytest.approx([values[1]] * 3, rel=1e-5)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_pooled_values_that_float64_cannot_hold(size: float) -> None:
    with pytest.raises(ValueError, match=r"pool: .* leave the range of float64"):
        pn.formulate(pn.CNN(kernel=3, pool=np.full((1, 6), size)), size * samples(IMAGES), np.ones((6, 1)))


def test_settings_survive_json_and_compare() -> None:
    block = pn.CNN(kernel=np.int64(3), stride=[1, 2], padding=(1, 1), pool=torch.ones(2, 3))
    assert pn.CNN(**json.loads(json.dumps(block.settings()))) == block
    assert hash(block) == hash(pn.CNN(3, (1, 2), [1, 1], 1, [[1.0] * 3] * 2))
    assert block != pn.CNN(3, (1, 2), [1, 1], 1, [[1.0, 1.0, 2.0]] * 2)
    assert pn.CNN(pool=[2, 1]).pool == (2, 1)


@pytest.mark.parametrize("pool", [2, [[0.1] * 9, [0.3] * 9]])
def test_the_module_trains_saves_compiles_and_autocasts(pool: Any) -> None:
    X = torch.from_numpy(samples((6, 2, 5, 5))).float()
    network = pn.nn.CNN(2, 3, pool=pool, rank=2, n_gates=3)
    before = network(X)
    (before.square().sum() + network.penalty()).backward()
    assert network.first.grad is not None
    assert bool(network.first.grad.any())
    other = pn.nn.CNN(2, 3, pool=pool, rank=2, n_gates=3, seed=1)
    assert not torch.allclose(other(X), before)
    other.load_state_dict(network.state_dict())
    torch.testing.assert_close(other(X), before)
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(X), before)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = network(X)
    torch.testing.assert_close(rough.float(), before, rtol=0.1, atol=0.1 * float(before.abs().max().detach()))
    torch.testing.assert_close(network.double()(X.double()).float(), before.detach())


def test_a_matrix_keeps_its_digits_when_the_module_changes_precision() -> None:
    third = [[1 / 3] * 12]
    X = torch.from_numpy(samples(IMAGES))
    network = pn.nn.CNN(2, 3, kernel=2, pool=third, activation="linear").double()
    expected = pn.nn.CNN.from_weights(network.first.detach(), network.second.detach(), kernel=2, pool=third)
    torch.testing.assert_close(network(X), expected(X), rtol=0, atol=0)


def test_a_tie_that_one_order_of_summation_breaks_is_refused() -> None:
    X = np.array([[[0.1, 0.2, -0.3]], [[1.0, 2.0, 3.0]]])
    with pytest.raises(ValueError, match="gate 0 passes so close"):
        pn.formulate(pn.CNN(kernel=3), X, np.ones((2, 1)), gates=[[1.0, 1.0, 1.0]])
    exact = pn.formulate(pn.CNN(kernel=3), np.round(10 * X), np.ones((2, 1)), gates=[[1.0, 1.0, 1.0]])
    assert bool(exact.patterns.all())  # exact ties are open


@pytest.mark.parametrize(
    ("shape", "settings", "message"),
    [
        (IMAGES, {"kernel": 6}, r"kernel: .* 6 × 6, but X of shape \(6, 2, 5, 4\).* has 5 × 4"),
        (IMAGES, {"kernel": 3, "dilation": 3, "padding": 1}, r"kernel: .* 7 × 7.* 7 × 6"),
        (SEQUENCES, {"kernel": 8}, r"kernel: .* 8, but X of shape \(6, 3, 7\)"),
        (IMAGES, {"pool": 3}, "pool: 3 × 3 cells, but the kernel stops at 3 × 2 positions"),
        (IMAGES, {"pool": [[1.0, 2.0]]}, r"pool: the matrix has 2 columns, shape \(1, 2\).* 3 × 2 = 6 positions"),
        (SEQUENCES, {"kernel": (3, 3)}, r"kernel: \(3, 3\) has 2 sizes, but X has 1 dimensions"),
        (SEQUENCES, {"pool": (2, 2)}, r"pool: \(2, 2\) has 2 sizes"),
        ((6, 4), {}, r"X: block 'cnn' needs .*, got \(6, 4\)"),
        ((6, 1, 2, 3, 4), {}, r"X: block 'cnn' needs .*, got \(6, 1, 2, 3, 4\)"),
    ],
)
def test_data_that_do_not_fit(shape: tuple[int, ...], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem(shape, settings, "linear")
    with pytest.raises(ValueError, match=message):
        pn.nn.CNN.from_weights(torch.ones(1, 1), torch.ones(1, 1), **settings)(torch.from_numpy(samples(shape)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": 0}, "kernel: whole numbers from 1 on"),
        ({"kernel": 2.5}, "kernel: .* got 2.5"),
        ({"kernel": (1, 2, 3)}, r"kernel: .* got \(1, 2, 3\)"),
        ({"kernel": "three"}, "kernel: .* got 'three'"),
        ({"stride": True}, "stride: whole numbers from 1 on"),
        ({"stride": (1, 0)}, "stride: .*"),
        ({"padding": -1}, "padding: whole numbers from 0 on"),
        ({"dilation": None}, "dilation: .* got None"),
        ({"pool": 0}, "pool: whole numbers from 1 on"),
        ({"pool": 1.5}, "pool: whole numbers"),
        ({"pool": "max"}, "pool: neither a grid of cells nor a matrix"),
        ({"pool": [[1.0], [2.0, 3.0]]}, "pool: neither"),
        ({"pool": [[1.0, float("nan")]]}, "pool: .* finite"),
        ({"pool": [[0.0, 0.0]]}, "pool: .* not all zero"),
        ({"pool": []}, "pool: whole numbers"),
        ({"pool": [[]]}, "pool: .*"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pn.CNN(**settings)
    with pytest.raises(ValueError, match=message):
        pn.nn.CNN(1, 1, **settings)


def test_the_module_says_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="dims: 1 for sequences or 2 for images, got 3"):
        pn.nn.CNN(1, 1, dims=3)
    with pytest.raises(ValueError, match=r"x: 5 channels.* need 45 weights a neuron, but the network has 18"):
        pn.nn.CNN(2, 3)(torch.zeros(1, 5, 6, 6))
