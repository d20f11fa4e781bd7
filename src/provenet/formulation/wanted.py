"""Which gates a user asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from torch import nn

from provenet.formulation.trainee import BlockTrainee
from provenet.gates.samplers import SAMPLERS, Sampler, settled
from provenet.names import ALL, AUTO, GATES, GROW

GIVEN = "given"
_SEEDLINGS = 0.2  # of the gates asked for: how many Gaussian ones grow


@dataclass(frozen=True)
class Wanted:
    """name: of a sampler, which is to find ``count`` gates in each group of features, "auto" for the one that suits the
    data; "grow", which begins with some of them and lets `solve` find the others; "all", the arrangements of ReLU; or
    "given", by ``vectors`` (P, p) or as the units of a ``network``.  own: a sampler of the user's; the name is its."""

    name: str
    count: int = 0
    vectors: Any = None
    network: nn.Module | None = None
    own: Sampler | None = None

    @staticmethod
    def of(gates: Any, n_gates: Any = 100) -> Wanted:
        """As a user says it: ``gates`` a name or a sampler of their own, with ``n_gates`` of them, a number of Gaussian
        ones, vectors, or a network.  Where ``gates`` are "auto" or Gaussian, ``n_gates`` may say all this as well."""
        if isinstance(gates, str):
            if gates not in GATES:
                raise _unknown(gates)
            if not _is_number(n_gates):
                return Wanted._instead(gates, n_gates)
            return Wanted(gates, _counted(n_gates))
        if _is_number(gates):
            return Wanted("gaussian", _counted(gates))
        if isinstance(gates, nn.Module):
            return Wanted(GIVEN, network=gates)
        if callable(gates):
            return Wanted(_name_of(gates), _counted(n_gates), own=gates)
        return Wanted(GIVEN, vectors=gates)

    @staticmethod
    def _instead(gates: str, n_gates: Any) -> Wanted:
        if gates not in (AUTO, "gaussian"):
            raise ValueError(f"n_gates: with gates={gates!r} it must be a whole number, got {n_gates!r}.")
        if n_gates is None or isinstance(n_gates, Real):
            raise ValueError(f"n_gates: it must be a whole number, got {n_gates!r}.")
        return Wanted.of(n_gates)

    @property
    def given(self) -> Any:
        """Vectors of the user's."""
        if self.vectors is None:
            raise _unknown(None)
        return self.vectors

    @property
    def sampler(self) -> tuple[str, int] | None:
        """Whom to ask for how many gates; None where they are given, or all."""
        if self.name == GROW:
            return "gaussian", max(1, round(_SEEDLINGS * self.count))
        return (self.name, self.count) if self.own is not None or self.name in SAMPLERS else None

    def settled(self, trainee: BlockTrainee) -> Wanted:
        """With a sampler of its own name in place of "auto"."""
        return replace(self, name=settled(self.name, trainee, self.count * len(trainee.on.groups)))

    def without_training(self) -> Wanted:
        """With Gaussian gates in place of "auto": for data that are not at hand all at once."""
        return replace(self, name="gaussian") if self.name == AUTO else self

    @property
    def all(self) -> bool:
        return self.name == ALL


def _unknown(gates: Any) -> ValueError:
    known = ", ".join([*map(repr, GATES), "a number", "vectors", "a network"])
    return ValueError(f"gates: {gates!r} is unknown; choose one of {known} or a function.")


def _name_of(sampler: Any) -> str:
    """With a dot in it, as no sampler of ours has."""
    return f"{sampler.__module__}.{getattr(sampler, '__qualname__', type(sampler).__name__)}"


def _is_number(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _counted(value: Any) -> int:
    if value < 1:
        raise ValueError(f"gates: at least one gate is needed, got {value}.")
    return int(value)
