"""Images for experiments: the same number of each class, one row an image; whitened data and where they lead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor

from provenet.data.images import load_images
from provenet.data.whitening import Whitening
from provenet.reproduce.experiment import Run

Array = NDArray[Any]
_WHERE = (
    "data: the full setting is on images; --data FOLDER with MNIST's idx files (yann.lecun.com/exdb/mnist) or the "
    "binary batches of CIFAR-10 or CIFAR-100 (www.cs.toronto.edu/~kriz/cifar.html). --quick runs without, on "
    "scikit-learn's digits."
)


@dataclass(frozen=True)
class Pictures:
    """X (n, d) in float64 and classes y (n,), the test images likewise; what they are, in words."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    name: str

    @property
    def one_hot(self) -> Array:
        return np.eye(int(self.y.max()) + 1)[self.y]


def pictures(run: Run, each: int) -> Pictures:
    """``each`` training images of every class and all test images, scaled to mean zero and deviation one, channel by
    channel; of scikit-learn's digits where no folder is given and the run is quick."""
    if run.data is not None:
        found = load_images(run.data)
        (X, y), test, name = found.training, found.test, found.name
        X_test, y_test = test if test is not None else (X[:0], y[:0])
    elif run.quick:
        digits = load_digits()
        X, y = digits.images[:, None], digits.target
        X, X_test, y, y_test, name = X[:1_000], X[1_000:], y[:1_000], y[1_000:], "scikit-learn's digits"
    else:
        raise FileNotFoundError(_WHERE)
    chosen = np.sort(np.concatenate([np.flatnonzero(y == label)[:each] for label in np.unique(y)]))
    mean, spread = (stat(X, axis=(0, 2, 3), keepdims=True) for stat in (np.mean, np.std))
    X, X_test = ((part.astype(np.float64) - mean) / spread for part in (X[chosen], X_test))
    return Pictures(X.reshape(len(X), -1), y[chosen], X_test.reshape(len(X_test), -1), y_test, name)


def whitened(images: Pictures) -> tuple[Tensor, Tensor]:
    """Rows Q (n, d) with QQᵀ = I of the training images, and the test images likewise.  De-meaned with a shift: without
    it the rows would add up to zero, and the theorem's condition could not hold."""
    whitening = Whitening.fit(images.X, demean=True)
    return whitening.apply(images.X), whitening.apply(images.X_test)
