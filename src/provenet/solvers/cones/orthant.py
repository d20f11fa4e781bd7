"""The copositive relaxation of whitened data at the size of images (CP eq. 20), and a network beside it.

With Φ = diag(ℓ)Q, QQᵀ = I, neurons are w = Qu ≥ 0 and the program is that of `semi_nmf`.  Relaxed, with T for WWᵀ:

    min ½‖diag(ℓ)Z − Y‖² + β/2 (tr T + tr H)   s.t.   [[T, Z], [Zᵀ, H]] ⪰ 0,   T ≥ 0 entry by entry

The two constraints are split (ADMM): an eigenproblem of side n + r a step, where r ≤ n, as Y = Y'Vᵀ with orthonormal V
leaves the norms what they are.  The multipliers S ≥ 0 of T ≥ 0 and Θ = ∇L prove a lower bound of p* at every step:
β²I − S − CCᵀ ⪰ 0 with C = diag(ℓ)Θ bounds every pull.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates import DualPoint, dual_point
from provenet.certificates.gap import rounding
from provenet.cones.orthant import better_rho, eigen_work, positive_part
from provenet.gauges import BoundKind, SpikeFree
from provenet.problem import Program
from provenet.solvers.cones.semi_nmf import Orthogonal
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import DOUBLE, GATED_ROWS, SEPARATE, SPIKE_FREE, SQUARED
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors

_SPLITS, _SWEEPS = 10, 5  # steps of the splitting, and rounds over all neurons, in a step
_RELAXED = 1.6
_SETTLED = 100  # steps of ours after which ρ stays
_WIDTH = 2  # neurons, in samples,
_MOST = 400  # and no more
_SMALL = 1e-2  # of the targets' size: neurons that join a start
_LITTLE = 1e-6  # relatively: what a step must gain in the objective or the bound,
_PATIENCE = 5  # and how often in a row it may not
_SWEEP = 40.0  # multiply-adds of a sweep for each neuron and entry of Y: small vectors are slow


@dataclass(frozen=True)
class OrthantState:
    """The splitting's copy B (n + r, n + r), its scaled dual D and ρ; the network W (n, m), V (m, r), its objective;
    ``best``: the dual point that proves most; ``waited``: steps without a gain."""

    B: Tensor
    D: Tensor
    rho: float
    W: Tensor
    V: Tensor
    objective: float = float("inf")
    best: DualPoint | None = None
    steps: int = 0
    waited: int = 0


@dataclass(frozen=True)
class OrthantADMM(Method[OrthantState]):
    """max_rows: samples up to which it is tried."""

    max_rows: int = 1_000

    name, family = "copositive_admm", "copositive"
    needs = (SPIKE_FREE, SQUARED, SEPARATE, GATED_ROWS, DOUBLE)
    check_every = 10
    max_steps = 500

    def declines(self, program: Program[SpikeFree]) -> str | None:
        n = program.operator.output_shape[0]
        if n > self.max_rows:
            return (
                f"it factorises matrices with a row a sample, and {n} samples are more than max_rows={self.max_rows}."
            )
        return None

    def memory(self, program: Program[SpikeFree]) -> int:
        op = program.operator
        n, c = op.output_shape
        side = n + min(n, c)
        return op.dtype.itemsize * (12 * side**2 + 4 * n * c + 4 * _WIDTH * n * (op.p + c))

    def offer(self, task: Task) -> Offer:
        op = task.program.operator
        n, c = op.output_shape
        r = min(n, c)
        neurons = min(_WIDTH * n, _MOST)
        step = _SPLITS * eigen_work(n + r) + _SWEEPS * _SWEEP * neurons * n * r
        return Offer(self.memory(task.program), 0.0, step, 10 * task.decades, starts=c > 1)

    def init(self, program: Program[SpikeFree], start: Factors | None) -> OrthantState:
        data = _Data.of(program)
        n, r = data.fit.target.shape
        B = data.fit.target.new_zeros(n + r, n + r)
        W, V = data.begin(program, start)
        return OrthantState(B, torch.zeros_like(B), float(data.fit.length.square().mean()), W, V)

    def step(self, program: Program[SpikeFree], state: OrthantState) -> OrthantState:
        data = _Data.of(program)
        deadline.need(eigen_work(len(state.B)))
        state, point = data.split(program, replace(state, steps=state.steps + 1))
        W, V = data.fit.swept(state.W, state.V, _SWEEPS)
        objective = data.fit.objective(W, V)
        before = -float("inf") if state.best is None else state.best.lower
        best = point if point.lower > before else state.best
        gained = state.objective - objective > _LITTLE * abs(objective) or point.lower - before > _LITTLE * abs(before)
        waited = 0 if gained else state.waited + 1
        return replace(state, W=W, V=V, objective=objective, best=best, waited=waited)

    def finished(self, state: OrthantState) -> bool:
        return state.waited >= _PATIENCE

    def point(self, program: Program[SpikeFree], state: OrthantState) -> Point:
        factors = _Data.of(program).neurons(program, state)
        return Point.of(factors, program.operator.forward_factors(factors), state.best)


@dataclass(frozen=True)
class _Data:
    """The program in the coordinates w = Qu.  root (n, 1): of the samples' weights.  turn (c, r): the targets' own
    outputs, orthonormal."""

    fit: Orthogonal
    root: Tensor
    turn: Tensor

    @staticmethod
    def of(program: Program[SpikeFree]) -> _Data:
        rows = program.operator.gated_rows
        assert rows is not None
        root = program.loss.sample_weight.sqrt().view(-1, 1)
        length = torch.linalg.vector_norm(rows.X, dim=1, keepdim=True)
        target = program.loss.target
        n, c = target.shape
        turn = torch.linalg.qr(target.T)[0] if c > n else torch.eye(c, dtype=target.dtype)
        return _Data(Orthogonal(root * length, root * (target @ turn), program.beta), root, turn)

    def begin(self, program: Program[SpikeFree], start: Factors | None) -> tuple[Tensor, Tensor]:
        """W (n, m) and V (m, r): a given start's neurons, and some by chance."""
        n = len(self.fit.target)
        draw = torch.Generator().manual_seed(0)
        size = _SMALL * float(self.fit.target.abs().max()) ** 0.5
        W = size * torch.randn(n, min(_WIDTH * n, _MOST), generator=draw, dtype=self.fit.target.dtype).clamp_min(0)
        if start is not None and start.n_neurons:
            W = torch.cat([(program.gauge.region.rows @ start.left.T).clamp_min(0), W], dim=1)
        return W, self.fit.second_layer(W)

    def split(self, program: Program[SpikeFree], state: OrthantState) -> tuple[OrthantState, DualPoint]:
        """Some steps of the splitting, and what the last one proves."""
        B, D, rho = state.B, state.D, state.rho
        length, target, beta = self.fit.length, self.fit.target, self.fit.beta
        n = len(target)
        eye = torch.eye(len(B), dtype=B.dtype)
        for _ in range(_SPLITS):
            V = B - D - 0.5 * beta / rho * eye
            A = V.clone()
            A[:n, :n].clamp_min_(0)
            Z = (length * target + 2 * rho * V[:n, n:]) / (length.square() + 2 * rho)  # it is there twice
            A[:n, n:], A[n:, :n] = Z, Z.T
            mixed = _RELAXED * A + (1 - _RELAXED) * B + D
            last, B = B, positive_part(mixed)
            D = mixed - B
        S = (-2 * beta * rho * V[:n, :n]).clamp_min(0)
        S.fill_diagonal_(0.0)
        point = self._proven(program, length * Z - target, 0.5 * (S + S.T), B[:n, :n], state.best)
        factor = better_rho(A, B, last, D) if state.steps <= _SETTLED else 1.0
        return replace(state, B=B, D=D / factor, rho=rho * factor), point

    def _proven(
        self, program: Program[SpikeFree], misfit: Tensor, S: Tensor, T: Tensor, known: DualPoint | None
    ) -> DualPoint:
        """The bound of p* from any Θ and any S ≥ 0 (n, n).  What proves more than is ``known`` is remembered, T (n, n)
        too, for whoever judges Θ."""
        theta = (self.root * misfit) @ self.turn.T
        (pull,) = program.operator.adjoint(theta)
        polar_max = program.gauge.bounded_by(pull, S) + rounding(program, theta)
        point = dual_point(program, theta, polar_max, BoundKind.DETERMINISTIC)
        if known is None or point.lower > known.lower:
            size = float(torch.linalg.matrix_norm(pull, 2)) ** 2 + 1e-300
            program.gauge.remember(S / size, T / T.trace().clamp_min(1e-300))
        return point

    def neurons(self, program: Program[SpikeFree], state: OrthantState) -> Factors:
        left, right = state.W.T @ program.gauge.region.rows, state.V @ self.turn.T
        gate = torch.zeros(len(left), dtype=torch.long)
        alive = (torch.linalg.vector_norm(state.V, dim=1) > 0) & state.W.any(0)
        inside = program.gauge.region.pulled_inside(left[alive], gate[alive])
        return Factors(inside, right[alive], gate[alive]).balanced()
