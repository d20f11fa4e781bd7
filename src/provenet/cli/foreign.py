"""`provenet certify` on a file of weights: a network that was trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from torch import nn

from provenet.blocks import Block
from provenet.certificates import Certificate
from provenet.cli.blocks import check_mask
from provenet.cli.certify_options import OfTraining
from provenet.cli.console import warn
from provenet.data.loading import Dataset
from provenet.io.weights import named_as, network_of, read_state, write_state
from provenet.proofs import certify as certify_module
from provenet.statement import Statement

CLASSES = ("softmax", "logistic")  # losses of labels


def statement_of(training: OfTraining, block: Block, readout: str) -> Statement:
    assert training.loss is not None
    assert training.beta is not None
    settings = {"delta": training.delta} if training.loss == "huber" else {}
    more: dict[str, Any] = {"activation": training.activation, "readout": readout, "loss_settings": settings}
    return Statement.of(block, training.loss, training.beta, **more)


def certify_file(
    path: Path, data: Dataset, file: Path, statement: Statement, training: OfTraining, tol: float
) -> Certificate:
    """The certificate of the network in ``path`` on the data of ``file``."""
    assert data.y is not None
    y = _labels(file, data.y) if statement.loss.name in CLASSES else data.y.astype(np.float64)
    check_mask(file, statement.block, data.mask)
    state = read_state(path)
    sample = tuple(data.X.shape[1:])
    network = network_of(path, state, statement, sample)
    _check_outputs(path, _outputs(network, statement.block, sample), file, y, statement)
    arrays = (data.X, y) if data.mask is None else (data.X, y, data.mask)
    return certify_module(
        network,
        arrays,
        tol=tol,
        loss=statement.loss,
        beta=statement.beta,
        mean=training.mean,
        sample_weight=data.weight,
        loss_settings=dict(statement.loss_settings),
        sharpen=training.sharpen or 0.0,
        bias=training.bias,
    )


def write_better(path: Path, certificate: Certificate, out: Path, sample: tuple[int, ...]) -> bool:
    """The better network that a certificate came with, under the names of the file it was read from."""
    better = certificate.improve()
    if better is not None:
        write_state(out, named_as(read_state(path), sample, better))
    return better is not None


def _outputs(network: Any, block: Block, sample: tuple[int, ...]) -> int:
    """How many numbers the network says of a sample, or of a token."""
    if isinstance(network, nn.Sequential):
        return int(network[-1].out_features)  # type: ignore[arg-type]
    _, each = block.weights(torch.zeros(1, *sample), block.groups)  # second-layer weights of an output a group
    return block.groups * network.second.shape[1] // each


def _check_outputs(path: Path, outputs: int, file: Path, y: NDArray[Any], statement: Statement) -> None:
    """More classes than the outputs can tell apart, or other targets than outputs, are wrong use."""
    loss = statement.loss.name
    single = y.ndim == (2 if statement.readout == "tokens" else 1)
    labels = single and y.dtype.kind in "biu" and loss in CLASSES
    targets = 1 if single else y.shape[-1]
    classes = int(y.max()) + 1 if labels else 0
    if classes > max(outputs, 2 if loss == "logistic" else 1):
        found = f"{classes} classes, counted from 0"
    elif targets != outputs and not (labels and loss == "softmax"):
        found = f"{targets} target(s)"
    else:
        return
    raise typer.BadParameter(f"{path} has {outputs} output(s), {file} {found}.", param_hint="--target")


def _labels(path: Path, y: NDArray[Any]) -> NDArray[Any]:
    """Class numbers as they are; other labels numbered in their order."""
    if y.dtype.kind in "biu" or (y.dtype.kind == "f" and y.ndim > 1):
        return y
    if y.dtype.kind == "f":
        raise typer.BadParameter(f"{path}: its targets are not whole numbers, as classes are.", param_hint="--loss")
    classes, code = np.unique(y, return_inverse=True)
    warn(f"the outputs are taken for the classes {', '.join(map(str, classes))}, in this order.")
    return code
