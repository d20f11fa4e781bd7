"""A step of `lbfgs` reads a few numbers, all of them by `space.read`: on a device the host waits for no more.

Seen in two ways: by what makes a host wait, on the CPU; and on torch's meta device, whose tensors have no numbers, so
that a step ends in an error as soon as it asks for one, or meets a tensor of the host's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import provenet as pn
from provenet import space, variable
from provenet.blocks import BLOCKS
from provenet.losses import quick
from provenet.problem import Problem
from provenet.solvers.neurons.lbfgs import pairs, search
from provenet.solvers.neurons.lbfgs.method import LBFGS, LBFGSState
from provenet.solvers.neurons.place import gaussian

WAITING = {"_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select", "_unique2", "unique_dim"}
META = torch.device("meta")
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
        fetched: list[torch.Tensor] = []
        for name in ("tolist", "numpy", "cpu"):  # which no dispatcher sees on a CPU
            original = getattr(torch.Tensor, name)

            def spied(self: torch.Tensor, *args: Any, name: str = name, original: Any = original) -> Any:
                if not inside[0] and not (name == "numpy" and any(self is known for known in fetched)):
                    watch.seen.append(name)
                found = original(self, *args)
                if name == "cpu":
                    fetched.append(found)
                return found

            patch.setattr(torch.Tensor, name, spied)
        with watch:
            yield watch.seen, readings


def posed(name: str, activation: str, loss: str, beta: float = 0.01, fit_intercept: Any = None) -> Problem:
    rng = np.random.default_rng(0)
    shape = {"mlp": (24, 5), "cnn": (24, 2, 4, 4)}.get(name, (24, 4, 4))
    settings: dict[str, Any] = {"cnn": {"kernel": 2, "pool": 2}, "bfno": {"groups": 2}}
    outputs = {"squared": 2, "huber": 2, "softmax": 4, "logistic": 2 if name == "bfno" else 1}[loss]
    labels = rng.integers(outputs, size=24) if loss == "softmax" else rng.integers(2, size=(24, outputs))
    Y = rng.standard_normal((24, outputs)) if loss in ("squared", "huber") else labels
    X = rng.standard_normal(shape)
    block = BLOCKS[name](**settings.get(name, {}))
    return pn.formulate(block, X, Y, activation, 6, loss=loss, beta=beta, fit_intercept=fit_intercept)


def begun(problem: Problem, steps: int = 3) -> tuple[LBFGS, LBFGSState]:
    """Some steps on, so that there are pairs and scales."""
    method, program = LBFGS(), problem.program
    state = method.init(program, gaussian(program, 1, 0.1, 0))
    for _ in range(steps):
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


@pytest.mark.parametrize("few", [2**15, 0])
@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
def test_a_free_intercept_reads_once_a_look(loss: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are read once; of many a look reads sums, and Newton, which is told where the last search ended but need
    not know, ends after a few; a last number says whether the fit is too good for that."""
    monkeypatch.setattr(quick, "_FEW", few)
    problem = posed("mlp", "gated_relu", loss, 1.0, "free")
    method, state = begun(problem, 12)
    with watched(monkeypatch) as (seen, readings):
        after = method.step(problem.program, state)
    assert after.at.value < state.at.value
    assert readings == [2, 1, 3]
    looks = {"squared": 0, "huber": 4}.get(loss, 1 if few else 5)  # Huber's rows stay, few or many
    assert len(seen) <= looks
    assert "numpy" not in seen


class NoNumbers(TorchDispatchMode):
    """Nothing but a draw, and its way to the device, is of the host's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        of_host = [leaf for leaf in tree_leaves((args, out)) if isinstance(leaf, torch.Tensor) and not leaf.is_meta]
        assert not of_host or func.__name__.split(".")[0] in ("randn", "_to_copy"), func
        return out


def on_meta(thing: Any, known: dict[int, Any]) -> Any:
    """All tensors that are held there, those that were made of others, too."""
    if id(thing) in known:
        return known[id(thing)][1]
    if isinstance(thing, torch.device):
        return META
    if isinstance(thing, torch.Tensor):
        there: Any = thing.to(META)
        known[id(thing)] = thing, there
        if thing in variable._KNOWN:
            variable._KNOWN[there] = there._version, on_meta(variable._KNOWN[thing][1], known)
    elif isinstance(thing, (tuple, list)):
        parts = [on_meta(part, known) for part in thing]
        there = type(thing)(*parts) if hasattr(thing, "_fields") else type(thing)(parts)
    elif isinstance(thing, dict):
        there = {name: on_meta(part, known) for name, part in thing.items()}
    elif type(thing).__module__.startswith("provenet") and hasattr(thing, "__dict__"):
        there = object.__new__(type(thing))
        known[id(thing)] = thing, there
        there.__dict__.update({name: on_meta(part, known) for name, part in vars(thing).items()})
    else:
        return thing
    return there


@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
@pytest.mark.parametrize("name", BLOCKS)
def test_a_step_without_numbers(name: str, activation: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products, loss, direction, update and, where they are looked at anew, scales; what is read is told instead."""
    problem = posed(name, activation, loss)
    method, state = begun(problem)
    told = {2: [state.at.value - 1, -1e-9], 1: [0.0], 3: [1.0, 1.0, 1.0]}
    for module in (pairs, search):
        monkeypatch.setattr(module, "read", lambda *numbers: told[len(numbers)])
    known: dict[int, Any] = {}
    program, there = on_meta(problem.program, known), on_meta(state, known)
    for scales in (there.scales, None):
        with NoNumbers():
            after = method.step(program, replace(there, scales=scales))
        assert after.at.value == state.at.value - 1
        assert after.at.gradient.is_meta
        assert len(after.pairs) == len(state.pairs) + 1
