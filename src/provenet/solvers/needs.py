"""What methods may need of a program: each ability is checked here, and nowhere else.

A part has an ability by its type or an attribute of it, never by being one of ours: a user's own gauge, loss or
operator that offers it is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from provenet.cones import Table
from provenet.gauges import ConeGauge, ProxGauge
from provenet.problem import Program


@dataclass(frozen=True)
class Ability:
    """part: "gauge", "loss" or "operator" of a program.  missing: what to say where it has not this ability; {name} is
    the part's."""

    part: str
    has: Callable[[Any], bool]
    missing: str

    def unmet(self, program: Program) -> str | None:
        """The sentence, or None."""
        part = getattr(program, self.part)
        return None if self.has(part) else self.missing.format(name=getattr(part, "name", type(part).__name__))

    def of(self, program: Program) -> bool:
        return self.unmet(program) is None


PROX = Ability("gauge", lambda gauge: isinstance(gauge, ProxGauge), "its gauge has no prox.")
NUCLEAR = Ability("gauge", lambda gauge: gauge.spectral, "it needs the nuclear norm, not {name}.")
CONES = Ability(
    "gauge",
    lambda gauge: isinstance(gauge, ConeGauge),
    "it works in the cones of ReLU's arrangements, and the program has none.",
)
LINES = Ability(
    "gauge",
    lambda gauge: hasattr(gauge, "pulls"),
    "it is for ReLU networks with the penalty (1, 1) or (inf, 1).",
)
TABLE = Ability(
    "gauge",
    lambda gauge: isinstance(gauge, ConeGauge) and isinstance(gauge.region, Table),
    "it needs the ReLU program of a block with a table of rows.",
)
SPIKE_FREE = Ability(
    "gauge",
    lambda gauge: isinstance(gauge, ConeGauge) and gauge.spike_free,
    "it needs a ReLU MLP on whitened X, XXᵀ = I with no more samples than features, formulated with gates='all'; "
    "provenet.data.whitening.Whitening whitens.",
)
SQUARED = Ability("loss", lambda loss: loss.quadratic, "it needs the squared loss, not '{name}'.")
SEPARATE = Ability("loss", lambda loss: not loss.free, "it takes samples apart, which a free intercept ties together.")
UNPAID = Ability("loss", lambda loss: not loss.cost, "it knows intercepts that cost nothing, not one with a penalty.")
SMOOTH_CONJUGATE = Ability(
    "loss",
    lambda loss: loss.smooth_conjugate() is not None,
    "loss '{name}' offers no conjugate that is smooth inside its domain.",
)
KERNEL = Ability("operator", lambda operator: operator.has_kernel, "its operator, {name}, has no kernel.")
NARROWS = Ability(
    "operator",
    lambda operator: operator.narrows,
    "its operator, {name}, cannot be narrowed to some directions of the first layer; use 'apg' or 'bm'.",
)
GATED_ROWS = Ability(
    "operator",
    lambda operator: operator.gated_rows is not None,
    "it needs gated rows D_kX, which {name} does not offer.",
)
DOUBLE = Ability("operator", lambda operator: operator.dtype == torch.float64, "it works in float64 only.")
RESIDENT = Ability(
    "operator",
    lambda operator: not operator.in_shards,
    "it needs all samples in memory, and they are in shards; use 'lbfgs'.",
)
