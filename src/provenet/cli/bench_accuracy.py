"""`provenet bench --only accuracy`: predictions beside scikit-learn's usual estimators."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import typer

from provenet.bench import Record, Records, Setup, Table, run, suite
from provenet.bench.entrants import RIVALS, entrants
from provenet.bench.page import each_table, overview, versus
from provenet.bench.picture import draw
from provenet.bench.summary import Summary
from provenet.bench.tables import Task
from provenet.cli.console import say
from provenet.io.folder import write_atomically


class Part(NamedTuple):
    """A part of the page: its title, the name of its picture, and who is to be compared with whom."""

    title: str
    picture: str
    summary: Summary
    pairs: list[tuple[str, str]]


def accuracy(data: Path | None, out: Path, wanted: list[str], setup: Setup, quiet: bool) -> tuple[bool, list[Any]]:
    """Whether all is done, and the results."""
    tables = _chosen(list(suite(data)), wanted)
    records = Records(out / "results.jsonl", Record)
    complete = run(tables, records, setup, None if quiet else _tell)
    parts = _parts(tables, records)
    write_atomically(out / "tables.md", _page(parts, out).encode())
    if not quiet:
        for title, _, summary, pairs in parts:
            say(f"{title}\n{overview(summary)}" + "\n".join(versus(summary, *pair) for pair in pairs))
    return complete, [_as_json(part) for part in parts]


_TITLES: dict[Task, str] = {"classification": "Classification, accuracy in %", "regression": "Regression, 100 R²"}


def _chosen(tables: list[Table], wanted: list[str]) -> list[Table]:
    names = [table.name for table in tables]
    if unknown := [name for name in wanted if name not in names]:
        raise typer.BadParameter(f"{', '.join(unknown)}: unknown; there are {', '.join(names)}.", param_hint="--table")
    return [table for table in tables if not wanted or table.name in wanted]


def _parts(tables: list[Table], records: Records[Record]) -> list[Part]:
    """Classification and regression: those who have most results; and everyone, on splits that all have results of."""
    found: list[Part] = []
    for task, title in _TITLES.items():
        names = [table.name for table in tables if table.task == task]
        done = Counter(record.who for record in records if record.table in names)
        most = [who for who in entrants(task) if done[who] == max(done.values(), default=0)]
        parts = {f"{task}.png": (title, most)}
        if most != list(entrants(task)):
            parts[f"{task}-all.png"] = (f"{title}: splits that everyone has results of", list(entrants(task)))
        for picture, (said, who) in parts.items():
            summary = Summary.of(records, names, who)
            if summary.tables:
                pairs = [pair for pair in RIVALS[task] if set(pair) <= set(who)]
                found.append(Part(said, picture, summary, pairs))
    return found


def _page(parts: list[Part], out: Path) -> str:
    text = ""
    for title, picture, summary, pairs in parts:
        sentences = "\n".join(f"- {versus(summary, *pair)}" for pair in pairs)
        text += f"## {title}\n\n{overview(summary)}\n{sentences}\n\n"
        if pairs:
            draw(summary, pairs, out / picture)
            text += f"![Ours against theirs, one dot a table]({picture})\n\n"
        text += f"{each_table(summary)}\n"
    return text


def _tell(record: Record) -> None:
    score = record.error if record.score is None else f"{100 * record.score:.1f}"
    again = f", random state {record.state + 1}" if record.state else ""
    say(f"{record.table}  split {record.split}{again}  {record.who}  {score}  {record.seconds:.1f} s")


def _as_json(part: Part) -> dict[str, object]:
    summary = part.summary
    return {
        "title": part.title,
        "tables": list(summary.tables),
        "splits": summary.splits.tolist(),
        "who": list(summary.who),
        "mean": summary.means.tolist(),
        "spread": summary.spread.tolist(),
        "rank": summary.ranks.tolist(),
        "seconds": summary.typical_seconds.tolist(),
    }
