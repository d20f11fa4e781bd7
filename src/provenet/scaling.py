"""Features, and targets of a regression, brought to mean zero and variance one: part of a problem, and of its network.

The penalty is then on weights of standardised features.  Raw samples x become (x − mean)·scale, number by number, so
that everyone who has mean and scale computes the same bits: problem, module, file, and the second opinion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from provenet.nn import Standardised, TwoLayer
from provenet.nn.base import along
from provenet.ranks import Whole

_CONSTANT = 16 * torch.finfo(torch.float64).eps  # of the largest number: a spread below is rounding
_NORMAL = 1.4826  # standard deviations in a median deviation
_HALF = 1e-12  # by which sums of shares may miss a half
_TINY = torch.finfo(torch.float64).tiny
_SAME = 1e-9  # of the spread: the same moments, from sums in another order
_ROUNDING = 1e12  # spreads in the mean: a feature that some sums find constant, and others not quite
_OF_TARGETS = ("target_mean", "target_spread")


@dataclass(frozen=True)
class Scaling:
    """mean, scale (d,) of features, along ``axis``; target_mean, target_spread (c,), or None: targets stay as they are.

    A feature that never changes has scale zero: it says nothing, whatever new samples hold there.
    """

    axis: int
    mean: Tensor
    scale: Tensor
    target_mean: Tensor | None = None
    target_spread: Tensor | None = None

    @classmethod
    def fit(
        cls,
        X: Tensor,
        Y: Tensor | None,
        axis: int,
        weight: Tensor | None = None,
        mask: Tensor | None = None,
        robust: bool = False,
        shards: Whole | None = None,
    ) -> Self:
        """Of samples X (n, …), and of targets Y (n, …, c) where they are measurements.  A weight of two counts twice;
        tokens that are not there do not count.  ``robust``: targets by medians, which outliers do not move.
        ``shards``: how samples are cut, None: not at all."""
        shards = shards or Whole(len(X))
        mean, spread = _moments(X, axis, weight, mask, shards)
        scale = torch.where(spread > 0, 1 / spread.clamp_min(_TINY), 0.0)
        if Y is None:
            return cls(axis, mean, scale)
        middle, width = (_medians if robust else _moments)(Y, -1, weight, mask if Y.ndim == 3 else None, shards)
        return cls(axis, mean, scale, middle, torch.where(width > 0, width, 1.0))

    @classmethod
    def of(cls, network: Standardised) -> Self:
        """What a network does to its samples and outputs, in float64."""
        named = dict(network.named_buffers(recurse=False))
        return cls(network.axis, **{name: value.detach().cpu().to(torch.float64) for name, value in named.items()})

    def samples(self, X: Tensor, mask: Tensor | None = None) -> Tensor:
        """X (n, …) standardised, in float64; tokens that are not there stay zero."""
        X = X.to(torch.float64)
        if X.shape[self.axis] != len(self.mean):
            raise ValueError(f"X: it was standardised with {len(self.mean)} features, got {tuple(X.shape)}.")
        ready = (X - along(self.mean, X, self.axis)) * along(self.scale, X, self.axis)
        bad = ~torch.isfinite(ready)
        if bool(bad.any()):
            feature = int(torch.nonzero(bad.movedim(self.axis, -1).flatten(0, -2).any(0))[0])
            raise ValueError(f"X: feature {feature} spans more than float64 can hold; divide it by some power of ten.")
        return ready if mask is None else ready.masked_fill(~mask.unsqueeze(-1), 0.0)

    def targets(self, Y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Y (n, …, c) standardised."""
        if self.target_mean is None or self.target_spread is None:
            return Y
        ready = (Y - self.target_mean) / self.target_spread
        if not bool(torch.isfinite(ready).all()):
            raise ValueError("Y: targets span more than float64 can hold; divide them by some power of ten.")
        return ready if mask is None or Y.ndim < 3 else ready.masked_fill(~mask.unsqueeze(-1), 0.0)

    def around(self, network: TwoLayer) -> Standardised:
        """The network of standardised samples as one of raw samples."""
        return Standardised(network, self.mean, self.scale, self.axis, self.target_mean, self.target_spread)

    def is_that_of(self, network: Standardised) -> bool:
        """Whether the network does this to its samples and outputs, in its own precision."""
        found, known = dict(network.named_buffers(recurse=False)), self.tensors()
        return (network.axis, found.keys()) == (self.axis, known.keys()) and all(
            torch.equal(found[name].cpu(), value.to(found[name].dtype)) for name, value in known.items()
        )

    def near(self, other: Scaling) -> bool:
        """Whether both are moments of the same numbers, up to rounding."""
        if self.tensors().keys() != other.tensors().keys():
            return False
        alike = _alike(self.mean, self.scale, other.mean, other.scale)
        if self.target_mean is None or self.target_spread is None:
            return alike
        return alike and _alike(self.target_mean, 1 / self.target_spread, other.target_mean, 1 / other.target_spread)  # type: ignore[arg-type, operator]

    def tensors(self) -> dict[str, Tensor]:
        """What to store, by name."""
        named = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "axis"}
        return {name: value for name, value in named.items() if value is not None}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], axis: int, features: int, outputs: int) -> Self:
        """Back from `tensors`; ValueError where they are no scaling of so many features and outputs."""
        sizes = dict.fromkeys(("mean", "scale"), features) | dict.fromkeys(_OF_TARGETS, outputs)
        known = {name: tensors[name] for name in sizes if name in tensors}
        if {"mean", "scale"} - known.keys() or len(known.keys() & set(_OF_TARGETS)) == 1:
            raise ValueError(f"tensors: a scaling has {', '.join(sizes)}, or the first two; found {', '.join(known)}.")
        for name, value in known.items():
            if value.shape != (sizes[name],) or value.dtype != torch.float64 or not bool(torch.isfinite(value).all()):
                raise ValueError(f"tensors: {name} needs {sizes[name]} finite numbers, got {tuple(value.shape)}.")
        if bool((known["scale"] < 0).any()) or bool((known.get("target_spread", known["scale"] + 1) <= 0).any()):
            raise ValueError("tensors: scales must not be negative, nor spreads of targets zero.")
        return cls(axis, **known)


def axis_of(tokens: bool) -> int:
    """Where features are: last in tables and tokens (n, s, d), channels (axis 1) of images (n, channels, …)."""
    return -1 if tokens else 1


def _alike(mean: Tensor, scale: Tensor, mean2: Tensor, scale2: Tensor) -> bool:
    """Whether two pairs of means and scales (d,) differ by rounding alone."""
    per = torch.maximum(scale, scale2)
    offset = mean.abs() * per
    same_mean = (mean - mean2).abs() * per <= _SAME * (1 + offset)
    same_scale = ((scale - scale2).abs() <= _SAME * (1 + offset) * per) | (offset >= _ROUNDING)
    return bool((same_mean & same_scale).all())


Piece = tuple[Tensor, Tensor]
"""Numbers (r, d) that count, and how much each row does, (r, 1); in all pieces of all processes, one."""


def _shares(X: Tensor, axis: int, weight: Tensor | None, mask: Tensor | None, shards: Whole) -> list[Piece]:
    """Of every shard."""
    top = 1.0 if weight is None else shards.largest(float(weight.max()))
    pieces = []
    for own in shards.slices:
        rows = X[own].to(torch.float64).movedim(axis, -1)
        share = torch.ones(rows.shape[:-1], dtype=torch.float64)
        if weight is not None:
            share = share * (weight[own] / top).view(-1, *[1] * (rows.ndim - 2))
        if mask is not None:
            share = share * mask[own]
        rows, share = rows.flatten(0, -2), share.flatten()
        pieces.append((rows[share > 0], share[share > 0].unsqueeze(1)))
    total = shards.add(_summed(share) for _, share in pieces)
    return [(rows, share / total) for rows, share in pieces]


def _medians(Y: Tensor, axis: int, weight: Tensor | None, mask: Tensor | None, shards: Whole) -> tuple[Tensor, Tensor]:
    """(median, spread) (c,): that of a normal distribution with the same median of deviations; where more than half of
    all are the same, the mean deviation from the median."""
    if shards.spread:
        raise ValueError(
            "standardize: medians of targets, as 'huber' takes them, need all rows in one process; scale the data "
            "before, and give standardize=False."
        )
    ((rows, share),) = _shares(Y, axis, weight, mask, shards)
    middle = _median(rows, share)
    away = (rows - middle).abs()
    spread = _NORMAL * _median(away, share)
    return middle, torch.where(spread > 0, spread, _summed(share * away))


def _median(rows: Tensor, share: Tensor) -> Tensor:
    """(c,) of rows (r, c) with shares (r, 1); halfway between the two in the middle."""
    ordered, order = rows.sort(dim=0)
    below = share.expand_as(rows).gather(0, order).cumsum(0)
    ends = [(below < 0.5 + off).sum(0).clamp_max(len(rows) - 1) for off in (-_HALF, _HALF)]
    low, high = (ordered.gather(0, end[None])[0] for end in ends)
    return low / 2 + high / 2


def _moments(X: Tensor, axis: int, weight: Tensor | None, mask: Tensor | None, shards: Whole) -> tuple[Tensor, Tensor]:
    """(mean, spread) (d,) in float64; the spread of what never changes, but for rounding, is zero.

    In units of the largest number, so that no square leaves float64; twice over the data, so that none cancels."""
    pieces = _shares(X, axis, weight, mask, shards)
    lows, highs = torch.cat([rows for rows, _ in pieces]).aminmax(dim=0)
    low, high = -shards.highest(-lows), shards.highest(highs)
    size = torch.maximum(-low, high).clamp_min(_TINY)
    size = torch.exp2(torch.frexp(size).exponent.to(torch.float64) - 1)  # a power of two: dividing rounds nothing
    pieces = [(rows / size, share) for rows, share in pieces]
    mean = shards.add(_summed(share * rows) for rows, share in pieces)
    centred = [(rows - mean, share) for rows, share in pieces]
    moved = shards.add(_summed(share * rows) for rows, share in centred)
    spread = shards.add(_summed(share * rows.square()) for rows, share in centred).sqrt()
    constant = (low == high) | (spread <= _CONSTANT * torch.maximum(-low, high) / size)
    mean = torch.where(low == high, low, (mean + moved) * size)
    return mean, torch.where(constant, 0.0, spread * size)


def _summed(rows: Tensor) -> Tensor:
    """(d,) of (r, d).  By numpy, whose order of summation is the same on every CPU: so are means, and digests."""
    return torch.from_numpy(np.atleast_1d(np.add.reduce(rows.numpy(), axis=0)))
