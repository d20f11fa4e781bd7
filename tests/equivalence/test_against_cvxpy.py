"""500 random small problems: the certificate brackets CVXPY's optimum, and the independent checker agrees.

And on networks that solve nothing: no network's dual is above any network's primal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import provenet as pn
from provenet.testing import Case
from provenet.variable import Factors

ROUNDING = 1e-12  # of a gap, relative to the primal
REFERENCE = 1e-6  # of CVXPY's optimum, relative: Clarabel stops short on some exponential cones


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any loss and activation; 1 to 8 samples, 1 to 3 features and outputs, 1 to 4 gates; any units and weights."""
    loss = draw(st.sampled_from(["squared", "softmax", "logistic", "huber"]))
    n, d, outputs = draw(st.integers(1, 8)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_normal((n, d)) * 10.0 ** draw(st.integers(-2, 2))
    if draw(st.booleans()):  # ties: duplicated rows, rows on a gate's border, zero columns
        X = np.round(X)
    if loss == "softmax":
        Y: np.ndarray = np.eye(outputs + 1)[rng.integers(0, outputs + 1, n)]
    elif loss == "logistic":
        Y = rng.integers(0, 2, (n, outputs)).astype(float)
    else:
        Y = rng.standard_normal((n, outputs)) * 10.0 ** draw(st.integers(-2, 2))
    weight = rng.integers(0, 4, n) + (rng.permutation(n) == 0) if draw(st.booleans()) else None
    settings_: dict[str, Any] = {"delta": draw(st.sampled_from([0.3, 1.0]))} if loss == "huber" else {}
    problem = pn.formulate(
        pn.MLP(fit_intercept=draw(st.booleans())),
        X,
        Y,
        activation=draw(st.sampled_from(["gated_relu", "gated_relu", "linear"])),
        gates=draw(st.integers(1, 4)),
        loss=loss,
        beta=1.0,
        sample_weight=weight,
        loss_settings=settings_,
    )
    if problem.beta_max > 0:
        problem = problem.with_beta(problem.beta_max * 10.0 ** draw(st.floats(-2, 0.2)))
    return Case("random", X, Y, problem, weight)


@settings(max_examples=250)
@given(cases())
def test_the_certificate_brackets_the_optimum(case: Case) -> None:
    solution = pn.solve(case.problem, tol=1e-6, max_steps=3000)
    certificate = solution.certificate
    size = abs(certificate.primal)
    assert certificate.gap >= -ROUNDING * size
    assert certificate.primal - certificate.gap <= case.optimum * (1 + REFERENCE)
    assert case.optimum <= certificate.primal * (1 + REFERENCE)
    verdict = case.verify(solution.network())
    assert abs(verdict.primal - certificate.primal) <= 1e-9 * size
    assert abs(verdict.dual - certificate.dual) <= 1e-9 * size
    assert abs(verdict.polar_max - certificate.polar_max) <= 1e-9 * (verdict.polar_max + case.problem.beta)
    assert solution.status is pn.Status.SOLVED
    assert certificate.holds(1e-6)


@settings(max_examples=150)
@given(cases(), st.integers(0, 2**32 - 1))
def test_no_dual_is_above_any_primal(case: Case, seed: int) -> None:
    """Weak duality, network against network, from nearly zero to absurdly large ones."""
    problem = case.problem
    P, p, q = problem.program.operator.stack_shape
    generator = torch.Generator().manual_seed(seed)
    primals, duals = [], []
    for scale in (0.0, 1e-3, 0.1, 1.0, 30.0):
        left, right = (scale * torch.randn(3, size, generator=generator, dtype=torch.float64) for size in (p, q))
        network = problem.network(Factors(left, right, torch.randint(P, (3,), generator=generator)))
        certificate, verdict = pn.certify(problem, network), case.verify(network)
        assert abs(verdict.gap - certificate.gap) <= 1e-9 * abs(certificate.primal)
        primals.append(certificate.primal)
        duals.append(certificate.dual)
    assert max(duals) <= min(primals) * (1 + ROUNDING)
