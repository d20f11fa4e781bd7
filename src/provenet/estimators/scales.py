"""Whether an estimator standardises, and a word where it does not and should."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.blocks.base import Block

_APART = 1e3  # features whose sizes differ by more are told of


class ScaleWarning(UserWarning):
    """Features are on scales far apart."""


def standardizes(asked: bool | str, block: Block, whiten: bool) -> bool:
    """What is meant by ``standardize``: "auto" is yes for tables, whose columns have units of their own, and no for
    images and tokens, whose numbers have one in common, and where zero, the padding, is a number like any other."""
    if not (isinstance(asked, (bool, np.bool_)) or (isinstance(asked, str) and asked == "auto")):
        raise ValueError(f"standardize: choose True, False or 'auto', got {asked!r}.")
    if whiten and asked is True:
        raise ValueError("standardize, whiten: whitened data have a scale of their own; choose one of the two.")
    return block.name == "mlp" and not whiten if isinstance(asked, str) else bool(asked)


def warn_of_scales(X: NDArray[Any], block: Block, names: Sequence[str] | None = None) -> None:
    """The penalty is the same on all weights: a feature of small numbers has no say beside one of large ones."""
    told = far_apart(X, -1 if block.tokens else 1, names)
    if told:
        warnings.warn(f"X: {told} Let standardize=True bring them to one scale.", ScaleWarning, stacklevel=3)


def far_apart(X: NDArray[Any], axis: int, names: Sequence[str] | None = None) -> str:
    """Which two features differ most in size, in words; nothing where that is no trouble."""
    others = tuple(i for i in range(X.ndim) if i != axis % X.ndim)
    with np.errstate(invalid="ignore"):  # tokens that are not there may hold anything
        size = np.fmax(-X.min(axis=others), X.max(axis=others)).astype(np.float64)
    there = np.flatnonzero((size > 0) & (size < np.inf))
    if not there.size or not size[there].max() / _APART > size[there].min():
        return ""
    large, small = (int(there[pick(size[there])]) for pick in (np.argmax, np.argmin))
    named = [repr(str(names[k])) if names is not None else str(k) for k in (large, small)]
    return (
        f"feature {named[0]} goes up to {size[large]:.3g}, {named[1]} to {size[small]:.3g}: weight decay leaves small "
        "ones without a say."
    )
