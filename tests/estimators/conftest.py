"""Small data that every estimator can be tried on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_friedman1


@pytest.fixture(scope="session")
def blobs():
    """Three classes in the plane, (60, 2)."""
    return make_blobs(n_samples=60, centers=3, cluster_std=1.0, random_state=0)


@pytest.fixture(scope="session")
def curve():
    """A regression with five features, (50, 5)."""
    X, y = make_friedman1(n_samples=50, n_features=5, noise=0.5, random_state=0)
    return X, (y - y.mean()) / np.std(y)
