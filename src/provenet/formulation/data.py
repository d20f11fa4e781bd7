"""What a user gives as data, checked against the statement."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from provenet.blocks import Block
from provenet.data.validation import as_mask, as_samples, as_targets, as_weights, check_finite
from provenet.ranks import Whole
from provenet.scaling import Scaling, axis_of
from provenet.statement import Statement

_MASKED_TOKEN_LOSSES = ("squared", "huber")  # those that are zero where output and target are


class Data(NamedTuple):
    """X (n, …), Y (n, …, c), weight (n,) positive or None: all one, mask (n, s) or None: all tokens are there."""

    X: Tensor
    Y: Tensor
    weight: Tensor | None
    mask: Tensor | None


def read_data(statement: Statement, X: Any, Y: Any, sample_weight: Any, mask: Any) -> Data:
    """Arrays as `formulate` takes them; samples of weight zero are left out."""
    block, readout, loss = statement.block, statement.readout, statement.loss.name
    samples, there = as_masked(block, X, mask)
    targets = as_targets(Y, len(samples), loss, tokens=readout == "tokens")
    block.check(samples, targets.shape[-1])
    weight = as_weights(sample_weight, len(samples))
    if weight is not None and not bool((weight > 0).all()):
        used = weight > 0
        samples, targets, weight = samples[used], targets[used], weight[used]
        there = None if there is None else there[used]
    return Data(samples, as_masked_targets(targets, there, readout, loss), weight, there)


def standardised(
    statement: Statement, data: Data, scaling: Scaling | None, shards: Whole | None = None
) -> tuple[Data, Scaling]:
    """Data as the problem sees them, and by what: the moments of these data, where none are given."""
    if scaling is None:
        targets = data.Y if statement.loss.measures else None
        robust = statement.loss.measures == "median"
        scaling = Scaling.fit(data.X, targets, axis_of(statement.block.tokens), data.weight, data.mask, robust, shards)
    X, Y = scaling.samples(data.X, data.mask), scaling.targets(data.Y, data.mask)
    return data._replace(X=X, Y=Y), scaling


def as_masked(block: Block, X: Any, mask: Any) -> tuple[Tensor, Tensor | None]:
    """X with the tokens that are not there set to zero, whatever they held."""
    if mask is None:
        return as_samples(X), None
    if not block.masks:
        raise ValueError(f"mask: block {block.name!r} has a fixed number of tokens; only 'attention' takes a mask.")
    tensor = as_samples(X, finite=False)
    there = as_mask(mask, tensor.shape)
    tensor.masked_fill_(~there.unsqueeze(-1), 0.0)
    check_finite(tensor, "X")
    return tensor, there


def as_masked_targets(Y: Tensor, mask: Tensor | None, readout: str, loss: str) -> Tensor:
    """Y (n, s, c) of tokens that are not there set to zero, as the outputs are."""
    if mask is None or readout != "tokens":
        return Y
    if loss not in _MASKED_TOKEN_LOSSES:
        raise ValueError(f"mask: with readout='tokens' the loss must be 'squared' or 'huber', got {loss!r}.")
    return Y.masked_fill(~mask.unsqueeze(-1), 0.0)
