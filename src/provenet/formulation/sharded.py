"""Problems whose samples are gone over in shards, within a limit of memory."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from provenet import batches, memory
from provenet.blocks import Block, OnData
from provenet.data.parts import Resident
from provenet.data.sharded import as_shards, comes_in_shards
from provenet.data.shards import Shards
from provenet.data.validation import as_targets, as_weights
from provenet.formulation.gates import find_gates
from provenet.formulation.gauge import gauge_for
from provenet.formulation.moments import scaling_of
from provenet.formulation.trainee import BlockTrainee
from provenet.formulation.units import normalised
from provenet.formulation.wanted import GIVEN, Wanted
from provenet.gates import Gates
from provenet.memory.plan import MemoryPlan, Sizes
from provenet.operators import Operator
from provenet.operators.wrappers.shards import ShardedOperator
from provenet.problem import Problem, Program
from provenet.ranks import Whole
from provenet.scaling import Scaling
from provenet.space import Space
from provenet.statement import Statement

_SHARE = 0.5  # of the free memory, where no limit is given
_COPIES, _POSING = 2, 0.25  # of X, in float64, where it is posed in memory; they may take this part of a limit
_TYPICAL = 16  # rows for each direction show the data's axes


class BlockShards:
    """The operators of a block on shards of X/scale behind gates: a `ShardSource`."""

    def __init__(self, on: OnData, gates: Gates, scale: float, plan: MemoryPlan):
        self.on, self.gates, self.scale, self.plan = on, gates, scale, plan
        n = len(on.X)
        self.rows = [slice(i, min(i + plan.rows, n)) for i in range(0, n, plan.rows)]
        self.neurons = plan.sizes.neurons
        self._kept: dict[int, Operator] = {}
        self._space = Space()

    def operator(self, shard: int, space: Space, keep: bool) -> tuple[Operator, bool]:
        if space == self._space and shard in self._kept:
            return self._kept[shard], True
        rows = self.rows[shard]
        stays = keep and rows.stop <= self.plan.kept(space.dtype.itemsize)
        if stays and space != self._space:
            self._kept.clear()  # precisions take turns
            self._space = space
        made = self.some(rows, space)
        if stays:
            self._kept[shard] = made
        return made, stays

    def some(self, rows: slice, space: Space) -> Operator:
        gates = self.gates
        if gates.vectors is not None:
            each = self.on.rho
            gates = replace(gates, patterns=gates.patterns[:, rows.start * each : rows.stop * each])
        return self._on(self.on.X[rows]).operator(gates, self.scale).once().to(space)

    def typical(self, space: Space) -> Operator:
        shards = cast(Shards, self.on.X)
        on = self._on(shards.spaced(min(_TYPICAL * self.plan.sizes.p, self.plan.at_first)))
        return on.operator(on.open_gates(), self.scale).once().to(space)

    def _on(self, X: Tensor) -> OnData:
        return replace(self.on, X=X)


def pose_in_shards(
    statement: Statement,
    X: Any,
    Y: Any,
    wanted: Wanted,
    limit: int | None,
    *,
    seed: int | None = 0,
    sample_weight: Any = None,
    mask: Any = None,
    gate_group: Any = None,
    standardize: bool | Scaling = False,
) -> Problem:
    """The statement on data in shards; arguments as `pose` has them.  limit: bytes that all of it may take."""
    wanted = wanted.without_training()
    _check(statement, wanted, mask)
    X, Y = as_shards(X, Y)
    block, n = statement.block, len(X)
    if limit is None:
        limit = int(_SHARE * (memory.available_bytes() or 2**33))
    targets = as_targets(Y, n, statement.loss.name, tokens=statement.readout == "tokens")
    block.check(X[:1], targets.shape[-1])
    weight = as_weights(sample_weight, n)
    if weight is not None and not bool((weight > 0).all()):
        raise ValueError(
            "sample_weight: data in shards are used whole; leave samples of weight zero out of the shards."
        )
    on = block.on(cast(Tensor, X), targets.shape[-1], statement.readout)  # what is asked of samples it can
    count = _count(wanted, statement) * block.groups
    plan = MemoryPlan.of(Sizes(n, math.prod(X.shape[1:]), on.rho, on.p, on.q, targets.numel(), count), limit)
    with batches.within(plan.left):
        size = X.surveyed(partial(_size, block, targets.shape[-1]))
        scaling = standardize if isinstance(standardize, Scaling) else None
        if standardize:
            scaling = scaling or scaling_of(X, targets, statement, weight)
            X, targets = X.prepared(scaling.samples), scaling.targets(targets)
            on, size = replace(on, X=cast(Tensor, X)), max(block.size(x) for _, x in X.tiles())
        loss = statement.make_loss(targets, weight, None)
        scaled_loss, units = normalised(loss, size, block.degree)
        beta = units.normalised_beta(statement.beta)
        found = find_gates(statement, BlockTrainee(on, scaled_loss, beta, units), wanted, seed, gate_group, Whole(n))
        operator = _operator(on, found, units.x, plan, tuple(targets.shape))
        gauge = gauge_for(statement, on, found)
    told = replace(
        statement,
        loss_settings={**statement.loss_settings, **loss.settings()},
        sampler=statement.sampler if wanted.name == GIVEN else wanted.name,
    )
    program = Program(operator, scaled_loss, gauge, beta)
    return Problem(told, cast(Tensor, X), None, loss, found, program, units, scaling=scaling, memory=plan)


def _size(block: Block, outputs: int, X: Tensor) -> float:
    """That of some samples, which must be ones that the block takes."""
    block.check(X, outputs)
    return block.size(X)


def goes_in_shards(X: Any, limit: int | None) -> bool:
    """Whether X can only be read so, or its copies would take too much of the limit."""
    if comes_in_shards(X):
        return True
    shape = getattr(X, "shape", None)
    return limit is not None and shape is not None and _COPIES * 8 * math.prod(shape) > _POSING * limit


def in_shards(problem: Problem, limit: int) -> Problem:
    """The same problem within a limit, its samples as they are in memory gone over in shards; or within another limit,
    where they are in shards already."""
    X: Any = problem.X if problem.memory is not None else Shards([Resident(problem.X.numpy(), "X")])
    wanted = Wanted(GIVEN, vectors=problem.gate_vectors)
    loss, group = problem.loss, problem.gates.group if problem.gate_vectors is not None else None
    given: dict[str, Any] = {"sample_weight": loss.sample_weight, "mask": problem.mask, "gate_group": group}
    same = pose_in_shards(problem.statement, X, loss.target.numpy(), wanted, limit, **given)
    return replace(same, scaling=problem.scaling)


def _operator(on: OnData, gates: Gates, scale: float, plan: MemoryPlan, shape: tuple[int, ...]) -> ShardedOperator:
    source = BlockShards(on, gates, scale, plan)
    made = source.some(slice(0, 1), Space())
    if made.output_shape[1:] != shape[1:]:
        needed = (shape[0], *made.output_shape[1:])
        raise ValueError(f"Y: block {on.block.name!r} on this X needs {needed}, got {shape}.")
    return ShardedOperator(source, torch.arange(made.n_gates), made.p, made.q, shape)


def _count(wanted: Wanted, statement: Statement) -> int:
    if statement.activation == "linear":
        return 1
    if wanted.sampler is not None:
        return wanted.count
    return len(wanted.vectors) if wanted.network is None else len(wanted.network.get_buffer("gates"))


def _check(statement: Statement, wanted: Wanted, mask: Any) -> None:
    """What goes over all rows at once cannot be asked of shards."""
    if mask is not None:
        raise ValueError("mask: data in shards have all their tokens; leave it out, or fit without a memory_limit.")
    if statement.activation == "relu":
        raise ValueError("activation: 'relu' needs all rows at once; data in shards take 'gated_relu' or 'linear'.")
    if statement.activation != "linear" and wanted.name not in ("gaussian", GIVEN):
        raise ValueError(
            f"gates: {wanted.name!r} looks at all rows at once; data in shards take 'gaussian' gates, vectors or a "
            "network's."
        )
