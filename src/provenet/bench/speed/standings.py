"""What trials say: seconds until a gap was proven, marks met or missed, and what `auto` cost beside the best method."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from provenet.bench.speed.cases import Case, Mark
from provenet.bench.speed.trials import Trial

GAPS = (1e-2, 1e-4, 1e-6, 1e-8)


@dataclass(frozen=True)
class Standing:
    """The trials of one program."""

    case: Case
    trials: tuple[Trial, ...]

    @staticmethod
    def of(case: Case, trials: Iterable[Trial]) -> Standing:
        return Standing(case, tuple(trial for trial in trials if trial.case == case.name))

    @property
    def who(self) -> list[str]:
        """`auto`, methods and peers, as they ran."""
        return list(dict.fromkeys(trial.who for trial in self.trials))

    def by(self, who: str) -> list[Trial]:
        return [trial for trial in self.trials if trial.who == who]

    def seconds(self, who: str, gap: float) -> float:
        """Of the quickest trial of theirs that proves it, inf where none does."""
        return min((one.seconds for one in self.by(who) if one.gap is not None and one.gap <= gap), default=math.inf)

    def spent(self, who: str) -> float:
        """The most seconds of a trial of theirs."""
        return max((one.seconds for one in self.by(who)), default=0.0)

    @property
    def methods(self) -> list[str]:
        return [who for who in self.who if who != "auto" and any(one.ours for one in self.by(who))]

    @property
    def peers(self) -> list[str]:
        return [who for who in self.who if not any(one.ours for one in self.by(who))]

    def regret(self, gap: float) -> tuple[str, float] | None:
        """The quickest method by name, and how many times its seconds `auto` took; None where `auto` did not get there
        or was not overtaken by any that did."""
        auto = self.seconds("auto", gap)
        best = min(self.methods, key=lambda who: self.seconds(who, gap), default=None)
        if best is None or auto == math.inf or self.seconds(best, gap) == math.inf:
            return None
        return best, auto / self.seconds(best, gap)

    def answer(self, mark: Mark) -> tuple[float, bool] | None:
        """What was asked for over what was measured, from one on it is met; whether the peers' part of it is only a
        bound, since none of them proved the gap in the time they were given.  None where it was not measured."""
        if not self.by("auto"):
            return None
        ours = self.seconds("auto", mark.gap)
        if mark.seconds is not None:
            return mark.seconds / ours, False
        there = [who for who in mark.peers if who in self.who]
        if not there:
            return None
        asked = mark.gap if mark.their_gap is None else mark.their_gap
        theirs = min(self.seconds(who, asked) for who in there)
        bound = theirs == math.inf
        if bound:
            theirs = min(self.spent(who) for who in there)
        return theirs / ours / mark.times, bound
