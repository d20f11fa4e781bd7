"""A small slice of images."""

from __future__ import annotations

from typing import Any

import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def digits() -> tuple[NDArray[Any], NDArray[Any]]:
    X, y = load_digits(return_X_y=True)
    return X[:300].reshape(-1, 1, 8, 8), y[:300]
