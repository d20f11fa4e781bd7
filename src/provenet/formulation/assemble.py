"""From a block bound to its data to a problem: units, gates, operator, gauge, program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from provenet.blocks import OnData
from provenet.formulation.gates import find_gates
from provenet.formulation.gauge import check_pull, gauge_for
from provenet.formulation.sample import sample_of
from provenet.formulation.trainee import BlockTrainee
from provenet.formulation.units import normalised
from provenet.formulation.wanted import GIVEN, Wanted
from provenet.gates import Gates
from provenet.losses import Loss
from provenet.names import GROW
from provenet.operators import Operator
from provenet.problem import Problem, Program
from provenet.ranks import Whole
from provenet.scaling import Scaling
from provenet.statement import Statement


@dataclass(frozen=True)
class Given:
    """What a user gives besides the statement and the data, as `formulate` has it.

    standardize: by the data's own moments, or by those of another fit."""

    wanted: Wanted
    seed: int | None = 0
    sample_weight: Any = None
    mask: Any = None
    gate_group: Any = None
    standardize: bool | Scaling = False

    @property
    def scaling(self) -> Scaling | None:
        """Moments of another fit, if they are to be used."""
        return self.standardize if isinstance(self.standardize, Scaling) else None


def assembled(
    statement: Statement,
    on: OnData,
    loss: Loss,
    size: float,
    given: Given,
    shards: Whole,
    make: Callable[[Gates, float], Operator],
) -> Problem:
    """The problem of a bound block; size: that of its samples; ``make(gates, scale)``: its operator of X/scale."""
    check_pull(statement.penalty, statement.activation, on.q)
    scaled_loss, units = normalised(loss, size, on.block.degree)
    beta = units.normalised_beta(statement.beta)
    trainee = BlockTrainee(on, scaled_loss, beta, units)
    wanted = given.wanted.settled(sample_of(trainee, shards))
    found = find_gates(statement, trainee, wanted, given.seed, given.gate_group, shards)
    operator, shape = make(found, units.x), tuple(loss.target.shape)
    if operator.output_shape != shape:
        needed = tuple(operator.output_shape)
        raise ValueError(f"Y: block {on.block.name!r} on this X needs {needed}, got {shape}.")
    program = Program(operator, scaled_loss, gauge_for(statement, on, found), beta)
    told = replace(
        statement,
        loss_settings={**statement.loss_settings, **loss.settings()},  # defaults included
        sampler=statement.sampler if wanted.name == GIVEN else wanted.name,
    )
    growth = wanted.count if wanted.name == GROW and found.vectors is not None else None
    return Problem(told, on.X, on.mask, loss, found, program, units, growth)
