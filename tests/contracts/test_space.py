"""Device and precision have one owner: all that holds tensors moves as a whole, and makes no tensor elsewhere.

Everything is moved to float32, and to torch's meta device, whose tensors have a shape and no numbers: there, any
operation that takes or gives a tensor of the host's is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import provenet
from provenet.cones import Cones
from provenet.gauges import ConeColumns, ConeNuclear, NuclearNorm, ProxGauge, SpikeFree
from provenet.gauges.cones.norm import ConeNorm
from provenet.gauges.prox.mixed import LineNorm, SignNorm, signs
from provenet.losses import Huber, Logistic, Loss, Softmax, Squared
from provenet.operators import ByOutput, FeatureOperator, GroupedOperator, Lifted, MLPOperator, Operator, PooledOperator
from provenet.operators.blocks.attention_gated import GatedMeanAttention
from provenet.operators.wrappers.base import Wrapper
from provenet.operators.wrappers.signed import SignedOperator
from provenet.space import Placed, Space, anew
from provenet.testing.bank import example_case
from provenet.testing.examples import Example, examples
from provenet.variable import Factors

SINGLE = Space(dtype=torch.float32)
META = Space(torch.device("meta"))
EVERY = [
    (example, readout, activation)
    for example in examples()
    for readout in example.readouts
    for activation in ("linear", "gated_relu")
]
NAMES = [f"{example}-{readout}-{activation}" for example, readout, activation in EVERY]


class OnMeta(TorchDispatchMode):
    """No operation takes or gives a tensor of the host's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, out)):
            assert not isinstance(leaf, Tensor) or leaf.is_meta, f"{func} on the host, shape {tuple(leaf.shape)}"
        return out


def held(thing: Any) -> Iterator[Tensor]:
    """Every tensor that is held, however deep."""
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from held(part)
    elif isinstance(thing, Placed) or (is_dataclass(thing) and not isinstance(thing, type)):
        for part in vars(thing).values():
            yield from held(part)


def check_moved(thing: Placed) -> None:
    for space in (SINGLE, META):
        there = thing.to(space)
        assert type(there) is type(thing)
        for tensor in held(there):
            kind = space.move(torch.empty(0, dtype=tensor.dtype)).dtype
            assert (tensor.device, tensor.dtype) == (space.device, kind)
        assert there.to(space) is there


def operator_of(example: Example, readout: str, activation: str) -> Operator:
    return example_case(example, activation=activation, readout=readout, n=5).problem.program.operator


def neurons(operator: Operator) -> Factors:
    space, count = operator.space, 2 * operator.n_gates + 1
    left, right = (space.randn(count, size, seed=size) for size in (operator.p, operator.q))
    return Factors(left, right, space.arange(count) % operator.n_gates)


def by_data(operator: Operator) -> bool:
    """Whether what is done with neurons depends on their gates: lanes and groups of neurons are sorted by them."""
    if isinstance(operator, Wrapper):
        return by_data(operator.inner)
    if isinstance(operator, (GroupedOperator, FeatureOperator, GatedMeanAttention)):
        return True
    return isinstance(operator, PooledOperator) and operator.kept is not None


def products(operator: Operator, with_neurons: bool) -> list[Tensor]:
    space = operator.space
    residual = space.randn(*operator.output_shape, seed=0)
    found = [operator.forward(space.randn(*operator.stack_shape, seed=1)), operator.adjoint(residual)]
    if operator.has_kernel:
        found.append(operator.kernel())
    if with_neurons:
        factors = neurons(operator)
        found += [operator.forward_factors(factors), *operator.adjoint_factors(residual, factors)]
        found += [operator.jacobian(factors), operator.second_layer_columns(factors.left, factors.gate)]
    return found


def check_operator_moves(operator: Operator) -> None:
    products(operator, True)  # so that there is something to forget
    check_moved(operator)
    single = operator.to(SINGLE)
    assert {found.dtype for found in products(single, True)} == {torch.float32}
    meta = operator.to(META)
    with OnMeta():
        stack = torch.empty(operator.stack_shape, dtype=torch.float64, device="meta")
        residual = torch.empty(operator.output_shape, dtype=torch.float64, device="meta")
        found = [meta.forward(stack), meta.adjoint(residual)]
        if operator.has_kernel:
            found.append(meta.kernel())
        if not by_data(meta):
            gate = torch.empty(3, dtype=torch.long, device="meta")
            left, right = (torch.empty(3, m, dtype=torch.float64, device="meta") for m in (operator.p, operator.q))
            factors = Factors(left, right, gate)
            found += [meta.forward_factors(factors), *meta.adjoint_factors(residual, factors), meta.jacobian(factors)]
    assert all(tensor.is_meta for tensor in found)


@pytest.mark.parametrize(("example", "readout", "activation"), EVERY, ids=NAMES)
def test_operators(example: Example, readout: str, activation: str) -> None:
    check_operator_moves(operator_of(example, readout, activation))


def two_gates() -> MLPOperator:
    X = Space().randn(6, 3, seed=0)
    return MLPOperator(X, X @ Space().randn(3, 2, seed=1) >= 0, 2)


@pytest.mark.parametrize(
    "wrap",
    [
        ByOutput,
        SignedOperator.both,
        lambda inner: Lifted(inner, signs(Space(), 3), True),
        lambda inner: Lifted(inner, signs(Space(), 2), False),
        lambda inner: inner.narrowed(torch.arange(2), Space().eye(3).expand(2, 3, 3)),
    ],
    ids=["by output", "signed", "lifted rows", "lifted columns", "narrowed"],
)
def test_wrappers(wrap: Callable[[Operator], Operator]) -> None:
    check_operator_moves(wrap(two_gates()))


TARGET = Space().randn(6, 3, seed=0)
LABELS = torch.eye(3, dtype=torch.float64).repeat(2, 1)
LOSSES = [
    Squared(TARGET),
    Huber(TARGET, delta=0.3),
    Softmax(LABELS),
    Softmax(torch.softmax(TARGET, 1)),
    Logistic(LABELS),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_losses(loss: Loss) -> None:
    check_moved(loss)
    point = SINGLE.randn(6, 3, seed=1)
    single = loss.to(SINGLE)
    slope = single.gradient(point)
    found = [single.value(point), slope, single.hessian_product(point, slope), single.local_curvature(point)]
    found += [single.conjugate(slope), single.prox(point, 0.1)]
    assert {tensor.dtype for tensor in found} == {torch.float32}
    meta = loss.to(META)
    with OnMeta():  # the conjugate's domain and the prox's iterations are matters of numbers
        point = torch.empty(6, 3, dtype=torch.float64, device="meta")
        slope = meta.gradient(point)
        found = [meta.value(point), slope, meta.hessian_product(point, slope), meta.local_curvature(point)]
    assert all(tensor.is_meta for tensor in found)


def cones() -> Cones:
    rows, inside = Space().randn(5, 3, seed=0), Space().randn(4, 3, seed=1)
    return Cones.of(rows, inside @ rows.T >= 0, inside)


GAUGES = [NuclearNorm(), LineNorm(1, 2), LineNorm(2, 1), LineNorm(torch.inf, 1), LineNorm(1, 1)]
OF_CONES = [ConeNuclear(cones()), ConeColumns(cones()), ConeNorm(cones()), SpikeFree(cones())]


@pytest.mark.parametrize(
    "gauge",
    GAUGES,
    ids=lambda gauge: "-".join(map(str, (type(gauge).__name__, *(getattr(gauge, n, "") for n in ("first", "second"))))),
)
def test_gauges(gauge: ProxGauge) -> None:
    assert gauge.to(META) is gauge  # it holds no tensor
    for q in (1, 2):
        stack = SINGLE.randn(4, 3, q, seed=0)
        point, values = gauge.prox(stack, 0.3)
        found = [point, values, gauge.values(stack), gauge.polar(stack).lower, gauge.polar(stack).upper]
        neurons = gauge.factorise(stack)
        assert {tensor.dtype for tensor in (*found, neurons.left, neurons.right)} == {torch.float32}
        with OnMeta():
            stack = torch.empty(4, 3, q, dtype=torch.float64, device="meta")
            found = [gauge.values(stack), gauge.polar(stack).upper]
            if not isinstance(gauge, NuclearNorm) or q == 1:  # which blocks of it need an SVD, numbers decide
                found.append(gauge.prox(stack, 0.3)[0])
        assert all(tensor.is_meta for tensor in found)


def test_gauges_of_signs() -> None:
    """Corners are found by their numbers: there is no meta device for it."""
    for gauge in (SignNorm(torch.inf, 2), SignNorm(2, torch.inf)):
        found = gauge.polar(SINGLE.randn(4, 3, 2, seed=0))
        assert found.lower.dtype == found.upper.dtype == torch.float32


@pytest.mark.parametrize("gauge", OF_CONES, ids=lambda gauge: type(gauge).__name__)
def test_gauges_of_cones(gauge: Any) -> None:
    """Their cones move, and slacks are made anywhere.  Projections go by tight rows, in float64 alone."""
    check_moved(gauge)
    single = gauge.to(SINGLE).region
    assert single.slack(SINGLE.randn(2, 3, seed=0), torch.arange(2)).dtype == torch.float32
    table = gauge.to(META).region
    with OnMeta():
        u, gate = torch.empty(2, 3, dtype=torch.float64, device="meta"), torch.empty(2, dtype=torch.long, device="meta")
        assert table.slack(u, gate).is_meta


@pytest.mark.parametrize(("example", "readout", "activation"), EVERY, ids=NAMES)
def test_modules(example: Example, readout: str, activation: str) -> None:
    case = example_case(example, activation=activation, readout=readout, n=5)
    operator = case.problem.program.operator
    network = case.problem.network(neurons(operator))
    inputs = [torch.from_numpy(case.X)] + ([] if case.mask is None else [torch.from_numpy(case.mask)])
    assert network.to(torch.float32)(*(SINGLE.move(part) for part in inputs)).dtype == torch.float32
    meta = network.to(device="meta", dtype=torch.float64)
    inputs = [META.move(part) for part in inputs]
    with OnMeta():
        assert meta(*inputs).is_meta


def test_programs_and_neurons_move_whole() -> None:
    program = example_case(next(iter(examples()))).problem.program
    check_moved(program)
    assert program.beta_max == pytest.approx(program.to(SINGLE).beta_max, rel=1e-5)
    check_moved(neurons(program.operator))
    assert program.to(Space()) is program


def test_what_was_made_is_made_anew() -> None:
    """Rounded to float32 and back, an operator must not keep what was made of the unrounded numbers."""
    for example in examples():
        operator = operator_of(example, "mean", "gated_relu")
        stack = operator.space.randn(*operator.stack_shape, seed=0)
        before, again = operator.forward(stack), operator.to(SINGLE).to(Space())
        assert not torch.equal(again.forward(stack), before)
        torch.testing.assert_close(again.forward(stack), before, rtol=1e-4, atol=1e-4)


def test_what_can_be_made_again_is_let_go() -> None:
    for example in examples():
        problem = example_case(example).problem
        operator = problem.program.operator
        stack = operator.space.randn(*operator.stack_shape, seed=0)
        before, other = operator.forward(stack), anew(problem).program.operator
        assert not other._made & vars(other).keys()
        assert torch.equal(other.forward(stack), before)


def test_a_host_tensor_is_seen() -> None:
    class Careless(Squared):
        def value(self, prediction: Tensor) -> Tensor:
            return super().value(prediction) + torch.zeros(1, dtype=prediction.dtype, device="cpu").sum()

    with OnMeta(), pytest.raises((AssertionError, RuntimeError)):
        Careless(TARGET).to(META).value(torch.empty(6, 3, dtype=torch.float64, device="meta"))


FACTORIES = {"zeros", "ones", "empty", "full", "eye", "arange", "tensor", "randn", "rand", "linspace", "triu_indices"}


@pytest.mark.parametrize("room", ["operators", "losses", "gauges", "cones"])
def test_tensors_are_made_where_others_are(room: str) -> None:
    """By a space, like another tensor, or at least on a device that is named."""
    for path in (Path(provenet.__file__).parent / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            made = node.func.attr in FACTORIES and ast.unparse(node.func.value) == "torch"
            assert not made or any(word.arg == "device" for word in node.keywords), f"{path.name}, {node.lineno}"


def test_a_space_moves_numbers_by_their_kind() -> None:
    kinds = {torch.float64: torch.float32, torch.complex128: torch.complex64, torch.int8: torch.int8}
    for before, after in (kinds | {torch.bool: torch.bool}).items():
        assert SINGLE.move(torch.ones(2, dtype=before)).dtype == after
        assert META.move(torch.ones(2, dtype=before)).is_meta
    assert torch.equal(SINGLE.randn(3, seed=2), Space().randn(3, seed=2).float())
    assert META.zeros(2, dtype=torch.long).dtype == torch.long
