"""The contract of a block."""

from __future__ import annotations

from typing import Any

import torch

from provenet.blocks import Block, formulate
from provenet.testing.close import assert_close, normal
from provenet.variable import factorise


def check_block(
    block: Block, X: Any, activation: str, outputs: int = 3, seed: int = 0, readout: str = "mean", mask: Any = None
) -> None:
    """network(X) = A(Z); weight decay of the network = gauge of Z; and back again.

    On data far from unit scale, so that the change of units is seen.
    """
    for x_scale, y_scale in ((1.0, 1.0), (1e3, 1e-2), (1e-5, 1e4)):
        samples = torch.as_tensor(X, dtype=torch.float64) * x_scale
        generator = torch.Generator().manual_seed(seed)
        tokens = (samples.shape[1],) if readout == "tokens" else ()
        Y = normal(generator, samples.shape[0], *tokens, outputs) * y_scale
        problem = formulate(
            block, samples, Y, activation=activation, gates=5, beta=0.1, readout=readout, seed=seed, mask=mask
        )
        op, gauge = problem.program.operator, problem.program.gauge
        stack = normal(generator, *op.stack_shape)
        network: Any = problem.network(factorise(stack))
        with torch.no_grad():
            assert_close(network(samples), op.forward(stack) * problem.output_unit, 1e-11, "network(X) = A(Z)")
            assert_close(network.penalty(), gauge.value(stack) * problem.unit, 1e-11, "weight decay = gauge")
        back = problem.factors(network)
        assert_close(back.stack(op.n_gates), stack, 1e-11, "network → factors")
        objective = problem.loss.value(network(samples).detach()) + problem.beta * network.penalty().detach()
        normalised = problem.program.objective(stack) * problem.value_scale
        assert_close(objective, normalised, 1e-11, "the objective in the user's units")
