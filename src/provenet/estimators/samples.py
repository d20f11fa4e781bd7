"""What estimators read and say: samples, tokens and images in, a network's outputs out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor, nn

from provenet.blocks import with_intercept
from provenet.blocks.base import Block
from provenet.blocks.outputs import batch_size, outputs_in_batches
from provenet.data.alike import digests
from provenet.data.sharded import samples_in
from provenet.data.shards import Shards
from provenet.data.validation import as_mask, as_weights, check_dense, check_finite, check_unmasked, in_words
from provenet.data.whitening import Whitening
from provenet.estimators.settings import Settings

_OF_NUMPY = (torch.float16, torch.float32, torch.float64)
_SAMPLES: dict[str, Any] = {  # how X is checked: float32 stays as it is, so that large data are never copied whole
    "dtype": (np.float64, np.float32),
    "order": "C",
    "allow_nd": True,
}


@dataclass(frozen=True)
class TrainingData:
    """X (n, …), an array or `Shards`, the user's y, what the network is to output (n, …, c), and the weights (n,) or
    None.

    ``weight`` is what multiplies the loss; ``sample_weight`` is what the user gave, and scores use.  ``mask`` (n, s)
    says which tokens are there, None: all.
    """

    X: Any
    y: NDArray[Any]
    targets: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    sample_weight: NDArray[np.float64] | None
    mask: Tensor | None = None

    @property
    def different(self) -> int:
        """How many samples there are: one of weight two, and one that is there twice, count once."""
        there = slice(None) if self.weight is None else self.weight > 0
        return len(np.unique(digests(self.X, self.targets, self.mask)[there]))

    def rows(self, rows: Any) -> TrainingData:
        """Some of the samples."""
        return TrainingData(
            self.X[rows],
            self.y[rows],
            self.targets[rows],
            None if self.weight is None else self.weight[rows],
            None if self.sample_weight is None else self.sample_weight[rows],
            None if self.mask is None else self.mask[rows],
        )


class OnSamples(Settings, BaseEstimator):
    """Checks samples of a fit and new ones, and asks the network."""

    network_: nn.Module
    whitening_: Whitening
    n_features_in_: int
    sample_shape_: tuple[int, ...]

    def _make_block(self) -> Block:
        return with_intercept(self.block, self.fit_intercept)

    def _whitened(self, X: NDArray[Any]) -> NDArray[Any]:
        """Samples as the network sees them."""
        return self.whitening_.apply(X).numpy() if self.whiten else X

    def _check_samples(self, X: Any, y: Any, mask: Any, **labels: Any) -> Any:
        """(X, y) of a fit as arrays, y checked as ``labels`` says or as labels are; keeps the shape of a sample.

        ``n_features_in_`` is the last size of tokens (n, s, d) and the channels of images (n, channels, …).
        """
        if isinstance(X, Shards):  # their numbers are looked at as they are read
            self.sample_shape_ = tuple(X.shape[1:])
            self.n_features_in_ = self.sample_shape_[-1 if self._make_block().tokens or X.ndim == 2 else 0]
            return X, check_array(y, ensure_2d=False, allow_nd=True, dtype=labels.get("dtype"))
        with in_words(X):
            flat = (X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim) < 3
            options = _SAMPLES | {"ensure_2d": flat, "ensure_all_finite": mask is None}
            if labels:
                checked = validate_data(self, X, y, validate_separately=(options, labels))
            else:
                checked = validate_data(self, X, y, **options, multi_output=self.readout == "tokens")
        self.sample_shape_ = checked[0].shape[1:]
        if not flat:
            self.n_features_in_ = self.sample_shape_[-1 if self._make_block().tokens else 0]
        return checked

    def _there(self, shape: tuple[int, ...], mask: Any) -> Tensor | None:
        """Which tokens of samples of this shape (n, s, d) are there, (n, s); None: all."""
        if mask is None:
            return None
        block = self._make_block()
        if not block.masks:
            raise ValueError(f"mask: block {block.name!r} has a fixed number of tokens; only 'attention' takes a mask.")
        return as_mask(without_torch(mask, "mask"), shape)

    def _outputs(self, X: Any, mask: Any = None) -> NDArray[np.float64]:
        """The network's outputs (n, …, c); X may be the path of an NPY or Parquet file."""
        check_is_fitted(self)
        X = samples_in(X) if isinstance(X, (str, os.PathLike)) else without_torch(X, "X")
        if isinstance(X, Shards):
            self._check_shape(X)
            X.surveyed(lambda rows: 0.0)  # all numbers must be finite
            return outputs_in_batches(self.network_, X, None, batch_size(self._make_block(), self.network_, X)).numpy()
        options = _SAMPLES | {"ensure_2d": len(self.sample_shape_) == 1, "ensure_all_finite": mask is None}
        with in_words(X):
            X = validate_data(self, X, reset=False, **options)
        self._check_shape(X)
        there = self._there(X.shape, mask)
        if there is not None:
            check_finite(torch.from_numpy(X[there.numpy()]), "X")
        samples = self._whitened(X)
        size = batch_size(self._make_block(), self.network_, samples)
        return outputs_in_batches(self.network_, samples, there, size).numpy()

    def _check_shape(self, X: NDArray[Any] | Shards) -> None:
        """New samples are shaped as those of the fit; the number of tokens may differ where a mask could say so."""
        found, known = tuple(X.shape[1:]), self.sample_shape_
        if found == known or (self._make_block().masks and len(found) == 2 and found[1] == known[1]):
            return
        raise ValueError(f"X: {type(self).__name__} was fitted on samples of shape {tuple(known)}, got {tuple(found)}.")

    def _judged(self, y: Any, said: NDArray[Any], sample_weight: Any, mask: Any) -> tuple[Any, Any, Any]:
        """(y, said, weights) for a score: with ``readout="tokens"`` all tokens that are there, in one row."""
        y = np.asarray(without_torch(y, "y"))
        if self.readout != "tokens":
            return y, said, sample_weight
        if y.shape != said.shape:
            raise ValueError(f"y: {said.shape} is needed, one target a token, got {y.shape}.")
        there = self._there((*said.shape[:2], self.n_features_in_), mask)
        kept = np.ones(said.shape[:2], dtype=bool) if there is None else there.numpy()
        weight = read_weights(sample_weight, len(y))
        return y[kept], said[kept], None if weight is None else np.repeat(weight, kept.sum(1))


def read_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    weight = as_weights(sample_weight, n)
    return None if weight is None else weight.numpy()


def without_torch(value: Any, name: str) -> Any:
    """Tensors as arrays, sharing memory where they can; anything else as it is."""
    check_unmasked(value, name)
    if not isinstance(value, torch.Tensor):
        return value
    check_dense(value, name)
    value = value.detach().cpu()
    return (value.float() if value.is_floating_point() and value.dtype not in _OF_NUMPY else value).numpy()
