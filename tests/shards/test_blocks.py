"""Every block in shards is the block in memory: operator, gates, optimum and certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import batches
from provenet.data.sharded import as_shards
from provenet.formulation.sharded import _operator
from provenet.memory.plan import MemoryPlan
from provenet.operators.wrappers.shards import Turned
from provenet.problem import Problem
from provenet.space import Space
from provenet.testing import check_operator
from provenet.testing.examples import EXAMPLES, Example, examples
from provenet.variable import Factors

CASES = [
    (example, activation, readout)
    for example in examples()
    if not example.masked
    for activation in ("gated_relu", "linear")
    for readout in example.readouts
]


def posed(example: Example, activation: str, readout: str, shards: bool, n: int = 13) -> Problem:
    X = example.samples(n)
    tokens = (example.sample[0],) if readout == "tokens" else ()
    Y = np.random.default_rng(1).standard_normal((n, *tokens, example.outputs))
    settings: dict[str, Any] = {"activation": activation, "readout": readout, "gates": 4, "beta": 0.5}
    if not shards:
        return pn.formulate(example.block, X, Y, **settings)
    problem = pn.formulate(example.block, [(X[:4], Y[:4]), (X[4:5], Y[4:5]), (X[5:], Y[5:])], **settings)
    return in_small_shards(problem, 5)


def in_small_shards(problem: Problem, rows: int, kept: int = 8) -> Problem:
    """The same with so many rows in a shard, of which so many rows stay."""
    assert problem.memory is not None

    class Small(MemoryPlan):
        def kept(self, itemsize: int) -> int:
            return kept

    plan = Small(problem.memory.sizes, problem.memory.limit, rows)
    operator = _operator(problem.on_data, plan, problem.gates, problem.units.x)
    return replace(problem, memory=plan, program=replace(problem.program, operator=operator))


@pytest.mark.parametrize(("example", "activation", "readout"), CASES, ids=str)
def test_the_operator_is_that_of_all_samples(example: Example, activation: str, readout: str) -> None:
    whole, parts = (posed(example, activation, readout, shards) for shards in (False, True))
    assert torch.equal(whole.patterns, parts.patterns)
    assert whole.units == parts.units
    one, other = whole.program.operator, parts.program.operator
    stack = Space().randn(*one.stack_shape, seed=2)
    residual = Space().randn(*one.output_shape, seed=3)
    size = float(torch.linalg.vector_norm(one.adjoint(residual)))
    assert torch.allclose(one.forward(stack), other.forward(stack), rtol=1e-10, atol=1e-12)
    assert torch.allclose(one.adjoint(residual), other.adjoint(residual), rtol=1e-10, atol=1e-13 * size)
    assert other.rounding(residual) >= 0
    assert whole.beta_max == pytest.approx(parts.beta_max, rel=1e-10)


@pytest.mark.parametrize(("example", "activation", "readout"), CASES[::4], ids=str)
def test_neurons_go_both_ways(example: Example, activation: str, readout: str) -> None:
    """With some shards kept, some not, with few gates, and turned."""
    operator = posed(example, activation, readout, True).program.operator.often()
    neurons = 5
    generator = torch.Generator().manual_seed(0)
    left, right = (
        torch.randn(neurons, size, generator=generator, dtype=torch.float64) for size in operator.stack_shape[1:]
    )
    gates = torch.tensor([operator.n_gates - 1])
    few, own = operator.restrict(gates), Factors(left, right, torch.zeros(neurons, dtype=torch.long))
    same = Factors(left, right, gates.expand(neurons))
    residual = Space().randn(*operator.output_shape, seed=1)
    prediction, back = few.both_ways(own)
    assert torch.allclose(prediction, operator.forward(same.stack(operator.n_gates)), atol=1e-10)
    for found, expected in zip(back(residual), operator.adjoint_factors(residual, same), strict=True):
        assert torch.allclose(found, expected, atol=1e-10)
    alone = few.alone(own, slice(3, 12))
    assert torch.allclose(alone.sum(0), prediction[3:12], atol=1e-10)


def test_the_contract_of_operators() -> None:
    problem = posed(Example("mlp", (3,)), "gated_relu", "mean", True, 7)
    operator = in_small_shards(problem, 4, 4).program.operator
    check_operator(operator)
    check_operator(operator.restrict(torch.tensor([operator.n_gates - 1, 0])))
    check_operator(Turned(operator, torch.linalg.qr(Space().randn(operator.p, operator.p, seed=4)).Q))


@pytest.mark.parametrize("example", [some[0] for some in EXAMPLES.values()], ids=str)
def test_the_optimum_is_that_of_all_samples(example: Example) -> None:
    whole, parts = (posed(example, "gated_relu", "mean", shards, 30) for shards in (False, True))
    beta = 0.3 * whole.beta_max
    reference = pn.solve(whole.with_beta(beta), tol=1e-5)
    found = pn.solve(in_small_shards(parts, 12).with_beta(beta), tol=1e-4)
    assert found.method == "lbfgs"
    assert found.certificate.relative_gap <= 1e-4
    assert found.certificate.primal == pytest.approx(reference.certificate.primal, rel=1.1e-4)
    assert found.certificate.dual <= reference.certificate.primal * (1 + 1e-12)
    again = pn.certify(whole.with_beta(beta), found.network())
    assert again.primal == pytest.approx(found.certificate.primal, rel=1e-10)


def test_kept_shards_are_made_once_and_precisions_take_turns() -> None:
    source: Any = in_small_shards(
        posed(Example("mlp", (3,)), "gated_relu", "mean", True), 5, 12
    ).program.operator.source
    single = Space(dtype=torch.float32)
    made = [source.operator(shard, single, True) for shard in range(len(source.rows))]
    assert [stays for _, stays in made] == [True, True, False]
    assert source.operator(0, single, True)[0] is made[0][0]
    assert source.operator(0, Space(), False)[1] is False  # a look in float64 leaves them alone
    assert source.operator(1, single, True)[0] is made[1][0]
    source.operator(0, Space(), True)
    assert source.operator(0, single, False)[1] is False


def test_other_methods_say_why_not() -> None:
    problem = posed(Example("mlp", (3,)), "gated_relu", "mean", True)
    with pytest.raises(ValueError, match="in shards; use 'lbfgs'"):
        pn.solve(problem, "admm")


def test_gates_that_look_at_all_rows_are_refused_by_name() -> None:
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.arange(20) % 2
    for gates in ("between", "trained", "grow"):
        with pytest.raises(ValueError, match=f"gates: '{gates}'"):
            pn.formulate("mlp", [(X, y)], gates=gates)
    with pytest.raises(ValueError, match="activation: 'relu'"):
        pn.formulate("mlp", [(X, y)], activation="relu")
    with pytest.raises(ValueError, match="mask: "):
        pn.formulate("attention", [(X[:, None], y)], mask=np.ones((20, 1)))


def test_vectors_of_ones_own_and_a_networks() -> None:
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.arange(20.0)
    vectors = np.random.default_rng(1).standard_normal((6, 3))
    problem = pn.formulate("mlp", [(X, y)], gates=vectors)
    whole = pn.formulate("mlp", X, y, gates=vectors)
    assert torch.equal(problem.patterns, whole.patterns)
    network = pn.solve(whole, tol=1e-3).network()
    again = pn.formulate("mlp", [(X, y)], gates=network)
    assert pn.certify(again, network).primal == pytest.approx(pn.certify(whole, network).primal)


def test_weights_and_a_free_intercept() -> None:
    X, y = np.random.default_rng(0).standard_normal((60, 3)), np.arange(60) % 3
    weight = np.linspace(0.5, 2, 60)
    settings: dict[str, Any] = {"loss": "softmax", "gates": 5, "beta": 0.3, "sample_weight": weight}
    whole = pn.formulate("mlp", X, y, fit_intercept="free", **settings)
    parts = pn.formulate("mlp", [(X[:20], y[:20]), (X[20:], y[20:])], fit_intercept="free", **settings)
    found, reference = pn.solve(parts, tol=1e-3), pn.solve(whole, tol=1e-4)
    assert found.certificate.primal == pytest.approx(reference.certificate.primal, rel=1.1e-3)
    weight[3] = 0
    with pytest.raises(ValueError, match="weight zero"):
        pn.formulate("mlp", [(X, y)], **settings)


def test_only_some_rows_are_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked of the samples, within a limit."""
    X, y = np.random.default_rng(0).standard_normal((4000, 40)), np.arange(4000) % 2
    shards, labels = as_shards(X, y)
    read: list[int] = []
    original = type(shards.parts[0]).read

    def counted(part: Any, first: int, end: int) -> Any:
        read.append(end - first)
        return original(part, first, end)

    monkeypatch.setattr(type(shards.parts[0]), "read", counted)
    problem = pn.formulate("mlp", shards, labels, loss="softmax", gates=4, memory_limit="18MB")
    assert problem.memory is not None
    found = pn.solve(problem.with_beta(0.3 * problem.beta_max), tol=1e-2)
    found.network()
    with batches.within(problem.memory.left):
        pn.certify(problem, found.network())
    assert max(read) <= 1000
