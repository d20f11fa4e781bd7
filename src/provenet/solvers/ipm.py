"""The variational interior point, for the squared loss and few unknowns.

With ‖Z‖_* = min_{S≻0} ½ tr(ZᵀS⁻¹Z) + ½ tr S and T = S/β, eliminating Z leaves a smooth convex program in small
blocks T_k alone (CP (17) with the PSD cone in place of the copositive one):

    φ(T) = ½ tr(Yᵀ K⁻¹ Y) + β²/2 Σ_k tr T_k,     K = I + Σ_k M_k T_k M_kᵀ   (n × n, shared by all outputs)
    W = K⁻¹ Y,  A_k = M_kᵀ W,  2∇_k φ = β² I − A_k A_kᵀ,  Z_k = T_k A_k

T_k is p × p (left form), or, for one output, a number (right form, multiple kernel learning: 2∇_k φ = β² − ‖A_k‖²).
The optimality conditions T_k ⪰ 0, R_k = 2∇_k φ ⪰ 0, T_k R_k = 0 are followed along T_k R_k = μI by a Mehrotra
predictor–corrector in Nesterov–Todd coordinates.  There the Newton matrix is I + CᵀC, never worse conditioned than it
must be, and the corrector also knows the curvature of R in T.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.gauges import NuclearNorm
from provenet.losses import Squared
from provenet.operators import MLPOperator
from provenet.problem import Program
from provenet.solvers.ipm_blocks import Scaling, smallest_eigenvalue, to_blocks, to_vector
from provenet.solvers.ipm_rows import DenseRows, GatedRows, Rows
from provenet.solvers.loop import Method, Point
from provenet.variable import Factors, Stack

_BOUNDARY = 0.99  # share of the way to the boundary
_START = 0.7  # the start's largest σ(A_k), as a share of β
_REFINEMENTS = 1


@dataclass(frozen=True)
class Centre:
    """An iterate in its own coordinates: rows X̃ = M G, T̃ = R̃ = Λ."""

    scaling: Scaling
    rows: Rows
    L: Tensor  # Cholesky factor of K
    W: Tensor  # K⁻¹ Y
    a: Stack  # X̃ᵀ W = Gᵀ A
    zeta: Stack  # Λ a: Z_k = G ζ_k

    @property
    def stack(self) -> Stack:
        return _times(self.scaling.G, self.zeta)


@dataclass(frozen=True)
class IPMState:
    rows: Rows  # M
    target: Tensor
    root: Tensor
    Q: Tensor | None
    centre: Centre | None  # None: Z = 0 is optimal
    stuck: bool = False

    def reduced(self, prediction: Tensor) -> Tensor:
        weighted = self.root * prediction
        return weighted if self.Q is None else self.Q.T @ weighted


@dataclass(frozen=True)
class IPM(Method[IPMState]):
    """max_unknowns: P·p(p+1)/2 of the left form, P of the right; the Newton matrix has their square."""

    max_unknowns: int = 4000

    name = "ipm"
    check_every = 1
    patience = 15
    max_steps = 200

    def refuses(self, program: Program) -> str | None:
        op = program.operator
        if not isinstance(program.loss, Squared):
            return f"the interior point needs the squared loss, this is '{program.loss.name}'."
        if not isinstance(program.gauge, NuclearNorm):
            return "the interior point needs the nuclear norm."
        if not isinstance(op, MLPOperator):
            return f"the interior point does not know the rows of {type(op).__name__}."
        m = _block_size(op)
        unknowns = op.n_gates * m * (m + 1) // 2
        if unknowns > self.max_unknowns:
            return f"it has {unknowns} unknowns, more than max_unknowns={self.max_unknowns}."
        return None

    def init(self, program: Program, start: Factors | None) -> IPMState:
        rows, target, root, Q = _rows(program)
        if program.beta >= program.beta_max:
            return IPMState(rows, target, root, Q, None)
        return IPMState(rows, target, root, Q, _first_centre(program, rows, target))

    def step(self, program: Program, state: IPMState) -> IPMState:
        assert state.centre is not None
        try:
            moved = _mehrotra(state.centre, program.beta)
            centre = _centre(state.rows, state.target, moved)
        except torch.linalg.LinAlgError:  # rounding has the upper hand
            return replace(state, stuck=True)
        return replace(state, centre=centre)

    def finished(self, state: IPMState) -> bool:
        return state.centre is None or state.stuck

    def point(self, program: Program, state: IPMState) -> Point:
        op = program.operator
        if state.centre is None:
            factors = Factors.empty(op.p, op.q, op.dtype)
        else:
            factors = program.gauge.factorise(state.centre.stack)
            factors = _settled(program, state, factors)
        return Point(op.forward_factors(factors), float(factors.penalty()), lambda: factors)


def _block_size(op: MLPOperator) -> int:
    return 1 if op.q == 1 else op.p


def _rows(program: Program) -> tuple[Rows, Tensor]:
    op = program.operator
    assert isinstance(op, MLPOperator)
    m = _block_size(op)
    root = program.loss.sample_weight.sqrt()[:, None]
    X, target = root * op.X, root * program.loss.target
    size = op.n_gates * op.p
    if m == 1 and op.q == 1 and op.n <= size:
        return GatedRows(op, root, X @ X.T, op.X.new_ones(op.n_gates)), target, root, None
    columns = (op.pattern.T[:, None, :] * X.T).contiguous()  # (P, p, n)
    Q = None
    if op.n > size:
        Q, triangle = torch.linalg.qr(columns.view(size, -1).T)
        columns, target = triangle.T.reshape(op.n_gates, op.p, size), Q.T @ target
    return DenseRows(columns, m), target, root, Q


def _first_centre(program: Program, rows: Rows, target: Tensor) -> Centre:
    """T = sI with s such that the largest σ(A_k) is about _START·β, and R = 2∇φ, kept away from zero."""
    op, beta = program.operator, program.beta
    m = _block_size(op)  # type: ignore[arg-type]
    eye = torch.eye(m, dtype=op.dtype).expand(op.n_gates, m, m)
    one = op.X.new_ones(op.n_gates, m)
    K = rows.kernel(one)
    s = program.beta_max / beta / float(K.diagonal().mean())
    goal = _START * beta
    low, high = 0.0, float("inf")
    for _ in range(20):
        KS = K * s
        KS.diagonal().add_(1)
        L = torch.linalg.cholesky(KS)
        A = rows.adjoint(torch.cholesky_solve(target, L))
        size = float(program.gauge.polar(A).upper.max())
        if 0.6 * goal <= size <= 1.4 * goal:
            break
        if size > goal:
            low = s
            s = s * min((size / goal) ** 1.5, 100.0) if high == float("inf") else (low * high) ** 0.5
        else:
            high = s
            s = s * max(size / goal, 0.01) if low == 0 else (low * high) ** 0.5
    R = beta**2 * eye - _gram(A, A, m)
    R = R + max(0.1 * beta**2 - smallest_eigenvalue(R), 0.0) * eye
    return _centre(rows, target, Scaling.between(s * eye, R))


def _centre(base: Rows, target: Tensor, scaling: Scaling) -> Centre:
    """Solve for W and Z at T.  With c = Λ^½ a the conditions are W = Y − X̃Λ^½ c and c = Λ^½ X̃ᵀ W.

    K is badly conditioned where β is small: c is refined against W as it follows from c, which is what the
    certificate will see.
    """
    rows = base.scaled(scaling.G)
    lam = scaling.lam[:, :, None]
    K = rows.kernel(scaling.lam)
    K.diagonal().add_(1)
    L = torch.linalg.cholesky(K)
    half = lam.sqrt()
    W = torch.cholesky_solve(target, L)
    c = half * rows.adjoint(W)
    for _ in range(_REFINEMENTS):
        W = target - rows.forward(half * c)
        error = c - half * rows.adjoint(W)
        dW = torch.cholesky_solve(rows.forward(half * error), L)
        W = W + dW
        c = c - error + half * rows.adjoint(dW)
    return Centre(scaling, rows, L, W, rows.adjoint(W), half * c)


def _settled(program: Program, state: IPMState, factors: Factors) -> Factors:
    """Take out what the rounding of Z into neurons did to the residual: δZ_k = T_k M_kᵀ K⁻¹ (residual − W).

    It goes into the layer whose partner spans all directions of a block.
    """
    centre = state.centre
    assert centre is not None
    excess = state.target - state.reduced(program.operator.forward_factors(factors)) - centre.W
    change = centre.scaling.lam[:, :, None] * centre.rows.adjoint(torch.cholesky_solve(excess, centre.L))
    change = _times(centre.scaling.G, change)[factors.gate]  # (N, p, q)
    left, right = factors.left, factors.right
    if program.operator.p <= program.operator.q:
        shift = torch.bmm(left[:, None, :], change)[:, 0] / left.square().sum(1, keepdim=True)
        return Factors(left, right + shift, factors.gate)
    shift = torch.bmm(change, right[:, :, None])[:, :, 0] / right.square().sum(1, keepdim=True)
    return Factors(left + shift, right, factors.gate)


def _times(blocks: Tensor, stack: Stack) -> Stack:
    """Block times block; a block of one number multiplies its gate as a whole."""
    return blocks * stack if blocks.shape[1] == 1 else blocks @ stack


def _gram(a: Stack, b: Stack, m: int) -> Tensor:
    """A_k B_kᵀ (P, m, m); for one unknown a gate the inner product."""
    return (a * b).sum(dim=(1, 2), keepdim=True) if m == 1 else a @ b.mT


def _mehrotra(centre: Centre, beta: float) -> Scaling:
    """One predictor–corrector step.  All blocks are in the centre's coordinates."""
    scaling, rows, a = centre.scaling, centre.rows, centre.a
    lam = scaling.lam
    n_gates, m = lam.shape
    Lam, eye = torch.diag_embed(lam), torch.eye(m, dtype=lam.dtype)
    mu = float(lam.square().mean())
    # what R lacks to be 2∇φ
    defect = beta**2 * scaling.G.mT @ scaling.G - _gram(a, a, m) - Lam
    newton = _newton_matrix(rows, centre.L, a)

    def direction(rhs: Tensor, defect: Tensor) -> tuple[Tensor, Tensor]:
        """dT + dR = rhs, dR = 2∇²φ dT + defect."""
        dT = torch.cholesky_solve(to_vector(rhs - defect)[:, None], newton)
        dT = to_blocks(dT[:, 0], m)
        return dT, rhs - dT

    dT, dR = direction(-Lam, defect)
    step = _longest(lam, dT, dR)
    predicted = float(((Lam + step * dT) * (Lam + step * dR)).sum()) / lam.numel()
    # never let μ run ahead of the defect
    floor = 0.1 * float((defect.diagonal(dim1=1, dim2=2) * lam).abs().mean()) / mu
    sigma = max((predicted / mu) ** 3, min(0.5, floor))
    product = dT @ dR
    rhs = (sigma * mu * eye - Lam.square() - 0.5 * (product + product.mT)) * 2 / (lam[:, :, None] + lam[:, None, :])
    dT, dR = direction(rhs, defect + _curvature(rows, centre.L, a, dT))
    step = _longest(lam, dT, dR)
    return scaling.moved(step * dT, step * dR)


def _newton_matrix(rows: Rows, L: Tensor, a: Stack) -> Tensor:
    """The Cholesky factor of I + 2∇²φ = I + 2 Σ_c B_cᵀ K⁻¹ B_c."""
    slopes = rows.slopes(a)  # (q, unknowns, n)
    q, unknowns, n = slopes.shape
    C = torch.linalg.solve_triangular(L, slopes.view(-1, n).mT, upper=False).mT.view(q, unknowns, n)
    H = torch.eye(unknowns, dtype=a.dtype)
    for column in C:
        H.addmm_(column, column.mT, alpha=2)
    return torch.linalg.cholesky(H)


def _curvature(rows: Rows, L: Tensor, a: Stack, dT: Tensor) -> Tensor:
    """The second-order term of R along dT, damped where the series of A in dT does not fall."""
    m = dT.shape[1]
    first = -rows.adjoint(torch.cholesky_solve(rows.forward(_times(dT, a)), L))
    second = -rows.adjoint(torch.cholesky_solve(rows.forward(_times(dT, first)), L))
    growth = float(torch.linalg.vector_norm(second)) / max(float(torch.linalg.vector_norm(first)), 1e-300)
    mixed = _gram(second, a, m)
    return -(_gram(first, first, m) + mixed + mixed.mT) * min(1.0, 0.5 / max(growth, 1e-300))


def _longest(lam: Tensor, dT: Tensor, dR: Tensor) -> float:
    """The longest step, at most one, that keeps Λ + dT and Λ + dR positive definite."""
    half = lam.rsqrt()
    scale = half[:, :, None] * half[:, None, :]
    least = min(smallest_eigenvalue(scale * dT), smallest_eigenvalue(scale * dR))
    return min(1.0, -_BOUNDARY / least) if least < 0 else 1.0
