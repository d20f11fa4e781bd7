"""`provenet reproduce`: the papers' experiments, beside what the papers report."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from provenet.cli import options as o
from provenet.cli.console import FAILED, errors, print_json, say
from provenet.reproduce import EXPERIMENTS, OutOfTime, Run
from provenet.reproduce.page import as_markdown, write

_LISTS = ("all", "list")


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which experiment; 'all' of them, or a 'list'.")] = "list",
    quick: Annotated[bool, typer.Option("--quick", help="In small, in less than a minute.")] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", file_okay=False, help="Folder for results; a run goes on from what it holds.")
    ] = Path("reproduced"),
    max_seconds: Annotated[
        float | None,
        typer.Option(callback=o.positive, help="Begin nothing after so many seconds; go on another time."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(exists=True, help="The data of an experiment that needs some; it says which.")
    ] = None,
    gates: Annotated[int | None, typer.Option(min=1, help="Of a stage, where stages are trained by layers.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="The same: of a stage.")] = None,
    json: o.Json = False,
) -> None:
    """Repeat experiments of the papers; write a page, pictures and numbers beside what the papers report.

    Example: provenet reproduce spiral-gap --quick
    """
    if name not in (*EXPERIMENTS, *_LISTS):
        known = ", ".join((*_LISTS, *EXPERIMENTS))
        raise typer.BadParameter(f"{name}: unknown; there are {known}.", param_hint="NAME")
    if name == "list":
        listed = {each.name: f"{each.title} ({each.paper})" for each in EXPERIMENTS.values()}
        if json:
            print_json(listed)
        else:
            width = max(map(len, listed))
            for known, title in listed.items():
                say(f"{known:{width}s}  {title}")
        return
    if (gates or epochs) and not (name in EXPERIMENTS and EXPERIMENTS[name].resizable):
        those = ", ".join(each.name for each in EXPERIMENTS.values() if each.resizable)
        said = "--gates, --epochs"
        raise typer.BadParameter(f"{name} has numbers of its own; they can be said for {those}.", param_hint=said)
    began, done = time.perf_counter(), {}
    for each in EXPERIMENTS if name == "all" else [name]:
        left = None if max_seconds is None else max_seconds - (time.perf_counter() - began)
        try:
            done[each] = str(
                _one(each, Run(quick, None, left, data=data, gates=gates, epochs=epochs), out / each, json)
            )
        except FileNotFoundError as missing:  # its data; the others need not wait for them
            if name != "all":
                raise
            errors().print(f"{each}: {missing}")
    if json:
        print_json(done)


def _one(name: str, asked: Run, folder: Path, quiet: bool) -> Path:
    experiment = EXPERIMENTS[name]
    pieces = folder / ("pieces-quick.jsonl" if asked.quick else "pieces.jsonl")
    began = time.perf_counter()
    tell = (lambda _: None) if quiet else (lambda said: say(f"{name}: {said}"))
    try:
        found = experiment.run(replace(asked, kept=pieces, tell=tell))
    except OutOfTime:
        errors().print(f"{folder}: not all of it is done; the same command goes on from here.")
        raise typer.Exit(FAILED) from None
    write(folder, experiment, found, time.perf_counter() - began, asked.quick)
    if not quiet:
        say(f"\n{experiment.title}\n{experiment.paper} reports: {experiment.reported}\n")
        for table in found.tables:
            say(f"{table.title}\n{as_markdown(table)}\n")
        for word in found.words:
            say(f"- {word}")
        say(f"page    {folder / 'page.md'}")
    return folder
