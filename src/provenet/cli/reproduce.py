"""`provenet reproduce`: the papers' experiments, beside what the papers report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provenet.cli import importing
from provenet.cli import options as o


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
    with importing():
        from provenet.cli.reproduced import Asked, repeat
    repeat(name, out, Asked(quick, max_seconds, data, gates, epochs), json)
