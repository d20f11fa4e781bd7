"""The data's principal axes."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Axes(NamedTuple):
    """Directions of first layers, the columns of an orthonormal V (p, p), and the data's second moments along them."""

    basis: Tensor
    moments: Tensor
