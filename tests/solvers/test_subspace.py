"""Convex programs on few directions of the first layer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import batches
from provenet.operators import Operator
from provenet.operators.bases.pooled import PooledOperator
from provenet.operators.wrappers.grouped import GroupedOperator
from provenet.solvers.loop import Run
from provenet.solvers.offers import Task
from provenet.solvers.stacks import subspace
from provenet.solvers.stacks.subspace import Subspace
from provenet.solvers.status import Status

IMAGES = pn.CNN(kernel=3, padding=1, pool=2)
BLOCKS = ["mlp", IMAGES, "attention", "mixer", "fno", "poolformer", "fnet"]


def posed(block: str | pn.CNN | pn.BFNO, loss: str = "squared", readout: str = "mean", gates: int = 4) -> pn.Problem:
    rng = np.random.default_rng(0)
    shape = {"mlp": (40, 6), IMAGES: (40, 2, 4, 4)}.get(block, (40, 4, 6))
    labels = rng.integers(0, 3, 40)
    X = rng.standard_normal(shape) + labels.reshape(-1, *[1] * (len(shape) - 1))
    Y = labels if loss == "softmax" else np.eye(3)[labels]
    problem = pn.formulate(block, X, Y, activation="gated_relu", gates=gates, loss=loss, readout=readout)
    return problem.with_beta(0.1 * problem.beta_max)


def narrows_rightly(operator: Operator) -> None:
    """A'(Z') = A(basisᵀZ'), also where a gate has fewer directions than others, and of one gate, however laid out."""
    generator = torch.Generator().manual_seed(0)
    for gates in (torch.tensor([0, 2, 3]), torch.tensor([2])):
        K = len(gates)
        basis = torch.linalg.qr(torch.randn(K, operator.p, 2, generator=generator, dtype=torch.float64)).Q.mT
        basis[1:2, 1] = 0
        few = torch.randn(K, 2, operator.q, generator=generator, dtype=torch.float64)
        stack = operator.new_stack()
        stack[gates] = basis.mT @ few
        torch.testing.assert_close(operator.narrowed(gates, basis).forward(few), operator.forward(stack))


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_narrowed_operators_are_the_operator_on_some_directions(block: str | pn.CNN) -> None:
    operator = posed(block).program.operator
    assert operator.narrows
    narrows_rightly(operator)


@pytest.mark.parametrize("block", [IMAGES, "fno", "poolformer"], ids=str)
def test_so_they_are_where_features_are_not_kept(block: str | pn.CNN, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PooledOperator, "_worth_keeping", False)
    operator = posed(block).program.operator
    assert operator.kept is None
    narrows_rightly(operator)


@pytest.mark.parametrize("gates", [[0, 2, 3], [1, 5, 11], [4, 6, 7]])
def test_groups_are_narrowed_each_to_its_own(gates: list[int]) -> None:
    operator = posed(pn.BFNO(groups=3)).program.operator
    assert isinstance(operator, GroupedOperator)
    narrows_rightly(operator.restrict(torch.tensor([*gates, 8]).sort().values))


@pytest.mark.parametrize("loss", ["squared", "softmax"])
@pytest.mark.parametrize("block", ["attention", "mixer", "fno", pn.BFNO(groups=3)], ids=str)
def test_the_optimum_is_that_of_another_method(block: str | pn.BFNO, loss: str) -> None:
    problem = posed(block, loss)
    here, there = (pn.solve(problem, method, tol=1e-6) for method in ("subspace", "apg"))
    assert here.status is Status.SOLVED
    assert here.method == "subspace"
    assert here.certificate.relative_gap <= 1e-6
    assert here.certificate.primal == pytest.approx(there.certificate.primal, rel=2e-6)


def test_the_objective_never_rises() -> None:
    problem = posed("mixer", "softmax")
    primals = [record.primal for record in pn.solve(problem, "subspace", tol=1e-8).history]
    assert len(primals) > 2
    assert all(later <= earlier for earlier, later in itertools.pairwise(primals))


def test_long_first_layers_are_an_offer_to_start() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 12, 3)), rng.integers(0, 2, 20)
    problem = pn.formulate("mixer", X, y, activation="gated_relu", gates=3, loss="softmax")
    assert problem.program.operator.p == 144
    assert Subspace().offer(Task(problem.program, 1e-4)).starts
    assert not Subspace().offer(Task(posed("mixer").program, 1e-4)).starts


def test_refusals_say_why() -> None:
    with pytest.raises(ValueError, match="cannot be narrowed"):
        pn.solve(_tokens(), "subspace")
    relu = pn.formulate("mlp", np.eye(3), np.eye(3), activation="relu", gates=2)
    with pytest.raises(ValueError, match="nuclear norm, not ConeNuclear"):
        pn.solve(relu, "subspace")


def _tokens() -> pn.Problem:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((5, 3, 2)), rng.standard_normal((5, 3, 2))
    return pn.formulate("mixer", X, Y, activation="gated_relu", gates=2, readout="tokens")


def test_an_interrupt_within_ends_the_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(method: object, program: object, limits: object, start: object) -> Run:
        return Run(Status.INTERRUPTED, start, 0, 0.0)

    monkeypatch.setattr(subspace, "run", interrupted)
    solution = pn.solve(posed("mixer"), Subspace(), tol=1e-6)
    assert solution.status is Status.INTERRUPTED
    assert solution.certificate.dual <= solution.certificate.primal


def test_a_remembered_slope_is_the_callers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "KEPT", 0)
    operator = posed("attention").program.operator
    residual = torch.randn(operator.output_shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    first = operator.adjoint(residual)
    kept = first.clone()
    first.zero_()
    assert torch.equal(operator.adjoint(residual), kept)
    torch.testing.assert_close(operator.adjoint(2 * residual), 2 * kept)
    residual *= 3
    torch.testing.assert_close(operator.adjoint(residual), 3 * kept)
    some = torch.tensor([2, 0])
    torch.testing.assert_close(operator.restrict(some).adjoint(residual), 3 * kept[some])
