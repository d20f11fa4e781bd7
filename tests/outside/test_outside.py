"""A block, a loss, a gauge, a method and a sampler of gates of a user's, each a small file: nothing is registered, all
is certified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bilinear import Bilinear, BilinearNetwork, products
from priced_gates import PricedGates
from proximal_gradient import ProximalGradient
from square_gates import squarely
from squared_hinge import SquaredHinge

import provenet as pn
from provenet.gates.pool import Sampled
from provenet.gates.sight import Sight
from provenet.solvers.offers import Task
from provenet.testing import (
    Case,
    check_block,
    check_gauge,
    check_loss,
    check_operator,
    check_rows,
    check_sampler,
    check_solver,
    check_states,
    problem_bank,
)

FILES = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_"))
DRAW = np.random.default_rng(0)
PAIRS, POINTS = DRAW.standard_normal((16, 2, 2)), DRAW.standard_normal((30, 3))
LABELS = np.where(POINTS[:, :2] * POINTS[:, 1:] > 0, 1.0, -1.0)  # (30, 2)
TARGETS = np.column_stack([PAIRS[:, 0, 0] * PAIRS[:, 1, 1], np.tanh(PAIRS[:, 0, 1])])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60


def solved(problem: pn.Problem, method: object, tol: float = 1e-6) -> float:
    """The optimum, with a certificate of its own."""
    solution = pn.solve(problem, method, tol=tol)  # type: ignore[arg-type]
    assert solution.status is pn.Status.SOLVED, solution
    certificate = pn.certify(problem, solution.network(), tol=tol)
    assert certificate.status == "certified"
    assert certificate.bound == "exact"
    return certificate.primal


# a block


def bilinear(activation: str, loss: str = "squared") -> pn.Problem:
    targets = (TARGETS > 0).astype(float) if loss == "logistic" else TARGETS
    problem = pn.formulate(Bilinear(), PAIRS, targets, activation, gates=5, loss=loss)
    return problem.with_beta(0.05 * problem.beta_max)


def test_the_block_keeps_the_contracts() -> None:
    for activation in ("linear", "gated_relu", "relu"):
        check_block(Bilinear(), PAIRS[:6], activation)
    for activation in ("linear", "gated_relu"):
        check_operator(bilinear(activation).program.operator)
    check_rows(Bilinear(), PAIRS)


@pytest.mark.parametrize("method", ["auto", "admm", "ipm", "apg", "bm", "subspace", ProximalGradient()], ids=str)
def test_the_block_is_solved_by_every_method(method: object) -> None:
    problem = bilinear("gated_relu")
    as_mlp = pn.formulate("mlp", products(torch.from_numpy(PAIRS)), TARGETS, gates=problem.gate_vectors)
    best = solved(as_mlp.with_beta(problem.beta), "ipm", tol=1e-8)
    assert solved(problem, method) == pytest.approx(best, rel=2e-6)


@pytest.mark.parametrize("activation", ["linear", "gated_relu", "relu"])
def test_the_block_takes_other_losses_and_activations(activation: str) -> None:
    certificate = pn.solve(bilinear(activation, "logistic"), tol=1e-5).certificate
    assert certificate.status == "certified"


def test_the_block_in_an_estimator_and_of_a_loop_of_ones_own() -> None:
    fitted = pn.ProvenRegressor(block=Bilinear(), n_gates=5, beta=0.1).fit(PAIRS, TARGETS)
    assert isinstance(fitted.network_, BilinearNetwork)
    assert fitted.certificate_.status == "certified"
    again = pn.certify(fitted.network_, PAIRS, TARGETS, loss="squared", beta=0.1)
    assert again.primal == pytest.approx(fitted.certificate_.primal)
    fresh = BilinearNetwork(4, 2, rank=2, n_gates=3, activation="gated_relu", seed=0)
    assert pn.certify(fresh, PAIRS, TARGETS, loss="squared", beta=0.1).dual <= again.primal * 2


def test_the_block_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match=r"needs pairs \(n, 2, d\), got \(16, 2\)"):
        pn.formulate(Bilinear(), TARGETS, TARGETS)


# a loss


def hinged(activation: str = "gated_relu") -> pn.Problem:
    problem = pn.formulate("mlp", POINTS, LABELS, activation, gates=8, loss=SquaredHinge)
    return problem.with_beta(0.05 * problem.beta_max)


def test_the_loss_keeps_its_contract() -> None:
    check_loss(SquaredHinge(torch.from_numpy(LABELS[:5])))
    with pytest.raises(ValueError, match="1 and −1"):
        SquaredHinge(torch.zeros(3, 1))


def test_the_loss_is_minimised_alike_by_all_methods() -> None:
    found = {str(method): solved(hinged(), method) for method in ("auto", "admm", "apg", "bm", ProximalGradient())}
    assert max(found.values()) == pytest.approx(min(found.values()), rel=2e-6)


def test_the_loss_with_relu_and_weights() -> None:
    relu = pn.formulate("mlp", POINTS, LABELS[:, :1], "relu", gates=20, loss=SquaredHinge, beta=0.3)
    found = [solved(relu, method, tol=1e-5) for method in ("auto", "frank_wolfe", "working_set")]
    assert found == pytest.approx([found[0]] * 3, rel=2e-5)
    weight = np.arange(30) % 3.0
    weighted = pn.formulate("mlp", POINTS, LABELS, gates=5, loss=SquaredHinge, beta=0.3, sample_weight=weight)
    assert solved(weighted, "auto") > 0


def test_the_interior_point_says_that_it_needs_another_loss() -> None:
    with pytest.raises(ValueError, match="it needs the squared loss, not 'squared_hinge'"):
        pn.solve(hinged(), "ipm")


def test_a_loss_without_the_best_constant_has_no_free_intercept() -> None:
    with pytest.raises(ValueError, match=r"^fit_intercept: .*Shiftable.*squared_hinge"):
        pn.formulate("mlp", POINTS, LABELS, loss=SquaredHinge, beta=1.0, fit_intercept="free")


# a gauge


def priced() -> pn.Problem:
    problem = pn.formulate("mlp", POINTS, LABELS, gates=6, beta=1.0)
    prices = torch.linspace(0.5, 3.0, len(problem.patterns), dtype=torch.float64)
    problem = replace(problem, program=replace(problem.program, gauge=PricedGates(prices)))
    return problem.with_beta(0.1 * problem.beta_max)


def test_the_gauge_keeps_its_contract() -> None:
    check_gauge(PricedGates(torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64)), shapes=((3, 4, 2), (3, 1, 3)))


def test_the_gauge_is_taken_by_all_with_a_prox() -> None:
    problem = priced()
    found = [solved(problem, method) for method in ("auto", "admm", "apg", ProximalGradient())]
    assert found == pytest.approx([found[0]] * 4, rel=2e-6)
    plain = replace(problem, program=replace(problem.program, gauge=PricedGates(torch.ones(6, dtype=torch.float64))))
    assert solved(plain, "auto") == pytest.approx(solved(hardly_priced(problem), "ipm"), rel=2e-6)
    with pytest.raises(ValueError, match="needs the nuclear norm, not PricedGates"):
        pn.solve(problem, "bm")


def hardly_priced(problem: pn.Problem) -> pn.Problem:
    """Weight decay itself."""
    return pn.formulate("mlp", POINTS, LABELS, gates=problem.gate_vectors, beta=problem.beta)


def test_stacks_too_large_to_form_are_priced_gate_by_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    program = priced().program
    theta = -program.loss.gradient(torch.zeros_like(program.loss.target))
    whole = program.polar(theta)
    monkeypatch.setattr("provenet.polar.bounds.LARGE_BYTES", 2 * program.operator.stack_bytes // 6)
    assert torch.allclose(program.polar(theta).upper, whole.upper, rtol=1e-12)


# a method

BANK = [case for case in problem_bank()[::7] if "ratio=0.01" not in case.name]  # there it crawls


@pytest.mark.parametrize("case", BANK, ids=str)
def test_the_method_keeps_its_contract(case: Case) -> None:
    assert check_solver(ProximalGradient(), case, tol=1e-5) is None


def test_the_method_says_what_it_lacks_and_what_it_offers() -> None:
    relu = pn.formulate("mlp", POINTS, LABELS, "relu", gates=5)
    with pytest.raises(ValueError, match="'proximal_gradient' cannot take this problem: its gauge has no prox"):
        pn.solve(relu, ProximalGradient())
    rough, fine = (ProximalGradient().offer(Task(hinged().program, tol)).work for tol in (1e-2, 1e-6))
    assert 0 < rough <= fine < float("inf")
    check_states(ProximalGradient(), hinged())


# a sampler of gates


@pytest.mark.parametrize("activation", ["gated_relu", "relu"])
def test_the_sampler_keeps_its_contract(activation: str) -> None:
    problem = check_sampler(squarely, pn.MLP(), POINTS, LABELS, activation)
    assert problem.statement.sampler == "square_gates.squarely"
    assert solved(problem, "auto", tol=1e-4) > 0


def test_the_sampler_in_groups_and_in_an_estimator() -> None:
    tokens = DRAW.standard_normal((12, 4, 2))
    problem = check_sampler(squarely, pn.BFNO(groups=2), tokens, DRAW.standard_normal((12, 2)))
    assert set(problem.gates.own.tolist()) == {0, 1}
    fitted = pn.ProvenRegressor(gates=squarely, n_gates=7, beta=0.1).fit(POINTS, LABELS[:, 0])
    assert len(fitted.solution_.problem.patterns) == 7


def test_of_a_sampler_nothing_is_taken_on_trust() -> None:
    def wrong(sight: Sight, count: int, seed: int | None) -> Sampled:
        vectors = torch.eye(3, dtype=torch.float64)
        return Sampled([(vectors, torch.zeros(3, len(POINTS), dtype=torch.bool))])

    def grazing(sight: Sight, count: int, seed: int | None) -> Sampled:
        across = torch.tensor([[POINTS[0, 1], -POINTS[0, 0], 0.0]])
        return Sampled([(across, across @ torch.from_numpy(POINTS.T) >= 0)])

    patterns = pn.formulate("mlp", POINTS, LABELS, gates=wrong, beta=0.1).patterns
    assert torch.equal(patterns, torch.from_numpy(POINTS.T > 0))
    with pytest.raises(ValueError, match="gates: "):
        pn.formulate("mlp", POINTS, LABELS, gates=grazing, beta=0.1)
