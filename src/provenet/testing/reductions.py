"""The contract of a reduction."""

from __future__ import annotations

import math

import torch

from provenet.problem import Program
from provenet.reductions import Reduction
from provenet.testing.close import assert_close, normal
from provenet.variable import Factors


def check_reduction(reduction: Reduction, program: Program, seed: int = 0) -> None:
    """Predictions and objectives back and forth; the same polars at every Θ, so the same dual program and optimum.

    Where ``hidden`` is infinite the reduction keeps no bounds; then polars may differ, and are not compared.

    Parameters
    ----------
    reduction : Reduction
        Yours.
    program : Program
        One that it applies to.
    seed : int, default 0
        Of the numbers that are drawn.
    """
    found = reduction.apply(program)
    assert found is not None, f"{reduction} does not apply"
    small, back = found
    assert small.loss is program.loss, "a reduction leaves the loss, and so every dual point, as it is"
    assert small.beta == program.beta, "a reduction leaves β as it is"
    generator = torch.Generator().manual_seed(seed)

    neurons = _neurons(program, generator)
    prediction = program.operator.forward_factors(neurons)
    forth = back.start(neurons)
    assert_close(small.operator.forward_factors(forth), prediction, 1e-9, "a start has another prediction")
    home = back.factors(forth)
    assert_close(program.operator.forward_factors(home), prediction, 1e-9, "neurons that came back have another one")
    before, after = float(small.objective_factors(forth)), float(program.objective_factors(home))
    assert after <= before + 1e-9 * abs(before), f"neurons cost {after} in the whole program, {before} in the reduced"

    for scale in (1e-3, 1.0, 1e3):
        theta = scale * normal(generator, *program.operator.output_shape)
        hidden = back.hidden(theta)
        assert hidden >= 0, f"hidden: {hidden}"
        if math.isinf(hidden):
            continue
        whole, within = program.polar(theta), small.polar(theta)
        assert float(whole.lower.max()) <= float(within.upper.max()) + hidden, "a bound of the polar does not survive"
        assert float(within.lower.max()) <= float(whole.upper.max()) * (1 + 1e-9) + hidden, "the optimum is another"


def _neurons(program: Program, generator: torch.Generator) -> Factors:
    """Neurons inside their cones, where there are any."""
    op, region = program.operator, getattr(program.gauge, "region", None)
    gate = torch.arange(op.n_gates).repeat(2)
    left = normal(generator, len(gate), op.p)
    if region is not None:
        left = region.inside[gate] * (1 + left[:, :1].abs())
    return Factors(left, normal(generator, len(gate), op.q), gate)
