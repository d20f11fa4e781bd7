"""Raw data as a standardised problem sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Standard:
    """Samples become (x − mean)·scale, targets (y − target_mean)/target_spread.

    Parameters
    ----------
    mean, scale : arrays (d,)
        Of every feature, or every channel of images.
    target_mean, target_spread : arrays (c,), optional
        Of every output; None: targets as they are.
    """

    mean: Any
    scale: Any
    target_mean: Any = None
    target_spread: Any = None

    def samples(self, X: NDArray[Any], mask: NDArray[np.bool_] | None, images: bool) -> Array:
        """X (n, d), (n, s, d), or images (n, channels, …); tokens that are not there are zero."""
        axis = 1 if images else -1
        mean, scale = (np.asarray(part, dtype=np.float64) for part in (self.mean, self.scale))
        if mean.shape != (X.shape[axis],) or scale.shape != mean.shape:
            raise ValueError(f"mean, scale: {X.shape[axis]} numbers each are needed, got {mean.shape}, {scale.shape}.")
        rows = np.moveaxis(X.astype(np.float64), axis, -1)
        if mask is not None:
            rows = np.where(mask[..., None], rows, 0.0)
        rows = (rows - mean) * scale
        if mask is not None:
            rows = np.where(mask[..., None], rows, 0.0)
        return np.ascontiguousarray(np.moveaxis(rows, -1, axis))

    def targets(self, Y: NDArray[Any], mask: NDArray[np.bool_] | None, tokens: bool) -> NDArray[Any]:
        """Y (n, …, c), or without c where there is one output."""
        if self.target_mean is None:
            return Y
        middle, width = (np.asarray(part, dtype=np.float64) for part in (self.target_mean, self.target_spread))
        ready = (Y.astype(np.float64) - middle) / width
        if not tokens or mask is None:
            return ready
        return np.where(mask if ready.ndim == 2 else mask[..., None], ready, 0.0)
