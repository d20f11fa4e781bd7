"""Stages small enough for seconds."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

import provenet as pn


def small_layers(**more: Any) -> list[pn.Layer]:
    """Three CNNs, trained in batches unless ``more`` says otherwise."""
    settings = {"n_gates": 6, "epochs": 4, "engine": "minibatch", "normalise": "standard"} | more
    blocks = (
        pn.CNN(kernel=3, padding=1, pool=2),
        pn.CNN(kernel=3, stride=2, padding=1, pool=2),
        pn.CNN(kernel=3, pool=2),
    )
    return [pn.Layer(block, **settings) for block in blocks]


def fitted(estimator: Any, X: Any, y: Any) -> Any:
    """Without the word that gaps are open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, y)


def weights_of(model: Any) -> dict[str, NDArray[Any]]:
    return {name: value.numpy().copy() for name, value in model.network_.state_dict().items()}


def same_weights(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
