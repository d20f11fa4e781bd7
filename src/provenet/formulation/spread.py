"""Data whose rows are spread over processes: checked to be of one piece, and brought to where they belong."""

from __future__ import annotations

from typing import Any

import torch

from provenet import ranks
from provenet.blocks import OnData
from provenet.formulation.data import Data
from provenet.formulation.wanted import Wanted
from provenet.gates import Gates
from provenet.names import GROW
from provenet.operators.wrappers.ranked import RankedOperator
from provenet.ranks import Spread, Whole
from provenet.statement import Statement


def spread(statement: Statement, wanted: Wanted, data: Data, as_labels: bool) -> tuple[Data, Whole]:
    """This process's part of the data of all, and how they are cut; data as they are, where it is alone.

    Rows go to those whose shards they are in: whoever had them, and however many each, shards are the same.
    as_labels: targets were given as classes, of which some processes may have seen fewer.
    """
    group = ranks.current()
    if group is None:
        return data, Whole(len(data.X))
    _check_can_be_spread(statement, wanted)
    told = group.told(_shape_of(data))
    for rank, other in enumerate(told):
        _check_alike(told[0], other, rank, as_labels and statement.loss.name == "softmax")
    counts = [other["rows"] for other in told]
    shards = Spread(sum(counts), group)
    places = [shards.partition.rows_of(rank) for rank in range(group.world)]
    weight = data.weight
    if weight is None and any(other["weighed"] for other in told):
        weight = torch.ones(len(data.X), dtype=torch.float64)
    classes = max(other["outputs"][-1] for other in told)
    Y = torch.nn.functional.pad(data.Y, (0, classes - data.Y.shape[-1]))
    parts = [None if part is None else group.moved(part, counts, places) for part in (data.X, Y, weight, data.mask)]
    return Data(*parts), shards  # type: ignore[arg-type]  # X and Y are there


def refuse_together(limit: int | None) -> None:
    """Samples that are read in shards are one process's."""
    if ranks.current() is not None:
        what = "X: samples that are read in shards" if limit is None else "memory_limit: it"
        raise ValueError(f"{what} cannot go with several processes; give each its own rows as an array.")


def spread_operator(on: OnData, shards: Spread, gates: Gates, scale: float) -> RankedOperator:
    """That of X/scale behind these gates, shard by shard."""
    opened = gates.patterns.view(len(gates.patterns), len(on.X), -1)
    parts = []
    for rows in shards.slices:
        there = None if on.mask is None else on.mask[rows]
        own = on.block.on(on.X[rows], on.outputs, on.readout, there)
        parts.append(own.operator(Gates(gates.vectors, opened[:, rows].flatten(1), gates.group), scale))
    return RankedOperator(parts, shards)


def _check_can_be_spread(statement: Statement, wanted: Wanted) -> None:
    reasons = {
        "activation: 'relu' has cones of all rows": statement.activation == "relu",
        "gates: 'grow' looks at all rows": wanted.name == GROW,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ValueError(f"{reason}, which are spread over processes here; fit it in one process.")


def _shape_of(data: Data) -> dict[str, Any]:
    return {
        "rows": len(data.X),
        "sample": list(data.X.shape[1:]),
        "precision": str(data.X.dtype).removeprefix("torch."),
        "outputs": list(data.Y.shape[1:]),
        "weighed": data.weight is not None,
        "masked": data.mask is not None,
    }


def _check_alike(first: dict[str, Any], other: dict[str, Any], rank: int, as_labels: bool) -> None:
    """Rows of all processes must be of one kind, or they are of no one problem."""
    for name, words in (
        ("sample", "X: a sample has shape"),
        ("precision", "X: its precision is"),
        ("outputs", "Y: a target has shape"),
        ("masked", "mask: whether there is one is"),
    ):
        one, another = first[name], other[name]
        if as_labels and name == "outputs":
            one, another = one[:-1], another[:-1]
        if one != another:
            raise ValueError(f"{words} {_told(one)} in process 0, and {_told(another)} in process {rank}.")


def _told(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, list) else str(value).lower()
