"""A step of `lbfgs` reads a few numbers, all of them by `space.read`: on a device the host waits for no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import provenet as pn
from provenet import space
from provenet.blocks import BLOCKS
from provenet.problem import Problem
from provenet.solvers.neurons.lbfgs import pairs, search
from provenet.solvers.neurons.lbfgs.method import LBFGS, LBFGSState
from provenet.solvers.neurons.place import gaussian

WAITING = {"_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select", "_unique2", "unique_dim"}
READ_A_STEP = 3  # the value and the slope of a trial; the slope where it led; what the pair shows


class Watch(TorchDispatchMode):
    """Operations whose result the host has to know before it can go on."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.split(".")[0]
        if name in WAITING:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], list[int]]]:
    """What made the host wait outside of `read`, and how many numbers each reading had."""
    readings: list[int] = []
    watch, inside = Watch(), [False]

    def read(*numbers: torch.Tensor) -> list[float]:
        readings.append(len(numbers))
        inside[0] = True
        found = space.read(*numbers)
        inside[0] = False
        return found

    with monkeypatch.context() as patch:
        for module in (pairs, search):
            patch.setattr(module, "read", read)
        for name in ("tolist", "numpy", "cpu"):  # which no dispatcher sees on a CPU
            original = getattr(torch.Tensor, name)

            def spied(self: torch.Tensor, *args: Any, name: str = name, original: Any = original) -> Any:
                if not inside[0]:
                    watch.seen.append(name)
                return original(self, *args)

            patch.setattr(torch.Tensor, name, spied)
        with watch:
            yield watch.seen, readings


def posed(name: str, activation: str, loss: str) -> Problem:
    rng = np.random.default_rng(0)
    shape = {"mlp": (24, 5), "cnn": (24, 2, 4, 4)}.get(name, (24, 4, 4))
    settings: dict[str, Any] = {"cnn": {"kernel": 2, "pool": 2}, "bfno": {"groups": 2}}
    outputs = {"squared": 2, "huber": 2, "softmax": 4, "logistic": 2 if name == "bfno" else 1}[loss]
    labels = rng.integers(outputs, size=24) if loss == "softmax" else rng.integers(2, size=(24, outputs))
    Y = rng.standard_normal((24, outputs)) if loss in ("squared", "huber") else labels
    X = rng.standard_normal(shape)
    return pn.formulate(BLOCKS[name](**settings.get(name, {})), X, Y, activation, 6, loss=loss, beta=0.01)


def begun(problem: Problem) -> tuple[LBFGS, LBFGSState]:
    """Some steps on, so that there are pairs and scales."""
    method, program = LBFGS(), problem.program
    state = method.init(program, gaussian(program, 1, 0.1, 0))
    for _ in range(3):
        state = method.step(program, state)
    assert len(state.pairs)
    return method, state


@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
@pytest.mark.parametrize("name", BLOCKS)
def test_a_step_reads_three_times(name: str, activation: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = posed(name, activation, loss)
    method, state = begun(problem)
    with watched(monkeypatch) as (seen, readings):
        after = method.step(problem.program, state)
    assert after.at.value < state.at.value
    assert seen == []
    trials = sum(count == 2 for count in readings)
    assert len(readings) <= READ_A_STEP + 2 * (trials - 1)


def test_scales_are_looked_at_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = posed("mlp", "gated_relu", "softmax")
    method, state = begun(problem)
    with watched(monkeypatch) as (seen, _):
        method.step(problem.program, LBFGSState(state.here, state.at, state.pairs, None, 0))
    assert seen == []


def test_what_would_make_it_wait_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    number = torch.ones(1)
    with watched(monkeypatch) as (seen, _):
        float(number)
        number.tolist()
        torch.nonzero(number)
    assert len(seen) == 3
