"""The work of `provenet reproduce`."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from provenet.cli.console import FAILED, errors, print_json, say
from provenet.reproduce import EXPERIMENTS, OutOfTime, Run
from provenet.reproduce.page import as_markdown, write

_LISTS = ("all", "list")


@dataclass(frozen=True)
class Asked:
    """The options, but for which experiment and where to."""

    quick: bool
    max_seconds: float | None
    data: Path | None
    gates: int | None
    epochs: int | None

    def run(self, left: float | None) -> Run:
        """With so many seconds left."""
        return Run(self.quick, None, left, data=self.data, gates=self.gates, epochs=self.epochs)


def repeat(name: str, out: Path, asked: Asked, json: bool) -> None:
    """One experiment, all, or a list of them."""
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
    if (asked.gates or asked.epochs) and not (name in EXPERIMENTS and EXPERIMENTS[name].resizable):
        those = ", ".join(each.name for each in EXPERIMENTS.values() if each.resizable)
        said = "--gates, --epochs"
        raise typer.BadParameter(f"{name} has numbers of its own; they can be said for {those}.", param_hint=said)
    began, done = time.perf_counter(), {}
    for each in EXPERIMENTS if name == "all" else [name]:
        left = None if asked.max_seconds is None else asked.max_seconds - (time.perf_counter() - began)
        try:
            done[each] = str(_one(each, asked.run(left), out / each, json))
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
