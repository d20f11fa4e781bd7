"""Rows that are nearly parallel: cones and cells as thin as rounding make no false proof."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.cones import Cones, cone_pca
from provenet.gates.arrangements import NotEnumerable, arrangements, doubt
from provenet.verify import Data, Statement, Weights, verify


def network(first: np.ndarray, second: np.ndarray) -> torch.nn.Module:
    return pn.nn.MLP.from_weights(torch.from_numpy(first), torch.from_numpy(second), relu=True)


@pytest.mark.parametrize("delta", [2e-11, 9e-12, 1e-12, 1e-13])
def test_cells_too_thin_to_enumerate_are_not_forgotten(delta: float) -> None:
    """Neurons within an angle δ fit three targets; a proof over cells that merged them would call zero optimal."""
    X = np.array([[1.0, 0.0], [1.0, delta], [1.0, 2 * delta]])
    Y = np.array([[1.0], [-2.0], [1.0]])
    first = np.array([[1.0, -1 / delta], [0.0, 1 / delta], [-1.0, 1 / delta]])
    second = np.array([[1.0], [-2.0], [5.0]])
    root = np.sqrt(np.linalg.norm(first, axis=1, keepdims=True) / np.abs(second))
    good = network(first / root, second * root)
    beta = 0.01 * delta
    reached = pn.certify(good, (X, Y), loss="squared", beta=beta).primal
    judged = pn.certify(network(np.zeros((1, 2)), np.zeros((1, 1))), (X, Y), loss="squared", beta=beta)
    assert reached < 1 < judged.primal
    assert judged.dual <= reached
    assert judged.status == "not_certified"


@pytest.mark.parametrize("delta", [1e-12, 1e-14])
@pytest.mark.parametrize("d", [2, 3])
def test_rows_neither_the_same_nor_apart_are_refused(delta: float, d: int) -> None:
    rows = torch.from_numpy(np.random.default_rng(0).standard_normal((6, d)))
    rows[3] = 2 * rows[2]
    rows[3, 0] += 2 * delta * rows[2].norm()
    with pytest.raises(NotEnumerable, match=r"gates: 'all' cannot tell .* nearly parallel.* Round X"):
        arrangements(rows)


def test_hyperplanes_that_nearly_share_a_line_are_refused() -> None:
    rows = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1e-12], [0.0, 0.3, 1.0]], dtype=torch.float64)
    with pytest.raises(NotEnumerable, match="meet in one place"):
        arrangements(rows)


def test_rows_that_leave_a_plane_by_a_hair_are_refused() -> None:
    rows = torch.zeros(5, 2000, dtype=torch.float64)
    rows[:, :2] = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 2)))
    rows[1, 2] = 1e-13
    with pytest.raises(NotEnumerable, match="lower dimension"):
        arrangements(rows)


def test_rows_parallel_up_to_rounding_are_one_and_doubted() -> None:
    rows = torch.tensor([[0.1, 0.7], [0.3, 2.1], [1.0, -1.0]], dtype=torch.float64)  # 0.3/0.1 is not 2.1/0.7 in floats
    assert len(arrangements(rows)[1]) == 4
    assert doubt(rows) > 0
    assert doubt(torch.stack([rows[0], 2 * rows[0], -rows[0]])) == 0
    problem = pn.formulate("mlp", rows.numpy(), np.ones((3, 1)), "relu", gates="all", beta=0.1)
    assert problem.program.gauge.rounding(2, 1) > 1


def test_bounds_of_a_smaller_program_are_not_taken_where_data_were_dropped() -> None:
    """Rank reduction drops a direction of 1e-13; at a tiny β that direction is worth nine tenths of the objective."""
    p, eta = 2000, 1e-13
    X = np.zeros((2, p))
    X[:, 0], X[1, 1] = 1, eta
    Y, beta = np.array([[1.0], [-1.0]]), 0.05 * eta
    first = np.zeros((2, p))
    first[0, :2], first[1, :2] = (1, -1 / eta), (0, 1 / eta)
    root = np.sqrt(np.linalg.norm(first, axis=1, keepdims=True))
    reached = pn.certify(network(first / root, np.array([[1.0], [-1.0]]) * root), (X, Y), loss="squared", beta=beta)
    zero = network(np.zeros((1, p)), np.zeros((1, 1)))
    assert pn.certify(zero, (X, Y), loss="squared", beta=beta, sharpen=1.0).dual <= reached.primal < 0.2
    problem = pn.formulate("mlp", X, Y, activation="relu", gates=np.eye(p)[:1], beta=beta)
    assert pn.solve(problem, max_seconds=2.0).lower_bound <= reached.primal


@pytest.mark.parametrize("seed", range(60))
def test_cones_between_nearly_parallel_facets(seed: int) -> None:
    """Two facets 1e-4 to 1e-14 apart, turned by rounding where they meet: points next to the tip are in the cone."""
    rng = np.random.default_rng(seed)
    angle = 10.0 ** -rng.uniform(4, 14)
    base, third = rng.standard_normal((2, 3))
    base /= np.linalg.norm(base)
    tilt = np.cross(base, rng.standard_normal(3))
    second = -base + angle * tilt / np.linalg.norm(tilt) if seed % 2 else base + angle * tilt / np.linalg.norm(tilt)
    K = np.stack([base, second, third])
    along = np.cross(base, tilt)
    inside = along * np.sign(third @ along) + 0.3 * angle * tilt / np.linalg.norm(tilt)
    inside = np.linalg.solve(K, np.array([angle, angle, 1.0]) * 0.1) if (K @ inside).min() <= 0 else inside
    if not (K @ inside).min() > 0:
        pytest.skip("rounding left no point inside")
    rows = torch.from_numpy(K / np.linalg.norm(K, axis=1, keepdims=True))
    cones = Cones.of(rows, torch.ones(1, 3, dtype=torch.bool), torch.from_numpy(inside)[None])
    G = rng.standard_normal((3, 2))
    upper = float(cone_pca(cones, torch.from_numpy(G)[None]).upper)
    for _ in range(200):
        slack = 10.0 ** rng.uniform(-12, 2, size=3) * np.array([angle, angle, 1.0])
        u = np.linalg.solve(K, slack)
        if (K @ u).min() >= 0:
            assert np.linalg.norm(G.T @ u) <= upper * np.linalg.norm(u) * (1 + 1e-9)


def test_the_neuron_at_the_tip_of_a_sliver_refutes_no_proof() -> None:
    X = np.array(
        [
            [-0.6309850666813726, 1.0192119502148094, 0.9162488537655754],
            [-0.331495654004825, 0.5354553634843828, 0.48136244231892356],
            [-0.993346970034933, 0.27246884297032065, -0.9871669702226998],
        ]
    )
    Y = np.array(
        [
            [-1.6051493968851136, 0.7293494040178566],
            [0.8061393585150219, -0.476376747401162],
            [0.16333994554129863, -1.2926461227593415],
        ]
    )
    gate, beta = np.array([-2.0277587184976884, -0.7804661198708104, -0.5282681282174928]), 0.1
    problem = pn.formulate("mlp", X, Y, activation="relu", gates=gate[None], beta=beta)
    K = np.where(problem.patterns[0].numpy(), 1, -1)[:, None] * X
    u = np.linalg.solve(K, [1e-12, 1e-12, 1.0])
    assert (K @ u > 0).all()
    hidden = np.maximum(X @ u, 0)
    pull = Y.T @ hidden
    v = pull * (1 - beta * np.linalg.norm(u) / np.linalg.norm(pull)) / (hidden @ hidden)
    root = np.sqrt(np.linalg.norm(v) / np.linalg.norm(u))
    tip = pn.certify(problem, network(u[None] * root, v[None] / root))
    assert tip.primal < 2.1
    assert pn.solve(problem).certificate.dual <= tip.primal
    statement = Statement("squared", beta, relu=True, gate_vectors=gate[None])
    checked = verify(Data(X, Y), Weights(0 * gate[None], np.zeros((1, 2))), statement)
    assert checked.dual <= tip.primal
