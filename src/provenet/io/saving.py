"""`save` and `load`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from provenet import ranks
from provenet.blocks import BLOCKS
from provenet.certificates import Certificate, network_certificate
from provenet.estimators.base import ProvenEstimator
from provenet.io.estimators import describe, rebuild
from provenet.io.folder import MODEL, TENSORS, read_folder, write_folder
from provenet.io.layers import read_layers, save_layers
from provenet.io.model import SavedModel, network_digest
from provenet.io.reading import read_model
from provenet.io.schema import take
from provenet.io.settings import encode
from provenet.layerwise.base import Layerwise
from provenet.problem import Problem
from provenet.solvers import Solution

Folder = str | PathLike[str]


def save(
    model: ProvenEstimator | Layerwise | Solution | SavedModel | nn.Module,
    folder: Folder,
    *,
    problem: Problem | None = None,
    source: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model folder: ``model.safetensors``, ``certificate.json`` and, last, ``model.json``.

    Whatever happens on the way, the folder holds a whole model, the old or the new.  Where several
    processes work together all must call it, and the first one writes.

    Parameters
    ----------
    model : estimator, Solution, SavedModel or torch module
        A fitted estimator, a solution, a loaded model, or a network of your own, which is certified here.
    folder : str or path
        Made if it is not there; a model in it is replaced, other things are not.
    problem : Problem, optional
        What a network of your own is for.
    source : dict, optional
        Where the data came from, for those who load the model; ready for JSON.

    Returns
    -------
    Path
        The folder.
    """
    if isinstance(model, Layerwise):
        save_layers(model, Path(folder), dict(source or {}))
        return Path(folder)
    saved = _to_saved(model, problem, source)
    block = saved.statement.block
    if BLOCKS.get(block.name) is not type(block):
        raise ValueError(
            f"block: {block.name!r} holds a Python function or is a class of yours, which no model folder can "
            "hold. Keep network.state_dict() with torch.save, and the block in your code."
        )
    extra: dict[str, Any] = {"estimator": None}
    tensors: dict[str, Tensor] = {}
    if isinstance(model, ProvenEstimator):
        extra["estimator"], tensors = describe(model)
    if _writes():
        payload = safetensors.torch.save({**saved.tensors(), **tensors})
        write_folder(Path(folder), saved.header() | extra, payload, saved.certificate.to_dict())
    return Path(folder)


def load(folder: Folder) -> Any:
    """The model of a folder: an estimator that predicts as the saved one did, bit by bit, or a `SavedModel`.

    Parameters
    ----------
    folder : str or path
        As `save` or ``provenet fit`` wrote it.  Nothing in it is ever unpickled.

    Returns
    -------
    estimator or SavedModel
        A loaded estimator has no ``solution_`` (that needs the data) but ``saved_``, a `SavedModel`, whose ``problem``
        and ``certify`` take the data again.

    Raises
    ------
    ValueError, OSError
        With the reason, for anything damaged or foreign.
    """
    path = Path(folder)
    header, tensors, certificate = _read(path)
    if "deep" in header:
        return _understood(path, read_layers, header, tensors, certificate)
    model, estimator = _understood(path, _single, header, tensors, certificate)
    return model if estimator is None else estimator


def load_model(folder: Folder) -> tuple[SavedModel, ProvenEstimator | None]:
    """What `load` reads, both sides of it: the network with its problem, and the estimator if one was saved."""
    path = Path(folder)
    header, tensors, certificate = _read(path)
    if "deep" in header:
        raise ValueError(
            f"{path}: it is a deep network, of stages with problems and certificates of their own; "
            "use provenet.load, or provenet predict or export."
        )
    both: tuple[SavedModel, ProvenEstimator | None] = _understood(path, _single, header, tensors, certificate)
    return both


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, Any]]:
    header, payload, certificate = read_folder(path)
    try:
        return header, safetensors.torch.load(payload), certificate
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path / TENSORS}: it is not a safetensors file ({error}).") from None


def _understood(path: Path, reader: Callable[..., Any], *parts: Any) -> Any:
    try:
        return reader(*parts)
    except (ValueError, TypeError, OverflowError) as error:  # values of the wrong kind, wherever they surface
        raise ValueError(f"{path / MODEL}: {str(error).rstrip('.')}.") from error


def _single(
    header: dict[str, Any], tensors: dict[str, Tensor], certificate: dict[str, Any]
) -> tuple[SavedModel, ProvenEstimator | None]:
    model = read_model(header, tensors, certificate)
    state = header.get("estimator")
    return model, None if state is None else rebuild(take(header, "estimator", dict), tensors, model)


def _to_saved(model: Any, problem: Problem | None, source: Mapping[str, Any] | None) -> SavedModel:
    if isinstance(model, nn.Module):
        if problem is None:
            raise ValueError("problem: a network alone does not say what it solves; pass problem= with it.")
        outer = problem.outward(problem.inward(model))
        return SavedModel.of(problem, outer, _of_all(network_certificate(problem, model)), source=source or {})
    if isinstance(model, Solution):
        run = _run(model) | {"asked": encode("method", model.asked)}
        return SavedModel.of(model.problem, model.network(), _of_all(model.certificate), run=run, source=source or {})
    if isinstance(model, ProvenEstimator):
        return _of_estimator(model, source)
    if isinstance(model, SavedModel):
        return model if source is None else replace(model, source=source)
    raise ValueError(f"model: expected an estimator, a solution or a network, got {type(model).__name__}.")


def _of_estimator(model: ProvenEstimator, source: Mapping[str, Any] | None) -> SavedModel:
    if hasattr(model, "solution_"):
        solution, network, certificate = model.solution_, model.network_, model.certificate_
        if network_digest(network) != network_digest(solution.network()):  # changed by hand: the old proof is void
            certificate = network_certificate(solution.problem, network, certificate.tol, certificate.theta)
        return SavedModel.of(solution.problem, network, _of_all(certificate), run=_run(solution), source=source or {})
    if hasattr(model, "saved_"):
        return _to_saved(model.saved_, None, source)
    raise ValueError(f"model: this {type(model).__name__} is not fitted; call fit first.")


def _writes() -> bool:
    group = ranks.current()
    return group is None or group.is_first


def _of_all(certificate: Certificate) -> Certificate:
    """On the process that writes, with the dual point of all samples."""
    group = ranks.current()
    if group is None or certificate.theta is None:
        return certificate
    return replace(certificate, theta=group.whole(certificate.theta))


def _run(solution: Solution) -> dict[str, Any]:
    return {
        "method": solution.method,
        "status": solution.status.value,
        "steps": solution.steps,
        "seconds": solution.seconds,
    }
