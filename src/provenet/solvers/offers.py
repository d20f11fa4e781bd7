"""What a method would take for a program: told without working, so that a plan can compare methods it does not know.

Work is counted in multiply-adds, of which a core does about 1e10 a second (`deadline.FAST`): what is slower counts for
more of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from provenet.polar import is_large
from provenet.problem import Program

_CALLS = 3e6  # what the calls of a step take, however small its products
_LARGE = 2e8  # a product beyond this runs at twice the speed
_DENSE = 1e11  # multiply-adds of A(Z) up to which stacks are worked on
_BYTE = 2.0  # to read a byte from memory
_EIGEN = 50.0  # times the cube of its side: the work of an eigenproblem, in units of fast products
_FEW_ROWS = 512
_SHIFT = 8e6  # what the calls for the best free intercept take
_OPEN = 64.0  # gates that are open at an optimum, at most, about
_USUAL = 0.01  # of β_max: the β for which steps are told; they grow with the root of what it is below
_AGREEING = 0.5  # of the most that residuals of this size could pull: what a neuron finds in outputs of a network
_LEAST_NOISE, _MOST_NOISE = 0.5, 2.5
_MOMENT = 5e9


@dataclass(frozen=True)
class Offer:
    """bytes: that a run allocates beyond the program.  setup, step: the work before the first step, and of each.
    steps: about as many until the gap is proven.  starts: whether it is good from nothing; finishes: whether it is
    where others crawl.  Neither: it runs only if asked for."""

    bytes: int
    setup: float = 0.0
    step: float = math.inf
    steps: float = 1.0
    starts: bool = False
    finishes: bool = False

    @property
    def each(self) -> float:
        """The work of a step, calls included."""
        return self.step + _CALLS

    @property
    def work(self) -> float:
        return self.setup + self.steps * self.each


@dataclass(frozen=True)
class Task:
    """A program, and the relative gap that is to be proven."""

    program: Program[Any]
    tol: float

    @property
    def decades(self) -> float:
        """How many digits are asked for."""
        return max(-math.log10(self.tol), 1.0)

    @cached_property
    def hardship(self) -> float:
        """How many times more steps than at the usual β; β_max is known to the program once it has been asked."""
        share = self.program.beta / self.program.beta_max if self.program.beta_max > 0 else 1.0
        return min(max((_USUAL / max(share, 1e-300)) ** 0.5, 0.2), 100.0)

    @cached_property
    def noise(self) -> float:
        """How little of the targets one neuron explains: about one for a network's outputs, two for labels at random,
        which take many neurons, each for little.  One where a moment does not tell what to compare β_max with."""
        op, loss, beta_max = self.program.operator, self.program.loss, self.program.beta_max
        if op.output_shape[0] * op.p**2 > _MOMENT or beta_max <= 0:
            return 1.0
        most = op.pull_upper(loss.gradient(torch.zeros_like(loss.target)))
        return min(max(_AGREEING * most / beta_max, _LEAST_NOISE), _MOST_NOISE) if most < math.inf else 1.0

    @cached_property
    def evenness(self) -> float:
        """Of the data's second moments S along all directions: tr(S)²/(p‖S‖²), one where all are alike, 1/p where all
        but one are none.  One where rows are not there, or many."""
        rows = self.program.operator.axis_rows
        if rows is None or rows.numel() * rows.shape[-1] > _MOMENT:
            return 1.0
        rows = rows.reshape(-1, rows.shape[-1])
        moments = rows.T @ rows
        size = float(moments.square().sum())
        return float(moments.trace()) ** 2 / (len(moments) * size) if 0 < size < math.inf else 1.0

    @property
    def labels(self) -> bool:
        """Whether the loss is one of labels."""
        return self.program.loss.labels

    @property
    def rows(self) -> float:
        """Of predictions; few count as some more, so that small programs are alike: a sample of weight two leads to the
        plan of the same sample twice."""
        return float(max(self.program.operator.kernel_rows, _FEW_ROWS))

    @property
    def crowding(self) -> float:
        """First layers' weights, behind all gates, for each row of predictions: where many, curvature is uneven."""
        op = self.program.operator
        return op.n_gates * op.p / self.rows

    @property
    def open_crowding(self) -> float:
        """The same, behind the gates that matter."""
        return self.open_share * self.crowding

    @property
    def width(self) -> int:
        """Of second layers, in outputs."""
        op = self.program.operator
        return max(op.q // op.output_shape[-1], 1)

    @property
    def prox(self) -> float:
        """The work of a gauge's prox: an eigenproblem a gate, of its smaller side."""
        op = self.program.operator
        side = min(op.p, op.q)
        return _EIGEN * op.n_gates * side**3 if side > 1 else 0.0

    @property
    def open_share(self) -> float:
        """Of all gates, those that matter: where they are many, most stay closed."""
        return min(1.0, _OPEN / self.program.operator.n_gates)

    @property
    def intercept(self) -> float:
        """The work for the best free intercept, however few the outputs."""
        loss = self.program.loss
        return _SHIFT if loss.free and not loss.quadratic else 0.0

    @property
    def only_neurons(self) -> bool:
        """Whether stacks are too large to be worked on: to be formed, or, where second layers are wider than the
        outputs and neurons cost far less, to be multiplied."""
        op = self.program.operator
        dense = self.rows * op.n_gates * op.p * op.q if op.q > op.output_shape[-1] else 0.0
        return self.program.gauge.rotates and (is_large(op) or dense > _DENSE)

    @property
    def product(self) -> float:
        """The work of A on a stack, or of A*: its multiply-adds, and reading what the operator holds for every gate."""
        op = self.program.operator
        numbers = self.rows * op.n_gates * op.p * op.q
        return 0.5 * (numbers + min(numbers, _LARGE)) + _BYTE * op.read_bytes
