"""Small fitted models of several kinds, each with the data it was fitted to, and what a loaded one means."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import provenet as pn
from provenet.io import SavedModel, posed_data
from provenet.layerwise.base import Layerwise


@dataclass(frozen=True)
class Small:
    """What `provenet.save` takes, and the arrays that the certificate of it is computed from anew."""

    model: Any
    X: np.ndarray
    y: np.ndarray

    def posed(self, loaded: Any) -> tuple[Any, ...]:
        """The data as the loaded model poses its problem with them."""
        return (self.X, self.y, None, None) if isinstance(loaded, SavedModel) else posed_data(loaded, self.X, self.y)


def small_models() -> list[Small]:
    """Estimators with gates, standardised and not; solutions; a convolution, groups, a deep network."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((14, 2))
    labels, values = np.where(X[:, 0] > 0, "yes", "no"), X[:, :1] + 0.1 * rng.standard_normal((14, 1))
    images, tokens = rng.standard_normal((8, 1, 4, 4)), rng.standard_normal((6, 2, 2))
    classifier = pn.ProvenClassifier(beta=0.1, gates="gaussian", n_gates=4).fit(X, labels)
    regressor = pn.ProvenRegressor(beta=0.1, activation="linear", loss="huber", standardize=False).fit(X, values[:, 0])
    of_images = np.arange(8) % 2
    convolution = pn.ProvenClassifier(block=pn.CNN(kernel=3, pool=2), beta=0.2, gates="gaussian", n_gates=2)
    convolution.fit(images, of_images)
    relu = pn.solve(pn.formulate("mlp", X, values, activation="relu", gates=3, beta=0.2))
    targets = rng.standard_normal((6, 2))
    grouped = pn.solve(pn.formulate(pn.BFNO(groups=2), tokens, targets, gates=2, beta=0.2))
    layers = [pn.Layer("mlp", n_gates=2), pn.Layer("mlp", n_gates=2)]
    deep = pn.LayerwiseRegressor(layers=layers, beta=0.1).fit(X, values[:, 0])
    return [
        Small(classifier, X, labels),
        Small(regressor, X, values[:, 0]),
        Small(convolution, images, of_images),
        Small(relu, X, values),
        Small(grouped, tokens, targets),
        Small(deep, X, values[:, 0]),
    ]


def meaning(loaded: Any) -> str:
    """All that a loaded model is and says, in one digest: weights bit by bit, gates, problem, proof, settings."""
    if isinstance(loaded, Layerwise):
        said: list[Any] = [loaded.get_params(deep=False), [stage.to_dict() for stage in loaded.stages_]]
        tensors = list(loaded.network_.state_dict().values())
    else:
        saved = loaded if isinstance(loaded, SavedModel) else loaded.saved_
        said = [saved.header(), saved.certificate.to_dict()]
        tensors = list(saved.tensors().values())
        if saved is not loaded:
            said += [loaded.get_params(deep=False), loaded.n_iter_, getattr(loaded, "classes_", np.array([])).tolist()]
    total = hashlib.sha256(repr(said).encode())
    for tensor in tensors:
        total.update(str(tensor.dtype).encode() + tensor.detach().contiguous().view(-1).numpy().tobytes())
    return total.hexdigest()


def seeded(prepare: Callable[[], Any]) -> Any:
    """What is prepared, with torch's numbers the same each time."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return prepare()
