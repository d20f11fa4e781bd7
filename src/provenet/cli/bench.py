"""`provenet bench`: comparisons with others, on data a user can get."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from provenet.bench import Record, Records, Setup, Table, run, suite
from provenet.bench.entrants import RIVALS, entrants
from provenet.bench.page import each_table, overview, versus
from provenet.bench.picture import draw
from provenet.bench.summary import Summary
from provenet.bench.tables import Task
from provenet.cli import options as o
from provenet.cli.console import FAILED, errors, print_json, say
from provenet.io.folder import write_atomically


class Part(NamedTuple):
    """A part of the page: its title, the name of its picture, and who is to be compared with whom."""

    title: str
    picture: str
    summary: Summary
    pairs: list[tuple[str, str]]


def bench(
    only: Annotated[
        str | None, typer.Option(help="Which comparisons, with commas between them. (default: all there are)")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of UCI tables, NAME/NAME_R.dat; without it scikit-learn's own tables are taken."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", file_okay=False, help="Folder for results; a run goes on from what it holds.")
    ] = Path("bench"),
    splits: Annotated[int, typer.Option(min=1, help="How many random splits of every table.")] = 5,
    table: Annotated[list[str] | None, typer.Option(help="Only this table; repeat for several.")] = None,
    max_seconds: Annotated[
        float | None, typer.Option(callback=o.positive, help="Begin no fit after so many seconds; go on another time.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Compare with scikit-learn's usual estimators; write results.jsonl, tables.md and a picture.

    Example: provenet bench --only accuracy --data uci --max-seconds 4000
    """
    asked = list(_SUITES) if only is None else [name.strip() for name in only.split(",")]
    if unknown := [name for name in asked if name not in _SUITES]:
        raise typer.BadParameter(f"{', '.join(unknown)}: unknown; there are {', '.join(_SUITES)}.", param_hint="--only")
    for name in asked:
        _SUITES[name](data, out, splits, table or [], max_seconds, json)


def _accuracy(
    data: Path | None, out: Path, splits: int, wanted: list[str], max_seconds: float | None, json: bool
) -> None:
    tables = _chosen(list(suite(data)), wanted)
    out.mkdir(parents=True, exist_ok=True)
    records = Records(out / "results.jsonl")
    complete = run(tables, records, Setup(splits, max_seconds), None if json else _tell)
    parts = _parts(tables, records)
    write_atomically(out / "tables.md", _page(parts, out).encode())
    if json:
        print_json({"folder": str(out), "complete": complete, "results": [_as_json(part) for part in parts]})
    else:
        for title, _, summary, pairs in parts:
            say(f"{title}\n{overview(summary)}" + "\n".join(versus(summary, *pair) for pair in pairs))
    if not complete:
        errors().print(f"{out}: not all fits are done; the same command goes on from here.")
        raise typer.Exit(FAILED)


_SUITES = {"accuracy": _accuracy}
_TITLES: dict[Task, str] = {"classification": "Classification, accuracy in %", "regression": "Regression, 100 R²"}


def _chosen(tables: list[Table], wanted: list[str]) -> list[Table]:
    names = [table.name for table in tables]
    if unknown := [name for name in wanted if name not in names]:
        raise typer.BadParameter(f"{', '.join(unknown)}: unknown; there are {', '.join(names)}.", param_hint="--table")
    return [table for table in tables if not wanted or table.name in wanted]


def _parts(tables: list[Table], records: Records) -> list[Part]:
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
    say(f"{record.table}  split {record.split}  {record.who}  {score}  {record.seconds:.1f} s")


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
