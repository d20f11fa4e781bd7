"""Options that go together, said once and taken by several sub-commands.

A group is a frozen dataclass whose fields are options.  A command that takes one by `grouped` has each of its fields on
the command line, and is handed the dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, get_type_hints

from typer import BadParameter

from provenet.cli import block_options as b
from provenet.cli import options as o


@dataclass(frozen=True)
class FromFile:
    """A file of samples, its columns, and how a row is read."""

    data: o.DataFile
    target: o.Targets = field(default_factory=list)
    feature: o.Features = field(default_factory=list)
    drop: o.Drop = field(default_factory=list)
    weight: o.Weight = None
    header: o.Header = None
    impute: o.Impute = False
    one_hot: o.OneHot = False
    tokens: b.Tokens = None
    image: b.Image = None


@dataclass(frozen=True)
class OfBlock:
    """A block, and how it is read out."""

    block: b.BlockOption = "mlp"
    set_: b.Settings = field(default_factory=list)
    readout: b.ReadoutOption = "mean"


@dataclass(frozen=True)
class OfNetwork:
    """What is trained."""

    activation: o.ActivationOption = None
    gates: o.Gates = "auto"  # type: ignore[assignment]  # typer parses it
    n_gates: o.GateCount = 50
    loss: o.LossOption = None
    intercept: o.Intercept = True
    free_intercept: o.FreeIntercept = None
    penalty: o.PenaltyOption = "2,2"  # type: ignore[assignment]  # typer parses it
    standardize: o.Standardize = None
    seed: o.Seed = 0

    @property
    def fit_intercept(self) -> bool | str:
        """As the estimators take it: free, unless told otherwise."""
        if self.free_intercept and not self.intercept:
            raise BadParameter("it keeps the column of ones, too.", param_hint="--free-intercept, --no-intercept")
        return self.intercept if self.free_intercept is False or not self.intercept else "free"


@dataclass(frozen=True)
class OfSolver:
    """How it is trained, and how far."""

    solver: o.SolverOption = "auto"
    tol: o.Tol = 1e-3
    max_steps: o.MaxSteps = None
    max_seconds: o.MaxSeconds = None
    memory_limit: o.MemoryLimit = None


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every group among its parameters spread out, for typer to read."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    spread: dict[str, Parameter] = {}
    for name, parameter in signature(command).parameters.items():
        own = _options(groups[name]) if name in groups else {name: (hints[name], parameter.default)}
        for option, (kind, default) in own.items():
            spread[option] = Parameter(option, Parameter.KEYWORD_ONLY, default=default, annotation=kind)

    @wraps(command)
    def run(**given: Any) -> None:
        made = {name: kind(**{f.name: given.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        command(**made, **given)

    run.__signature__ = signature(command).replace(parameters=list(spread.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in spread.items()}
    return run


def _options(group: Any) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of every field."""
    hints = get_type_hints(group, include_extras=True)
    found = {}
    for each in fields(group):
        made = each.default if each.default_factory is MISSING else each.default_factory()
        found[each.name] = (hints[each.name], Parameter.empty if made is MISSING else made)
    return found
