"""Programs of all kinds and sizes, for which `auto` is held against every method (`benchmarks.choices`)."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.preprocessing import StandardScaler

import provenet as pn
from benchmarks import problems

_FASHION = Path("/usr/share/datasets/fashion-mnist/")


def _posed(block: Any, X: np.ndarray, Y: np.ndarray, loss: str, share: float = 0.01, **more: Any) -> pn.Problem:
    problem = pn.formulate(block, X, Y, loss=loss, **more)
    return problem.with_beta(share * problem.beta_max)


def _labelled(shape: tuple[int, ...], classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian samples, labelled by a random two-layer network of what they are on the average, with some noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape)
    flat = X.reshape(len(X), -1)
    hidden = np.maximum(flat @ rng.standard_normal((flat.shape[1], 20)) / flat.shape[1] ** 0.5, 0)
    return X, (hidden @ rng.standard_normal((20, classes)) + 0.3 * rng.standard_normal((len(X), classes))).argmax(1)


def _scored(shape: tuple[int, ...], outputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape)
    flat = X.reshape(len(X), -1)
    hidden = np.maximum(flat @ rng.standard_normal((flat.shape[1], 10)) / flat.shape[1] ** 0.5, 0)
    return X, hidden @ rng.standard_normal((10, outputs)) + 0.1 * rng.standard_normal((len(X), outputs))


def _standard(load: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def _fashion(n: int) -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(_FASHION / "train-images-idx3-ubyte.gz") as file:
        X = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(_FASHION / "train-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(), np.uint8, offset=8)
    return X[:n] / 255.0, y[:n].astype(int)


def _digit_images(n: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:n].reshape(-1, 1, 8, 8) / 16, y[:n]


def _fashion_tokens(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Patches of 4 × 4 pixels, one after the other: (n, 49, 16)."""
    X, y = _fashion(n)
    return X.reshape(-1, 7, 4, 7, 4).swapaxes(2, 3).reshape(-1, 49, 16), y


def _guessed(shape: tuple[int, ...], classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape), rng.integers(classes, size=shape[0])


PROGRAMS: dict[str, Callable[[], pn.Problem]] = {
    "mlp squared spiral 150 × 2, c 3, P 100": lambda: problems.spiral(1e-3),
    "mlp squared 1,000 × 20, c 1, P 100": lambda: problems.teacher(1000, 20, 100, 0.01),
    "mlp squared 10,000 × 50, c 1, P 100": lambda: problems.teacher(10_000, 50, 100, 0.01),
    "mlp squared digits, c 10, P 100": lambda: problems.digits("squared", 100),
    "mlp softmax digits, c 10, P 100": lambda: problems.digits("softmax", 100),
    "mlp softmax iris 150 × 4, c 3, P 100": lambda: _posed("mlp", *_standard(load_iris), "softmax", gates=100),
    "mlp logistic cancer 569 × 30, c 1, P 100": lambda: _posed(
        "mlp", *_standard(load_breast_cancer), "logistic", gates=100
    ),
    "mlp huber diabetes 442 × 10, c 1, P 100": lambda: _posed("mlp", *_standard(load_diabetes), "huber", gates=100),
    "mlp linear softmax digits, c 10": lambda: _posed("mlp", *_standard(load_digits), "softmax", activation="linear"),
    "mlp linear squared 10,000 × 50, c 5": lambda: _posed(
        "mlp", *_scored((10_000, 50), 5), "squared", activation="linear"
    ),
    "mlp softmax 10,000 × 20, c 4, P 50": lambda: _posed("mlp", *_labelled((10_000, 20), 4), "softmax", gates=50),
    "mlp softmax Fashion-MNIST 2,000 × 784, c 10, P 64": lambda: _posed("mlp", *_fashion(2000), "softmax", gates=64),
    "mlp relu squared 300 × 10, c 1, P 50": lambda: _posed(
        "mlp", *_scored((300, 10), 1), "squared", activation="relu", gates=50
    ),
    "mlp relu softmax 200 × 6, c 3, P 30": lambda: _posed(
        "mlp", *_labelled((200, 6), 3), "softmax", activation="relu", gates=30
    ),
    "cnn softmax digits 500 × 8 × 8, P 20": lambda: _posed(
        pn.CNN(kernel=3, pool=2), *_digit_images(500), "softmax", gates=20
    ),
    "cnn linear squared digits 1,797 × 8 × 8": lambda: _posed(
        pn.CNN(kernel=3, pool=2),
        _digit_images(1797)[0],
        np.eye(10)[_digit_images(1797)[1]],
        "squared",
        activation="linear",
    ),
    "attention linear softmax 1,000 × 16 × 8, c 10": lambda: _posed(
        "attention", *_labelled((1000, 16, 8), 10), "softmax", activation="linear"
    ),
    "attention squared 200 × 8 × 6, c 5, P 16": lambda: _posed(
        "attention", *_scored((200, 8, 6), 5), "squared", gates=16
    ),
    "mixer softmax 300 × 8 × 6, c 5, P 16": lambda: _posed("mixer", *_labelled((300, 8, 6), 5), "softmax", gates=16),
    "fno squared 300 × 16 × 4, c 3, P 16": lambda: _posed("fno", *_scored((300, 16, 4), 3), "squared", gates=16),
    "attention softmax 400 × 9 × 12, c 5, P 16": lambda: _posed(
        "attention", *_labelled((400, 9, 12), 5), "softmax", gates=16
    ),
    "fno softmax 1,000 × 49 × 8, c 10, P 16": lambda: _posed("fno", *_labelled((1000, 49, 8), 10), "softmax", gates=16),
    "bfno softmax 300 × 16 × 4, c 4, P 8": lambda: _posed(
        pn.BFNO(groups=2), *_labelled((300, 16, 4), 4), "softmax", gates=8
    ),
    "poolformer softmax 1,000 × 16 × 16, c 5, P 32": lambda: _posed(
        "poolformer", *_labelled((1000, 16, 16), 5), "softmax", gates=32
    ),
    "fnet huber 2,000 × 8 × 8, c 2, P 32": lambda: _posed("fnet", *_scored((2000, 8, 8), 2), "huber", gates=32),
    "mlp softmax 900 × 500, c 10, P 16": lambda: _posed("mlp", *_labelled((900, 500), 10), "softmax", gates=16),
    "mlp softmax 900 × 500, labels at random, c 10, P 16": lambda: _posed(
        "mlp", *_guessed((900, 500), 10), "softmax", gates=16
    ),
    "mlp softmax 100 × 5, c 3, P 50": lambda: _posed("mlp", *_labelled((100, 5), 3), "softmax", gates=50),
    "mlp logistic 5,000 × 30, c 1, P 100": lambda: _posed("mlp", *_labelled((5000, 30), 2), "logistic", gates=100),
    "mlp huber 3,000 × 20, c 3, P 60": lambda: _posed("mlp", *_scored((3000, 20), 3), "huber", gates=60),
    "mlp squared 2,000 × 100, c 5, P 200": lambda: _posed("mlp", *_scored((2000, 100), 5), "squared", gates=200),
    "attention linear softmax Fashion-MNIST 3,000 × 49 × 16": lambda: _posed(
        "attention", *_fashion_tokens(3000), "softmax", 0.02, activation="linear"
    ),
    "mlp squared 2,000 × 50, c 1, P 1,000, β = .3 β_max": lambda: _posed(
        "mlp", *_scored((2000, 50), 1), "squared", 0.3, gates=1000
    ),
    "mlp softmax 2,000 × 50, c 5, P 1,000, β = .4 β_max": lambda: _posed(
        "mlp", *_labelled((2000, 50), 5), "softmax", 0.4, gates=1000
    ),
    "mlp squared 2,000 × 50, c 5, P 100, β = .1 β_max": lambda: _posed(
        "mlp", *_scored((2000, 50), 5), "squared", 0.1, gates=100
    ),
}
