"""Which methods to run, one after the other, for a named method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from provenet import memory
from provenet.polar import is_large
from provenet.problem import Program
from provenet.solvers.cones.admm import ConeADMM
from provenet.solvers.cones.bm import ConeBM
from provenet.solvers.cones.closed_form import ClosedForm
from provenet.solvers.cones.cutting_plane import CuttingPlane
from provenet.solvers.cones.frank_wolfe import FrankWolfe
from provenet.solvers.interior.active import ActiveIPM
from provenet.solvers.interior.copositive.dense import Copositive
from provenet.solvers.interior.copositive.dual import CopositiveDual
from provenet.solvers.interior.ipm import IPM, unknowns_of
from provenet.solvers.interior.pairs.working_set import WorkingSet
from provenet.solvers.loop import Method, Refused
from provenet.solvers.needs import CONES, GATED_ROWS, PROX, TABLE
from provenet.solvers.neurons.bm import BM
from provenet.solvers.reference.cvx import CVX
from provenet.solvers.stacks.admm import ADMM
from provenet.solvers.stacks.apg import APG
from provenet.solvers.stacks.subspace import Subspace

_ALL: tuple[type[Method[Any]], ...] = (
    ADMM,
    ConeADMM,
    IPM,
    ActiveIPM,
    APG,
    BM,
    ConeBM,
    Subspace,
    CVX,
    Copositive,
    CopositiveDual,
    ClosedForm,
    FrankWolfe,
    CuttingPlane,
    WorkingSet,
)
METHODS: dict[str, type[Method[Any]]] = {method.name: method for method in _ALL}

_IPM_WORK = 1e8  # multiply-adds a step of the interior point for which it is the first choice
_DENSE_WORK = 1e11  # multiply-adds of A(Z) up to which stacks are worked on
_KERNEL_ROWS = 20_000
_MANY_DIRECTIONS = 128  # weights of a first layer from which on a few directions of it are the smaller program


@dataclass(frozen=True)
class Stage:
    """A method and how many steps it gets before the next one takes over; None: its own limit."""

    method: Method[Any]
    max_steps: int | None = None


def plan_unreduced(program: Program, method: str | Method[Any]) -> list[Stage]:
    """The stages that take a program as it is, before any reduction; none where the method is for what they leave."""
    chosen = METHODS.get(method) if isinstance(method, str) else method
    if chosen is not None and not chosen.reduces:
        return [Stage(_able(chosen() if isinstance(chosen, type) else chosen, program))]
    closed = ClosedForm()  # whitened data need no decomposition
    return [Stage(closed)] if method == "auto" and closed.refuses(program) is None else []


def plan(program: Program, method: str | Method[Any]) -> list[Stage]:
    """The stages of a method.  Each starts where the one before stopped; later ones only run if it stopped short."""
    if isinstance(method, Method):
        return [Stage(_able(method, program))]
    if method == "auto":
        return _automatic(program)
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method: {method!r} is unknown; choose 'auto' or one of {', '.join(map(repr, METHODS))}.")
    chosen = _of_family(method, program)
    if chosen.family == "copositive" and program.operator.p > 2:  # in the plane its neurons are the optimum's
        return [Stage(chosen), Stage(ConeBM())]
    return [Stage(chosen), *_finishes(program)] if method == "admm" else [Stage(chosen)]


def _of_family(word: str, program: Program) -> Method[Any]:
    """The first method of this name or family that takes the program."""
    family = [kind() for name, kind in METHODS.items() if word in (name, kind.family)]
    reasons = [one.refuses(program) for one in family]
    for one, reason in zip(family, reasons, strict=True):
        if reason is None:
            return _able(one, program)
    first, *others = (f"'{one.name}' cannot take this problem: {why}" for one, why in zip(family, reasons, strict=True))
    raise Refused(" Nor can its kind: ".join([f"method: {first}", *others]))


def _able(method: Method[Any], program: Program) -> Method[Any]:
    reason = method.refuses(program)
    if reason is not None:
        raise Refused(f"method: '{method.name}' cannot take this problem: {reason}")
    memory.check_fits(
        method.memory(program),
        f"method: '{method.name}'",
        "Take fewer gates or samples, or a method that needs less ('apg', 'bm').",
    )
    return method


def _automatic(program: Program[Any]) -> list[Stage]:
    """A few directions at a time where first layers are long; second order where it is cheap; the kernel where it fits;
    else first order without it.

    A loss that is not quadratic is first brought near by the proximal gradient, so that ADMM sees its curvature;
    where both crawl, as they do at small β, Newton on the few neurons left finishes.
    """
    if not PROX.of(program):
        if CONES.of(program) and not TABLE.of(program):
            return [Stage(_able(ConeBM(), program))]
        one_output = WorkingSet()
        if one_output.refuses(program) is None and memory.fits(one_output.memory(program), 0.5):
            return [Stage(one_output), Stage(FrankWolfe())]
        planar = program.operator.p <= 2 and Copositive().refuses(program) is None
        return [*([Stage(Copositive())] if planar else []), Stage(_able(FrankWolfe(), program))]
    only_neurons = is_large(program.operator) or _dense_work(program) > _DENSE_WORK  # fit, or are quick enough
    if only_neurons and program.gauge.rotates:
        return [Stage(_able(BM(), program))]
    narrow, op = Subspace(), program.operator
    kernel_is_better = program.loss.quadratic and GATED_ROWS.of(program)  # ADMM is exact in Ŷ, and its steps cheap
    if op.n_gates > 1 and op.p >= _MANY_DIRECTIONS and not kernel_is_better and narrow.refuses(program) is None:
        return [Stage(_able(narrow, program)), *_finishes(program)]
    interior, kernel = IPM(), ADMM()
    if interior.refuses(program) is None and _ipm_work(program) <= _IPM_WORK:
        return [Stage(interior), Stage(kernel, 2000), *_finishes(program)]
    rows = program.operator.kernel_rows
    fits = rows <= _KERNEL_ROWS and memory.fits(kernel.memory(program), 0.5)
    if kernel.refuses(program) is not None or not fits:
        return [Stage(_able(APG(), program), 3000), *_finishes(program)]
    if program.loss.quadratic:
        return [Stage(kernel, 3000), *_finishes(program)]
    return [Stage(APG(), 400), Stage(kernel, 300), *_finishes(program)]


def _finishes(program: Program) -> Iterator[Stage]:
    """What takes over where a first-order method crawls: second order on the gates that matter."""
    working_set = ActiveIPM()
    if working_set.refuses(program) is None:
        yield Stage(working_set)
    if BM().refuses(program) is None:
        yield Stage(BM())
    elif PROX.of(program):  # other norms than weight decay's have first order only
        yield Stage(APG())


def _dense_work(program: Program) -> float:
    """Multiply-adds of A(Z) where a neuron's second layer is wider than the outputs: neurons then cost far less."""
    op = program.operator
    return float(op.kernel_rows) * op.n_gates * op.p * op.q if op.q > op.output_shape[-1] else 0.0


def _ipm_work(program: Program) -> float:
    op = program.operator
    unknowns = unknowns_of(op)
    n = min(op.output_shape[0], op.n_gates * op.p)
    return unknowns * n * (n + unknowns) * (1 if op.q == 1 else op.q)
