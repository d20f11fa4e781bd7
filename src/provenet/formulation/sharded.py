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
from provenet.data.validation import as_targets, as_tensor, as_weights, check_dense
from provenet.formulation.assemble import Given, assembled
from provenet.formulation.moments import scaling_of
from provenet.formulation.network_gates import how_many_units
from provenet.formulation.wanted import GIVEN, Wanted
from provenet.gates import Gates
from provenet.memory.plan import MemoryPlan, Sizes
from provenet.operators import Operator
from provenet.operators.wrappers.shards import ShardedOperator
from provenet.problem import Problem
from provenet.ranks import Whole
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


def pose_in_shards(statement: Statement, X: Any, Y: Any, given: Given, limit: int | None) -> Problem:
    """The statement on data in shards.  limit: bytes that all of it may take."""
    given = replace(given, wanted=given.wanted.without_training())
    _check(statement, given)
    X, Y = as_shards(X, Y)
    block, n = statement.block, len(X)
    if limit is None:
        limit = int(_SHARE * (memory.available_bytes() or 2**33))
    targets = as_targets(Y, n, statement.loss.name, tokens=statement.readout == "tokens")
    block.check(X[:1], targets.shape[-1])
    weight = as_weights(given.sample_weight, n)
    if weight is not None and not bool((weight > 0).all()):
        raise ValueError(
            "sample_weight: data in shards are used whole; leave samples of weight zero out of the shards."
        )
    on = block.on(cast(Tensor, X), targets.shape[-1], statement.readout)  # what is asked of samples it can
    count = _count(given.wanted, statement, on) * block.groups
    plan = MemoryPlan.of(Sizes(n, math.prod(X.shape[1:]), on.rho, on.p, on.q, targets.numel(), count), limit)
    with batches.within(plan.left):
        size, scaling = X.surveyed(partial(_size, block, targets.shape[-1])), None
        if given.standardize:
            scaling = given.scaling or scaling_of(X, targets, statement, weight)
            X, targets = X.prepared(scaling.samples), scaling.targets(targets)
            on, size = replace(on, X=cast(Tensor, X)), max(block.size(x) for _, x in X.tiles())
        loss = statement.make_loss(targets, weight, None)
        problem = assembled(statement, on, loss, size, given, Whole(n), partial(_operator, on, plan))
    return replace(problem, scaling=scaling, memory=plan)


def _size(block: Block, outputs: int, X: Tensor) -> float:
    """That of some samples, which must be ones that the block takes."""
    block.check(X, outputs)
    return block.size(X)


def goes_in_shards(X: Any, limit: int | None) -> bool:
    """Whether X can only be read so, or its copies would take too much of the limit."""
    if isinstance(X, Tensor):
        check_dense(X, "X")
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
    given = Given(wanted, sample_weight=loss.sample_weight, mask=problem.mask, gate_group=group)
    same = pose_in_shards(problem.statement, X, loss.target.numpy(), given, limit)
    return replace(same, scaling=problem.scaling)


def _operator(on: OnData, plan: MemoryPlan, gates: Gates, scale: float) -> ShardedOperator:
    source = BlockShards(on, gates, scale, plan)
    made = source.some(slice(0, 1), Space())
    return ShardedOperator(source, torch.arange(made.n_gates), made.p, made.q, (len(on.X), *made.output_shape[1:]))


def _count(wanted: Wanted, statement: Statement, on: OnData) -> int:
    if statement.activation == "linear":
        return 1
    if wanted.sampler is not None:
        return wanted.count
    if wanted.network is not None:
        return how_many_units(wanted.network, on)
    return len(torch.atleast_1d(as_tensor(wanted.given, "gates")))


def _check(statement: Statement, given: Given) -> None:
    """What goes over all rows at once cannot be asked of shards."""
    if given.mask is not None:
        raise ValueError("mask: data in shards have all their tokens; leave it out, or fit without a memory_limit.")
    if statement.activation == "relu":
        raise ValueError("activation: 'relu' needs all rows at once; data in shards take 'gated_relu' or 'linear'.")
    if statement.activation != "linear" and given.wanted.name not in ("gaussian", GIVEN):
        raise ValueError(
            f"gates: {given.wanted.name!r} looks at all rows at once; data in shards take 'gaussian' gates, vectors or "
            "a network's."
        )
