"""The suites of `provenet bench` that measure time: solvers on programs, and operators beside their bare products."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from provenet.bench.page import markdown
from provenet.bench.records import Records
from provenet.bench.speed import SUITES, Setup, Trial, run
from provenet.bench.speed import operators as costs_of
from provenet.bench.speed.page import machine, page, times
from provenet.bench.speed.plot import draw
from provenet.bench.speed.standings import Standing
from provenet.cli.console import say, warn
from provenet.deadline import Budget
from provenet.io.folder import write_atomically


def speed(
    suite: str,
    images: Path | None,
    out: Path,
    wanted: list[str],
    who: list[str],
    limit: float,
    max_seconds: float | None,
    quiet: bool,
) -> tuple[bool, list[Any]]:
    """Whether all is done, and the results."""
    records = Records(out / f"{suite}.jsonl", Trial)
    cases = [case for case in SUITES[suite] if not wanted or any(part in case.name for part in wanted)]
    skipped: dict[str, str] = {}

    def skip(name: str, reason: str) -> None:
        skipped[name] = reason
        warn(f"{name}: skipped. {reason} Say --images FOLDER.")

    setup = Setup(images, limit, max_seconds, frozenset(who) or None)
    complete = run(cases, records, setup, None if quiet else _tell, skip)
    # of the whole suite: a run of some programs leaves the others' results on the page
    standings = [standing for case in SUITES[suite] if (standing := Standing.of(case, records)).trials]
    if standings:
        draw(standings, out / f"{suite}.png")
        text = page(suite, _command(), standings, skipped, f"{suite}.png")
        write_atomically(out / f"{suite}.md", text.encode())
    if not quiet:
        say(times(standings))
    return complete, [{"title": suite, "skipped": skipped, "trials": [asdict(trial) for trial in records]}]


def operators(out: Path, max_seconds: float | None, quiet: bool) -> tuple[bool, list[Any]]:
    """What A and A* on neurons cost, over the bare matrix products and FFTs; one row a block, activation and way."""
    records = Records(out / "operators.jsonl", costs_of.Cost)
    budget, complete = Budget(max_seconds), True
    for work in costs_of.rows():
        if work.is_in(records):
            continue
        if budget.over:
            complete = False
            break
        for cost in work.costs():
            records.add(cost)
            if not quiet:
                say(f"{cost.name}  {cost.how}  {cost.ratio:.2f}")
    head = ("block", "how", "A and A* on neurons, ms", "bare products, ms", "ratio")
    cells = [(c.name, c.how, f"{1e3 * c.ours:.1f}", f"{1e3 * c.bare:.1f}", f"{c.ratio:.2f}") for c in records]
    told = f"# Operators\n\n    {_command()}\n\n{machine()}; one thread.\n\n{markdown(head, cells)}"
    write_atomically(out / "operators.md", told.encode())
    return complete, [{"title": "operators", "costs": [asdict(cost) for cost in records]}]


def _command() -> str:
    """As it was called, without where folders are on this machine."""
    return " ".join(["provenet", *(Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:])])


def _tell(trial: Trial) -> None:
    gap = trial.error or ("another program" if trial.gap is None else f"gap {trial.gap:.1e}")
    say(f"{trial.case}  {trial.who} {trial.effort:g}  {trial.seconds:.2f} s  {gap}  {trial.ran}".rstrip())
