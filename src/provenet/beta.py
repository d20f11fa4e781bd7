"""β as a user says it: a number, a share of β_max, such as ``"0.01max"``, that of a mean, such as ``"5e-4mean"``, or
``"auto"``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

AUTO = "auto"
OTHERWISE = 0.03  # the share of β_max that predicted best of those that are one for all tables
_EXAMPLES = {"mean": "5e-4mean", "max": "0.01max"}


@dataclass(frozen=True)
class Beta:
    """A weight decay: ``value`` itself, of a sum over samples; of their "mean"; or, "max", that share of β_max, of the
    problem with its gates.  "auto": a share that short trainings are to choose, in place of ``value``."""

    value: float
    unit: str = "sum"

    @property
    def relative(self) -> bool:
        """Whether it depends on the data."""
        return self.unit != "sum"

    @property
    def chosen(self) -> bool:
        return self.unit == AUTO

    @property
    def said(self) -> float | str:
        """As an estimator takes it."""
        if self.chosen:
            return AUTO
        return f"{self.value!r}{self.unit}" if self.relative else self.value

    def scaled(self, part: float) -> Beta:
        """On a part of the samples: losses are sums; a share is one of a β_max that is smaller there by itself."""
        return self if self.relative else Beta(self.value * part)

    def of(self, problem: Any) -> float:
        """Of a `Problem`."""
        return self.summed(problem.program.operator.shards.n, lambda: problem.beta_max)

    def summed(self, n: int, beta_max: Callable[[], float]) -> float:
        """β of the sum over n samples.  Where β_max is zero the zero network is optimal at every β: any will do."""
        if self.unit == "max":
            return self.value * (beta_max() or 1.0)
        return self.value * n if self.unit == "mean" else self.value


USUAL = Beta(0.01, "max")  # what gates that look at β are found for, where many β are tried with them


def check_beta(beta: float) -> None:
    if isinstance(beta, bool) or not isinstance(beta, Real) or not (0 < beta < float("inf")):
        raise ValueError(f"beta: it must be a positive, finite number, got {beta!r}.")


def parse_beta(said: Any, units: tuple[str, ...] = ("max",), auto: bool = False) -> Beta:
    """0.5, "0.5", or, in one of these ``units``, "0.01max" for a hundredth of β_max and "5e-4mean" for 5e-4·n;
    where it is allowed, "auto"."""
    if auto and isinstance(said, str) and said.strip() == AUTO:
        return Beta(OTHERWISE, AUTO)
    if not isinstance(said, str):
        check_beta(said)
        return Beta(float(said))
    text = said.strip()
    unit = next((unit for unit in units if text.endswith(unit)), "")
    try:
        value = float(text.removesuffix(unit))
    except ValueError:
        examples = " or ".join(repr(_EXAMPLES[unit]) for unit in units) + (" or 'auto'" if auto else "")
        raise ValueError(f"beta: {said!r} is neither a number nor one such as {examples}.") from None
    if not 0 < value < float("inf"):
        raise ValueError(f"beta: it must be a positive, finite number or share, got {said!r}.")
    return Beta(value, unit or "sum")
