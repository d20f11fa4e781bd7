"""The top singular pairs of matrices that are only known by their products.  Good directions, never bounds."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.operators import Operator
from provenet.polar.lanczos import Products
from provenet.variable import Factors
from provenet.vectors import unit

Pairs = tuple[Tensor, Tensor, Tensor]  # singular triples: σ (gates, m), U (gates, m, p), V (gates, m, q)


def products_of(operator: Operator, theta: Tensor) -> Products:
    """(u, v, gate) ↦ (G v, Gᵀu) with G = A*Θ, never formed; in float64 whatever the operator's precision."""

    def both(u: Tensor, v: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
        left, right = operator.adjoint_factors(theta, Factors(u, v, gate).to(operator.space))
        return left.double(), right.double()

    return both


def krylov_images(products: Products, gates: Tensor, p: int, q: int, width: int, depth: int) -> tuple[Tensor, Tensor]:
    """(V, GV) for every gate, (gates, m, q) and (gates, m, p): orthonormal rows V that span Ω, GᵀGΩ, (GᵀG)²Ω, … for a
    random block Ω of ``width`` vectors; all of R^q where that is no larger."""
    if width * depth >= q:
        V = torch.eye(q, dtype=torch.float64).expand(len(gates), q, q)
        return V, _apply(products, gates, V, p, False)
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(len(gates), width, q, generator=generator, dtype=torch.float64)
    blocks = []
    for i in range(depth):
        if i:
            block = _apply(products, gates, _apply(products, gates, block, p, False), q, True)
        block = _orthonormal(block)
        blocks.append(block)
    V = _orthonormal(torch.cat(blocks, dim=1))
    return V, _apply(products, gates, V, p, False)


def top_pairs(products: Products, gates: Tensor, p: int, q: int, width: int, depth: int) -> Pairs:
    """σ (gates, m), U (gates, m, p), V (gates, m, q): approximate singular triples, σ falling and no larger than the
    true ones."""
    V, GV = krylov_images(products, gates, p, q, width, depth)
    W, sigma, right = torch.linalg.svd(GV, full_matrices=False)  # GV = W σ right: rows of V mixed by W
    return sigma, right, W.mT @ V


def leading_by_products(
    products: Products, gates: Tensor, p: int, q: int, width: int, steps: int, near: Pairs | None = None
) -> Pairs:
    """The same as `top_pairs`, of fewer products: rows V span v, Gᵀu, GᵀGv, GᵀGGᵀu, … for random blocks v and u of
    ``width`` vectors, as each product with both sides takes both chains on.  near: what was found of matrices nearby:
    its pairs are in all starts."""
    if width * steps >= min(p, q):
        return top_pairs(products, gates, p, q, width, steps)
    generator = torch.Generator().manual_seed(0)
    sides = [torch.randn(len(gates), width, size, generator=generator, dtype=torch.float64) for size in (p, q)]
    if near is not None:
        sigma, *pairs = near
        sides = [unit(rows) + unit(sigma[:, None] @ known) for rows, known in zip(sides, pairs, strict=True)]
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    names, images = gates.repeat_interleave(width), []
    for _ in range(steps):
        for known, rows in zip(found, sides, strict=True):
            known.append(_beyond(rows, known))
        u, v = (known[-1].flatten(0, 1) for known in found)
        sides = [side.view(len(gates), width, -1) for side in products(u, v, names)]  # Gv, Gᵀu
        images.append(sides[0])
    W, sigma, right = torch.linalg.svd(torch.cat(images, 1), full_matrices=False)
    return sigma, right, W.mT @ torch.cat(found[1], 1)


def _beyond(rows: Tensor, known: list[Tensor]) -> Tensor:
    """Orthonormal rows, orthogonal to all that are known, that span these with them."""
    rows = _orthonormal(rows)
    for basis in [torch.cat(known, 1)] * 2 if known else []:
        rows = _orthonormal(rows - rows @ basis.mT @ basis)
    return rows


def _orthonormal(rows: Tensor) -> Tensor:
    return torch.linalg.qr(rows.mT).Q.mT.contiguous()


def _apply(products: Products, gates: Tensor, rows: Tensor, size: int, transposed: bool) -> Tensor:
    """G v, or Gᵀu, of rows (gates, m, ·), each of length ``size``."""
    flat, gate = rows.flatten(0, 1), gates.repeat_interleave(rows.shape[1])
    nothing = flat.new_zeros(len(flat), size)
    image = products(flat, nothing, gate)[1] if transposed else products(nothing, flat, gate)[0]
    return image.view(*rows.shape[:2], size)
