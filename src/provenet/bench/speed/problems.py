"""Data of the comparisons, each from a seed, from scikit-learn, or from a folder; and programs on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from provenet.blocks import MLP
from provenet.data.demo import spiral as spiral_data
from provenet.data.idx import find, read_idx
from provenet.formulation import formulate
from provenet.problem import Problem

Samples = tuple[NDArray[np.float64], NDArray[Any]]


class Absent(Exception):
    """Data that the user has not named the folder of."""


def posed(block: Any, samples: Samples, loss: str, share: float = 0.01, **more: Any) -> Problem:
    """With β as a share of β_max."""
    problem = formulate(block, *samples, loss=loss, **more)
    return problem.with_beta(share * problem.beta_max)


def spiral(beta: float) -> Problem:
    """Three noisy arms of four radians in the plane, one-hot targets, squared loss (after BM section 4.1)."""
    rng, arm = np.random.default_rng(0), 50
    label = np.repeat(np.arange(3), arm)
    radius = np.tile(np.linspace(0, 1, arm), 3)
    angle = 4 * (label + radius) + 0.2 * rng.standard_normal(3 * arm)
    X = radius[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1)
    return formulate("mlp", X, np.eye(3)[label], gates=100, loss="squared", beta=beta)


def teacher(n: int, d: int, gates: int, share: float, activation: str = "gated_relu") -> Problem:
    """Gaussian inputs, one output of ten ReLU neurons with a little noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.maximum(X @ rng.standard_normal((d, 10)), 0) @ rng.standard_normal(10) + 0.1 * rng.standard_normal(n)
    return posed("mlp", (X, y), "squared", share, gates=gates, activation=activation)


def digits(loss: str, gates: int) -> Problem:
    """scikit-learn's digits, standardised, with a bias: n = 1797, p = 65, ten classes."""
    X, labels = standard(load_digits)
    return posed(MLP(fit_intercept=True), (X, np.eye(10)[labels]), loss, gates=gates)


def every_arrangement(samples: Samples, beta: float) -> Problem:
    return formulate("mlp", *samples, activation="relu", gates="all", loss="squared", beta=beta)


def planar_teacher() -> Samples:
    """Gaussian X (25, 2), Y (25, 5) of a ReLU network of 100 neurons (CP §5.1)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 2))
    return X, np.maximum(X @ rng.standard_normal((2, 100)), 0) @ rng.standard_normal((100, 5)) / 10


def arms(n: int) -> Samples:
    X, label = spiral_data(n)
    return X, np.eye(3)[label]


def labelled(shape: tuple[int, ...], classes: int) -> Samples:
    """Gaussian samples, labelled by a random two-layer network of what they are on the average, with some noise."""
    X, scores = _network(shape, 20, classes, 0.3)
    return X, scores.argmax(1)


def scored(shape: tuple[int, ...], outputs: int) -> Samples:
    return _network(shape, 10, outputs, 0.1)


def guessed(shape: tuple[int, ...], classes: int) -> Samples:
    """Labels at random."""
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape), rng.integers(classes, size=shape[0])


def standard(load: Callable[..., Any]) -> Samples:
    """A table of scikit-learn's, its columns standardised."""
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def digit_images(n: int) -> Samples:
    X, y = load_digits(return_X_y=True)
    return X[:n].reshape(-1, 1, 8, 8) / 16, y[:n]


def one_hot(samples: Samples) -> Samples:
    X, y = samples
    return X, np.eye(y.max() + 1)[y]


def images(folder: Path | None, n: int) -> Samples:
    """The first n images of an idx folder such as Fashion-MNIST's, (n, 784), between zero and one."""
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    parts = [None if folder is None else find(folder, name) for name in names]
    if parts[0] is None or parts[1] is None:
        where = "no folder was named" if folder is None else f"{folder} does not have it"
        raise Absent(f"Fashion-MNIST is needed, as train-images-idx3-ubyte and train-labels-idx1-ubyte, and {where}.")
    X, y = (read_idx(part)[0] for part in parts if part is not None)
    return X[:n].reshape(-1, 784) / 255.0, y[:n].astype(np.int64)


def image_tokens(folder: Path | None, n: int) -> Samples:
    """Patches of 4 × 4 pixels, one after the other: (n, 49, 16)."""
    X, y = images(folder, n)
    return X.reshape(-1, 7, 4, 7, 4).swapaxes(2, 3).reshape(-1, 49, 16), y


def pictures(folder: Path | None, n: int) -> Samples:
    X, y = images(folder, n)
    return X.reshape(-1, 1, 28, 28), y


def _network(shape: tuple[int, ...], neurons: int, outputs: int, noise: float) -> Samples:
    """Outputs of a random ReLU network of samples' entries, which are Gaussian."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape)
    flat = X.reshape(len(X), -1)
    hidden = np.maximum(flat @ rng.standard_normal((flat.shape[1], neurons)) / flat.shape[1] ** 0.5, 0)
    return X, hidden @ rng.standard_normal((neurons, outputs)) + noise * rng.standard_normal((len(X), outputs))
