"""Where a Burer–Monteiro method stands, and the algebra of its neurons gate by gate."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.variable import ByGate, Factors


@dataclass(frozen=True)
class Place:
    """Neurons, their prediction Ŷ (n, …, c), and their objective L(Ŷ) + β/2 Σ(‖u_j‖² + ‖v_j‖²) (BM eq. 17, 18)."""

    factors: Factors
    prediction: Tensor
    value: float


def place(program: Program, factors: Factors) -> Place:
    prediction = program.operator.forward_factors(factors)
    value = float(program.loss.value(prediction)) + program.beta * float(factors.penalty())
    return Place(factors, prediction, value)


def gradient(program: Program, at: Place) -> Tensor:
    """(G_k v_j + βu_j, G_kᵀu_j + βv_j), one row a neuron: (N, p + q), with G = A*∇L(Ŷ)."""
    factors = at.factors
    left, right = program.operator.adjoint_factors(program.loss.gradient(at.prediction), factors)
    return torch.cat([left + program.beta * factors.left, right + program.beta * factors.right], dim=1)


def shifted(factors: Factors, step: Tensor) -> Factors:
    """The neurons moved by ``step`` (N, p + q)."""
    p = factors.left.shape[1]
    return Factors(factors.left + step[:, :p], factors.right + step[:, p:], factors.gate)


def gaussian(program: Program, rank: int, spread: float, seed: int) -> Factors:
    """``rank`` neurons behind every gate, normal with standard deviation ``spread``, seeded."""
    op = program.operator
    generator = torch.Generator().manual_seed(seed)
    weights = spread * torch.randn(op.n_gates * rank, op.p + op.q, generator=generator, dtype=op.dtype)
    gate = op.space.arange(op.n_gates).repeat_interleave(rank)
    return Factors(weights[:, : op.p].contiguous(), weights[:, op.p :].contiguous(), gate)


def compress(factors: Factors, floor: float = 1e-12) -> Factors:
    """The cheapest neurons with the same U_kV_kᵀ: an SVD a gate, √σ into each layer.

    Never more than min(p, q) neurons a gate, never a larger penalty.  Neurons below ``floor`` times the largest go.
    The SVD is of the small core R_uR_vᵀ of two thin QRs, so that no p × q matrix is formed.
    """
    if factors.n_neurons == 0:
        return factors
    groups = ByGate(factors.gate)
    Q_left, R_left = torch.linalg.qr(groups.gather(factors.left).transpose(1, 2))
    Q_right, R_right = torch.linalg.qr(groups.gather(factors.right).transpose(1, 2))
    U, sigma, Vh = torch.linalg.svd(R_left @ R_right.transpose(1, 2), full_matrices=False)
    left, right = Q_left @ U, Q_right @ Vh.transpose(1, 2)
    block, rank = torch.nonzero(sigma > sigma.max() * floor, as_tuple=True)
    root = sigma[block, rank].sqrt()[:, None]
    return Factors(left[block, :, rank] * root, right[block, :, rank] * root, groups.names[block])
