"""Vectors on the last axis."""

from __future__ import annotations

import torch
from torch import Tensor


def unit(vectors: Tensor) -> Tensor:
    """Each of length one; zeros stay zeros."""
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / length.clamp_min(torch.finfo(vectors.dtype).tiny)
