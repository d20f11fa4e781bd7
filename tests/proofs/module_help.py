"""Modules with data and their problems, of every block; data that come like a loader's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.testing.examples import Example, examples
from provenet.variable import Factors

N = 11


def cases() -> Iterator[Any]:
    for example in examples():
        for activation in ("linear", "gated_relu"):  # ReLU: test_certify_relu.py
            for readout in example.readouts:
                yield pytest.param(example, activation, readout, id=f"{example}-{activation}-{readout}")


class Batches:
    """Like a loader: the same samples in every pass, in another order each."""

    def __init__(self, arrays: tuple[Any, ...], size: int, shuffle: bool = True):
        self.arrays, self.size, self.shuffle, self.passes = arrays, size, shuffle, 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        n = len(self.arrays[0])
        order = np.random.default_rng(self.passes).permutation(n) if self.shuffle else np.arange(n)
        self.passes += 1
        for i in range(0, n, self.size):
            yield tuple(array[order[i : i + self.size]] for array in self.arrays)


def posed(
    example: Example, activation: str, readout: str, loss: str = "squared", beta: float = 0.3
) -> tuple[pn.Problem, Any, tuple[Any, ...]]:
    """A problem with a module's own gates, the module, of random weights, and the data."""
    X, mask = example.samples(N), example.mask(N)
    draw = np.random.default_rng(1)
    Y = draw.standard_normal((*(X.shape[:2] if readout == "tokens" else X.shape[:1]), example.outputs))
    first = pn.formulate(example.block, X, Y, activation, gates=4, beta=beta, readout=readout, mask=mask)
    op = first.program.operator
    gate = torch.arange(2 * op.n_gates) % op.n_gates
    left, right = (torch.from_numpy(draw.standard_normal((len(gate), size))) for size in (op.p, op.q))
    module: Any = first.network(Factors(left, right, gate))
    gates = 1 if module.gates is None else module.gates
    problem = pn.formulate(
        example.block, X, Y, activation, gates=gates, loss=loss, beta=beta, readout=readout, mask=mask
    )
    return problem, module, (X, Y) if mask is None else (X, Y, mask)


def mlp(activation: str = "gated_relu", loss: str = "squared") -> tuple[pn.Problem, Any, tuple[Any, ...]]:
    return posed(Example("mlp", (3,)), activation, "mean", loss)
