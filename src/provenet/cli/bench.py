"""`provenet bench`: comparisons with others, on data a user can get."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from provenet.cli import importing
from provenet.cli import options as o
from provenet.cli.console import FAILED, errors, print_json
from provenet.names import METHODS, SUITES

_ALL = ("accuracy", *SUITES, "operators")


def bench(
    only: Annotated[
        str | None,
        typer.Option(help=f"Which comparisons, with commas between them, of {', '.join(_ALL)}. (default: all)"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of UCI tables, NAME/NAME_R.dat; without it scikit-learn's own tables are taken."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of Fashion-MNIST's idx files; programs that need it are skipped without."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", file_okay=False, help="Folder for results; a run goes on from what it holds.")
    ] = Path("bench"),
    splits: Annotated[int, typer.Option(min=1, help="How many random splits of every table.")] = 5,
    table: Annotated[
        list[str] | None, typer.Option(help="Only this table, or programs with this in their name; repeat for several.")
    ] = None,
    states: Annotated[int, typer.Option(min=1, help="How many random states of estimators for every split.")] = 1,
    who: Annotated[
        list[str] | None, typer.Option(help="Only this solver of programs, or this estimator; repeat for several.")
    ] = None,
    limit: Annotated[
        float, typer.Option(callback=o.positive, help="Seconds for one solver on one program, where it can be stopped.")
    ] = 120.0,
    max_seconds: Annotated[
        float | None, typer.Option(callback=o.positive, help="Begin no fit after so many seconds; go on another time.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Compare with scikit-learn's usual estimators and with other solvers; write results, a page and pictures.

    Example: provenet bench --only small,relu --max-seconds 4000
    """
    asked = list(_ALL) if only is None else [name.strip() for name in only.split(",")]
    if unknown := [name for name in asked if name not in _ALL]:
        raise typer.BadParameter(f"{', '.join(unknown)}: unknown; there are {', '.join(_ALL)}.", param_hint="--only")
    if images is not None and not images.is_dir():
        raise typer.BadParameter(f"{images}: there is no such folder.", param_hint="--images")
    with importing():
        from provenet.bench import Setup
        from provenet.bench.entrants import CLASSIFIERS, REGRESSORS
        from provenet.bench.speed.peers import PEERS
        from provenet.cli.bench_accuracy import accuracy
        from provenet.cli.bench_speed import operators, speed
    if unmatched := [name for name in asked if name in SUITES and table and not _matched(name, table)]:
        raise typer.BadParameter(f"{', '.join(table or [])}: no program of {', '.join(unmatched)} has it in its name.",
                                 param_hint="--table")  # fmt: skip
    known = ("auto", *METHODS, *(peer.name for peer in PEERS), *CLASSIFIERS, *REGRESSORS)
    if unknown := [name for name in who or [] if name not in known]:
        raise typer.BadParameter(f"{', '.join(unknown)}: unknown; there are {', '.join(known)}.", param_hint="--who")
    out.mkdir(parents=True, exist_ok=True)
    complete, results = True, list[Any]()
    for name in asked:
        if name == "accuracy":
            done, found = accuracy(data, out, table or [], Setup(splits, max_seconds, states, who), json)
        elif name == "operators":
            done, found = operators(out, max_seconds, json)
        else:
            done, found = speed(name, images, out, table or [], who or [], limit, max_seconds, json)
        complete, results = complete and done, results + found
    if json:
        print_json({"folder": str(out), "complete": complete, "results": results})
    if not complete:
        errors().print(f"{out}: not all fits are done; the same command goes on from here.")
        raise typer.Exit(FAILED)


def _matched(suite: str, wanted: list[str]) -> bool:
    return any(part in case.name for case in SUITES[suite] for part in wanted)
