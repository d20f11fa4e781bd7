"""The certificate of a network: how far, at most, its loss is from the best."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from provenet.certificates.conditions import rank_conditions
from provenet.certificates.gap import DualPoint, Gap, duality_gap, relative_gap, with_intercept
from provenet.gauges import BoundKind
from provenet.gauges.prox.mixed import WEIGHT_DECAY, Penalty, in_words, read_penalty, written
from provenet.problem import Problem, Program
from provenet.statement import Scope
from provenet.variable import Factors
from provenet.word import Word

_WHOSE = {"run": "the run's own dual point", "solved network": "the solved network's gradient"}
ROUNDING = 1e-15  # a relative gap below this is float64's, not the network's
TENSORS = ("theta", "better")  # fields that JSON does not hold


class Standing(Word):
    """Whether a certificate's gap is within its tolerance."""

    CERTIFIED = "certified"
    NOT_CERTIFIED = "not_certified"


@dataclass(frozen=True)
class Certificate:
    """primal − p* ≤ gap, for the best p* any network of ``scope`` reaches on this data.

    ``theorem_bound`` is BM Thm 3.4's (polar_max/β − 1)₊: reported, never relied on.

    Parameters
    ----------
    primal : float
        The network's objective, from its own forward pass in float64.
    dual : float
        No network of ``scope`` has an objective below it.
    polar_max : float
        How hard the strongest neuron pulls at the network's dual point, at most; β where it is optimal.
    beta : float
        Of the problem.
    scope : Scope
        Of which networks it speaks: "linear", "fixed_gates" or "all_arrangements".
    bound : BoundKind
        How polars were bounded: "exact" up to rounding, "deterministic" or "probabilistic".
    tol : float
        The relative gap at which ``status`` says "certified".
    conditions : dict
        Companions of BM Thm 3.4: reported, never relied on.
    method : str
        Over what ``polar_max`` was bounded: "gates", one after the other, for ReLU all arrangements if the scope says
        so; or all u at once.
    penalty : (C, R)
        The norms of β/2 Σ_j (‖u_j‖_C² + ‖v_j‖_R²) in the objective.
    dual_of : str
        Whose dual point it is: the gradient at the "network" itself, at a "solved network", or the best of the "run"
        that found the network.
    standardized : bool
        It is of a problem on standardised data: the penalty is on weights of standardised features, and the objective
        in units of standardised targets.
    free_intercept : bool
        Networks of the scope have outputs with any constant added, which costs nothing.
    biases : str
        Of a module that was judged by itself, what the penalty on its biases is taken to be.
    theta : Tensor, optional
        The dual point (n, …, c) of a run, in the user's units of loss by output.
    better : module, optional
        A network with a lower objective, if one was found; see `improve`.
    """

    primal: float
    dual: float
    polar_max: float
    beta: float
    scope: Scope
    bound: BoundKind
    tol: float
    conditions: dict[str, bool] = field(default_factory=dict)
    method: str = "gates"
    penalty: Penalty = WEIGHT_DECAY
    dual_of: str = "network"
    standardized: bool = False
    free_intercept: bool = False
    biases: str = field(default="", compare=False)
    theta: Tensor | None = field(default=None, repr=False, compare=False)
    better: nn.Module | None = field(default=None, repr=False, compare=False)

    @property
    def gap(self) -> float:
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        return relative_gap(self.primal, self.dual)

    @property
    def theorem_bound(self) -> float:
        return max(self.polar_max / self.beta - 1.0, 0.0)

    @property
    def status(self) -> Standing:
        return Standing.CERTIFIED if self.holds(self.tol) else Standing.NOT_CERTIFIED

    def holds(self, tol: float) -> bool:
        """Whether the relative gap is at most ``tol``.  A gap that is not a number holds nothing."""
        return self.relative_gap <= tol

    def sharpened(self, other: Certificate) -> Certificate:
        """With the dual of another network's certificate on the same problem, where that is larger: it bounds this one
        as well.  What is said of this network itself, ``polar_max``, stays."""
        return self._with_dual(other.dual, other.bound, "solved network", other.theta)

    def sharpened_by(self, problem: Problem, point: DualPoint) -> Certificate:
        """With the bound of any dual point of the problem's program, where that is larger."""
        lower, theta = point.lower * problem.units.value, point.theta * problem.units.dual
        return self._with_dual(lower, point.bound, "run", theta)

    def _with_dual(self, dual: float, bound: BoundKind, dual_of: str, theta: Tensor | None) -> Certificate:
        if not dual > self.dual:
            return self
        bound = max(self.bound, bound, key=list(BoundKind).index)
        return replace(self, dual=dual, bound=bound, dual_of=dual_of, theta=theta)

    def to_dict(self) -> dict[str, Any]:
        """All of it but ``theta`` and ``better``, ready for JSON."""
        derived = ("gap", "relative_gap", "theorem_bound", "status")
        return asdict(replace(self, theta=None, better=None), dict_factory=_told) | {
            name: getattr(self, name) for name in derived
        }

    @staticmethod
    def from_dict(told: Mapping[str, Any]) -> Certificate:
        """Back from `to_dict`; what has a default may be missing."""
        known = [each.name for each in fields(Certificate) if each.name in told or each.default is MISSING]
        values = {name: told[name] for name in known if name not in TENSORS}
        kinds: dict[str, Callable[[Any], Any]] = {"scope": Scope, "bound": BoundKind, "penalty": read_penalty}
        return Certificate(**values | {name: kind(values[name]) for name, kind in kinds.items() if name in values})

    def improve(self) -> nn.Module | None:
        """A network of the same kind with a lower objective, where `provenet.certify` of a ReLU network came upon one.

        It has one more neuron, in a direction that pulls harder than β, and was trained on from there.  None: no such
        direction was found, which proves nothing by itself; what is proven is the gap.
        """
        return copy.deepcopy(self.better)

    def rows(self) -> list[tuple[str, str]]:
        """The certificate as a person reads it: names and values."""
        how = self.bound if self.method == "gates" else f"{self.bound}, by {self.method}"
        own = self.dual_of == "network"
        other = [] if self.penalty == WEIGHT_DECAY else [("penalty of a neuron", in_words(self.penalty))]
        if self.standardized:
            other.append(("data", "standardised; the penalty is on weights of standardised features"))
        free = [("intercept", "free: any, without penalty")] if self.free_intercept and not self.biases else []
        free += [("biases", self.biases)] if self.biases else []
        return [
            ("status", f"{self.status} (relative gap ≤ {self.tol:g} asked)"),
            ("scope", self.scope),
            *other,
            *free,
            ("primal", f"{self.primal:.12g}"),
            ("dual", f"{self.dual + 0.0:.12g}" + ("" if own else f" (by {_WHOSE.get(self.dual_of, self.dual_of)})")),
            ("gap", _shown(self.gap, self)),
            ("relative gap", _shown(self.relative_gap, self)),
            ("polar max / beta", f"{self.polar_max / self.beta:.12g} ({how if own else 'at the network itself'})"),
            ("theorem bound", f"{self.theorem_bound:.3e}" if self.theorem_bound else "0"),
        ]

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def _repr_html_(self) -> str:
        """For notebooks."""
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.rows())
        return f"<table><caption>Certificate</caption>{cells}</table>"


def _shown(gap: float, certificate: Certificate) -> str:
    """A gap that is rounding is zero; one that is negative beyond it is a mistake, and is seen."""
    return "0" if abs(certificate.relative_gap) < ROUNDING else f"{gap:.3e}"


def certificate_of(
    program: Program,
    prediction: Tensor,
    factors: Factors,
    beta: float,
    scale: float,
    scope: Scope,
    tol: float,
    intercept: Tensor | None = None,
    **more: Any,
) -> Certificate:
    """The certificate of neurons and their prediction without intercept, and that (c,), all in the program's units.

    beta: in the user's units.  scale: the objective's in the user's units over the program's.  more: other fields.
    """
    # they suppose rotations U → UQ, which neither cones nor other norms allow
    conditions = rank_conditions(factors, *program.operator.stack_shape) if program.gauge.rotates else {}
    penalty = float(program.gauge.penalty(factors))
    gap = duality_gap(program, prediction, penalty, final=True, tol=tol)
    gap = with_intercept(program, gap, prediction, penalty, intercept)
    return certificate_from(
        gap,
        program.beta,
        beta,
        scale,
        scope,
        tol,
        conditions=conditions,
        free_intercept=program.loss.free and not program.loss.cost,
        **more,
    )


def certificate_from(
    gap: Gap, program_beta: float, beta: float, scale: float, scope: Scope, tol: float, **more: Any
) -> Certificate:
    """A gap in the program's units, as a certificate in the user's; more: its other fields."""
    if not all(map(_finite, (gap.primal, gap.dual, gap.polar_max))):
        raise ValueError("network: its loss or gradient on this data is not finite; nothing can be certified.")
    if not (gap.primal == 0 or torch.finfo(torch.float64).tiny <= gap.primal * scale < float("inf")):
        # below float64's normal numbers primal and dual meet by rounding alone
        raise ValueError(f"problem: its objective, {gap.primal:.3g} times {scale:.3g}, leaves the range of float64.")
    return Certificate(
        primal=gap.primal * scale,
        dual=gap.dual * scale,
        polar_max=gap.polar_max * beta / program_beta,
        beta=beta,
        scope=scope,
        bound=gap.bound,
        tol=float(tol),
        **more,
    )


def _told(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: written(value) if name == "penalty" else value for name, value in pairs if name not in TENSORS}


def _finite(x: float) -> bool:
    return abs(x) < float("inf")
