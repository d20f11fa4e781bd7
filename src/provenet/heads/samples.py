"""Labelled tokens, and the ways to set some of them aside to choose by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from provenet.blocks import CNN, Block, Mixer
from provenet.data.loading import split_rows
from provenet.embeddings import Embedding
from provenet.estimators.auto_beta import folds_of
from provenet.nn.backbone import as_convolved, weighed

Array = NDArray[Any]
_FOLDS = 3
_SHARE = 0.2
_FEW = 10_000  # samples up to which a fifth of them cannot tell heads apart: its standard error is a point


@dataclass(frozen=True)
class Samples:
    """X (n, s, d), y (n,), mask (n, s) or None: as heads are trained and judged on them."""

    X: Array
    y: Array
    mask: Array | None

    @staticmethod
    def of(embedding: Embedding) -> Samples:
        if embedding.y is None:
            raise ValueError(f"{embedding.folder}: it has no labels; embed with them (y=, or label=).")
        return Samples(np.asarray(embedding.X), embedding.y, embedding.mask)

    def rows(self, rows: Array | slice) -> Samples:
        return Samples(self.X[rows], self.y[rows], None if self.mask is None else self.mask[rows])

    def and_also(self, other: Samples) -> Samples:
        masks = [each.mask for each in (self, other) if each.mask is not None]
        mask = np.concatenate(masks) if len(masks) == 2 else None
        return Samples(np.concatenate([self.X, other.X]), np.concatenate([self.y, other.y]), mask)

    @property
    def weighed(self) -> Array:
        """X so that means over all tokens are means over those that are there."""
        return self.X if self.mask is None else weighed(self.X, self.mask)

    def read_by(self, block: Block) -> tuple[Array, dict[str, Array]]:
        """X as a head of this block reads it, and the mask for one that takes it."""
        if isinstance(block, CNN):
            return as_convolved(self.X, self.mask, block), {}
        if block.masks and self.mask is not None:
            return self.X, {"mask": self.mask}
        return self.X if isinstance(block, Mixer) else self.weighed, {}


class Split(NamedTuple):
    """Rows that are trained on, and those that judge."""

    train: Array | slice
    judge: Array | slice


def usual_splits(y: Array, seed: int) -> tuple[Split, ...]:
    """Folds of few samples, one split of many."""
    return in_folds(y, _FOLDS, seed) if len(y) <= _FEW else one_split(y, _SHARE, seed)


def one_split(y: Array, share: float, seed: int) -> tuple[Split, ...]:
    """A share of the rows judges."""
    if not 0 < share < 1:
        raise ValueError(f"validation: a share between 0 and 1 is needed, got {share}.")
    return (Split(*split_rows(y, share, seed)),)


def in_folds(y: Array, count: int, seed: int) -> tuple[Split, ...]:
    """Each fold judges once, if it has any, but for samples alone in their class: those are always trained on."""
    if not 2 <= count <= len(y):
        raise ValueError(f"folds: between 2 and {len(y)}, the number of samples, are needed, got {count}.")
    code = np.unique(y, return_inverse=True)[1]
    fold = folds_of(code, len(y), count, np.random.default_rng(seed))
    judging = [k for k in range(count) if (fold == k).any()]
    if not judging:
        raise ValueError("folds: every sample is alone in its class, so none can judge; give more samples a class.")
    return tuple(Split(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in judging)
