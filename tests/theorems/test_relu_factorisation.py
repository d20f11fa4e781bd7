"""Theorems of the ReLU factorisation: BM Thm 3.3 to 3.6, Cor 3.8, 3.10; AT Thm 3.3, 4.2, 4.5, 4.8, C.6."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.gauges import ConeNuclear
from provenet.problem import Program
from provenet.solvers.cones.bm import ConeBM, escape
from provenet.solvers.cones.faces import descent, feasible
from provenet.solvers.loop import Limits, run
from provenet.solvers.neurons.bm import BM
from provenet.solvers.neurons.place import Place, gradient, place
from provenet.variable import Factors


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def plane(loss: str = "squared", seed: int = 0, ratio: float = 0.1, n: int = 16) -> pn.Problem:
    """All arrangements in the plane, where cone-constrained PCA is exact."""
    Y = normal(n, 2, seed=seed + 1)
    problem = pn.formulate(
        "mlp", normal(n, 2, seed=seed), np.eye(2)[Y.argmax(1)] if loss == "softmax" else Y, "relu", "all", loss, 1.0
    )
    return problem.with_beta(ratio * problem.beta_max)


def cone_polars(program: Program, at: Place) -> torch.Tensor:
    """max ‖G_kᵀu‖ over the cones: of the gradient transposed (slip 1 of BM after eq. 20)."""
    return program.gauge.polar(program.operator.adjoint(program.loss.gradient(at.prediction))).upper


def stationary(program: Program, gates: list[int]) -> Place:
    """A stationary point of the factorisation with neurons behind some gates only."""
    chosen = torch.tensor(gates)
    alone = run(ConeBM(), program.restrict(chosen), Limits(1e-11, max_steps=60)).factors
    at = place(program, Factors(alone.left, alone.right, chosen[alone.gate]))
    assert isinstance(program.gauge, ConeNuclear)
    steepest, _ = descent(program.gauge.region, at.factors, gradient(program, at))
    assert float(steepest.abs().max()) < 1e-4 * program.beta
    return at


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_bm_theorem_3_4_at_stationary_points_with_cones(loss: str) -> None:
    """(p̂ − p*)/p* ≤ (max_k γ°(G_k)/β − 1)₊ with γ° the cone-constrained PCA of BM after eq. 20."""
    problem = plane(loss)
    program = problem.program
    optimum = run(ConeBM(), program, Limits(1e-9)).history[-1].dual
    seen = 0.0
    for gates in ([0], [3, 11], [1, 6, 17, 25]):
        at = stationary(program, gates)
        bound = max(float(cone_polars(program, at).max()) / program.beta - 1, 0.0)
        assert (at.value - optimum) / optimum <= bound + 1e-4
        seen = max(seen, (at.value - optimum) / optimum)
    assert seen > 0.01  # some of them are not optimal, so that the bound is put to the test


def test_bm_theorem_3_3_with_an_empty_pair_in_every_block() -> None:
    """Slip 15: at a local minimum with an all-zero pair in every block γ° ≤ β, and it is global; where γ° > β for some
    gate, the zero pair of that gate descends, and the point was no local minimum."""
    program = plane().program
    at = stationary(program, [0])
    slope = program.operator.adjoint(program.loss.gradient(at.prediction))
    assert isinstance(program.gauge, ConeNuclear)
    violated = torch.nonzero(program.gauge.polar(slope).lower > 1.05 * program.beta).flatten().tolist()
    assert violated
    for gate in violated:
        one = torch.tensor([gate])
        u, v = program.gauge.restrict(one).atom(-slope[one])
        for size in (1e-2, 1e-3):
            moved = place(program, Factors.join(at.factors, Factors(size * u, size * v, one)))
            assert moved.value < at.value
    better = escape(program, at, 16)
    assert better is not None
    assert better.value < at.value


def test_rank_deficiency_proves_nothing_with_cones() -> None:
    """Slip 15: rotations leave the cones.  A stationary point whose [U; V] is rank-deficient in its only block, and
    that the gap shows to be optimal or not whatever its rank is."""
    problem = plane()
    at = stationary(problem.program, [0])
    twice = Factors.join(at.factors, at.factors).scaled(0.5**0.5)  # each neuron split in two: rank-deficient
    both = place(problem.program, twice)
    steepest, _ = descent(problem.program.gauge.region, twice, gradient(problem.program, both))
    assert both.value == pytest.approx(at.value, rel=1e-12)
    assert float(steepest.abs().max()) < 1e-4 * problem.program.beta
    assert float(cone_polars(problem.program, both).max()) > 1.1 * problem.program.beta  # yet it is not optimal
    assert pn.certify(problem, problem.network(twice)).conditions == {}  # and no condition is claimed


def test_bm_theorem_3_5_full_rank_stationary_points_of_linear_and_gated() -> None:
    """Full rank at every gate (slip 3): then γ°(G_k) = β everywhere."""
    problem = pn.formulate("mlp", normal(40, 2), normal(40, 2, seed=1), gates=3, beta=1.0)
    program = problem.with_beta(1e-3 * problem.beta_max).program
    done = run(BM(rank=2, escape=False), program, Limits(1e-14, max_steps=300))
    at = place(program, done.factors)
    ranks = torch.linalg.matrix_rank(done.factors.stack(3), rtol=1e-6)
    assert bool((ranks == 2).all())
    slope = program.operator.adjoint(program.loss.gradient(at.prediction))
    assert torch.allclose(torch.linalg.matrix_norm(slope, 2) / program.beta, torch.ones(3, dtype=torch.float64), 1e-4)


def test_bm_theorem_3_5_is_not_one_of_cones() -> None:
    """U and V of full rank, stationary within the cone u ≥ 0, and not optimal: a third neuron pulls harder than β.

    The theorem is said of linear and gated networks; walls that a neuron lies on take up what its gradient leaves."""
    beta, size = 0.5, 1.0
    pulls = beta * np.array([[1.0, 0.0], [0.0, 1.0], [-2.0, -2.0]])  # Y − Ŷ: no two of them help one another
    first, second = size**0.5 * np.eye(3)[:2], size**0.5 * np.eye(2)
    problem = pn.formulate("mlp", np.eye(3), pulls + first.T @ second, "relu", np.ones((1, 3)), beta=beta)
    neurons = Factors(torch.from_numpy(first), torch.from_numpy(second), torch.zeros(2, dtype=torch.long))
    program = problem.program
    at = place(program, neurons.scaled(problem.units.z**-0.5))
    assert isinstance(program.gauge, ConeNuclear)
    steepest, _ = descent(program.gauge.region, at.factors, gradient(program, at))
    assert float(steepest.abs().max()) < 1e-12
    assert [int(torch.linalg.matrix_rank(part)) for part in (neurons.left, neurons.right)] == [2, 2]  # min(p, q)
    strongest = float(cone_polars(program, at).max()) / program.beta
    assert strongest == pytest.approx(8**0.5, rel=1e-9)
    here = pn.certify(problem, problem.network(at.factors))
    assert here.conditions == {}
    assert pn.solve(problem, tol=1e-8).certificate.primal < 0.9 * here.primal


def convolution(gates: Any, ratio: float = 0.2) -> pn.Problem:
    problem = pn.formulate(
        pn.CNN(kernel=(1, 2), pool=(1, 2)), normal(4, 1, 1, 4), normal(4, 2, seed=1), "relu", gates, beta=1.0
    )
    return problem.with_beta(ratio * problem.beta_max)


def test_bm_theorem_3_6_relu_convolutions_with_linear_pooling() -> None:
    """The convex program over all arrangements has the value of the network: no network of any width beats it."""
    problem = convolution("all")
    solution = pn.solve(problem, method="bm", tol=1e-6)
    assert solution.certificate.holds(1e-6)
    assert solution.certificate.scope == "all_arrangements"
    p, q = problem.program.operator.p, problem.program.operator.q
    for seed in range(3):
        weights = [torch.from_numpy(0.5 * normal(12, w, seed=10 * seed + w)) for w in (p, q)]
        network = problem.network(Factors(*weights, torch.zeros(12, dtype=torch.long)))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
        for _ in range(300):
            optimizer.zero_grad()
            value = problem.loss.value(network(problem.X)) + problem.beta * network.penalty()
            value.backward()
            optimizer.step()
        assert float(value.detach()) >= solution.certificate.dual
    assert float(value.detach()) <= 1.5 * solution.certificate.primal  # descent came near


def test_bm_corollary_3_8_stationary_convolutions() -> None:
    """A stationary point with ‖G_kᵀu‖ ≤ β over every cone is optimal; one that violates it can be left."""
    program = convolution(12).program
    found = run(ConeBM(), program, Limits(1e-9, max_steps=60))
    at = place(program, found.factors)
    assert float(cone_polars(program, at).max()) <= program.beta * (1 + 1e-4)
    others = [stationary(program, [gate]) for gate in range(3)]
    violated = [one for one in others if float(cone_polars(program, one).max()) > 1.01 * program.beta]
    assert violated
    for one in violated:
        better = escape(program, one, 8)
        assert better is not None
        assert at.value * (1 - 1e-9) <= better.value < one.value


@pytest.mark.parametrize("seed", [0, 1])
def test_bm_corollary_3_10_linear_attention_has_no_spurious_minima(seed: int) -> None:
    """m ≥ d² + dc heads: descent from any start, without escape, ends at the optimum."""
    d, c = 2, 2
    problem = pn.formulate("attention", normal(12, 3, d), normal(12, c, seed=1), "linear", beta=1.0)
    problem = problem.with_beta(0.1 * problem.beta_max)
    heads = d * d + d * c
    solution = pn.solve(problem, method=BM(rank=heads, seed=seed, escape=False), tol=1e-7)
    assert solution.certificate.relative_gap < 1e-6


BLOCKS = {
    "AT Thm 3.3": ("attention", (6, 3, 2)),
    "AT Thm 4.2": ("mixer", (6, 3, 2)),
    "AT Thm 4.5": ("fno", (6, 3, 2)),
    "AT Thm 4.8": (pn.BFNO(groups=2), (6, 3, 4)),
    "AT Thm C.6": ("poolformer", (6, 4, 3)),
    "BM Lemma 3.7": (pn.CNN(kernel=2, pool=2), (6, 1, 4, 4)),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_program_has_the_networks_own_value_at_feasible_points(name: str) -> None:
    """K_kU_k ≥ 0: then D_kΦu = σ(Φu), and program and network are one function of the weights; outside they differ."""
    block, shape = BLOCKS[name]
    problem = pn.formulate(block, normal(*shape), normal(shape[0], 2, seed=1), "relu", 6, beta=0.3)
    op, gauge = problem.program.operator, problem.program.gauge
    assert isinstance(gauge, ConeNuclear)
    region = gauge.region
    gate = torch.arange(op.n_gates).repeat(3)
    raw = torch.from_numpy(normal(len(gate), op.p, seed=2)) + 3 * region.inside[gate]
    left = feasible(region, raw, gate).point + 1e-3 * region.inside[gate]
    right = torch.from_numpy(normal(len(gate), op.q, seed=3))

    def values(left: torch.Tensor) -> tuple[float, float]:
        factors = Factors(left, right, gate)
        network = problem.network(factors)
        with torch.no_grad():
            own = float(problem.loss.value(network(problem.X)) + problem.beta * network.penalty())
        return own, float(problem.program.objective_factors(factors)) * problem.units.value

    own, program = values(region.pulled_inside(left, gate))
    assert own == pytest.approx(program, rel=1e-11)
    own, program = values(-left)  # the opposite point is outside every cone
    assert abs(own - program) > 1e-3 * abs(own)


def test_recovery_of_neurons_from_convex_weights() -> None:
    """Z_k = Σ uvᵀ with u in the cone → neurons in the cone with the same Z_k, no dearer (CP Remark 5.1)."""
    problem = plane(n=10)
    program = problem.program
    assert isinstance(program.gauge, ConeNuclear)
    cones = program.gauge.region
    gates = torch.tensor([0, 0, 0, 4, 4, 9])
    left = feasible(cones, torch.from_numpy(normal(6, 2, seed=5)) + 2 * cones.inside[gates], gates).point
    known = Factors(left, torch.from_numpy(normal(6, 2, seed=6)), gates)
    stack = known.stack(program.operator.n_gates)
    found = program.gauge.factorise(stack)
    assert torch.allclose(found.stack(program.operator.n_gates), stack, atol=1e-9)
    assert bool((cones.slack(found.left, found.gate) >= -1e-9).all())
    cheapest = (torch.linalg.vector_norm(known.left, dim=1) * torch.linalg.vector_norm(known.right, dim=1)).sum()
    assert float(found.penalty()) <= float(cheapest) * (1 + 1e-6)
    feasible_found = Factors(cones.pulled_inside(found.left, found.gate), found.right, found.gate)
    network = problem.network(feasible_found)
    with torch.no_grad():
        own = float(problem.loss.value(network(problem.X)) + problem.beta * network.penalty())
    convex = float(program.loss.value(program.operator.forward(stack)) + program.beta * found.penalty())
    assert own == pytest.approx(convex * problem.units.value, rel=1e-8)
