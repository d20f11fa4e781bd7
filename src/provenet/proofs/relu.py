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

from provenet import deadline
from provenet.certificates import Certificate, Everyone, network_certificate, relu_point
from provenet.gates.arrangements import NotEnumerable, count_bound
from provenet.gauges import BoundKind
from provenet.gauges.prox.mixed import WEIGHT_DECAY
from provenet.nn import TwoLayer
from provenet.nn.foreign import Reading, read_module
from provenet.polar.everywhere import climb
from provenet.problem import Problem
from provenet.proofs.improve import improved, objective
from provenet.proofs.sharpen import sharp
from provenet.solvers.solve import solve_quietly
from provenet.statement import Scope
from provenet.vectors import unit

_MOST = 10_000  # arrangements worth enumerating for one certificate, where each has an exact polar
_MOST_BOUNDED = 50  # where it has bounds only, which cost more, and all u at once are often bounded better
_IMPROVE_NUMBERS = 2**25  # hidden values that training on may take
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
    everyone = None if scope == Scope.FIXED_GATES else Everyone.of(some)
    if everyone is None and scope == Scope.ALL_ARRANGEMENTS:
        raise ValueError(
            f"scope: with a mask, or of a block whose rows are no table or too large a one ({some.block.name!r} here), "
            "no bound over all arrangements is known; 'fixed_gates' judges among networks with this one's patterns."
        )
    if everyone is None:
        return _among_its_own(read, pose, tol, sharpen)
    every = _enumerated(pose, some, everyone.rows)
    certificate = _judged(everyone, network, every, tol)
    candidates = [_escaped(everyone, network)]
    if sharpen > 0:
        best = solve_quietly(pose(_GATES) if every is None else every, "auto", sharp(tol, sharpen))
        solved: TwoLayer = best.network()  # type: ignore[assignment]
        with deadline.within(deadline.grace(sharpen)):  # a bound holds whenever its search ends
            other = everyone.judged(solved, tol)[0] if every is None else best.certificate
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
    everyone, inner = Everyone.of(problem), problem.inward(network)
    if everyone is None or problem.penalty != WEIGHT_DECAY or not isinstance(inner, TwoLayer):
        return certificate
    read = read_module(inner, ())
    better = _best([_escaped(everyone, read.network)], read, problem)
    return replace(certificate, better=better if better is None or inner is network else problem.outward(better))


def _judged(everyone: Everyone, network: TwoLayer, every: Problem | None, tol: float) -> Certificate:
    """The certificate by all arrangements, one after the other, and by all u at once where that proves more."""
    certificate = None if every is None else network_certificate(every, network, tol)
    if certificate is not None and certificate.bound == BoundKind.EXACT:
        return certificate
    whole = everyone.judged(network, tol)[0]
    return whole if certificate is None or whole.dual > certificate.dual else certificate


def _escaped(everyone: Everyone, network: TwoLayer) -> TwoLayer | None:
    """The network improved by the strongest neuron that a climb finds; None where none pulls harder than β."""
    problem, rows = everyone.problem, everyone.rows
    pull = everyone.pull(problem.program.loss.gradient(relu_point(problem, network)[0]))
    if len(rows) * (len(network.first) + 1) > _IMPROVE_NUMBERS:
        return None
    generator = torch.Generator().manual_seed(0)
    chance = torch.randn(32, rows.shape[1], generator=generator, dtype=torch.float64)
    starts = torch.cat([network.first.detach(), rows[:64], -rows[:64], chance])
    starts = starts[torch.linalg.vector_norm(starts, dim=1) > 0]
    u, strength = climb(pull, unit(starts))
    if not strength > problem.program.beta * (1 + 1e-9):
        return None
    return improved(network, problem, u, -pull.at(u[None])[0] / strength)


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
    best = solve_quietly(problem, "auto", sharp(tol, sharpen))
    certificate = certificate.sharpened(best.certificate)
    return replace(certificate, better=_best([best.network()], read, problem))  # type: ignore[list-item]


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
