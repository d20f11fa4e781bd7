"""`provenet certify`: the certificate, computed anew from the weights and the data."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from torch import Tensor

from provenet.certificates import certify as compute_certificate
from provenet.cli import options as o
from provenet.cli.console import FAILED, print_certificate, print_json, say, warn
from provenet.cli.models import load_for, source_of
from provenet.io import SavedModel, load_model, problem_of
from provenet.problem import Problem
from provenet.verify import verify


def certify(
    folder: o.ModelFolder,
    data: o.DataFile,
    tol: Annotated[
        float | None, typer.Option(callback=o.positive, help="The relative gap to hold. (default: that of the fit)")
    ] = None,
    header: o.Header = None,
    json: o.Json = False,
) -> None:
    """Recompute the certificate of a saved model from its data; exit with 1 if it does not hold.

    Nothing is taken over from the fit but the weights and the gates. A second, independent computation must agree.

    Example: provenet certify iris iris.csv --tol 1e-4
    """
    model, estimator = load_model(folder)
    source = source_of(model, estimator, data)
    task = str(model.source.get("task", "auto"))
    dataset = load_for(model, data, source, with_targets=True, task=task, header=header)
    arrays = dataset.X, dataset.y, dataset.weight, dataset.mask
    problem = model.problem(*arrays) if estimator is None else problem_of(estimator, *arrays)
    certificate = compute_certificate(problem, model.network, model.certificate.tol if tol is None else tol)
    second = _second_opinion(model, problem)
    differences = model.data_differences(problem)
    holds = certificate.holds(certificate.tol) and second <= certificate.tol
    if json:
        answer: dict[str, Any] = {
            "holds": holds,
            "certificate": certificate.to_dict(),
            "independent_relative_gap": second,
            "data_differences": differences,
        }
        print_json(answer)
    else:
        print_certificate(certificate)
        say(f"independent check: relative gap {second:.3e}")
        for difference in differences:
            warn(f"these are other data than those of the fit: {difference}.")
        say("The certificate holds." if holds else "The certificate does NOT hold to this tolerance.")
    if not holds:
        raise typer.Exit(FAILED)


def _second_opinion(model: SavedModel, problem: Problem) -> float:
    """The relative gap by `provenet.verify`, which shares no code with the certificate."""
    first, second, gates, group, relu = problem.block.neurons(model.network, problem.readout)
    return verify(
        problem.X.numpy(),
        problem.loss.target.numpy(),
        first.numpy(),
        second.numpy(),
        _array(gates),
        relu=relu,
        block=problem.block.name,
        loss=problem.loss.name,
        beta=problem.beta,
        sample_weight=problem.loss.sample_weight.numpy(),
        gate_vectors=_array(problem.gate_vectors),
        readout=problem.readout,
        mask=_array(problem.mask),
        group=_array(group),
        gate_group=_array(problem.gate_group),
        penalty=problem.penalty,
        **problem.block.settings(),
        **model.loss_settings,
    ).relative_gap


def _array(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.numpy()
