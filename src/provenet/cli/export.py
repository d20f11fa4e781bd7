"""`provenet export`: a saved network for other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from provenet.cli import importing
from provenet.cli import options as o


def export(
    folder: o.ModelFolder,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", dir_okay=False, help="The file. (default: FOLDER.onnx)")
    ] = None,
    precision: Annotated[
        Literal["float32", "float64"], typer.Option(help="float64 keeps the weights the certificate speaks of.")
    ] = "float32",
    json: o.Json = False,
) -> None:
    """Write a saved network as an ONNX graph: input X, samples as in the fit, output the logits or predictions.

    Example: provenet export iris --out iris.onnx
    """
    with importing():
        from provenet.cli.graphs import write_graph
    write_graph(folder, out or folder.with_name(f"{folder.resolve().name}.onnx"), precision, json)
