"""Every reduction keeps its contract, and says so where it keeps no bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import provenet as pn
from provenet.problem import Program
from provenet.reductions import STANDARD, Back, ByOutputs, Inside, LowRank, Reduction, SignedPairs, Signs, reduced
from provenet.solvers.loop import Limits, run
from provenet.solvers.stacks.apg import APG
from provenet.testing import check_reduction
from provenet.variable import Factors


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def flat(n: int, d: int, rank: int) -> np.ndarray:
    return normal(n, rank) @ normal(rank, d, seed=1)


def program(block: Any, X: np.ndarray, outputs: int, *settings: Any, **more: Any) -> Program:
    problem = pn.formulate(block, X, normal(len(X), outputs, seed=2), *settings, beta=1.0, **more)
    return problem.with_beta(0.1 * problem.beta_max).program


FNO = ("fno", normal(5, 4, 3), 1, "relu", 6)
CASES: dict[str, tuple[Reduction, Program]] = {
    "low_rank": (LowRank(), program("mlp", flat(12, 9, 4), 3, "gated_relu", 6)),
    "low_rank-relu": (LowRank(), program("mlp", flat(12, 9, 3), 2, "relu", 6)),
    "low_rank-cnn": (LowRank(), program(pn.CNN(kernel=3), normal(2, 1, 3, 5), 2, "gated_relu", 2)),
    "signs-rows": (Signs(), program("mlp", normal(12, 4), 3, "gated_relu", 3, penalty=(math.inf, 2))),
    "signs-columns": (Signs(), program("mlp", normal(12, 4), 3, "gated_relu", 3, penalty=(2, math.inf))),
    "by_output": (ByOutputs(), program("mlp", normal(12, 4), 3, "relu", 5, penalty=(2, 1))),
    "pairs": (SignedPairs(), program("mlp", normal(12, 4), 1, "relu", 5)),
    "pairs-implicit": (SignedPairs(), program(*FNO)),
    "inside": (Inside(), program("mlp", normal(12, 4), 3, "relu", 5)),
    "inside-implicit": (Inside(), program(*FNO)),
}


@pytest.mark.parametrize("name", CASES)
def test_contract(name: str) -> None:
    check_reduction(*CASES[name])


@pytest.mark.parametrize("reduction", [LowRank(), Signs(), ByOutputs(), SignedPairs(), Inside()], ids=repr)
def test_what_cannot_be_reduced_is_left_alone(reduction: Reduction) -> None:
    plain = program("mlp", normal(12, 4), 3, "gated_relu", 5)
    assert reduction.apply(plain) is None
    assert reduced(plain, [reduction])[0] is plain


def test_one_after_the_other() -> None:
    """Low rank first, then a block for each output; neurons find their way through both."""
    whole = program("mlp", flat(12, 9, 3), 3, "relu", 5, penalty=(2, 1))
    small, back = reduced(whole, STANDARD)
    assert (small.operator.p, small.operator.q, small.operator.n_gates) == (3, 1, 3 * whole.operator.n_gates)
    there = back.start(Factors(torch.from_numpy(normal(4, 9)), torch.from_numpy(normal(4, 3)), torch.arange(4)))
    home = back.factors(there)
    assert home.left.shape[1] == 9
    assert torch.allclose(whole.operator.forward_factors(home), small.operator.forward_factors(there), atol=1e-12)


def test_a_direction_left_out_as_rounding_is_no_longer_hidden() -> None:
    """A feature of 1e-15 is no direction for the decomposition, but pulls harder than a β as small."""
    X = np.concatenate([flat(12, 9, 3), 1e-15 * normal(12, 1, seed=3)], axis=1)
    whole = program("mlp", X, 1, "linear")
    found = LowRank().apply(whole)
    assert found is not None
    small, back = found
    assert small.operator.p == 3
    theta = torch.from_numpy(normal(12, 1, seed=4))
    theta -= torch.from_numpy(np.linalg.qr(X[:, :3])[0]) @ (torch.from_numpy(np.linalg.qr(X[:, :3])[0]).T @ theta)
    tiny = float(whole.polar(theta).upper.max())
    assert 1e-17 < tiny < 1e-12
    assert tiny <= float(small.polar(theta).upper.max()) + back.hidden(theta)


def test_walls_that_the_basis_does_not_span_keep_no_bound() -> None:
    """A sample of 1e-16 is rounding to the decomposition, and a wall of every cone all the same."""
    X = np.concatenate([normal(12, 2) @ normal(2, 6, seed=1), 1e-16 * normal(1, 6, seed=3)])
    found = LowRank().apply(program("mlp", X, 2, "relu", 4))
    assert found is not None
    assert math.isinf(found[1].hidden(torch.from_numpy(normal(13, 2))))


def test_a_plain_method_takes_the_pairs() -> None:
    """In place of a method for cones: the proximal gradient on vectors in cones."""
    whole = CASES["pairs"][1]
    found = SignedPairs().apply(whole)
    assert found is not None
    done = run(APG(), found[0], Limits(1e-8))
    best = pn.solve(pn.formulate("mlp", normal(12, 4), normal(12, 1, seed=2), "relu", 5, beta=1.0), tol=1e-8)
    problem = best.problem.with_beta(0.1 * best.problem.beta_max)
    assert float(whole.objective_factors(found[1].factors(done.factors))) * problem.units.value == pytest.approx(
        pn.solve(problem, tol=1e-8).certificate.primal, rel=1e-7
    )


@dataclass(frozen=True)
class Forgetful(Reduction):
    """Drops half of the gates and says that bounds survive."""

    def apply(self, program: Program) -> tuple[Program, Back] | None:
        half = torch.arange(program.operator.n_gates // 2)

        class Same(Back):
            def factors(self, factors: Factors) -> Factors:
                return factors

            def start(self, factors: Factors) -> Factors:
                return replace(factors, gate=factors.gate % len(half))

            def hidden(self, theta: Tensor) -> float:
                return 0.0

        return program.restrict(half), Same()


def test_a_false_reduction_is_found() -> None:
    with pytest.raises(AssertionError):
        check_reduction(Forgetful(), CASES["low_rank"][1])
