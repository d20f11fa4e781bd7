"""Other penalties than weight decay: norms, polars, proximal maps, programs, certificates, refusals."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import certify
from provenet.formulation import formulate
from provenet.gauges import LineNorm, NuclearNorm, SignNorm
from provenet.gauges.prox.mixed import MOST_SIGNS, gauge_of, norms, signs
from provenet.io.model import SavedModel
from provenet.io.reading import read_model
from provenet.nn import MLP
from provenet.operators import Lifted, MLPOperator
from provenet.proofs.independent import second_opinion
from provenet.report import render_report
from provenet.solvers.path import path
from provenet.space import Space
from provenet.testing import check_gauge, check_operator
from provenet.variable import Factors
from provenet.verify import Data

INF = math.inf
LINES = [(1, 1), (1, 2), (1, INF), (2, 1), (INF, 1)]
COMPUTABLE = [*LINES, (2, 2)]
HARD = [(INF, INF), (INF, 2), (2, INF)]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def data(n: int = 20, d: int = 4, c: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    return normal(n, d, seed=seed), normal(n, c, seed=seed + 1)


@pytest.mark.parametrize("pair", LINES)
def test_contract(pair):
    check_gauge(LineNorm(*pair))


@pytest.mark.parametrize("pair", LINES)
def test_value_is_the_cheapest_sum_of_neurons(pair):
    """No neurons that add up to Z cost less than ‖Z‖_D, and factorise's cost as much (BM eq. 15)."""
    gauge, Z = LineNorm(*pair), normal(1, 3, 4)
    for seed in range(50):
        left, right = normal(6, 3, seed=seed), normal(6, 4, seed=seed + 100)
        last = Z[0] - left.T @ right
        factors = Factors(
            torch.cat([left, torch.eye(3, dtype=torch.float64)]),
            torch.cat([right, last]),
            torch.zeros(9, dtype=torch.long),
        )
        torch.testing.assert_close(factors.stack(1), Z)
        assert float(gauge.penalty(factors)) >= float(gauge.value(Z)) * (1 - 1e-12)
    assert float(gauge.penalty(gauge.factorise(Z))) == pytest.approx(float(gauge.value(Z)), rel=1e-12)


@pytest.mark.parametrize("pair", list(itertools.product((1, 2, INF), repeat=2)))
def test_best_scaling_of_a_neuron_gives_the_product_of_its_norms(pair):
    """BM Lemma 3.1: min over t > 0 of ½(‖tu‖_C² + ‖v/t‖_R²) = ‖u‖_C‖v‖_R."""
    gauge = gauge_of(pair, 5, 3)
    u, v = normal(5, seed=3), normal(3, seed=4)
    product = np.linalg.norm(u.numpy(), pair[0]) * np.linalg.norm(v.numpy(), pair[1])

    def cost(t: float) -> float:
        return float(gauge.penalty(Factors((t * u)[None], (v / t)[None], torch.zeros(1, dtype=torch.long))))

    best = math.sqrt(np.linalg.norm(v.numpy(), pair[1]) / np.linalg.norm(u.numpy(), pair[0]))
    assert cost(best) == pytest.approx(product, rel=1e-12)
    assert all(cost(best * t) > product for t in (0.5, 0.9, 1.1, 2.0))


def dual_norm(G: np.ndarray, pair: tuple[float, float]) -> float:
    """max uᵀGv over ‖u‖_C, ‖v‖_R ≤ 1: over the corners of a ball that has some, the other side's dual norm."""
    if pair == (2, 2):
        return float(np.linalg.norm(G, 2))
    if pair[0] == 2:
        G, pair = G.T, pair[::-1]
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(G))))
    corners = np.eye(len(G)) if pair[0] == 1 else signs
    return float(np.linalg.norm(corners @ G, {1: INF, 2: 2, INF: 1}[pair[1]], axis=1).max())


@pytest.mark.parametrize("pair", COMPUTABLE + HARD)
@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 3, 5), (2, 4, 1), (2, 1, 4)])
def test_polar_bounds_every_neuron_and_is_reached(pair, shape):
    gauge, G = gauge_of(pair, *shape[1:]), normal(*shape)
    bounds = gauge.polar(G)
    u, v = normal(2000, shape[1], seed=5), normal(2000, shape[2], seed=6)
    for x, norm in ((u, pair[0]), (v, pair[1])):
        x[:1000] = x[:1000].sign()
        x /= norms(x, norm)[:, None]
    assert bool(((u @ G * v).sum(2).amax(1) <= bounds.upper).all())
    best = torch.tensor([dual_norm(block, pair) for block in G.numpy()], dtype=torch.float64)
    torch.testing.assert_close(best, bounds.upper, rtol=1e-11, atol=0)
    assert bool((bounds.lower <= best * (1 + 1e-14)).all())


@pytest.mark.parametrize("pair", HARD)
def test_polar_by_signs_is_that_of_every_corner(pair):
    """Both sides' corners by brute force; a 2-norm beside them is dual to itself."""
    G = normal(3, 4, 3)
    polar = SignNorm(*pair).polar(G).upper
    corners = [torch.tensor(s, dtype=torch.float64) for s in itertools.product((-1.0, 1.0), repeat=4)]
    turned = [torch.tensor(s, dtype=torch.float64) for s in itertools.product((-1.0, 1.0), repeat=3)]
    for k in range(3):
        if pair == (INF, INF):
            wanted = max(float(s @ G[k] @ t) for s in corners for t in turned)
        elif pair == (INF, 2):
            wanted = max(float((s @ G[k]).norm()) for s in corners)
        else:
            wanted = max(float((G[k] @ t).norm()) for t in turned)
        assert float(polar[k]) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("pair", COMPUTABLE + HARD)
def test_what_rounding_can_hide(pair):
    """γ°(E) ≤ rounding(p, q)·‖E‖₂, with equality for some E."""
    gauge = gauge_of(pair, 4, 3)
    E = normal(200, 4, 3)
    flat = torch.ones(4, 3, dtype=torch.float64)
    corner = torch.eye(4, 3, dtype=torch.float64)
    corner[1:] = 0
    row, column = flat * corner.sum(1, keepdim=True), flat * corner.sum(0)
    E = torch.cat([E, torch.stack([flat, row, column, corner])])
    ratio = gauge.polar(E).lower / torch.linalg.matrix_norm(E, 2)
    assert float(ratio.max()) <= gauge.rounding(4, 3)
    assert float(ratio.max()) == pytest.approx(gauge.rounding(4, 3), rel=1e-9)


@pytest.mark.parametrize("by_rows", [True, False])
def test_lifted_operator(by_rows):
    X, pattern = normal(7, 4), normal(7, 3, seed=1) > 0
    inner = MLPOperator(X, pattern.to(torch.float64), 3)
    operator = Lifted(inner, signs(Space(), 4 if by_rows else 3), by_rows)
    check_operator(operator)
    factors = Factors(normal(5, 4), normal(5, 3, seed=2), torch.tensor([0, 1, 2, 0, 1]))
    torch.testing.assert_close(operator.lowered(operator.raised(factors)).stack(3), factors.stack(3))


def reference(problem, pair) -> float:
    """The convex program from BM eq. 15 alone: each block a sum of rank-one terms over the corners of a ball."""
    cp = pytest.importorskip("cvxpy")
    X, Y = problem.X.numpy(), problem.loss.target.numpy()
    d, c = X.shape[1], Y.shape[1]
    fit, cost = 0, 0
    for pattern in problem.patterns.numpy():
        if pair == (2, 2):
            Z = cp.Variable((d, c))
            block, norm = Z, cp.normNuc(Z)
        elif pair[0] != 2 and (pair[0] == 1 or pair[1] != 1):  # u is a corner of C's ball
            corners = np.eye(d) if pair[0] == 1 else np.array(list(itertools.product((-1, 1), repeat=d)))
            W = cp.Variable((len(corners), c))
            block, norm = corners.T @ W, sum(cp.norm(W[i], pair[1]) for i in range(len(corners)))
        else:  # v is a corner of R's ball
            corners = np.eye(c) if pair[1] == 1 else np.array(list(itertools.product((-1, 1), repeat=c)))
            W = cp.Variable((d, len(corners)))
            block, norm = W @ corners, sum(cp.norm(W[:, i], pair[0]) for i in range(len(corners)))
        fit = fit + cp.multiply(pattern[:, None] * np.ones((1, c)), X @ block)
        cost = cost + norm
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(fit - Y) + problem.beta * cost))
    program.solve(solver="CLARABEL")
    return float(program.value)


@pytest.mark.parametrize("pair", COMPUTABLE + HARD)
@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
def test_solution_is_cvxpy_s(pair, activation):
    problem = formulate("mlp", *data(), activation, gates=5, beta=0.7, penalty=pair)
    solution = pn.solve(problem, tol=1e-8)
    assert solution.certificate.status == "certified"
    wanted = reference(problem, pair)
    assert solution.certificate.primal == pytest.approx(wanted, rel=1e-6)
    assert solution.certificate.dual <= wanted * (1 + 1e-7)
    own = objective(problem, solution.network(), pair)
    assert own == pytest.approx(solution.certificate.primal, rel=1e-12)


def objective(problem, network, pair) -> float:
    """Written out: the network's loss and the norms of its weights."""
    first, second = network.first.detach().numpy(), network.second.detach().numpy()
    decay = sum(
        np.linalg.norm(u, pair[0]) ** 2 + np.linalg.norm(v, pair[1]) ** 2 for u, v in zip(first, second, strict=True)
    )
    fit = network(problem.X).detach()
    return float(problem.loss.value(fit)) + problem.beta / 2 * decay


@pytest.mark.parametrize("method", ["admm", "apg", "cvx"])
@pytest.mark.parametrize("pair", LINES)
def test_methods_agree(method, pair):
    if method == "cvx":
        pytest.importorskip("cvxpy")
    problem = formulate("mlp", *data(30, 5, 2), gates=8, beta=0.3, loss="huber", penalty=pair)
    best = pn.solve(problem, tol=1e-7).certificate
    other = pn.solve(problem, method, tol=1e-6)
    assert other.certificate.primal == pytest.approx(best.primal, rel=2e-6)
    assert other.status.value == "solved"


@pytest.mark.parametrize("pair", COMPUTABLE + HARD)
def test_a_network_s_weights_are_measured_in_the_problem_s_norms(pair):
    """And its certificate holds: the dual is below the optimum, whatever the network."""
    problem = formulate("mlp", *data(), "linear", beta=0.5, penalty=pair)
    best = pn.solve(problem, tol=1e-8).certificate.primal
    for seed in range(3):
        network = MLP.from_weights(0.3 * normal(6, 4, seed=seed), 0.3 * normal(6, 3, seed=seed + 9))
        certificate = certify(problem, network)
        assert certificate.primal == pytest.approx(objective(problem, network, pair), rel=1e-12)
        assert certificate.dual <= best <= certificate.primal
        assert bool(certificate.conditions) == (pair == (2, 2))  # the theorems suppose rotations


@pytest.mark.parametrize("pair", COMPUTABLE + HARD)
def test_scales_paths_and_beta_max(pair):
    """Units of X and Y, data with unused directions, and the zero network from β_max on."""
    X, Y = data(6, 7, 2)
    problem = formulate("mlp", 1e3 * X, 1e-2 * Y, "linear", beta=1.0, penalty=pair)
    G = (1e3 * X).T @ (1e-2 * Y)
    assert problem.beta_max == pytest.approx(float(gauge_of(pair, 7, 2).polar(G[None]).upper), rel=1e-9)
    assert pn.solve(problem.with_beta(1.001 * problem.beta_max)).factors.n_neurons == 0
    for solution in path(problem, 3, tol=1e-6, beta_ratio=0.05)[1:]:
        assert solution.certificate.status == "certified"
        assert solution.factors.n_neurons > 0


@pytest.mark.parametrize("pair", [(1, 2), (2, 1), (1, INF)])
def test_a_convolution_has_them_too(pair):
    """BM Thm B.1: certified and confirmed; with a kernel as large as the image, the MLP's optimum."""
    X, Y = normal(15, 2, 3, 3), normal(15, 2, seed=1)
    problem = formulate(pn.CNN(kernel=2, pool=2), X, Y, gates=3, beta=0.3, penalty=pair)
    solution = pn.solve(problem, tol=1e-5)
    assert solution.certificate.relative_gap <= 1e-5
    assert second_opinion(problem, solution.network(), theta=solution.certificate.theta).relative_gap <= 2e-5
    gates = normal(3, 18, seed=2)
    whole = formulate(pn.CNN(kernel=3, pool=1), X, Y, gates=gates, beta=0.3, penalty=pair)
    flat = formulate("mlp", X.reshape(15, -1), Y, gates=gates, beta=0.3, penalty=pair)
    assert pn.solve(whole, tol=1e-6).certificate.primal == pytest.approx(
        pn.solve(flat, tol=1e-6).certificate.primal, rel=3e-6
    )


def test_one_output_makes_every_pair_computable():
    for pair in HARD:
        problem = formulate("mlp", *data(30, 40, 1), beta=0.5, gates=3, penalty=pair)
        assert isinstance(problem.program.gauge, LineNorm)
        assert pn.solve(problem, tol=1e-6).certificate.relative_gap <= 1e-6


def test_weight_decay_is_the_default():
    problem = formulate("mlp", *data(), gates=3)
    assert problem.penalty == (2, 2)
    assert type(problem.program.gauge) is NuclearNorm
    assert type(formulate("mlp", *data(), gates=3, penalty=[2.0, 2]).program.gauge) is NuclearNorm


def test_refusals():
    X, Y = data()
    for wrong in ((1, 3), (1,), 2, "12", (1, "inf"), (True, 2), (1, 2, 2), None):
        with pytest.raises(ValueError, match="penalty: a pair"):
            formulate("mlp", X, Y, penalty=wrong)
    with pytest.raises(ValueError, match=r"penalty: .* goes with blocks 'mlp' and 'cnn', not with 'attention'"):
        formulate("attention", normal(3, 4, 2), normal(3, 2), "linear", penalty=(1, 2))
    with pytest.raises(ValueError, match=r"penalty: .* ReLU networks with several outputs"):
        formulate(pn.CNN(kernel=2), normal(3, 1, 3, 3), normal(3, 2), "relu", gates=2, penalty=(1, 2))
    many = MOST_SIGNS + 1
    for pair, p, q in (((INF, 2), many, 3), ((2, INF), 3, many), ((INF, INF), many, many)):
        with pytest.raises(ValueError, match=f"NP-hard.*{MOST_SIGNS} weights.*{many}"):
            formulate("mlp", normal(5, p), normal(5, q, seed=1), "linear", penalty=pair)
    formulate("mlp", normal(5, many), normal(5, 2, seed=1), "linear", penalty=(INF, INF))  # the second layer's are few


@pytest.mark.parametrize("method", ["bm", "ipm", "frank_wolfe"])
def test_methods_of_weight_decay_refuse_by_name(method):
    with pytest.raises(ValueError, match=f"method: '{method}' cannot take this problem"):
        pn.solve(formulate("mlp", *data(), gates=3, penalty=(1, 2)), method)


@pytest.mark.parametrize("pair", [(1, 2), (2, INF)])
def test_folders_reports_and_certificates_name_the_norms(tmp_path, pair):
    X, Y = data()
    solution = pn.solve(formulate("mlp", X, Y, gates=3, beta=1.0, penalty=pair))
    words, written = {1: ("‖u‖₁² + ‖v‖₂²", [1, 2]), 2: ("‖u‖₂² + ‖v‖_∞²", [2, "inf"])}[pair[0]]
    assert words in str(solution.certificate)
    assert words in render_report(solution=solution)
    pn.save(solution, tmp_path / "model")
    assert json.loads((tmp_path / "model" / "certificate.json").read_text())["penalty"] == written
    again = pn.load(tmp_path / "model")
    assert again.statement.penalty == again.certificate.penalty == again.problem(X, Y).penalty == pair
    assert again.certificate == solution.certificate
    assert again.certify(X, Y, tol=1e-6).primal == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert "‖" not in str(pn.solve(formulate("mlp", X, Y, gates=3, beta=1.0)).certificate)


def test_a_folder_whose_norms_are_not_its_certificate_s_is_refused():
    solution = pn.solve(formulate("mlp", *data(), gates=3, beta=1.0, penalty=(1, 2)))
    model = SavedModel.of(solution.problem, solution.network(), solution.certificate)
    told = model.certificate.to_dict()
    assert read_model(model.header(), model.tensors(), told).statement.penalty == (1, 2)
    for wrong, words in (([2, 2], "its certificate"), ([1, 3], "penalty"), ("12", "expected list"), ([1], "penalty")):
        with pytest.raises(ValueError, match=words):
            read_model(model.header(), model.tensors(), told | {"penalty": wrong})


@pytest.mark.parametrize("pair", [*COMPUTABLE, *HARD])
@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_the_independent_checker_agrees(pair, loss):
    X, Y = data()
    Y = torch.eye(3, dtype=torch.float64)[torch.arange(20) % 3] if loss == "softmax" else Y
    solution = pn.solve(formulate("mlp", X, Y, gates=4, loss=loss, beta=0.5, penalty=pair), tol=1e-5)
    verdict = second_opinion(solution.problem, solution.network(), Data(X.numpy(), Y.numpy()))
    assert verdict.primal == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert verdict.polar_max == pytest.approx(solution.certificate.polar_max, rel=1e-9)
    assert verdict.relative_gap == pytest.approx(solution.certificate.relative_gap, abs=1e-9)


def test_sparse_first_layers_come_of_the_one_norm():
    """C = 1: a neuron reads one feature; features that no neuron reads are selected away."""
    X = normal(60, 12)
    Y = torch.stack([X[:, 2].clamp_min(0), X[:, 7]], 1)
    problem = formulate("mlp", X, Y, "linear", beta=15.0, penalty=(1, 2))
    first = pn.solve(problem).network().first
    assert bool(((first != 0).sum(1) == 1).all())
    assert set(torch.nonzero(first)[:, 1].tolist()) == {2, 7}
