"""The bound below all ReLU networks of a block, whatever their arrangements: the polar over all u (dual of CP (11)).

No arrangement is named: how hard any neuron can pull is bounded over all directions at once
(`provenet.polar.everywhere`), in few dimensions by branch and bound, else by a relaxation that is often loose.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from provenet import batches
from provenet.certificates.certificate import Certificate, certificate_from
from provenet.certificates.gap import DualPoint, dual_point, enough_polar, gap_at, with_intercept
from provenet.certificates.points import relu_point
from provenet.gauges import BoundKind
from provenet.nn import TwoLayer
from provenet.polar.everywhere import Pull, Strongest, strongest
from provenet.problem import Problem
from provenet.statement import Scope
from provenet.variable import Factors
from provenet.vectors import power_of_two

_PULL_NUMBERS = 2**27  # of the table of rows and of their weights
_TOLERANCE = 3e-3  # of the strongest pull over all u, where it is beyond β
_CLOSER = 0.3  # of what a polar may be beyond β: how well the strongest pull is known at most


class Everyone:
    """A problem whose neurons may have any arrangement.  rows: Φ (N, p), in the program's units of X."""

    def __init__(self, problem: Problem, rows: Tensor) -> None:
        self.problem, self.rows = problem, rows

    @staticmethod
    def of(problem: Problem) -> Everyone | None:
        """None where Φ is no table of rows that is all here, or too large."""
        rows = table_of(problem)
        return None if rows is None else Everyone(problem, rows)

    def pull(self, theta: Tensor) -> Pull:
        """Θ (n, …, c), in the program's units, as weights of every row."""
        return Pull(self.rows, row_weights(self.problem, theta))

    def strongest(self, theta: Tensor, starts: Tensor, enough: float, tolerance: float) -> Strongest:
        """Over all u: polars are homogeneous, and bounded at Θ of moderate size, as squares of what is tiny vanish.

        starts (B, p): where to climb from; enough, tolerance: as `polar.everywhere.strongest` has them."""
        size = power_of_two(theta)
        found = strongest(self.pull(theta / size), starts, enough / size, tolerance)
        return replace(found, lower=size * found.lower, upper=size * found.upper)

    def judged(
        self, network: TwoLayer, tol: float, theta: Tensor | None = None, closely: bool = False
    ) -> tuple[Certificate, Strongest]:
        """The certificate among all networks, and the strongest pull at the network's own gradient.

        theta: another dual point, in the program's units, that may prove more.  closely: as close to β as it takes to
        tell whether the gap is ``tol``; else a digit more or less of what is beyond β says nothing."""
        problem, program = self.problem, self.problem.program
        prediction, factors, bias = relu_point(problem, network)
        penalty, starts = float(factors.penalty()), network.first.detach()
        own = program.loss.dual_at(prediction)
        primal = float(program.loss.value_at(prediction, bias) if program.loss.free else program.loss.value(prediction))
        wanted = (1 - tol) * (primal + program.beta * penalty)

        def bounded(at: Tensor) -> tuple[DualPoint, Strongest]:
            enough = max(enough_polar(program, at, wanted), program.beta * (1 + 0.1 * tol))
            tolerance = min(_TOLERANCE, _CLOSER * (enough / program.beta - 1)) if closely else _TOLERANCE
            found = self.strongest(at, starts, enough, tolerance)
            return dual_point(program, at, found.upper, BoundKind.DETERMINISTIC), found

        point, found = bounded(own)
        gap = with_intercept(program, gap_at(program, prediction, penalty, point), prediction, penalty, bias)
        units = program.beta, problem.beta, problem.units.value
        free, standardized = problem.statement.free_intercept, problem.scaling is not None
        more: dict[str, Any] = {"free_intercept": free, "standardized": standardized}
        certificate = certificate_from(gap, *units, Scope.ALL_ARRANGEMENTS, tol, method=found.method, **more)
        if theta is not None and not certificate.holds(tol):
            certificate = certificate.sharpened_by(problem, bounded(program.loss.admissible(theta))[0])
        return certificate, found


def table_of(problem: Problem) -> Tensor | None:
    """Φ (N, p) in the program's units, where the block has such a table, all of it is here, and it and its weights
    fit."""
    op, table = problem.program.operator, None
    here = problem.mask is None and problem.memory is None and not op.shards.spread
    if here and problem.patterns.shape[1] * (op.p + op.q) <= _PULL_NUMBERS:
        table = problem.on_data.table
    return None if table is None else table.in_units_of(problem.units.y / problem.units.z)


def row_weights(problem: Problem, theta: Tensor) -> Tensor:
    """M (N, q) with ⟨Θ, outputs of a neuron with hidden values h and second layer v⟩ = Σ_r h_r M_r·v.

    The block's own module says so, by its gradient: q neurons whose second layers are the unit vectors.
    """
    block, op = problem.block, problem.program.operator
    neurons = Factors(op.space.zeros(op.q, op.p), op.space.eye(op.q), op.space.zeros(op.q, dtype=torch.long))
    module: Any = block.network(neurons, None, problem.readout, None, False)
    parts = []
    samples = batches.count(op.q * max(problem.patterns.shape[1] // len(problem.X), 1), batches.BASIS)
    for x, slope in zip(problem.X.to(torch.float64).split(samples), theta.split(samples), strict=True):
        lifted = module.lift(x)
        one, two = (module.hidden(lifted, torch.zeros(k, op.p, dtype=torch.float64)).shape for k in (1, 2))
        neuron = next(axis for axis, (a, b) in enumerate(zip(one, two, strict=True)) if a != b)
        hidden = module.hidden(lifted, neurons.left).detach().requires_grad_()
        (grad,) = torch.autograd.grad((module.predicted(lifted, hidden) * slope).sum(), hidden)
        parts.append(grad.movedim(neuron, -1).reshape(-1, op.q))
    return torch.cat(parts)
