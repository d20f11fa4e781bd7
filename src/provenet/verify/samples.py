"""The samples, batch by batch, what a network says of them, and how tokens are read out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from provenet.verify.forms import Rows
from provenet.verify.groups import Groups

Array = NDArray[np.float64]
_BATCH_NUMBERS = 2**17  # of X at a time
_TABLE_NUMBERS = 2**26  # of Φ, at most


class Samples:
    """X (n, …) with its mask (n, s), in the form of a block."""

    def __init__(self, form: Rows, X: NDArray[np.float64], mask: NDArray[np.bool_] | None, readout: str) -> None:
        self.form, self.X, self.mask, self.readout = form, X, mask, readout
        self.size = min(max(_BATCH_NUMBERS // X[0].size, 16), 4096)
        if mask is not None and (X.ndim != 3 or mask.shape != X.shape[:2] or not mask.any(axis=1).all()):
            raise ValueError(f"mask: (n, s) with a token in every sample is needed, got shape {mask.shape}.")

    def batches(self) -> Iterator[tuple[slice, Array]]:
        for i in range(0, len(self.X), self.size):
            rows = slice(i, min(i + self.size, len(self.X)))
            x = self.X[rows].astype(np.float64)
            if self.mask is not None:
                x = np.where(self.mask[rows][..., None], x, 0.0)
            if not np.isfinite(x).all():
                raise ValueError("X: it has entries that are not finite.")
            yield rows, x

    def weight_sizes(self, groups: Groups) -> tuple[int, int]:
        """How many numbers a neuron's first layer has, and its second for each output."""
        ready = self.form.prepare(groups.columns(self.X[:1].astype(np.float64), 0))
        everywhere = np.ones((1, self.form.rho(ready)), dtype=bool)
        p, each = self.form.slope(ready, everywhere, np.zeros((1, self.form.tokens(ready), 1))).shape
        return p, each

    def predictions(self, groups: Groups, relu: bool) -> Array:
        """The network's, (n, c) or (n, s, c)."""
        found = []
        for rows, x in self.batches():
            per_group = []
            for b in range(groups.count):
                first, second, gates = groups.neurons(b)
                ready = self.form.prepare(groups.columns(x, b))
                hidden = self.form.hidden(ready, first)
                if relu:
                    hidden = np.maximum(hidden, 0)
                elif gates is not None:
                    hidden = hidden * (self.form.hidden(ready, gates) >= 0)
                per_group.append(self.form.outputs(ready, hidden, second))
            tokens = np.concatenate(per_group, axis=2)
            if self.readout == "mean":
                tokens = np.einsum("it,itc->ic", self._share(rows, tokens.shape[1]), tokens)
            found.append(tokens)
        return np.concatenate(found)

    def row_weights(self, w: Array) -> Array:
        """How much each row of the predictions counts in the loss, (rows, 1); a missing token's does not."""
        if self.readout == "mean":
            return w[:, None]
        there = np.ones(self.X.shape[:2]) if self.mask is None else self.mask
        return (w[:, None] * there).reshape(-1, 1)

    def at_tokens(self, theta: Array, rows: slice, tokens: int) -> Array:
        """Θ of the predictions of some rows → Θ of their outputs (b, t, c)."""
        if self.readout == "tokens":
            return theta
        return self._share(rows, tokens)[:, :, None] * theta[:, None, :]

    def table(self, groups: Groups, b: int) -> Array | None:
        """The rows of Φ of a group, of unit length, without those of zeros; None where they are too many."""
        one = self.form.prepare(groups.columns(self.X[:1].astype(np.float64), b))
        if self.form.rho(one) * groups.first.shape[1] * len(self.X) > _TABLE_NUMBERS:
            return None
        written = [self.form.table(self.form.prepare(groups.columns(x, b))) for _, x in self.batches()]
        rows = np.concatenate([part.reshape(-1, part.shape[2]) for part in written])
        size = np.abs(rows).max(axis=1)
        rows = rows[size > 0] / size[size > 0, None]
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def _share(self, rows: slice, tokens: int) -> Array:
        """How much each token counts in the prediction, (b, t) for the mean readout."""
        if self.mask is None:
            return np.full((rows.stop - rows.start, tokens), 1 / tokens)
        there = self.mask[rows]
        return there / there.sum(axis=1, keepdims=True)
