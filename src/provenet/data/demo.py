"""Small real and classic data to try things on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def spiral(
    n: int = 150, classes: int = 3, turns: float = 0.75, noise: float = 0.05, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Interleaved spiral arms in the plane: X (n, 2) within the unit disc (but for the noise), labels (n,)."""
    if not 1 <= classes <= n:
        raise ValueError(f"classes: between 1 and n = {n} are possible, got {classes}.")
    generator = np.random.default_rng(seed)
    label = np.arange(n) * classes // n
    place = np.arange(n) - np.searchsorted(label, label)  # 0, 1, 2, … along each arm
    radius = (place + 1) / np.bincount(label)[label]
    angle = 2 * np.pi * (label / classes + turns * radius)
    X = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X + noise * generator.standard_normal(X.shape), label


def digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """1,797 handwritten digits of 8 × 8 pixels in [0, 1], as scikit-learn ships them: X (1797, 64), labels (1797,)."""
    from sklearn.datasets import load_digits  # scikit-learn's datasets are slow to import

    X, y = load_digits(return_X_y=True)
    return X / 16.0, y.astype(np.int64)
