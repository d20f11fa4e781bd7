"""Fresh modules in anyone's training loop."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import provenet as pn
from provenet.nn.base import ACTIVATIONS

S, D, C = 9, 4, 4


def running_mean(x: Tensor) -> Tensor:
    return x.cumsum(1) / x.shape[1]


HEADS = {
    "MLP": (lambda **k: pn.nn.MLP(D, C, **k), (D,)),
    "CNN": (lambda **k: pn.nn.CNN(3, C, kernel=3, padding=1, pool=2, **k), (3, 8, 8)),
    "CNN-1d": (lambda **k: pn.nn.CNN(3, C, dims=1, **k), (3, 8)),
    "SelfAttention": (lambda **k: pn.nn.SelfAttention(D, C, **k), (S, D)),
    "PoolFormer": (lambda **k: pn.nn.PoolFormer(D, C, **k), (S, D)),
    "FNet": (lambda **k: pn.nn.FNet(D, C, **k), (S, D)),
    "TokenMap": (lambda **k: pn.nn.TokenMap(running_mean, D, C, **k), (S, D)),
    "Mixer": (lambda **k: pn.nn.Mixer(S, D, C, **k), (S, D)),
    "FNO": (lambda **k: pn.nn.FNO(S, D, C, **k), (S, D)),
    "BFNO": (lambda **k: pn.nn.BFNO(S, D, C, groups=2, **k), (S, D)),
}
NAMES = [name for name in HEADS if hasattr(pn.nn, name.split("-")[0])]
TOKENS = [name for name in NAMES if HEADS[name][1] == (S, D)]


def fresh(name: str, activation: str = "gated_relu", **settings: Any) -> tuple[Any, Tensor]:
    """A module, and unit-scale inputs of it."""
    make, sample = HEADS[name]
    generator = torch.Generator().manual_seed(1)
    return make(activation=activation, rank=2, n_gates=4, **settings), torch.randn(12, *sample, generator=generator)


def train(module: Any, step: Callable[[Tensor], Tensor], x: Tensor, steps: int = 60, beta: float = 1e-2) -> list[float]:
    """The objective at every step of AdamW: the mean of the losses and the penalty, no decay of AdamW's own."""
    target = torch.arange(len(x)) % C
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.02, weight_decay=0)
    values = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(step(x).float(), target) + beta * module.penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    return values


def test_no_module_is_forgotten() -> None:
    of_many = {"Layers", "Stage", "Normalise", "Standardised"}  # of networks: test_layers.py, tests/standardize
    heads = {"Projections", "from_projections", "from_multihead", "to_projections"}  # test_projections.py
    behind = {"Head", "Reduction", "WithBackbone", "with_backbone"}  # a backbone: tests/heads
    known = set(pn.nn.__all__) - {"TwoLayer"} - of_many - heads - behind
    assert known == {name.split("-")[0] for name in NAMES}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_of_order_one(name: str, activation: str) -> None:
    for readout in ({"readout": r} for r in ("mean", "tokens")) if name in TOKENS else ({},):
        module, x = fresh(name, activation, **readout)
        with torch.no_grad():
            size = float(module(x).square().mean().sqrt())
        assert 0.05 < size < 20, f"{readout}: {size}"


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_adamw_trains_and_what_it_reached_is_certified(name: str, activation: str) -> None:
    module, x = fresh(name, activation)
    values = train(module, module, x)
    assert values[-1] < 0.9 * values[0]
    assert all(not buffer.requires_grad for buffer in module.buffers())
    label = torch.arange(len(x)) % C
    certificate = pn.certify(module, (x, label), loss="softmax", beta=1e-2, mean=True)
    with torch.no_grad():
        objective = nn.functional.cross_entropy(module(x), label) + 1e-2 * module.penalty()
    assert certificate.primal == pytest.approx(len(x) * float(objective), rel=1e-4)
    assert certificate.gap > 0


@pytest.mark.parametrize("name", NAMES)
def test_state_dict_and_copies(name: str) -> None:
    module, x = fresh(name)
    other, _ = fresh(name, seed=5)
    assert not torch.equal(other(x), module(x))
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(x), module(x))
    twin = copy.deepcopy(module)
    assert torch.equal(twin(x), module(x))
    with torch.no_grad():
        twin.first.zero_()
    assert not torch.equal(twin(x), module(x))


@pytest.mark.parametrize("name", NAMES)
def test_precisions(name: str) -> None:
    module, x = fresh(name, "linear")  # without gates, which low precision may put on another side
    exact = copy.deepcopy(module).double()
    assert exact(x).dtype == torch.float64
    wanted = exact(x).detach()
    size = wanted.abs().max()
    assert (module(x) - wanted).abs().max() < 1e-4 * size
    low = copy.deepcopy(module).to(torch.bfloat16)(x)
    assert low.dtype == torch.bfloat16
    assert (low - wanted).abs().max() < 0.1 * size


@pytest.mark.parametrize("name", NAMES)
def test_autocast(name: str) -> None:
    module, x = fresh(name)

    def step(batch: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return module(batch)

    with torch.no_grad():
        linear, _ = fresh(name, "linear")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = linear(x)
        assert (low - linear(x)).abs().max() < 0.1 * linear(x).abs().max()
    values = train(module, step, x)
    assert values[-1] < 0.9 * values[0]
    assert module.first.dtype == torch.float32


@pytest.mark.parametrize("name", NAMES)
def test_traced_whole_by_torch_compile(name: str) -> None:
    """One graph, forward, without a break."""
    torch.compiler.reset()  # shapes of other modules would count as shapes that vary
    module, x = fresh(name)
    traced = torch.compile(module, backend="eager", fullgraph=True)
    torch.testing.assert_close(traced(x), module(x))
    values = train(module, traced, x)
    assert values[-1] < 0.9 * values[0]


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled() -> None:
    """Machine code by torch's own backend."""
    torch.compiler.reset()
    module, x = fresh("MLP")
    compiled = torch.compile(module)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    label = torch.arange(len(x)) % C
    certificate = pn.certify(compiled, (x, label), loss="softmax", beta=0.1)
    assert certificate == pn.certify(module, (x, label), loss="softmax", beta=0.1)
