"""What a method needs is an ability, not a class: a user's own gauge, loss or operator that has it is taken."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import provenet as pn
from provenet import solvers
from provenet.cones import Cones, Region
from provenet.gauges import Bounds, ConeGauge, Gauge, ProxGauge
from provenet.losses import Conjugate, Loss
from provenet.operators import GatedRows, Operator
from provenet.problem import Program
from provenet.solvers import METHODS
from provenet.solvers.cones.bm import ConeBM
from provenet.solvers.cones.frank_wolfe import FrankWolfe
from provenet.solvers.interior.copositive.dual import CopositiveDual
from provenet.solvers.interior.ipm import IPM
from provenet.solvers.interior.pairs.working_set import WorkingSet
from provenet.solvers.loop import Limits, Method, run
from provenet.solvers.neurons.bm import BM
from provenet.solvers.stacks.admm import ADMM
from provenet.solvers.stacks.apg import APG
from provenet.space import Space
from provenet.testing import check_cone_gauge, check_gauge, check_loss, check_operator
from provenet.variable import Factors, factorise


class MySpectrum(ProxGauge):
    """The nuclear norm, by one SVD after the other."""

    rotates = True
    spectral = True

    def values(self, stack: Tensor) -> Tensor:
        return torch.linalg.svdvals(stack).sum(1)

    def prox(self, stack: Tensor, step: float) -> tuple[Tensor, Tensor]:
        U, sigma, Vh = torch.linalg.svd(stack, full_matrices=False)
        shrunk = (sigma - step).clamp_min(0)
        return (U * shrunk[:, None]) @ Vh, shrunk.sum(1)

    def polar(self, stack: Tensor) -> Bounds:
        sigma = torch.linalg.svdvals(stack)[:, 0]
        return Bounds(sigma * (1 - 1e-12), sigma * (1 + 1e-12))

    def factorise(self, stack: Tensor) -> Factors:
        return factorise(stack)


@dataclass(frozen=True)
class MyCones(ConeGauge):
    """Bounds from above by spectral norms, neurons by what the region itself finds."""

    def polar(self, stack: Tensor, enough: float = 0.0) -> Bounds:
        upper = torch.linalg.svdvals(stack)[:, 0] * (1 + 1e-12)
        return Bounds(torch.zeros_like(upper), upper, "deterministic")

    def atom(self, stack: Tensor) -> tuple[Tensor, Tensor]:
        u = self.region.peaks(stack)
        pull = torch.bmm(stack.mT, u[:, :, None]).squeeze(2)
        return u, pull / torch.linalg.vector_norm(pull, dim=1, keepdim=True).clamp_min(1e-300)


class MyOperator(Operator):
    """Σ_k D_k X Z_k, as an einsum has it."""

    has_kernel = True

    def __init__(self, X: Tensor, pattern: Tensor, outputs: int):
        self.X, self.pattern, self.space = X, pattern.to(X.dtype), Space.of(X)
        self.n_gates, self.p, self.q = pattern.shape[1], X.shape[1], outputs
        self.output_shape = (len(X), outputs)

    @property
    def gated_rows(self) -> GatedRows:
        return GatedRows(self.X, self.pattern)

    def forward(self, stack: Tensor) -> Tensor:
        return torch.einsum("nk,nf,kfc->nc", self.pattern, self.X, stack)

    def adjoint(self, residual: Tensor) -> Tensor:
        return torch.einsum("nk,nf,nc->kfc", self.pattern, self.X, residual)

    def forward_factors(self, factors: Factors) -> Tensor:
        return self.forward(factors.stack(self.n_gates))

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        G = self.adjoint(residual)[factors.gate]
        return torch.einsum("jpq,jq->jp", G, factors.right), torch.einsum("jpq,jp->jq", G, factors.left)

    def kernel(self) -> Tensor:
        return (self.X @ self.X.T) * (self.pattern @ self.pattern.T)

    def norm_upper(self) -> float:
        return float(torch.linalg.eigvalsh(self.kernel())[-1]) ** 0.5 * (1 + 1e3 * torch.finfo(self.dtype).eps)

    def rounding(self, residual: Tensor) -> float:
        return 1e3 * torch.finfo(self.dtype).eps * float(torch.linalg.matrix_norm(self.X.abs().T @ residual.abs()))

    def restrict(self, gates: Tensor) -> Operator:
        return MyOperator(self.X, self.pattern[:, gates], self.q)


class MyPoisson(Loss):
    """Σ w (e^ŷ − yŷ) for counts y > 0: the conjugate's domain is θ > −wy.  Only its curvature near the data counts."""

    name = "poisson"
    curvature = 50.0

    def value(self, prediction: Tensor) -> Tensor:
        return (self.weight * (prediction.exp() - self.target * prediction)).sum()

    def gradient(self, prediction: Tensor) -> Tensor:
        return self.weight * (prediction.exp() - self.target)

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        return self.weight * prediction.exp() * direction

    def conjugate(self, dual: Tensor) -> Tensor:
        rate = dual / self.weight + self.target
        if bool((rate < 0).any()):
            return dual.new_tensor(float("inf"))
        return (self.weight * (torch.xlogy(rate, rate) - rate)).sum()

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        pull, y = self.weight * step, point.clone()
        for _ in range(200):
            y = y - (y - point + pull * (y.exp() - self.target)) / (1 + pull * y.exp())
        return y

    def smooth_conjugate(self) -> Conjugate:
        return _OfPoisson(self)


class _OfPoisson(Conjugate):
    def inside(self, theta: Tensor) -> bool:
        return float((theta / self.loss.weight + self.loss.target).min()) > 0

    def slope(self, theta: Tensor, mu: float) -> Tensor:
        return (theta / self.loss.weight + self.loss.target).log()


class MySquared(Loss):
    """The squared loss, once more."""

    name = "mine"
    quadratic = True
    curvature = 1.0

    def value(self, prediction: Tensor) -> Tensor:
        return (self.weight * (prediction - self.target) ** 2).sum() / 2

    def gradient(self, prediction: Tensor) -> Tensor:
        return self.weight * (prediction - self.target)

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        return self.weight * direction

    def conjugate(self, dual: Tensor) -> Tensor:
        return (dual**2 / self.weight / 2 + dual * self.target).sum()

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        return (point + self.weight * step * self.target) / (1 + self.weight * step)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def ours(activation: str, outputs: int = 2) -> pn.Problem:
    problem = pn.formulate("mlp", normal(14, 3), normal(14, outputs, seed=1), activation, gates=6)
    return problem.with_beta(0.1 * problem.beta_max)


def of_strangers(program: Program[Any], gauge: Gauge) -> Program[Any]:
    """The same program with nothing of ours in it."""
    rows = program.operator.gated_rows
    assert rows is not None
    operator = MyOperator(rows.X, rows.pattern, program.operator.q)
    return Program(operator, MySquared(program.loss.target), gauge, program.beta)


@pytest.mark.parametrize("method", [IPM(), BM(), ADMM(), APG()], ids=lambda method: method.name)
def test_gated_programs_of_strangers_are_solved(method: Any) -> None:
    problem = ours("gated_relu")
    stranger = of_strangers(problem.program, MySpectrum())
    done = run(method, stranger, Limits(1e-7))
    best = pn.solve(problem, "ipm", tol=1e-9).certificate.primal / problem.units.value
    assert done.history[-1].relative_gap <= 1e-7
    assert done.history[-1].primal == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("method", [FrankWolfe(), ConeBM(), WorkingSet()], ids=lambda method: method.name)
def test_relu_programs_of_strangers_are_solved(method: Any) -> None:
    problem = ours("relu", outputs=1)
    cones = problem.program.gauge.region  # type: ignore[attr-defined]
    assert isinstance(cones, Cones)
    stranger = of_strangers(problem.program, MyCones(cones))
    done = run(method, stranger, Limits(1e-7, max_steps=60))
    best = pn.solve(problem, tol=1e-8).certificate.primal / problem.units.value
    assert float(stranger.objective_factors(done.factors)) == pytest.approx(best, rel=1e-5)
    assert bool((cones.slack(done.factors.left, done.factors.gate) >= -1e-9).all())


def test_a_loss_that_offers_its_conjugate_has_a_copositive_bound() -> None:
    problem = ours("relu")
    counts = normal(14, 2, seed=3).exp()
    program = Program(problem.program.operator, MyPoisson(counts), problem.program.gauge, 0.3)
    proven = run(CopositiveDual(), program, Limits(1e-6)).proven
    assert proven is not None
    bound = proven.lower
    best = run(FrankWolfe(), program, Limits(1e-5, max_steps=100))
    assert best.history[-1].relative_gap <= 1e-5
    primal = best.history[-1].primal
    assert bound <= primal * (1 + 1e-9) if primal > 0 else bound <= primal * (1 - 1e-9)
    assert bound >= primal - 0.05 * abs(primal)


def test_without_the_ability_each_method_says_what_it_lacks() -> None:
    class Silent(MyPoisson):
        def smooth_conjugate(self) -> None:  # type: ignore[override]
            return None

    class NoRows(MyOperator):
        gated_rows = None  # type: ignore[assignment]

    gated, relu = ours("gated_relu").program, ours("relu").program
    silent = Program(relu.operator, Silent(normal(14, 2).exp()), relu.gauge, 0.3)
    assert "loss 'poisson' offers no conjugate" in (CopositiveDual().refuses(silent) or "")
    rows = gated.operator.gated_rows
    assert rows is not None
    bare = Program(NoRows(rows.X, rows.pattern, 2), gated.loss, gated.gauge, gated.beta)
    assert "NoRows does not offer" in (IPM().refuses(bare) or "")
    assert "no prox" in (APG().refuses(relu) or "")
    assert "cones" in (FrankWolfe().refuses(gated) or "")
    assert "nuclear norm, not ConeNuclear" in (BM().refuses(relu) or "")


def test_every_method_declares_what_it_needs() -> None:
    for kind in METHODS.values():
        assert "refuses" not in vars(kind), f"{kind.__name__} decides by itself"
        assert kind.needs or kind.name == "cvx"


def test_strangers_keep_the_contracts() -> None:
    check_gauge(MySpectrum(), shapes=((3, 4, 2), (2, 1, 3)))
    cones = ours("relu").program.gauge.region  # type: ignore[attr-defined]
    check_cone_gauge(MyCones(cones))
    check_operator(MyOperator(normal(7, 3), normal(7, 4, seed=1) > 0, 2))
    check_loss(MySquared(normal(5, 2)))


def _kinds() -> dict[str, type]:
    """Every class of gauges, losses, operators and cones, by name."""
    rooms = ("provenet.gauges", "provenet.losses", "provenet.operators", "provenet.cones")
    loaded = [module for name, module in sys.modules.items() if name.startswith(rooms)]
    return {kind.__name__: kind for module in loaded for kind in vars(module).values() if isinstance(kind, type)}


def test_no_solver_asks_for_the_class_of_a_part() -> None:
    kinds = {name for name, kind in _kinds().items() if issubclass(kind, (Gauge, Loss, Operator, Region))}
    assert {"ConeNuclear", "MLPOperator", "Huber", "Table"} <= kinds
    root = Path(solvers.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if path.name == "needs.py" or path.parent.name == "reference":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass", "type"):
                asked = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
                assert not asked & kinds, f"{path.relative_to(root)}:{node.lineno} asks for {asked & kinds}"


def test_no_two_methods_share_a_name() -> None:
    def below(kind: type) -> Iterator[type]:
        for one in kind.__subclasses__():
            yield one
            yield from below(one)

    ours = [kind for kind in below(Method) if kind.__module__.startswith("provenet.solvers")]
    names = [kind.name for kind in ours if "name" in vars(kind)]  # type: ignore[attr-defined]
    assert len(names) >= len(METHODS)
    assert len(set(names)) == len(names)
