"""Fitted estimators ↔ JSON and tensors."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from provenet import estimators
from provenet.data.whitening import Whitening
from provenet.estimators.base import ProvenEstimator
from provenet.io.model import SavedModel
from provenet.io.schema import SchemaError, take
from provenet.io.settings import decode_all, encode

KINDS: dict[str, type[ProvenEstimator]] = {name: getattr(estimators, name) for name in estimators.__all__}

_PLAIN = {"n_features_in_": int, "n_iter_": int, "beta_": float, "_single_target": bool}
_LABELS = ("classes_", "feature_names_in_")  # arrays a person may want to read
_ARRAYS = ("betas_", "cv_scores_")
_LABEL_DTYPES = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"}


def describe(estimator: ProvenEstimator) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(JSON, tensors) of a fitted estimator, besides its network."""
    kind = type(estimator).__name__
    if KINDS.get(kind) is not type(estimator):
        raise ValueError(f"model: {kind} is not one of {', '.join(KINDS)}; save its solution_ instead.")
    fitted = vars(estimator)
    tensors = {f"fitted.{name}": torch.tensor(np.asarray(fitted[name])) for name in _ARRAYS if name in fitted}
    settings: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, (np.ndarray, Tensor)):
            tensors[f"settings.{name}"] = torch.as_tensor(value).detach().contiguous()
        else:
            settings[name] = encode(name, value)
    if estimator.whiten:
        tensors |= {f"whitening.{name}": value for name, value in estimator.whitening_.tensors().items()}
    return {
        "kind": kind,
        "settings": settings,
        "fitted": {name: _number(fitted[name]) for name in _PLAIN if name in fitted},
        "labels": {name: encode_labels(name, fitted[name]) for name in _LABELS if name in fitted},
    }, tensors


def rebuild(saved: dict[str, Any], tensors: dict[str, Tensor], model: SavedModel) -> ProvenEstimator:
    """The estimator as it was after its fit, but for the data: it has ``saved_`` in place of ``solution_``."""
    kind = take(saved, "kind", str)
    if kind not in KINDS:
        raise SchemaError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    settings = {"standardize": False} | decode_all(take(saved, "settings", dict))  # folders from before it was one
    settings |= {
        name.removeprefix("settings."): t.numpy() for name, t in tensors.items() if name.startswith("settings.")
    }
    try:
        estimator = KINDS[kind](**settings)
    except TypeError as error:
        raise SchemaError(f"settings: {error}") from None
    fitted = take(saved, "fitted", dict)
    attributes: dict[str, Any] = {name: take(fitted, name, kind) for name, kind in _PLAIN.items() if name in fitted}
    attributes |= {name: decode_labels(value) for name, value in take(saved, "labels", dict).items() if name in _LABELS}
    attributes |= {name: tensors[f"fitted.{name}"].numpy() for name in _ARRAYS if f"fitted.{name}" in tensors}
    for name, value in attributes.items():
        setattr(estimator, name, value)
    _check_fitted(estimator, model)
    if estimator.whiten:
        parts = {name.removeprefix("whitening."): t for name, t in tensors.items() if name.startswith("whitening.")}
        estimator.whitening_ = Whitening.from_tensors(parts)
    estimator.sample_shape_ = tuple(model.data["samples"][1:])
    estimator.network_ = model.network
    estimator.certificate_ = model.certificate
    estimator.dual_gap_ = model.certificate.gap
    estimator.saved_ = model
    return estimator


def posed_data(estimator: ProvenEstimator, X: Any, y: Any, sample_weight: Any = None, mask: Any = None) -> Any:
    """(X, Y, sample_weight, mask) as the estimator poses its problem with them."""
    reader = copy.copy(estimator)  # reading sets attributes
    known = getattr(estimator, "classes_", None)
    if known is not None:
        counts = np.asarray(y) if sample_weight is None else np.asarray(y)[np.asarray(sample_weight) > 0]
        if stray := set(counts.ravel().tolist()) - set(known.tolist()):
            one = min(stray, key=str)
            raise ValueError(f"y: {one!r} is none of the classes that the model was fitted with, {known.tolist()}.")
    data = reader._read(X, y, sample_weight, mask)
    found = getattr(reader, "classes_", None)
    if known is not None and found is not None and not np.array_equal(known, found):
        raise ValueError(f"y: its classes are {found.tolist()}, but the model was fitted with {known.tolist()}.")
    return reader._whitened(data.X), data.targets, data.weight, data.mask


def _check_fitted(estimator: ProvenEstimator, model: SavedModel) -> None:
    needed = {"n_features_in_", "n_iter_", "classes_" if "Classifier" in type(estimator).__name__ else "_single_target"}
    missing = sorted(needed - set(vars(estimator)))
    if missing:
        raise SchemaError(f"fitted: {', '.join(missing)} missing")
    classes, outputs = len(getattr(estimator, "classes_", ())), model.data["targets"][-1]
    if classes and outputs != (1 if model.statement.loss.name == "logistic" and classes == 2 else classes):
        raise SchemaError(f"classes_: {classes} classes do not fit {outputs} outputs")


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def encode_labels(name: str, labels: np.ndarray) -> dict[str, Any]:
    values = labels.tolist()
    if labels.dtype.kind in "UOT" and all(isinstance(value, str) for value in values):
        return {"dtype": "object" if labels.dtype.kind != "U" else "str", "values": values}
    if labels.dtype.name in _LABEL_DTYPES:
        return {"dtype": labels.dtype.name, "values": values}
    raise ValueError(f"{name}: labels of type {labels.dtype} cannot be written to a file; use strings or numbers.")


def decode_labels(saved: Any) -> np.ndarray:
    dtype, values = take(saved, "dtype", str), take(saved, "values", list)
    if dtype not in _LABEL_DTYPES | {"str", "object"}:
        raise SchemaError(f"dtype: {dtype!r} is unknown")
    if any(isinstance(value, str) != (dtype in ("str", "object")) for value in values):
        raise SchemaError(f"values: not all of type {dtype}")
    return np.array(values, dtype=dtype)
