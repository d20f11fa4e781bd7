"""The work of `provenet certify`: of a model folder, and of a state dict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provenet.cli.blocks import chosen_block
from provenet.cli.certify_options import OfTraining
from provenet.cli.console import print_certificate, print_json, say, warn
from provenet.cli.foreign import CLASSES, certify_file, statement_of, write_better
from provenet.cli.groups import FromFile, OfBlock
from provenet.cli.models import load_for, source_of
from provenet.cli.rejudged import rejudged
from provenet.cli.samples import load
from provenet.cli.subject import print_subject, subject
from provenet.io import load_model, posed_data


def certify_state(
    model: Path, file: FromFile, block: OfBlock, training: OfTraining, tol: float | None, json: bool
) -> bool:
    statement, improved = statement_of(training, chosen_block(block, file), block.readout), training.improved
    dataset = load(file, "classification" if statement.loss.name in CLASSES else "regression")
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


def certify_folder(folder: Path, data: Path, tol: float | None, header: bool | None, json: bool) -> bool:
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
