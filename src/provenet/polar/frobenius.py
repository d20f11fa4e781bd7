"""σ_max bounded for certain where the spectrum decays: the deflated Frobenius norm.

    σ_max(G)² ≤ σ_max(GV)² + ‖G‖_F² − ‖GV‖_F²      for orthonormal V, since GGᵀ = GVVᵀGᵀ + G(I − VVᵀ)Gᵀ

‖G‖_F² = ‖A_k*Θ‖² = ⟨Θ, A_kA_k*Θ⟩ comes from the gate's kernel, so G is never formed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.operators import Operator
from provenet.polar.krylov import krylov_images, products_of

_WIDTH, _DEPTH = 64, 4  # of the block Krylov space
_ONE = torch.zeros(1, dtype=torch.long)
_EPS = torch.finfo(torch.float64).eps


def deflated_bound(gate: Operator, theta: Tensor, noise: float) -> float:
    """An upper bound of σ_max(A*Θ) of an operator with one gate and a kernel.

    V spans a block Krylov space of GᵀG: whatever it is, the bound holds.  noise: of a product with a unit vector, by
    rounding.
    """
    V, GV = (part[0] for part in krylov_images(products_of(gate, theta), _ONE, gate.p, gate.q, _WIDTH, _DEPTH))
    count = V.shape[0]
    kept = torch.linalg.vector_norm(GV, dim=1)
    squares = float(kept.square().sum())
    whole, error = _frobenius(gate, theta)
    top = float(torch.linalg.matrix_norm(GV, 2)) + count**0.5 * noise
    # each ‖Gv‖ is off by the noise, V's orthogonality by a few eps; the difference may cancel, its error does not
    lost = 2 * noise * float(kept.sum()) + (gate.p + 8 * count) * _EPS * squares
    rest = max(whole - squares, 0.0) + error + lost
    return (top * top + rest) ** 0.5 * (1 + 8 * _EPS)


def _frobenius(gate: Operator, theta: Tensor) -> tuple[float, float]:
    """‖A*Θ‖_F² and a bound of its rounding error."""
    flat = theta.reshape(gate.kernel_rows, -1)
    kernel = gate.kernel()
    value = float((kernel @ flat).mul_(flat).sum())
    terms = gate.kernel_rows + flat.numel() + gate.p * gate.q
    size = float((kernel.abs_() @ flat.abs()).mul_(flat.abs()).sum())
    return value, terms * _EPS * size
