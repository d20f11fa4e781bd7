"""A PCA of a backbone's tokens, from some of the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from provenet.nn.reduction import Reduction, principal

SAMPLES = 2000  # enough: 25 tokens each are 50,000 vectors


def chosen_rows(n: int, seed: int) -> list[int]:
    """At most `SAMPLES` of n rows, drawn at random: files are often sorted by class."""
    if n <= SAMPLES:
        return list(range(n))
    return sorted(np.random.default_rng(seed).choice(n, SAMPLES, replace=False).tolist())


def fitted(
    answers: Callable[[Sequence[int]], tuple[Tensor, Tensor | None]],
    rows: list[int],
    batch_size: int,
    pooled: Reduction,
    components: int,
) -> tuple[Tensor, Tensor]:
    """(mean (d,), components (k, d)) in float32 of the tokens of these rows, after they are ``pooled``.

    Sums are in float64: they are all that is kept of the tokens.
    """
    total = outer = torch.zeros(())
    count = 0
    for start in range(0, len(rows), batch_size):
        tokens, mask = answers(rows[start : start + batch_size])
        tokens = pooled(tokens, mask)
        vectors = (tokens.flatten(0, 1) if mask is None else tokens[mask.bool()]).double()
        total, outer, count = total + vectors.sum(0), outer + vectors.T @ vectors, count + len(vectors)
    if count <= components:
        raise ValueError(f"pca: {count} tokens are too few for {components} components; give more samples.")
    mean, found = principal(total, outer, count, components)
    return mean.float(), found.float()
