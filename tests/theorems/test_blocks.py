"""Theorems about blocks: uncorrelated features split attention; wide factorisations have no spurious minima; the gap
bound at stationary points."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import torch

import provenet as pn
from provenet.problem import Problem
from provenet.testing.bank import example_case
from provenet.testing.examples import EXAMPLES, Example
from provenet.variable import Factors, factorise

D, C = 3, 2  # features, outputs
SETS = ((0, 1), (2,))  # features of different sets are uncorrelated in every sample


def uncorrelated(n: int, s: int, seed: int) -> np.ndarray:
    """(n, s, D) with Gram matrices XᵀX that are zero between SETS: no token has features of two of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, s, D))
    owner = rng.integers(0, len(SETS), (n, s))
    for b, features in enumerate(SETS):
        X[..., list(features)] *= (owner == b)[..., None]
    return X


def split_optimum(X: np.ndarray, Y: np.ndarray, beta: float, readout: str) -> float:
    """AT eq. 14: one variable a set of features, Σ_b Σ_kℓ G_i^(b)[k, ℓ] X_i Z^(b,k,ℓ)."""
    Z = [cp.Variable((len(b) * D, len(b) * C)) for b in SETS]
    value = 0
    for x, y in zip(X, Y, strict=True):
        G, output = x.T @ x, 0
        for features, Zb in zip(SETS, Z, strict=True):
            for (i, k), (j, m) in product(enumerate(features), enumerate(features)):
                output = output + G[k, m] * x @ Zb[i * D : (i + 1) * D, j * C : (j + 1) * C]
        prediction = cp.sum(output, axis=0) / len(x) if readout == "mean" else output
        value = value + 0.5 * cp.sum_squares(prediction - y)
    problem = cp.Problem(cp.Minimize(value + beta * sum(cp.normNuc(Zb) for Zb in Z)))
    return float(problem.solve(solver="CLARABEL"))


def within_sets(stack: torch.Tensor) -> torch.Tensor:
    """Z[(a, b), (e, c)], of W₁[a, b] and W₂[e, c], kept where b and e are of one set: they meet in G[b, e]."""
    together = torch.tensor([[any(b in some and e in some for some in SETS) for e in range(D)] for b in range(D)])
    blocks = stack.view(1, D, D, D, C) * together[None, None, :, :, None]
    return blocks.view_as(stack)


@pytest.mark.parametrize("readout", ["mean", "tokens"])
def test_corollary_3_2_uncorrelated_features_split_linear_attention(readout: str) -> None:
    """The split program has the same optimum, and what is between sets can be dropped from any solution at no cost."""
    X = uncorrelated(8, 4, seed=0)
    Y = np.random.default_rng(1).standard_normal((8, C) if readout == "mean" else (8, 4, C))
    problem = pn.formulate("attention", X, Y, activation="linear", readout=readout)
    problem = problem.with_beta(0.05 * problem.beta_max)
    solution = pn.solve(problem, tol=1e-7)
    assert solution.certificate.holds(1e-7)
    assert split_optimum(X, Y, problem.beta, readout) == pytest.approx(solution.certificate.primal, rel=1e-6)
    split = factorise(within_sets(solution.factors.stack(1)))
    assert split.n_neurons > 1
    assert pn.certify(problem, problem.network(split), tol=1e-6).holds(1e-6)
    generator = torch.Generator().manual_seed(0)
    anything = torch.randn(1, D * D, D * C, generator=generator, dtype=torch.float64)
    program = problem.program
    torch.testing.assert_close(program.operator.forward(within_sets(anything)), program.operator.forward(anything))
    assert float(program.gauge.value(within_sets(anything))) < float(program.gauge.value(anything))


def test_corollary_3_2_needs_its_assumption() -> None:
    """Correlated features do not split: the same cut costs something."""
    X, Y = (np.random.default_rng(seed).standard_normal(shape) for seed, shape in ((0, (8, 4, D)), (1, (8, C))))
    problem = pn.formulate("attention", X, Y, activation="linear")
    problem = problem.with_beta(0.05 * problem.beta_max)
    solution = pn.solve(problem, tol=1e-7)
    cut = factorise(within_sets(solution.factors.stack(1)))
    assert pn.certify(problem, problem.network(cut)).primal > 1.01 * solution.certificate.primal
    assert split_optimum(X, Y, problem.beta, "mean") > 1.01 * solution.certificate.primal


def descend(problem: Problem, rank: int, seed: int) -> Any:
    """A network with ``rank`` neurons a gate, trained from random weights to a stationary point: Adam, which leaves
    saddle points, then L-BFGS."""
    P, p, q = problem.program.operator.stack_shape
    generator = torch.Generator().manual_seed(seed)
    gate = torch.arange(P).repeat_interleave(rank)
    weights = (0.5 * torch.randn(len(gate), size, generator=generator, dtype=torch.float64) for size in (p, q))
    network: Any = problem.network(Factors(*weights, gate))

    def objective() -> torch.Tensor:
        network.zero_grad()
        value = problem.loss.value(network(problem.X)) + problem.beta * network.penalty()
        value.backward()
        return value

    adam = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(400):
        adam.step(objective)
    settings = {"max_iter": 2000, "history_size": 50, "tolerance_grad": 1e-11, "tolerance_change": 0}
    torch.optim.LBFGS(network.parameters(), line_search_fn="strong_wolfe", **settings).step(objective)
    slope = max(float(weight.grad.abs().max()) for weight in network.parameters())
    assert slope < 1e-6 * problem.beta
    return network


CASES = [EXAMPLES["attention"][0], EXAMPLES["cnn"][0], EXAMPLES["mixer"][0], replace(EXAMPLES["bfno"][0], outputs=4)]


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
@pytest.mark.parametrize("example", CASES, ids=str)
def test_wide_factorisations_have_no_spurious_minima(example: Example, activation: str) -> None:
    """p + q neurons a gate: where descent ends is optimal (BM Thm 3.3, Cor. 3.10, B.2, B.3)."""
    problem = example_case(example, activation=activation, gates=2, ratio=0.2).problem
    _, p, q = problem.program.operator.stack_shape
    certificate = pn.certify(problem, descend(problem, p + q, seed=0), tol=1e-6)
    assert certificate.holds(1e-6), certificate
    assert certificate.conditions["wide_enough"]


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
@pytest.mark.parametrize("example", CASES, ids=str)
def test_theorem_3_4_bounds_the_gap_of_narrow_networks(example: Example, activation: str) -> None:
    """One neuron a gate has stationary points that are not optimal; none is worse than the bound says."""
    problem = example_case(example, "squared", activation, example.readouts[-1], gates=2, ratio=0.05).problem
    optimum = pn.solve(problem, tol=1e-8).certificate.dual
    gaps = []
    for seed in range(2):
        found = pn.certify(problem, descend(problem, 1, seed))
        gaps.append(found.primal / optimum - 1)
        assert -1e-9 <= gaps[-1] <= found.theorem_bound + 1e-6
        assert found.relative_gap <= found.theorem_bound + 1e-6  # the duality gap is never worse
    assert max(gaps) > 1e-3
