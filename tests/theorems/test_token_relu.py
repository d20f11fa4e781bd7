"""AT Thm 3.3, 4.2, 4.5, 4.8 at sizes where every arrangement of the explicit rows can be listed: the convex program has
the optimum of the network, which wide networks reach from above and never pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import torch

import provenet as pn
from provenet.gates.arrangements import arrangements
from provenet.solvers import Solution
from provenet.variable import Factors

Array = np.ndarray


@dataclass(frozen=True)
class Theorem:
    """A block on X (n, s, d) with outputs (n, s, c); of one group of features its rows Φ_i (ρ, p) and its output of
    hidden values (ρ,) and v (q,), written down as in the theorem."""

    block: Any
    shape: tuple[int, int, int]
    outputs: int
    rows: Callable[[Array], Array]
    output: Callable[[Array, Array, Array], Array]
    groups: int = 1


def circulant(x: Array) -> Array:
    """circ(X) (s, sd): row t holds the tokens t, t + 1, …, one after the other."""
    return np.stack([np.roll(x, -t, axis=0).ravel() for t in range(len(x))])


def attention(x: Array, h: Array, v: Array) -> Array:
    """H X W₂."""
    return h.reshape(len(x), len(x)) @ x @ v.reshape(x.shape[1], -1)


def mixer(x: Array, h: Array, v: Array) -> Array:
    """H W₂."""
    return h.reshape(x.shape) @ v.reshape(x.shape[1], -1)


def one_weight_an_output(x: Array, h: Array, v: Array) -> Array:
    return np.outer(h, v)


THEOREMS = {
    "AT Thm 3.3": Theorem("attention", (2, 2, 2), 1, lambda x: np.kron(x, x), attention),
    "AT Thm 3.3, one sample": Theorem("attention", (1, 2, 2), 1, lambda x: np.kron(x, x), attention),
    "AT Thm 4.2": Theorem("mixer", (3, 2, 1), 1, lambda x: np.kron(np.eye(len(x)), x.T), mixer),
    "AT Thm 4.2, two features": Theorem("mixer", (1, 2, 2), 1, lambda x: np.kron(np.eye(len(x)), x.T), mixer),
    "AT Thm 4.5": Theorem("fno", (3, 2, 2), 1, circulant, one_weight_an_output),
    "AT Thm 4.8": Theorem(pn.BFNO(groups=2), (3, 2, 2), 2, circulant, one_weight_an_output, groups=2),
}


def data(theorem: Theorem) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    return rng.standard_normal(theorem.shape), rng.standard_normal((*theorem.shape[:2], theorem.outputs))


def every_gate(theorem: Theorem, X: Array) -> list[Array]:
    """A vector inside the cone of every arrangement (P_b, p), for each group b."""
    tables = [np.concatenate([theorem.rows(x) for x in part]) for part in np.split(X, theorem.groups, axis=2)]
    return [arrangements(torch.from_numpy(table))[0].numpy() for table in tables]


@cache
def solved(name: str) -> Solution:
    theorem = THEOREMS[name]
    X, Y = data(theorem)
    gates = every_gate(theorem, X)
    grouping = {"gate_group": np.repeat(range(len(gates)), [len(g) for g in gates])} if theorem.groups > 1 else {}
    problem = pn.formulate(theorem.block, X, Y, "relu", np.concatenate(gates), beta=1.0, readout="tokens", **grouping)
    return pn.solve(problem.with_beta(0.055 * problem.beta_max), tol=1e-6)


def theorems_optimum(theorem: Theorem, X: Array, Y: Array, beta: float) -> float:
    """(15), (20), (26), (31) in CVXPY: min ½ Σ ‖Σ_j A_j(Z_j) − Y‖² + β Σ_j ‖Z_j‖_{*,K_j}."""
    gauges, constraints, predictions = [], [], []
    for part, gates in zip(np.split(X, theorem.groups, axis=2), every_gate(theorem, X), strict=True):
        rows = [theorem.rows(x) for x in part]
        p, q = rows[0].shape[1], width(theorem, part[0])
        said = 0
        for gate in gates:
            Z, gauge, inside = cone_nuclear(
                np.concatenate([np.where(r @ gate > 0, 1, -1)[:, None] * r for r in rows]), q
            )
            maps = [
                np.stack(
                    [theorem.output(x, (r @ gate > 0) * r[:, a], v).ravel() for a in range(p) for v in np.eye(q)], 1
                )
                for x, r in zip(part, rows, strict=True)
            ]
            said = said + np.concatenate(maps) @ cp.vec(Z, order="C")
            gauges.append(gauge)
            constraints += inside
        predictions.append(said)
    targets = [group.ravel() for group in np.split(Y, theorem.groups, axis=2)]
    loss = sum(0.5 * cp.sum_squares(said - y) for said, y in zip(predictions, targets, strict=True))
    return float(cp.Problem(cp.Minimize(loss + beta * sum(gauges)), constraints).solve(solver="CLARABEL"))


def width(theorem: Theorem, x: Array) -> int:
    """Second-layer weights of a neuron, q."""
    each = theorem.outputs // theorem.groups
    return each if theorem.output is one_weight_an_output else x.shape[1] * each


def cone_nuclear(K: Array, q: int) -> tuple[Any, Any, list[Any]]:
    """(Z, ‖Z‖_{*,K}, constraints): exact for one weight, Z = u − w with Ku, Kw ≥ 0; and for up to four rows, where a
    PSD matrix U with KUKᵀ ≥ 0 is a sum of uuᵀ, Ku ≥ 0.  For more it is a lower bound (slip 12): where that meets the
    primal, both are the optimum."""
    p = K.shape[1]
    if q == 1:
        u, w = cp.Variable((p, 1)), cp.Variable((p, 1))
        return u - w, cp.norm(u) + cp.norm(w), [K @ u >= 0, K @ w >= 0]
    whole = cp.Variable((p + q, p + q), PSD=True)
    return whole[:p, p:], 0.5 * cp.trace(whole), [K @ whole[:p, :p] @ K.T >= 0]


@pytest.mark.parametrize("name", THEOREMS)
def test_the_program_is_the_theorems(name: str) -> None:
    theorem, solution = THEOREMS[name], solved(name)
    problem = solution.problem
    assert solution.certificate.holds(1e-6)
    assert (
        len(problem.patterns) >= sum(map(len, every_gate(theorem, data(theorem)[0]))) - theorem.groups
    )  # but closed ones
    value = theorems_optimum(theorem, *data(theorem), problem.beta)
    assert solution.certificate.primal == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("name", THEOREMS)
def test_wide_networks_reach_the_optimum_and_no_less(name: str) -> None:
    """The theorems' equivalence: gradient descent on the network itself, all starts at once in wide networks."""
    solution = solved(name)
    problem, p_star = solution.problem, solution.certificate
    ends: list[float] = []
    while len(ends) < 10 and (not ends or min(ends) > p_star.primal * (1 + 1e-3)):  # some starts end in local minima
        ends.append(trained(problem, seed=len(ends)))
    assert min(ends) >= p_star.dual * (1 - 1e-12)
    assert min(ends) <= p_star.primal * (1 + 1e-3)


def trained(problem: pn.Problem, seed: int, neurons: int = 80) -> float:
    """The objective where Adam and then L-BFGS end, from random weights; none on the way is below the bound."""
    _, p, q = problem.program.operator.stack_shape
    generator = torch.Generator().manual_seed(seed)
    weights = [0.5 * torch.randn(neurons, size, generator=generator, dtype=torch.float64) for size in (p, q)]
    group = None if problem.gates.group is None else torch.arange(neurons) % (int(problem.gates.group.max()) + 1)
    factors = Factors(*weights, torch.zeros(neurons, dtype=torch.long))
    network: Any = problem.block.network(factors, None, problem.readout, group, True)

    def objective() -> torch.Tensor:
        network.zero_grad()
        value = problem.loss.value(network(problem.X)) + problem.beta * network.penalty()
        value.backward()
        return value

    adam = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(500):
        adam.step(objective)
    settings = {"max_iter": 500, "history_size": 30, "tolerance_grad": 1e-10, "tolerance_change": 0}
    torch.optim.LBFGS(network.parameters(), line_search_fn="strong_wolfe", **settings).step(objective)
    return float(objective().detach())
