"""The certificate of a ReLU network among all ReLU networks of its block.

Where all arrangements can be enumerated, they are.  Where they cannot, the strongest pull of any neuron is bounded over
all u at once (`provenet.polar.everywhere`): still a lower bound on every such network, if a looser one.  A block whose
Φ is no table of rows (B-FNO, and others where it is too large) is judged among networks with the activation patterns of
its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from provenet import batches, deadline
from provenet.certificates import (
    Certificate,
    certificate_from,
    dual_point,
    gap_at,
    network_certificate,
    relu_point,
    with_intercept,
)
from provenet.gates.arrangements import NotEnumerable, count_bound
from provenet.gauges import BoundKind
from provenet.gauges.prox.mixed import WEIGHT_DECAY
from provenet.nn import TwoLayer
from provenet.nn.foreign import Reading, read_module
from provenet.polar.everywhere import Pull, climb, strongest
from provenet.problem import Problem
from provenet.proofs.improve import improved, objective
from provenet.solvers.loop import Limits
from provenet.solvers.solve import solve_quietly
from provenet.statement import Scope
from provenet.variable import Factors
from provenet.vectors import power_of_two, unit

_MOST = 10_000  # arrangements worth enumerating for one certificate, where each has an exact polar
_MOST_BOUNDED = 50  # where it has bounds only, which cost more, and all u at once are often bounded better
_PULL_NUMBERS = 2**27  # of the table of rows and of their weights
_IMPROVE_NUMBERS = 2**25  # hidden values that training on may take
_TOLERANCE = 3e-3  # of the strongest pull over all u, where it is beyond β
_PATIENCE = 10.0  # seconds for the bounds of a network that was only to be judged
_GATES = 100  # sampled, where a dual point is looked for without all arrangements


def certify_relu(
    read: Reading, pose: Callable[[Any], Problem], tol: float, sharpen: float, scope: str | None = None
) -> Certificate:
    """``pose(gates)`` formulates the problem of the network that was read.

    scope: among which networks, None: the widest that can be judged.  sharpen: seconds to spend on solving
    the problem, for a better dual point than the network's own gradient.
    """
    some, network = pose(1), read.network
    rows = None if scope == Scope.FIXED_GATES else _table(some)
    if rows is None and scope == Scope.ALL_ARRANGEMENTS:
        raise ValueError(
            f"scope: with a mask, or of a block whose rows are no table or too large a one ({some.block.name!r} here), "
            "no bound over all arrangements is known; 'fixed_gates' judges among networks with this one's patterns."
        )
    if rows is None:
        return _among_its_own(read, pose, tol, sharpen)
    everyone = Everyone(some, rows)
    every = _enumerated(pose, some, rows)
    certificate = everyone.judged(network, every, tol)
    candidates = [everyone.escape(network)]
    if sharpen > 0:
        best = solve_quietly(pose(_GATES) if every is None else every, "auto", _sharp(tol, sharpen))
        solved: TwoLayer = best.network()  # type: ignore[assignment]
        with deadline.within(deadline.grace(sharpen)):  # a bound holds whenever its search ends
            other = everyone.judged(solved, None, tol) if every is None else best.certificate
        certificate = certificate.sharpened(other)
        candidates.append(solved)
    return replace(certificate, better=_best(candidates, read, some))


def _enumerated(pose: Callable[[Any], Problem], some: Problem, rows: Tensor) -> Problem | None:
    """The problem with all arrangements; None where they are too many, or too thin to be told from rounding."""
    _, p, q = some.program.operator.stack_shape
    if _count(rows) > (_MOST if p <= 3 or q == 1 else _MOST_BOUNDED):
        return None
    try:
        return pose("all")
    except NotEnumerable:
        return None


def with_better(certificate: Certificate, problem: Problem, network: nn.Module) -> Certificate:
    """The certificate of a network on a ReLU problem, with a better network if an escape finds one, gates or not.

    Escapes know weight decay alone."""
    rows = _table(problem)
    inner = problem.inward(network)
    if rows is None or problem.penalty != WEIGHT_DECAY or not isinstance(inner, TwoLayer):
        return certificate
    read = read_module(inner, ())
    better = _best([Everyone(problem, rows).escape(read.network)], read, problem)
    return replace(certificate, better=better if better is None or inner is network else problem.outward(better))


class Everyone:
    """A problem whose neurons may have any arrangement.  rows: Φ (N, p), in the program's units of X."""

    def __init__(self, problem: Problem, rows: Tensor):
        self.problem = problem
        self.rows = rows

    def pull(self, theta: Tensor) -> Pull:
        """Θ (n, …, c), in the program's units, as weights of every row."""
        return Pull(self.rows, row_weights(self.problem, theta))

    def judged(self, network: TwoLayer, every: Problem | None, tol: float) -> Certificate:
        """The certificate by all arrangements, one after the other, and by all u at once where that proves more."""
        certificate = None if every is None else network_certificate(every, network, tol)
        if certificate is not None and certificate.bound == BoundKind.EXACT:
            return certificate
        problem, program = self.problem, self.problem.program
        prediction, factors, bias = relu_point(problem, network)
        theta = program.loss.dual_at(prediction)
        # near the optimum the bound must come down to β itself; elsewhere a digit more or less says nothing
        size = power_of_two(theta)  # pulls are homogeneous, and squares of what is tiny vanish
        enough = program.beta / size * (1 + 0.1 * tol)
        found = strongest(self.pull(theta / size), network.first.detach(), enough, _TOLERANCE)
        at = dual_point(program, theta, size * found.upper, BoundKind.DETERMINISTIC)
        penalty = float(factors.penalty())
        gap = with_intercept(program, gap_at(program, prediction, penalty, at), prediction, penalty, bias)
        units, scope = (program.beta, problem.beta, problem.units.value), Scope.ALL_ARRANGEMENTS
        whole = certificate_from(
            gap, *units, scope, tol, method=found.method, free_intercept=problem.statement.free_intercept
        )
        return whole if certificate is None or whole.dual > certificate.dual else certificate

    def escape(self, network: TwoLayer) -> TwoLayer | None:
        """The network improved by the strongest neuron that a climb finds; None where none pulls harder than β."""
        problem = self.problem
        pull = self.pull(problem.program.loss.gradient(relu_point(problem, network)[0]))
        if len(self.rows) * (len(network.first) + 1) > _IMPROVE_NUMBERS:
            return None
        p = self.rows.shape[1]
        generator = torch.Generator().manual_seed(0)
        chance = torch.randn(32, p, generator=generator, dtype=torch.float64)
        starts = torch.cat([network.first.detach(), self.rows[:64], -self.rows[:64], chance])
        starts = starts[torch.linalg.vector_norm(starts, dim=1) > 0]
        u, strength = climb(pull, unit(starts))
        if not strength > problem.program.beta * (1 + 1e-9):
            return None
        return improved(network, problem, u, -pull.at(u[None])[0] / strength)


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


def _table(problem: Problem) -> Tensor | None:
    """Φ (N, p) in the program's units, where the block has such a table, and it and its weights fit."""
    op, table = problem.program.operator, None
    if problem.mask is None and problem.patterns.shape[1] * (op.p + op.q) <= _PULL_NUMBERS:
        table = problem.on_data.table
    return None if table is None else table.in_units_of(problem.units.y / problem.units.z)


def _count(rows: Tensor) -> int:
    """How many arrangements there may be; at most."""
    distinct = torch.unique(rows[rows.any(1)], dim=0)
    if len(distinct) == 0:
        return 1
    return count_bound(len(distinct), int(torch.linalg.matrix_rank(distinct)))


def _among_its_own(read: Reading, pose: Callable[[Any], Problem], tol: float, sharpen: float) -> Certificate:
    """Among ReLU networks whose neurons keep to this one's activation patterns, those that rounding does not decide."""
    sampled, network = pose(_GATES), read.network
    vectors = network.first.detach()
    problem = sampled
    if not hasattr(network, "group"):
        _, torn = sampled.on_data.groups[0].patterns(vectors)
        clear = vectors[~torn & vectors.any(1)]
        problem = pose(torch.unique(clear, dim=0)) if len(clear) else sampled
    with deadline.within(_PATIENCE):  # a bound holds whenever its search ends
        certificate = network_certificate(problem, network, tol)
    if not sharpen > 0:
        return certificate
    best = solve_quietly(problem, "auto", _sharp(tol, sharpen))
    certificate = certificate.sharpened(best.certificate)
    return replace(certificate, better=_best([best.network()], read, problem))  # type: ignore[list-item]


def _sharp(tol: float, seconds: float) -> Limits:
    """For a dual point that proves more than the tolerance asks."""
    return Limits(min(tol, 1e-4) / 4, max_seconds=seconds)


def _best(candidates: list[TwoLayer | None], read: Reading, problem: Problem) -> nn.Module | None:
    """The best candidate as a module of the user's kind, if it is still better in the user's precision."""
    found, least = None, objective(read.network, problem)
    for candidate in candidates:
        if candidate is None:
            continue
        module = read.back(candidate)
        kept = candidate.to(next(module.parameters()).dtype).to(torch.float64)
        value = objective(kept, problem)
        if value < least * (1 - 1e-12):
            found, least = module, value
    return found
