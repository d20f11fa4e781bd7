"""Which gates a problem has: sampled, given, or all arrangements of the data."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from provenet import deadline, memory
from provenet.blocks import OnData
from provenet.data.validation import as_tensor, check_finite
from provenet.formulation.network_gates import gates_of
from provenet.formulation.rehearsal import affordable
from provenet.formulation.sample import sight_of_sample
from provenet.formulation.trainee import BlockTrainee
from provenet.formulation.wanted import Wanted
from provenet.gates import Gates, distinct_gates, pattern_keys
from provenet.gates.arrangements import arrangements
from provenet.gates.interior import moved_inside
from provenet.gates.pool import Found
from provenet.gates.samplers import BLIND, SAMPLERS
from provenet.gates.sight import Sight
from provenet.gates.spike_free import open_gate, spike_free_stretch
from provenet.gauges.prox.mixed import WEIGHT_DECAY
from provenet.ranks import Spread, Whole
from provenet.statement import Statement
from provenet.variable import Factors


def find_gates(
    statement: Statement, trainee: BlockTrainee, wanted: Wanted, seed: int | None, group: Any, shards: Whole
) -> Gates:
    """``group`` (P,): of each vector that is given, None: in every group.  Neither it nor ``wanted`` matters for linear
    activation, which has no gates, nor where all arrangements are to be found."""
    began, on, relu = time.perf_counter(), trainee.on, statement.activation == "relu"
    if statement.activation == "linear":
        affordable(on, 0)
        return on.open_gates()
    if statement.complete:
        gates = _all_arrangements(on, alone=statement.penalty == WEIGHT_DECAY)
    else:
        if wanted.sampler is not None:
            if group is not None:
                raise ValueError("gate_group: it goes with gate vectors, one number for each.")
            gates = _sampled(trainee, wanted, seed, shards, relu)
        elif wanted.network is not None:
            units = gates_of(wanted.network, on)
            gates = _given(on, units.vectors, units.group)
            if relu and units.layers is not None and units.layers[1].shape[1] == on.q:
                first, second = (layer * trainee.units.z**-0.5 for layer in units.layers)
                own = torch.zeros(len(first), dtype=torch.long) if units.group is None else units.group
                gates = replace(gates, network=_behind(on, gates, first, second, own))
        else:
            gates = _given(on, as_tensor(wanted.given, "gates"), group)
        gates = _inside(on, gates) if relu else gates
    return replace(gates, seconds=time.perf_counter() - began)


def _sampled(trainee: BlockTrainee, wanted: Wanted, seed: int | None, shards: Whole, relu: bool) -> Gates:
    assert wanted.sampler is not None
    name, count = wanted.sampler
    if seed is not None and not (isinstance(seed, Integral) and seed >= 0):
        raise ValueError(f"seed: it must be a whole number from zero on, or None, got {seed!r}.")
    _check_room(trainee.on, count)
    asked, count = count, affordable(trainee.on, count, cones=relu)
    alike = isinstance(shards, Spread) and name not in BLIND  # all processes must see the same
    sight = sight_of_sample(trainee, shards) if alike else sight_of(trainee)
    find = wanted.own or SAMPLERS[name]
    found, network = find(replace(sight, brief=trainee.loss.labels and not relu), count, seed)
    if wanted.own is not None:  # of which nothing is taken on trust
        both = zip(trainee.on.groups, found, strict=True)
        found = [distinct_gates(vectors, rows.decided(vectors)) for rows, (vectors, _) in both]
    gates = replace(_together(found), left_out=asked - count)
    # a gated network's optimum is soon found, whatever its start; ReLU's may take longer than there is time for
    if network is None or (not relu and deadline.left() == math.inf):
        return gates
    return replace(gates, network=_behind(trainee.on, gates, *network))


def _behind(on: OnData, gates: Gates, first: Tensor, second: Tensor, group: Tensor) -> Factors:
    """A network's neurons, each behind the gate that opens what it opens; where it grazes rows and no gate does, behind
    the one that differs on the fewest.  Those that are closed everywhere say nothing, and are left out."""
    gate = torch.full_like(group, -1)
    for b, rows in enumerate(on.groups):
        mine, members = torch.nonzero(gates.own == b).flatten(), torch.nonzero(group == b).flatten()
        patterns = rows.patterns(first[members])[0]
        known = dict(zip(pattern_keys(gates.patterns[mine]), mine.tolist(), strict=True))
        for j, pattern, key in zip(members.tolist(), patterns, pattern_keys(patterns), strict=True):
            if bool(pattern.any()):
                gate[j] = known[key] if key in known else mine[(gates.patterns[mine] != pattern).sum(1).argmin()]
    kept = gate >= 0
    return Factors(first[kept], second[kept], gate[kept])


def sight_of(trainee: BlockTrainee) -> Sight:
    """What samplers may look at."""
    return Sight(trainee.on.groups, trainee.loss.target.flatten(0, -2), trainee)


def _given(on: OnData, vectors: Tensor, group: Any) -> Gates:
    if vectors.ndim != 2 or vectors.shape[0] == 0 or vectors.shape[1] != on.p:
        last = ", the last number for the column of ones" if getattr(on.block, "fit_intercept", False) else ""
        raise ValueError(f"gates: gate vectors need shape (P, {on.p}){last}, got {tuple(vectors.shape)}.")
    check_finite(vectors, "gates")
    _check_room(on, len(vectors))
    each = [vectors] * len(on.groups) if group is None else _split(vectors, group, len(on.groups))
    return _together([distinct_gates(own, rows.decided(own)) for rows, own in zip(on.groups, each, strict=True)])


def _together(found: list[Found]) -> Gates:
    """Vectors and patterns of each group, one group after the other."""
    if len(found) == 1:
        return Gates(*found[0])
    group = torch.arange(len(found)).repeat_interleave(torch.tensor([len(vectors) for vectors, _ in found]))
    vectors, patterns = zip(*found, strict=True)
    return Gates(torch.cat(vectors), torch.cat(patterns), group)


def _split(vectors: Tensor, wanted: Any, groups: int) -> list[Tensor]:
    """The gate vectors of each group."""
    group = as_tensor(wanted, "gate_group")
    if group.shape != vectors.shape[:1]:
        raise ValueError(f"gate_group: it goes with gate vectors, one number for each, got shape {tuple(group.shape)}.")
    if set(group.tolist()) != set(range(groups)):
        raise ValueError(f"gate_group: with {groups} groups it needs gates of each, 0 to {groups - 1}.")
    return [vectors[group == b] for b in range(groups)]


def _check_room(on: OnData, count: int) -> None:
    """A pattern for every row and gate, as truth values and as numbers."""
    rows, gates = len(on.groups[0]), count * len(on.groups)
    memory.check_fits(rows * gates * 9, f"gates: {gates} of them on {rows} rows", "Take fewer gates or samples.")


def _inside(on: OnData, gates: Gates) -> Gates:
    """Gate vectors strictly inside the cones of their patterns: a tie is open, but no place for a neuron to start."""
    assert gates.vectors is not None
    zero = torch.nonzero(~gates.vectors.any(1)).flatten()
    if len(zero):
        raise ValueError(f"gates: gate {int(zero[0])} is zero, and on every row of the data; give it a direction.")
    if on.table is None:
        return gates
    return replace(gates, vectors=moved_inside(gates.vectors, on.table.rows, gates.patterns))


def _all_arrangements(on: OnData, alone: bool) -> Gates:
    """Every arrangement, of each group, but the one that closes all rows; ``alone``: of orthogonal rows the open one is
    enough."""
    tables = [rows.table for rows in on.groups]
    written = [table.rows for table in tables if table is not None]
    if len(written) < len(tables):
        raise ValueError(
            f"gates: 'all' needs a table of rows, and that of block {on.block.name!r} on this X is too large; sample "
            "some arrangements instead, e.g. gates=100."
        )
    stretch = spike_free_stretch(written[0]) if alone and len(written) == 1 else None
    if stretch is not None:
        return Gates(*open_gate(written[0]), stretch=stretch)
    return _together([distinct_gates(*arrangements(rows)) for rows in written])
