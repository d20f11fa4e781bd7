"""β as a user says it: a number, a share of β_max, such as ``"0.01max"``, or ``"auto"``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from provenet.estimators.auto_beta import OTHERWISE
from provenet.problem import Problem
from provenet.statement import check_beta


@dataclass(frozen=True)
class Beta:
    """A weight decay: ``value`` itself, or that share of β_max, of the problem with its gates; ``chosen``: by short
    trainings."""

    value: float
    relative: bool = False
    chosen: bool = False

    @property
    def said(self) -> float | str:
        """As an estimator takes it."""
        if self.chosen:
            return AUTO
        return f"{self.value!r}max" if self.relative else self.value

    def scaled(self, part: float) -> Beta:
        """On a part of the samples: losses are sums; a share is one of a β_max that is smaller there by itself."""
        return self if self.relative else Beta(self.value * part)

    def of(self, problem: Problem) -> float:
        """Where β_max is zero the zero network is optimal at every β, and any will do."""
        return self.value * (problem.beta_max or 1.0) if self.relative else self.value


AUTO = "auto"
USUAL = Beta(0.01, relative=True)  # what gates that look at β are found for, where many β are tried with them


def parse_beta(said: Any, auto: bool = False) -> Beta:
    """0.5, "0.5", or "0.01max" for a hundredth of β_max; where it is allowed, "auto"."""
    if auto and isinstance(said, str) and said.strip() == AUTO:
        return Beta(OTHERWISE, relative=True, chosen=True)
    if not isinstance(said, str):
        check_beta(said)
        return Beta(float(said))
    number = said.strip().removesuffix("max")
    try:
        value = float(number)
    except ValueError:
        or_auto = " nor 'auto'" if auto else ""
        raise ValueError(
            f"beta: {said!r} is neither a number nor a share of beta_max such as '0.01max'{or_auto}."
        ) from None
    if not 0 < value < float("inf"):
        raise ValueError(f"beta: it must be a positive, finite number or share, got {said!r}.")
    return Beta(value, number != said.strip())
