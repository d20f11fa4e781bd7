"""Arrays of any kind → checked float64 tensors.  Errors name the argument."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

_MOST_CLASSES = 10**6


_LARGE_BYTES = 256 * 2**20  # float32 samples above this stay float32: they are exact in float64 batch by batch


def as_samples(X: Any, finite: bool = True) -> Tensor:
    """(n, …) float64, finite, not empty, a copy of its own; large float32 samples as they are."""
    tensor = _large_float32(X)
    if tensor is None:
        tensor = as_tensor(X, "X")
        if tensor.data_ptr() == _address(X):
            tensor = tensor.clone()  # what happens to the user's array later must not change the problem
    if tensor.ndim < 2:
        raise ValueError(f"X: samples need at least two dimensions (n, d), got shape {tuple(tensor.shape)}.")
    if 0 in tensor.shape:
        raise ValueError(f"X: it is empty, shape {tuple(tensor.shape)}.")
    if finite:
        check_finite(tensor, "X")
    return tensor


def _large_float32(X: Any) -> Tensor | None:
    """A copy of a large float32 array, never all of it in float64; None for what is no such array."""
    if isinstance(X, np.ndarray) and X.dtype == np.float32 and X.nbytes > _LARGE_BYTES:
        return torch.from_numpy(np.array(X, order="C"))
    if isinstance(X, Tensor) and X.dtype == torch.float32 and X.nbytes > _LARGE_BYTES:
        return X.detach().cpu().clone(memory_format=torch.contiguous_format)
    return None


def as_mask(mask: Any, shape: tuple[int, ...]) -> Tensor:
    """(n, s) bool, at least one token a sample."""
    tensor = as_tensor(mask, "mask")
    if len(shape) != 3 or tensor.shape != shape[:2]:
        raise ValueError(f"mask: for X of shape {tuple(shape)} it needs {tuple(shape[:2])}, got {tuple(tensor.shape)}.")
    if not bool(((tensor == 0) | (tensor == 1)).all()):
        raise ValueError("mask: it says which tokens are there: true and false, or ones and zeros.")
    there = tensor.bool()
    empty = torch.nonzero(~there.any(1))
    if len(empty):
        raise ValueError(f"mask: sample {int(empty[0])} has no token at all ({len(empty)} such samples).")
    return there


def _address(value: Any) -> int | None:
    """Where an array's numbers are; None for what is no array."""
    if isinstance(value, Tensor):
        return value.data_ptr()
    return value.__array_interface__["data"][0] if isinstance(value, np.ndarray) else None


def as_targets(Y: Any, n: int, loss: str, tokens: bool = False, classes: int | None = None) -> Tensor:
    """(n, c), or (n, s, c) with one a token, float64, a copy of its own; labels become one-hot for softmax, of so many
    ``classes``, or as many as there are."""
    tensor = as_tensor(Y, "Y").clone()
    if tensor.ndim == 0 or tensor.shape[0] != n:
        raise ValueError(f"Y: {n} samples need {n} targets, got shape {tuple(tensor.shape)}.")
    check_finite(tensor, "Y")
    labels = 2 if tokens else 1  # dimensions of targets that are labels, or one number each
    if loss == "softmax" and tensor.ndim == labels:
        tensor = _one_hot(tensor, classes)
    if tensor.ndim == labels:
        tensor = tensor.unsqueeze(-1)
    if tensor.shape[-1] == 0:
        raise ValueError(f"Y: it is empty, shape {tuple(tensor.shape)}.")
    if loss == "softmax":
        tensor = _on_simplex(tensor)
    if loss == "logistic" and not bool(((tensor == 0) | (tensor == 1)).all()):
        raise ValueError("Y: logistic targets are zeros and ones.")
    return tensor


def as_weights(weight: Any, n: int) -> Tensor | None:
    """(n,) float64, not negative, not all zero; None stays None."""
    if weight is None:
        return None
    tensor = as_tensor(weight, "sample_weight")
    if tensor.shape != (n,):
        raise ValueError(f"sample_weight: {n} samples need shape ({n},), got {tuple(tensor.shape)}.")
    check_finite(tensor, "sample_weight")
    if bool((tensor < 0).any()):
        raise ValueError("sample_weight: weights must not be negative.")
    if not bool((tensor > 0).any()):
        raise ValueError("sample_weight: all weights are zero, so there is no sample to fit.")
    if float(tensor[tensor > 0].min() / tensor.max()) < 1e-300:
        raise ValueError(
            "sample_weight: the smallest positive weight is less than 1e-300 of the largest; make it zero."
        )
    return tensor


@contextmanager
def in_words(value: Any) -> Iterator[None]:
    """Where numpy finds no numbers in here: what is wrong with ``value``, where, and what to do."""
    check_unmasked(value, "X")
    columns = list(getattr(value, "columns", ()))
    if twice := [name for k, name in enumerate(columns) if name in columns[:k]]:
        raise ValueError(f"X: several columns are named {twice[0]!r}; give each a name of its own.")
    try:
        yield
    except OverflowError:
        raise ValueError("X: it holds a whole number that is too large for float64.") from None
    except (TypeError, ValueError) as error:
        if isinstance(value, list | tuple) and len(found := {np.size(row) for row in value}) > 1:
            raise ValueError(f"X: its rows differ in length, from {min(found)} to {max(found)}.") from None
        if (at := _no_number_in(value)) is not None:
            why = f" ({error})" if isinstance(error, TypeError) else ""
            raise type(error)(
                f"X: {at}{why}; encode such columns (OneHotEncoder in a pipeline), or leave them out."
            ) from None
        if str(error).startswith(("float() argument", "Cannot cast")):  # numpy's: what it is that has no numbers
            raise ValueError(f"X: not an array of numbers ({error}).") from None
        raise


def _no_number_in(table: Any) -> str | None:
    """Where the first entry of (n, d) is that is no number, row by row."""
    if hasattr(table, "toarray"):
        return None
    cells = np.asarray(table, dtype=object)
    names = list(getattr(table, "columns", range(cells.shape[-1] if cells.ndim == 2 else 0)))
    for row, entries in enumerate(cells if cells.ndim == 2 else ()):
        for column, entry in zip(names, entries, strict=True):
            if not _is_numeric(entry):
                what = "text" if isinstance(entry, str) else "no number"
                return f"column {column!r}, row {row}: {entry!r}, is {what}"
    return None


def _is_numeric(entry: Any) -> bool:
    """Or not there: of that others speak."""
    try:
        float(entry)
    except ValueError:
        return False
    except TypeError:
        return entry is None or isinstance(entry, complex) or type(entry).__name__ in ("NAType", "NaTType")
    return True


def as_tensor(value: Any, name: str) -> Tensor:
    """Anything like an array of real numbers → float64."""
    if isinstance(value, Tensor):
        if value.is_complex():
            raise ValueError(f"{name}: complex data is not supported.")
        check_dense(value, name)
        return value.detach().cpu().to(torch.float64).contiguous()
    if hasattr(value, "toarray"):
        raise ValueError(f"{name}: sparse arrays are not supported; give {name}.toarray().")
    check_unmasked(value, name)
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array):
            raise ValueError("complex data is not supported.")
        array = np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: not an array of numbers ({error}).") from None
    return torch.from_numpy(array.copy() if not array.flags.writeable else array)


def check_dense(tensor: Tensor, name: str) -> None:
    """That a tensor has an array of numbers."""
    if tensor.is_meta:
        raise ValueError(f"{name}: a tensor of the meta device holds no numbers.")
    if tensor.is_nested or tensor.layout != torch.strided:
        raise ValueError(
            f"{name}: sparse and nested tensors are not supported; give {name}.to_dense(), or rows padded."
        )
    if tensor.is_quantized:
        raise ValueError(f"{name}: quantized tensors are not supported; give {name}.dequantize().")


def check_unmasked(value: Any, name: str) -> None:
    """That no number of an array is one that is not there."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        hidden = int(np.ma.count_masked(value))
        raise ValueError(f"{name}: {hidden} of its numbers are masked; fill them, or leave such samples out.")


def check_finite(tensor: Tensor, name: str) -> None:
    if tensor.numel() == 0 or all(bool(torch.isfinite(end)) for end in tensor.aminmax()):  # without a copy
        return
    bad = ~torch.isfinite(tensor)
    where = tuple(int(i) for i in torch.nonzero(bad)[0])
    kind = "NaN" if bool(torch.isnan(tensor[where])) else "infinity"
    raise ValueError(f"{name}: it contains {kind} ({int(bad.sum())} bad values, the first at index {where}).")


def _on_simplex(rows: Tensor) -> Tensor:
    """Rows not negative that sum to one, exactly so where they did up to float32's rounding."""
    total = rows.sum(-1, keepdim=True)
    if not (bool((rows >= 0).all()) and bool(((total - 1).abs() < 1e-6).all())):
        raise ValueError("Y: softmax targets are class indices (n,) or rows on the simplex (n, c).")
    return rows / total


def _one_hot(labels: Tensor, classes: int | None) -> Tensor:
    index = labels.to(torch.long)
    if not bool((index == labels).all()) or int(index.min()) < 0:
        raise ValueError("Y: softmax labels (n,) are class indices 0, 1, 2, ….")
    if int(index.max()) >= _MOST_CLASSES:
        raise ValueError(f"Y: class index {int(index.max())} would mean {int(index.max()) + 1} outputs.")
    if classes is not None and int(index.max()) >= classes:
        raise ValueError(f"Y: class index {int(index.max())} is beyond the {classes} outputs.")
    return torch.nn.functional.one_hot(index, classes or -1).to(torch.float64)
