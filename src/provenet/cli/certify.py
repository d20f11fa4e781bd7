"""`provenet certify`: the certificate, computed anew from the weights and the data."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from provenet.cli import importing
from provenet.cli import options as o
from provenet.cli.certify_options import OfTraining
from provenet.cli.console import FAILED, say
from provenet.cli.groups import FromFile, OfBlock, grouped

_OF_FILES = {each.name for group in (FromFile, OfBlock, OfTraining) for each in fields(group)} - {"data", "header"}
"""Options that a model folder answers by itself."""


@grouped
def certify(
    context: typer.Context,
    model: Annotated[
        Path,
        typer.Argument(exists=True, help="A model folder, as fit writes it, or a state dict, .safetensors."),
    ],
    file: FromFile,
    block: OfBlock,
    training: OfTraining,
    tol: Annotated[
        float | None, typer.Option(callback=o.a_gap, help="The relative gap to hold. (default: that of the fit)")
    ] = None,
    json: o.Json = False,
) -> None:
    """Compute the certificate of a saved model, or of a network trained elsewhere; exit with 1 if it does not hold.

    Taken from a model folder: what is minimised (block, activation, loss, beta, penalty, scope), the names of columns
    and classes, the means and scales that data are standardised by, the weights, the gates and a dual point, whose
    bound is computed anew. Nothing else is believed: the stored certificate must agree, and so must a second,
    independent computation. Of a file with the state dict of a two-layer ReLU network (Linear, ReLU, Linear; or Conv,
    ReLU, average pooling, Linear) only tensors are read, never code; say how it was trained.

    Example: provenet certify iris iris.csv --tol 1e-4

    Example: provenet certify net.safetensors iris.csv --target species --loss softmax --beta 0.1
    """
    of_folder = model.is_dir()
    for name in sorted(_OF_FILES) if of_folder else ():
        o.refuse_if_given(context, name, "a model folder has its own; it goes with a state dict.")
    if not of_folder:
        training.check()
    with importing():
        from provenet.cli.certified import certify_folder, certify_state
    if of_folder:
        holds = certify_folder(model, file.data, tol, file.header, json)
    else:
        holds = certify_state(model, file, block, training, tol, json)
    if not json:
        say("The certificate holds." if holds else "The certificate does NOT hold to this tolerance.")
    if not holds:
        raise typer.Exit(FAILED)
