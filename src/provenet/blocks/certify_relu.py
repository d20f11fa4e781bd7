"""The certificate of a ReLU network among all ReLU networks of its block.

Where all arrangements can be enumerated, they are.  Where they cannot, the strongest pull of any neuron is bounded over
all u at once (`provenet.polar.everywhere`): still a lower bound on every such network, if a looser one.  A block whose
Φ is no table of rows (attention, mixer, Fourier) is judged among networks with the activation patterns of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from provenet import certificates, deadline
from provenet.blocks.base import Block
from provenet.blocks.foreign import read_module
from provenet.blocks.improve import improved, objective
from provenet.certificates import Certificate, Gap, certificate_from, gap_at, relu_point
from provenet.gates.arrangements import NotEnumerable, count_bound
from provenet.gauges.mixed import WEIGHT_DECAY
from provenet.nn import TwoLayer
from provenet.polar.everywhere import Pull, Strongest, climb, strongest
from provenet.problem import Problem
from provenet.solvers.solve import solve
from provenet.variable import Factors

_MOST = 10_000  # arrangements worth enumerating for one certificate, where each has an exact polar
_MOST_BOUNDED = 50  # where it has bounds only, which cost more, and all u at once are often bounded better
_PULL_NUMBERS = 2**27  # of the table of rows and of their weights
_IMPROVE_NUMBERS = 2**25  # hidden values that training on may take
_TOLERANCE = 3e-3  # of the strongest pull over all u, where it is beyond β
_GATES = 100  # sampled, where a dual point is looked for without all arrangements


def certify_relu(
    network: TwoLayer,
    back: Callable[[TwoLayer], nn.Module],
    pose: Callable[[Any], Problem],
    tol: float,
    sharpen: float,
) -> Certificate:
    """``pose(gates)`` formulates the problem of the network, which is in float64; ``back`` makes the user's kind of it.

    sharpen: seconds to spend on solving the problem, for a better dual point than the network's own gradient.
    """
    some = pose(1)
    rows = _table(some)
    if rows is None:
        return _among_its_own(network, back, pose, tol, sharpen)
    everyone = Everyone(some, rows)
    _, p, q = some.program.operator.stack_shape
    enumerable = _count(rows) <= (_MOST if p <= 3 or q == 1 else _MOST_BOUNDED)
    try:
        problem = pose("all") if enumerable else some
    except NotEnumerable:  # some are too thin to be told from rounding
        problem, enumerable = some, False
    prediction, factors = relu_point(problem, network)
    penalty = float(factors.penalty())
    theta = some.program.loss.gradient(prediction)
    if enumerable:
        certificate = certificates.certify(problem, network, tol)
    if not enumerable or certificate.bound != "exact":
        found, gap = everyone.judge(prediction, penalty, theta, network.first.detach(), tol)
        whole = everyone.certificate(gap, found.method, tol)
        certificate = whole if not enumerable or whole.dual > certificate.dual else certificate
    candidates = [everyone.escape(network, theta)]
    if sharpen > 0:
        chosen = problem if enumerable else pose(_GATES)
        best = solve(chosen, tol=min(tol, 1e-4) / 4, max_seconds=sharpen)
        candidates.append(best.network())  # type: ignore[arg-type]
        dual = max(best.certificate.dual, best.lower_bound)
        if not enumerable:
            other, _ = relu_point(some, best.network())
            slope = some.program.loss.gradient(other)
            with deadline.within(max(1.0, 0.1 * sharpen)):  # a bound holds whenever its search ends
                _, gap = everyone.judge(prediction, penalty, slope, best.network().get_parameter("first").detach(), tol)
            dual = gap.dual * some.value_scale
        certificate = replace(certificate, dual=max(certificate.dual, dual))
    return replace(certificate, better=_best(candidates, back, network, some))


def with_better(certificate: Certificate, problem: Problem, network: nn.Module) -> Certificate:
    """The certificate of a network on a ReLU problem, with a better network if an escape finds one, gates or not.

    Escapes know weight decay alone."""
    rows = _table(problem)
    if rows is None or problem.penalty != WEIGHT_DECAY or not isinstance(network, TwoLayer):
        return certificate
    read = read_module(network, ())
    prediction, _ = relu_point(problem, read.network)
    escaped = Everyone(problem, rows).escape(read.network, problem.program.loss.gradient(prediction))
    return replace(certificate, better=_best([escaped], read.back, read.network, problem))


class Everyone:
    """A problem whose neurons may have any arrangement.  rows: Φ (N, p), in the program's units of X."""

    def __init__(self, problem: Problem, rows: Tensor):
        self.problem = problem
        self.rows = rows

    def pull(self, theta: Tensor) -> Pull:
        """Θ (n, …, c), in the program's units, as weights of every row."""
        return Pull(self.rows, row_weights(self.problem, theta))

    def judge(
        self, prediction: Tensor, penalty: float, theta: Tensor, starts: Tensor, tol: float
    ) -> tuple[Strongest, Gap]:
        """The strongest pull of any u, and the gap of a point by the dual point Θ."""
        program = self.problem.program
        # near the optimum the bound must come down to β itself; elsewhere a digit more or less says nothing
        found = strongest(self.pull(theta), starts, program.beta * (1 + 0.1 * tol), _TOLERANCE)
        gap = gap_at(program, prediction, penalty, theta, found.upper, "deterministic")
        return found, gap

    def certificate(self, gap: Gap, method: str, tol: float) -> Certificate:
        problem = self.problem
        scope = "all_arrangements"
        return certificate_from(gap, problem.program.beta, problem.beta, problem.value_scale, scope, tol, method=method)

    def escape(self, network: TwoLayer, theta: Tensor) -> TwoLayer | None:
        """The network improved by the strongest neuron that a climb finds; None where none pulls harder than β."""
        problem, pull = self.problem, self.pull(theta)
        if len(self.rows) * (len(network.first) + 1) > _IMPROVE_NUMBERS:
            return None
        p = self.rows.shape[1]
        generator = torch.Generator().manual_seed(0)
        chance = torch.randn(32, p, generator=generator, dtype=torch.float64)
        starts = torch.cat([network.first.detach(), self.rows[:64], -self.rows[:64], chance])
        starts = starts[torch.linalg.vector_norm(starts, dim=1) > 0]
        u, strength = climb(pull, starts / torch.linalg.vector_norm(starts, dim=1, keepdim=True))
        if not strength > problem.program.beta * (1 + 1e-9):
            return None
        return improved(network, problem, u, -pull.at(u[None])[0] / strength)


def row_weights(problem: Problem, theta: Tensor) -> Tensor:
    """M (N, q) with ⟨Θ, outputs of a neuron with hidden values h and second layer v⟩ = Σ_r h_r M_r·v.

    The block's own module says so, by its gradient: q neurons whose second layers are the unit vectors.
    """
    block, op = problem.block, problem.program.operator
    neurons = Factors(torch.zeros(op.q, op.p), torch.eye(op.q), torch.zeros(op.q, dtype=torch.long)).to(torch.float64)
    module: Any = block.network(neurons, None, problem.readout, None, False)
    parts = []
    samples = max(1, _PULL_NUMBERS // (4 * op.q * max(problem.patterns.shape[1] // len(problem.X), 1)))
    for x, slope in zip(problem.X.to(torch.float64).split(samples), theta.split(samples), strict=True):
        lifted = module.lift(x)
        one, two = (module.hidden(lifted, torch.zeros(k, op.p, dtype=torch.float64)).shape for k in (1, 2))
        neuron = next(axis for axis, (a, b) in enumerate(zip(one, two, strict=True)) if a != b)
        hidden = module.hidden(lifted, neurons.left).detach().requires_grad_()
        (grad,) = torch.autograd.grad((module.output(lifted, hidden) * slope).sum(), hidden)
        parts.append(grad.movedim(neuron, -1).reshape(-1, op.q))
    return torch.cat(parts)


def _table(problem: Problem) -> Tensor | None:
    """Φ (N, p) in the program's units, where the block has such a table, and it and its weights fit."""
    block, op = problem.block, problem.program.operator
    if not isinstance(block, Block) or block.groups > 1 or problem.mask is not None:
        return None
    if problem.patterns.shape[1] * (op.p + op.q) > _PULL_NUMBERS:
        return None
    rows = block.rows(problem.X.to(torch.float64))
    return None if rows is None else rows / (problem.output_unit / problem.unit)


def _count(rows: Tensor) -> int:
    """How many arrangements there may be; at most."""
    distinct = torch.unique(rows[rows.any(1)], dim=0)
    if len(distinct) == 0:
        return 1
    return count_bound(len(distinct), int(torch.linalg.matrix_rank(distinct)))


def _among_its_own(
    network: TwoLayer,
    back: Callable[[TwoLayer], nn.Module],
    pose: Callable[[Any], Problem],
    tol: float,
    sharpen: float,
) -> Certificate:
    """Among ReLU networks whose neurons keep to this one's activation patterns, those that rounding does not decide."""
    sampled = pose(_GATES)
    vectors = network.first.detach()
    problem = sampled
    if not hasattr(network, "group"):
        _, torn = sampled.block.patterns(sampled.X, vectors)
        clear = vectors[~torn & vectors.any(1)]
        problem = pose(torch.unique(clear, dim=0)) if len(clear) else sampled
    certificate = certificates.certify(problem, network, tol)
    if not sharpen > 0:
        return certificate
    best = solve(problem, tol=min(tol, 1e-4) / 4, max_seconds=sharpen)
    certificate = replace(certificate, dual=max(certificate.dual, best.certificate.dual))
    return replace(certificate, better=_best([best.network()], back, network, problem))  # type: ignore[list-item]


def _best(
    candidates: list[TwoLayer | None], back: Callable[[TwoLayer], nn.Module], network: TwoLayer, problem: Problem
) -> nn.Module | None:
    """The best candidate as a module of the user's kind, if it is still better in the user's precision."""
    found, least = None, objective(network, problem)
    for candidate in candidates:
        if candidate is None:
            continue
        module = back(candidate)
        kept = candidate.to(_precision(module)).to(torch.float64)
        value = objective(kept, problem)
        if value < least * (1 - 1e-12):
            found, least = module, value
    return found


def _precision(module: nn.Module) -> torch.dtype:
    return next(module.parameters()).dtype
