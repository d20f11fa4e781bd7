"""The closed form of whitened data: a soft-thresholded SVD (CP Thm 2).

With XXᵀ = s²I the ReLU program has one gate, and XV = sN for V = XᵀN/s:

    min_N  w/2 ‖sN − Y‖² + β‖N‖_*,     N = Σ_i (σ_i − β/(ws))₊ a_i b_iᵀ / s,     Y = Σ_i σ_i a_i b_iᵀ

without the cones.  It is the ReLU network's own optimum where the a_i with σ_i > β/(ws) can be chosen non-negative.
Singular values that coincide leave the choice of a basis of their subspace: balanced classes, one-hot, have one that is
non-negative, their indicators, whatever basis an SVD returns.  Orthonormal and non-negative vectors have disjoint
supports; so there is such a basis where the rows of any basis point in as many directions as it has columns, at right
angles.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.loop import Method, Point, Refused
from provenet.solvers.needs import GATED_ROWS, SEPARATE, SPIKE_FREE, SQUARED
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors

_SAME = 1e-7  # of the largest: singular values closer than this are one
_SIGN = 1e-6  # of a vector's largest entry: below it, a sign is rounding


@dataclass(frozen=True)
class ClosedForm(Method[Factors]):
    name = "closed_form"
    needs = (SQUARED, SEPARATE, SPIKE_FREE, GATED_ROWS)
    reduces = False  # the data's directions are all used, and no decomposition of X is needed

    def declines(self, program: Program) -> str | None:
        weight, length = program.loss.sample_weight, torch.linalg.vector_norm(_data(program), dim=1)
        for name, values in (("sample_weight", weight), ("the length of X's rows", length)):
            if float(values.max() - values.min()) > _SIGN * float(values.max()):
                return f"{name} must be the same for all samples in the closed form."
        return None

    def memory(self, program: Program) -> int:
        op = program.operator
        return op.dtype.itemsize * 4 * (op.output_shape[0] + op.p) * op.q

    def offer(self, task: Task) -> Offer:
        return Offer(self.memory(task.program), 0.0, task.product, starts=True)

    def init(self, program: Program, start: Factors | None) -> Factors:
        return _factors(program)

    def step(self, program: Program, state: Factors) -> Factors:
        return state

    def finished(self, state: Factors) -> bool:
        return True

    def point(self, program: Program, state: Factors) -> Point:
        return Point.of(state, program.operator.forward_factors(state))


def _data(program: Program) -> Tensor:
    """X (n, p)."""
    rows = program.operator.gated_rows
    assert rows is not None
    return rows.X


def _factors(program: Program) -> Factors:
    """The neurons; `Refused` where there are none in closed form."""
    X = _data(program)
    s = float(torch.linalg.vector_norm(X)) / len(X) ** 0.5
    threshold = program.beta / (float(program.loss.sample_weight.mean()) * s)
    Y = program.loss.target
    A, sigma, _ = torch.linalg.svd(Y, full_matrices=False)
    active = int((sigma > threshold).sum())
    if active == 0:
        return program.nobody
    # a subspace of one singular value is active as a whole
    jumps = torch.nonzero(sigma[:-1] - sigma[1:] > _SAME * sigma[0]).flatten() + 1
    bounds = [0, *jumps.tolist(), len(sigma)]
    bases = []
    for begin, end in pairwise(bounds):
        if begin >= active:
            break
        basis = nonnegative_basis(A[:, begin:end])
        if basis is None:
            values = f"singular value {begin + 1}" if end - begin == 1 else f"singular values {begin + 1} to {end}"
            raise Refused(
                f"method: 'closed_form' cannot take this problem: the left singular vectors of Y for {values} have no "
                "non-negative basis, as CP Thm 2 asks of those above beta; take another method, or a larger beta."
            )
        bases.append(basis)
    alpha = torch.cat(bases, dim=1)  # (n, m)
    pull = alpha.T @ Y
    length = torch.linalg.vector_norm(pull, dim=1, keepdim=True)
    size = ((length - threshold).clamp_min(0) / s).sqrt()
    left = (alpha.T @ X) / s * size
    alive = size[:, 0] > 0
    gate = torch.zeros(int(alive.sum()), dtype=torch.long)
    return Factors(left[alive], (pull / length * size)[alive], gate)


def nonnegative_basis(A: Tensor) -> Tensor | None:
    """An orthonormal, non-negative basis (n, m) of the span of orthonormal columns A (n, m); None if there is none."""
    norm = torch.linalg.vector_norm(A, dim=1)
    left = norm > _SIGN * norm.max()
    directions = []
    for _ in range(A.shape[1]):
        if not bool(left.any()):
            return None
        first = torch.where(left, norm, 0.0).argmax()
        q = A[first] / norm[first]
        directions.append(q)
        left = left & ~(A @ q > (1 - _SIGN) * norm)
    turn = torch.stack(directions)  # (m, m)
    off = turn @ turn.T - torch.eye(len(turn), dtype=A.dtype)
    if bool(left.any()) or float(off.abs().max()) > _SIGN:
        return None
    basis: Tensor = (A @ turn.T).clamp_min(0)
    return basis.div_(torch.linalg.vector_norm(basis, dim=0))
