"""`provenet certify`: the certificate, computed anew from the weights and the data."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from provenet.cli import options as o
from provenet.cli.console import FAILED, print_certificate, print_json, say, warn
from provenet.cli.foreign import CLASSES, OfTraining, certify_file, write_better
from provenet.cli.groups import FromFile, OfBlock, grouped
from provenet.cli.models import load_for, source_of
from provenet.cli.rejudged import rejudged
from provenet.cli.subject import print_subject, subject
from provenet.io import load_model, posed_data

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
    if not model.is_dir():
        holds = _certify_file(model, file, block, training, tol, json)
    else:
        for name in sorted(_OF_FILES):
            o.refuse_if_given(context, name, "a model folder has its own; it goes with a state dict.")
        holds = _certify_folder(model, file.data, tol, file.header, json)
    if not json:
        say("The certificate holds." if holds else "The certificate does NOT hold to this tolerance.")
    if not holds:
        raise typer.Exit(FAILED)


def _certify_file(
    model: Path, file: FromFile, block: OfBlock, training: OfTraining, tol: float | None, json: bool
) -> bool:
    statement, improved = training.statement(block.chosen(file), block.readout), training.improved
    dataset = file.load("classification" if statement.loss.name in CLASSES else "regression")
    certificate = certify_file(model, dataset, file.data, statement, training, tol or 1e-4)
    found = improved is not None and write_better(model, certificate, improved, dataset.X.shape[1:])
    holds = certificate.holds(certificate.tol)
    if json:
        written = str(improved) if found else None
        print_json({"holds": holds, "certificate": certificate.to_dict(), "improved": written})
        return holds
    print_certificate(certificate)
    if improved is not None:
        say(f"better  {improved}" if found else "No better network was found, which proves nothing.")
    return holds


def _certify_folder(folder: Path, data: Path, tol: float | None, header: bool | None, json: bool) -> bool:
    model, estimator = load_model(folder)
    source = source_of(model, estimator, data)
    task = str(model.source.get("task", "auto"))
    dataset = load_for(model, data, source, with_targets=True, task=task, header=header)
    split = model.source.get("holdout")
    if isinstance(split, dict):  # the rows that the model was trained on
        dataset, _ = dataset.split(float(split["share"]), int(split["seed"]))
    arrays = dataset.X, dataset.y, dataset.weight, dataset.mask
    posed = arrays if estimator is None else posed_data(estimator, *arrays)
    problem = model.problem(*posed)
    found = rejudged(model, problem, posed, tol)
    certificate, second = found.certificate, found.second
    about = subject(problem, model.data)
    if json:
        answer: dict[str, Any] = {
            "holds": found.holds,
            "certified": about,
            "certificate": certificate.to_dict(),
            "independent_relative_gap": second.relative_gap,
            "independent_bound_is_exact": second.exact,
            "contradictions": found.contradictions,
            "data_differences": found.differences,
        }
        print_json(answer)
        return found.holds
    print_subject(about)
    print_certificate(certificate)
    says = second.exact or second.relative_gap <= certificate.tol
    rough = "" if says else ", by a rougher bound, which neither confirms nor denies"
    say(f"independent check: relative gap {second.relative_gap:.3e}{rough}")
    for difference in found.differences:
        warn(f"these are other data than those of the fit: {difference}.")
    for contradiction in found.contradictions:
        warn(f"the stored certificate is wrong: {contradiction}.")
    return found.holds
