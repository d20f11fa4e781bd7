"""`provenet certify`: the certificate, computed anew from the weights and the data."""

from __future__ import annotations

from math import isclose
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import Tensor

from provenet.certificates import certify as compute_certificate
from provenet.cli import blocks as b
from provenet.cli import options as o
from provenet.cli.console import FAILED, print_certificate, print_json, say, warn
from provenet.cli.foreign import Training, certify_file, write_better
from provenet.cli.models import load_for, source_of
from provenet.data.loading import load_dataset
from provenet.io import SavedModel, load_model, problem_of
from provenet.losses import LOSSES
from provenet.problem import Problem
from provenet.verify import Verdict, verify

_OF_FILES = (  # options that a model folder answers by itself
    "target", "feature", "drop", "weight", "loss", "beta", "mean", "delta", "activation", "block", "set_", "tokens",
    "image", "readout", "sharpen", "improved",
)  # fmt: skip


def certify(
    context: typer.Context,
    model: Annotated[
        Path,
        typer.Argument(exists=True, help="A model folder, as fit writes it, or a state dict, .safetensors."),
    ],
    data: o.DataFile,
    tol: Annotated[
        float | None, typer.Option(callback=o.positive, help="The relative gap to hold. (default: that of the fit)")
    ] = None,
    header: o.Header = None,
    target: o.Targets = [],  # noqa: B006 — typer never changes it
    feature: o.Features = [],  # noqa: B006
    drop: o.Drop = [],  # noqa: B006
    weight: o.Weight = None,
    loss: Annotated[
        str | None,
        typer.Option(callback=o.known_loss, help=f"Of a state dict: what it was trained with: {', '.join(LOSSES)}."),
    ] = None,
    beta: Annotated[
        float | None, typer.Option(callback=o.positive, help="Of a state dict: the weight decay it was trained with.")
    ] = None,
    mean: Annotated[bool, typer.Option("--mean", help="Of a state dict: its loss was a mean, not a sum.")] = False,
    delta: Annotated[float, typer.Option(callback=o.positive, help="Where the huber loss turns linear.")] = 1.0,
    activation: o.ActivationOption = "relu",
    block: b.BlockOption = "mlp",
    set_: b.Settings = [],  # noqa: B006
    tokens: b.Tokens = None,
    image: b.Image = None,
    readout: b.ReadoutOption = "mean",
    sharpen: Annotated[
        float | None, typer.Option(callback=o.positive, help="Seconds to look for a better bound of a ReLU network.")
    ] = None,
    improved: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Write a better network, if one is found, to this .safetensors file."),
    ] = None,
    json: o.Json = False,
) -> None:
    """Compute the certificate of a saved model, or of a network trained elsewhere; exit with 1 if it does not hold.

    Of a model folder nothing is taken over from the fit but the weights and the gates, and a second, independent
    computation must agree. Of a file with the state dict of a two-layer ReLU network (Linear, ReLU, Linear; or Conv,
    ReLU, average pooling, Linear) only tensors are read, never code; say how it was trained.

    Example: provenet certify iris iris.csv --tol 1e-4

    Example: provenet certify net.safetensors iris.csv --target species --loss softmax --beta 0.1
    """
    if model.is_dir():
        for name in _OF_FILES:
            o.refuse_if_given(context, name, "a model folder has its own; it goes with a state dict.")
        _certify_folder(model, data, tol, header, json)
        return
    if loss is None or beta is None:
        raise typer.BadParameter(
            "a state dict does not say how it was trained; give both.", param_hint="--loss, --beta"
        )
    chosen = b.chosen_block(block, set_, tokens, image, readout)
    training = Training(loss, beta, mean, delta, activation, readout)
    task = "classification" if loss in ("softmax", "logistic") else "regression"
    dataset = load_dataset(
        data, target, features=feature, drop=drop, weight=weight, task=task, header=header,
        tokens=tokens, image=None if image is None else image.sizes,
    )  # fmt: skip
    certificate = certify_file(model, dataset, data, chosen, training, tol or 1e-4, sharpen or 0.0)
    found = improved is not None and write_better(model, certificate, improved, dataset.X.shape[1:])
    holds = certificate.holds(certificate.tol)
    if json:
        written = str(improved) if found else None
        print_json({"holds": holds, "certificate": certificate.to_dict(), "improved": written})
    else:
        print_certificate(certificate)
        if improved is not None:
            say(f"better  {improved}" if found else "No better network was found, which proves nothing.")
        _say_whether(holds)
    if not holds:
        raise typer.Exit(FAILED)


def _certify_folder(folder: Path, data: Path, tol: float | None, header: bool | None, json: bool) -> None:
    model, estimator = load_model(folder)
    source = source_of(model, estimator, data)
    task = str(model.source.get("task", "auto"))
    dataset = load_for(model, data, source, with_targets=True, task=task, header=header)
    arrays = dataset.X, dataset.y, dataset.weight, dataset.mask
    problem = model.problem(*arrays) if estimator is None else problem_of(estimator, *arrays)
    asked, theta = model.certificate.tol if tol is None else tol, model.certificate.theta
    certificate = compute_certificate(problem, model.network, asked, theta)
    second = _second_opinion(model, problem, certificate.theta)
    differences = model.data_differences(problem)
    same = isclose(second.primal, certificate.primal, rel_tol=1e-6)
    agrees = same and (second.relative_gap <= certificate.tol or not second.exact)
    holds = certificate.holds(certificate.tol) and agrees
    if json:
        answer: dict[str, Any] = {
            "holds": holds,
            "certificate": certificate.to_dict(),
            "independent_relative_gap": second.relative_gap,
            "independent_bound_is_exact": second.exact,
            "data_differences": differences,
        }
        print_json(answer)
    else:
        print_certificate(certificate)
        rough = "" if second.exact else ", by a rougher bound, which neither confirms nor denies"
        say(f"independent check: relative gap {second.relative_gap:.3e}{rough}")
        for difference in differences:
            warn(f"these are other data than those of the fit: {difference}.")
        _say_whether(holds)
    if not holds:
        raise typer.Exit(FAILED)


def _say_whether(holds: bool) -> None:
    say("The certificate holds." if holds else "The certificate does NOT hold to this tolerance.")


def _second_opinion(model: SavedModel, problem: Problem, theta: Tensor | None) -> Verdict:
    """That of `provenet.verify`, which shares no code with the certificate."""
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
        dual=_array(theta),
        **problem.block.settings(),
        **model.loss_settings,
    )


def _array(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.numpy()
