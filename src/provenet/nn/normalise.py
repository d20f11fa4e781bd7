"""Features brought to one size, as part of a model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from provenet.nn.base import along

KINDS = ("standard", "whiten")


class Normalise(nn.Module):
    """x ↦ (x − mean)·scale of every feature, or (x − mean)·matrix.

    Parameters
    ----------
    mean : Tensor (d,)
        Of every feature.
    scale : Tensor (d,) or (d, d)
        Factors, or a matrix.
    axis : int
        Of the features: 1 for channels, or the last axis.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor, axis: int):
        super().__init__()
        d = mean.numel()
        if mean.shape != (d,) or scale.shape not in ((d,), (d, d)):
            raise ValueError(f"mean, scale: (d,) and (d,) or (d, d), got {tuple(mean.shape)}, {tuple(scale.shape)}.")
        self.axis = axis
        self.register_buffer("mean", mean.clone())
        self.register_buffer("scale", scale.clone())

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[self.axis] != len(self.mean):
            raise ValueError(f"x: {len(self.mean)} features are needed on axis {self.axis}, got {tuple(x.shape)}.")
        if self.scale.ndim == 2:
            moved = x.movedim(self.axis, -1)
            return ((moved - self.mean) @ self.scale).movedim(-1, self.axis).contiguous()
        return (x - along(self.mean, x, self.axis)) * along(self.scale, x, self.axis)

    def extra_repr(self) -> str:
        return f"{len(self.mean)} features{', whitened' if self.scale.ndim == 2 else ''}"


class Moments:
    """Mean and covariance of features, gathered batch by batch in float64.

    sums: (3, d), of ones, features and their squares; to whiten (2 + d, d), with all products in place of squares.
    They add up over samples.
    """

    def __init__(self, kind: str, axis: int, sums: Tensor | None = None):
        if kind not in KINDS:
            raise ValueError(f"normalise: {kind!r} is unknown; choose one of {', '.join(map(repr, KINDS))}, or None.")
        self.kind, self.axis, self.sums = kind, axis, sums

    def add(self, x: Tensor) -> None:
        rows = x.detach().movedim(self.axis, -1).flatten(0, -2).to(torch.float64)
        second = rows.T @ rows if self.kind == "whiten" else rows.square().sum(0, keepdim=True)
        count = torch.full_like(second[:1], float(len(rows)))
        more = torch.cat([count, rows.sum(0, keepdim=True), second])
        self.sums = more if self.sums is None else self.sums + more

    def normalise(self, floor: float = 1e-5) -> Normalise:
        """What makes variances one; directions with less than ``floor`` of the largest variance are left as small as
        that, and features that never change are left alone."""
        assert self.sums is not None
        mean, second = self.sums[1] / self.sums[0], self.sums[2:] / self.sums[0]
        if self.kind == "standard":
            variance = (second[0] - mean.square()).clamp_min(0)
            silent = variance <= floor * float(variance.max())
            scale = torch.where(silent, 1.0, variance.clamp_min(torch.finfo(torch.float64).tiny).rsqrt())
        else:
            values, vectors = torch.linalg.eigh(second - torch.outer(mean, mean))
            largest = float(values.max())
            spread = values.clamp_min(floor * largest if largest > 0 else 1.0)
            scale = (vectors * spread.rsqrt()) @ vectors.T
        return Normalise(mean.float(), scale.float(), self.axis)
