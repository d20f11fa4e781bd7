"""`provenet demo`: real data, a proof and a report in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provenet.cli import importing
from provenet.cli import options as o


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", file_okay=False, help="Folder for the models and reports.")
    ] = Path("demo"),
    json: o.Json = False,
) -> None:
    """Fit a spiral and handwritten digits to a proven optimum, and leave a report of each to look at.

    Example: provenet demo --out demo
    """
    with importing():
        from provenet.cli.demo_fits import fit_all
    fit_all(out, json)
