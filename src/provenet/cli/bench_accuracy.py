"""`provenet bench --only accuracy`: predictions beside scikit-learn's usual estimators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from provenet.bench import Record, Records, Setup, Table, run, suite
from provenet.bench.entrants import RIVALS, entrants
from provenet.bench.page import each_table, overview, versus
from provenet.bench.picture import draw
from provenet.bench.summary import Summary
from provenet.bench.tables import Task
from provenet.cli.console import say
from provenet.io.folder import write_atomically

Part = tuple[str, Summary, list[tuple[str, str]]]


def accuracy(
    data: Path | None, out: Path, splits: int, wanted: list[str], max_seconds: float | None, quiet: bool
) -> tuple[bool, list[Any]]:
    """Whether all is done, and the results."""
    tables = _chosen(list(suite(data)), wanted)
    records = Records(out / "results.jsonl", Record)
    complete = run(tables, records, Setup(splits, max_seconds), None if quiet else _tell)
    parts = _parts(tables, records)
    write_atomically(out / "tables.md", _page(parts, out).encode())
    if not quiet:
        for title, summary, pairs in parts:
            say(f"{title}\n{overview(summary)}" + "\n".join(versus(summary, *pair) for pair in pairs))
    return complete, [_as_json(part) for part in parts]


_TITLES: dict[Task, str] = {"classification": "Classification, accuracy in %", "regression": "Regression, 100 R²"}


def _chosen(tables: list[Table], wanted: list[str]) -> list[Table]:
    names = [table.name for table in tables]
    if unknown := [name for name in wanted if name not in names]:
        raise typer.BadParameter(f"{', '.join(unknown)}: unknown; there are {', '.join(names)}.", param_hint="--table")
    return [table for table in tables if not wanted or table.name in wanted]


def _parts(tables: list[Table], records: Records[Record]) -> list[Part]:
    """Classification and regression, where there are tables of it with results of everyone."""
    found: list[Part] = []
    for task, title in _TITLES.items():
        names = [table.name for table in tables if table.task == task]
        summary = Summary.of(records, names, list(entrants(task)))
        if summary.tables:
            found.append((title, summary, RIVALS[task]))
    return found


def _page(parts: list[Part], out: Path) -> str:
    text = ""
    for title, summary, pairs in parts:
        picture = out / f"{title.split(',')[0].lower()}.png"
        draw(summary, pairs, picture)
        sentences = "\n".join(f"- {versus(summary, *pair)}" for pair in pairs)
        text += f"## {title}\n\n{overview(summary)}\n{sentences}\n\n![Ours against theirs, one dot a table]"
        text += f"({picture.name})\n\n{each_table(summary)}\n"
    return text


def _tell(record: Record) -> None:
    score = record.error if record.score is None else f"{100 * record.score:.1f}"
    say(f"{record.table}  split {record.split}  {record.who}  {score}  {record.seconds:.1f} s")


def _as_json(part: Part) -> dict[str, object]:
    title, summary, _ = part
    return {
        "title": title,
        "tables": list(summary.tables),
        "splits": summary.splits.tolist(),
        "who": list(summary.who),
        "mean": summary.means.tolist(),
        "spread": summary.spread.tolist(),
        "rank": summary.ranks.tolist(),
        "seconds": summary.typical_seconds.tolist(),
    }
