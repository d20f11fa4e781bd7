"""A suite's results in words: times, marks and regret, in Markdown."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from datetime import date

import torch

from provenet.bench.page import markdown
from provenet.bench.speed.standings import GAPS, Standing

KEY = (
    "Seconds until a relative gap of 1e-2, 1e-4, … is proven, a row a solver; empty where it was not reached, and at "
    "last the best gap that was. P is the number of gates, c that of outputs; the names of methods are on "
    "[their page](../words.md#methods).\n"
)


def page(suite: str, command: str, standings: Sequence[Standing], skipped: dict[str, str], picture: str) -> str:
    """With its command, machine and date."""
    parts = [
        f"# The suite `{suite}`\n",
        f"    {command}\n",
        f"{date.today()}; {machine()}; one thread, processor seconds. Every gap is certified in float64 by "
        "provenet from the network that came back, whoever made it, and the dual point of a run of ours, after its "
        "time was taken. A method of ours by name is stopped where it takes half as long again as `auto`.\n",
        KEY,
        times(standings),
    ]
    if any(standing.case.marks for standing in standings):
        parts += ["## Marks\n", marks(standings)]
    if beside := [standing for standing in standings if standing.methods]:  # with `auto` alone there is nothing to say
        parts += ["## Regret\n", "`auto` beside the quickest method by name.\n", regrets(beside)]
    parts += [f"[![Gaps against seconds, a line a solver.]({picture})]({picture})\n"]  # in full where it is clicked
    if skipped:
        parts += ["Skipped:\n", *(f"- {name}: {reason}" for name, reason in skipped.items()), ""]
    return "\n".join(parts)


def machine() -> str:
    return f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"


def times(standings: Sequence[Standing]) -> str:
    """Seconds until each gap; where one was not reached, how near it came."""
    rows = []
    for standing in standings:
        for number, who in enumerate(_shown(standing)):
            cells = [_until(standing, who, gap) for gap in GAPS]
            rows.append((standing.case.name if number == 0 else "", who, *cells, _last(standing, who)))
    return markdown(("program", "who", *(f"{gap:.0e}" for gap in GAPS), "at last"), rows)


def _shown(standing: Standing) -> list[str]:
    """`auto`, the methods that proved something in their time, and peers."""
    proved = [who for who in standing.methods if standing.seconds(who, max(standing.case.tols)) < math.inf]
    return [*(["auto"] if standing.by("auto") else []), *proved, *standing.peers]


def _until(standing: Standing, who: str, gap: float) -> str:
    seconds = standing.seconds(who, gap)
    return "" if seconds == math.inf else _told(seconds)


def _last(standing: Standing, who: str) -> str:
    """The best gap of all, and what did it; of those that prove nothing, only the time."""
    trials = standing.by(who)
    failed = next((trial.error for trial in trials if trial.error), None)
    judged = [trial for trial in trials if trial.gap is not None]
    if not judged:
        return failed or f"{_told(standing.spent(who))} s; another program"
    best = min(judged, key=lambda trial: trial.gap if trial.gap is not None else math.inf)
    return f"{best.gap:.0e} after {_told(best.seconds)} s" + (f" ({best.ran})" if best.ran else "")


def _told(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"


def marks(standings: Sequence[Standing]) -> str:
    rows = []
    for standing in standings:
        for mark in standing.case.marks:
            answer = standing.answer(mark)
            if answer is None:
                said = "not measured"
            elif answer[0] == 0:
                said = "not proven"
            else:
                told = f"{answer[0]:.2f}" if answer[0] < 10 else f"{answer[0]:.0f}"
                said = f"{'met' if answer[0] >= 1 else 'missed'}, {'≥ ' if answer[1] else ''}{told}"
            rows.append((standing.case.name, str(mark), said))
    note = "Asked over measured: from one on a mark is met. ≥: no peer proved the gap in its time.\n"
    return note + "\n" + markdown(("program", "mark", ""), rows)


def regrets(standings: Sequence[Standing]) -> str:
    rows = []
    for standing in standings:
        cells = []
        for gap in GAPS:
            regret = standing.regret(gap)
            alone = standing.seconds("auto", gap) < math.inf
            cells.append(f"{regret[1]:.2f} ({regret[0]})" if regret else "none sooner" if alone else "")
        rows.append((standing.case.name, *cells))
    return markdown(("program", *(f"{gap:.0e}" for gap in GAPS)), rows)
