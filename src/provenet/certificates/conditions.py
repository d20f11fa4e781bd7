"""Conditions of the papers under which a point of the factorisation is globally optimal.

They suppose an exact local minimum or stationary point, which no solver returns: reported beside the gap, never
instead of it.  With several gates each must hold at every gate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from provenet.problem import Problem
from provenet.variable import ByGate, Factors


def rank_conditions(factors: Factors, n_gates: int, p: int, q: int) -> dict[str, bool]:
    """wide_enough: m ≥ p + q; rank_deficient: rank [U_k; V_k] < m (both BM Thm 3.3); full_rank: rank U_k = rank V_k =
    min(p, q) (BM Thm 3.5)."""
    width = torch.bincount(factors.gate, minlength=n_gates)
    if factors.n_neurons == 0 or bool((width == 0).any()):  # a gate without neurons satisfies none of them
        return {"wide_enough": False, "rank_deficient": False, "full_rank": False}
    gates = ByGate(factors.gate)  # filled up with zeros, which no rank counts
    left, right = gates.gather(factors.left), gates.gather(factors.right)
    rank = torch.linalg.matrix_rank
    full = torch.minimum(rank(left), rank(right)) >= min(p, q)
    return {
        "wide_enough": bool((width >= p + q).all()),
        "rank_deficient": bool((rank(torch.cat([left, right], dim=2)) < width).all()),
        "full_rank": bool(full.all()),
    }


class WidthCondition(NamedTuple):
    """m ≥ ¼(L/μ − 1)²·rank(Z*): then every local minimum of the factorisation is global (Zhang 2022, in BM A.4).

    ``smooth`` and ``strong``: L and μ of Z ↦ L(A(Z)), in normalised units; ``rank``: of the network's Z, which is Z*
    only as far as its gap says; ``width``: the network's neurons; ``needed``: infinite where F is not strongly convex.
    """

    smooth: float
    strong: float
    rank: int
    width: int
    needed: float

    @property
    def holds(self) -> bool:
        return self.width >= self.needed


_MOST_UNKNOWNS = 2_000  # of Z, whose curvature is written down
_MINOR = 1e-6  # of the largest singular value of Z: smaller ones are no rank


def width_condition(problem: Problem, network: nn.Module) -> WidthCondition:
    """The rank condition of BM A.4 for a network of a linear block with weight decay and the squared loss.

    It is of one matrix Z and a loss that is strongly convex in it: with several gates Z_k, or other losses, it says
    nothing, and they are refused.  The eigenvalues of A*A are L and μ; with less samples than features μ is zero.
    """
    program = problem.program
    P, p, q = program.operator.stack_shape
    if P != 1 or problem.activation != "linear" or not program.gauge.rotates:
        raise ValueError(
            "problem: the condition of BM A.4 is of one matrix Z; it needs a linear block and weight decay."
        )
    if not program.loss.quadratic:
        raise ValueError(f"problem: the condition of BM A.4 needs strong convexity, which {problem.loss.name!r} lacks.")
    if p * q > _MOST_UNKNOWNS:
        raise ValueError(
            f"problem: Z has {p * q} entries, more than the {_MOST_UNKNOWNS} whose curvature is written down."
        )
    curvature = torch.linalg.eigvalsh(_curvature(problem, p, q))
    smooth, strong = float(curvature[-1]), max(float(curvature[0]), 0.0)
    if strong <= p * q * torch.finfo(curvature.dtype).eps * smooth:  # rounding
        strong = 0.0
    factors = problem.factors(network)
    sigma = torch.linalg.svdvals(factors.left.T @ factors.right)
    rank = int((sigma > _MINOR * sigma[0]).sum()) if len(sigma) else 0
    ratio = math.inf if strong == 0 else smooth / strong
    needed = 0.0 if rank == 0 else 0.25 * (ratio - 1) ** 2 * rank
    return WidthCondition(smooth, strong, rank, factors.n_neurons, needed)


def _curvature(problem: Problem, p: int, q: int) -> Tensor:
    """The Hessian (pq, pq) of Z ↦ L(A(Z)) for a quadratic L."""
    op, loss = problem.program.operator, problem.program.loss
    zero = torch.zeros_like(loss.target)
    units = op.space.eye(p * q).view(-1, 1, p, q)
    return torch.stack([op.adjoint(loss.hessian_product(zero, op.forward(unit))).flatten() for unit in units])
