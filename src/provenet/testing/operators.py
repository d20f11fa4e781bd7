"""The contract of an operator."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.operators import Operator
from provenet.solvers.reference.cvx import matrix
from provenet.space import Space
from provenet.testing.close import assert_close, normal
from provenet.variable import Factors, Stack
from provenet.vectors import unit


def check_operator(operator: Operator, seed: int = 0) -> None:
    """Dot test, linearity, factors, kernel, norm, some gates, some samples and rounding, in float64 and float32.

    Parameters
    ----------
    operator : Operator
        Yours, small.
    seed : int, default 0
        Of the numbers that are drawn.
    """
    for dtype in (torch.float64, torch.float32):
        _check(operator.to(Space(dtype=dtype)), torch.Generator().manual_seed(seed), 1e4 * torch.finfo(dtype).eps)
    _check_rounding(operator, torch.Generator().manual_seed(seed))


def _check(op: Operator, generator: torch.Generator, tol: float) -> None:
    P, p, q = op.stack_shape
    stack = normal(generator, P, p, q, dtype=op.dtype)
    residual = normal(generator, *op.output_shape, dtype=op.dtype)
    prediction, slope = op.forward(stack), op.adjoint(residual)
    assert prediction.shape == op.output_shape, "A(Z) has another shape than output_shape"
    assert slope.shape == op.stack_shape, "A*(R) has another shape than stack_shape"
    assert prediction.dtype == slope.dtype == op.dtype, "A or A* changes the precision"

    dense = torch.from_numpy(matrix(op).toarray())
    norm = float(torch.linalg.matrix_norm(dense.double(), 2))
    size = norm * float(torch.linalg.vector_norm(stack) * torch.linalg.vector_norm(residual))
    dots = torch.stack([(prediction * residual).sum(), (stack * slope).sum()])
    assert_close(dots[0], dots[1], tol, "dot test ⟨AZ, R⟩ = ⟨Z, A*R⟩", size)
    assert_close(prediction.flatten(), dense @ stack.flatten(), tol, "A(Z) against its dense form")
    assert_close(slope.flatten(), dense.T @ residual.flatten(), tol, "A*(R) against its dense form")
    assert op.norm_upper() >= norm * (1 - 1e-14), f"norm_upper {op.norm_upper()} is below the norm {norm}"
    largest = float(torch.linalg.matrix_norm(slope.double(), 2).max())
    assert op.pull_upper(residual) >= largest * (1 - tol), "pull_upper is below the spectral norm of some A_k*R"
    _check_factors(op, generator, tol)

    if op.has_kernel:
        kernel = op.kernel()
        flat = residual.reshape(op.kernel_rows, -1)
        expected = op.forward(slope).reshape(flat.shape)
        assert_close(kernel @ flat, expected, tol, "kernel against AA*")
        assert_close(kernel, kernel.T, tol, "symmetry of the kernel")

    some = torch.arange(P - 1, -1, -2)
    fewer = op.restrict(some)
    assert fewer.stack_shape == (len(some), p, q), "restrict: wrong shape"
    assert_close(fewer.adjoint(residual), slope[some], tol, "A* of the restricted operator")
    only = torch.zeros_like(stack).index_copy_(0, some, stack[some])
    assert_close(fewer.forward(stack[some]), op.forward(only), tol, "A of the restricted operator")
    _check_part(op, stack, residual, tol)


def _check_part(op: Operator, stack: Stack, residual: Tensor, tol: float) -> None:
    """Of every other sample, where samples can be chosen."""
    some = torch.arange(op.output_shape[0] - 1, -1, -2)
    part = op.part(some)
    if part is None:
        return
    assert part.output_shape == (len(some), *op.output_shape[1:]), "part: wrong shape"
    assert_close(part.forward(stack), op.forward(stack)[some], tol, "A on some samples")
    others = residual.clone()
    others[some] = 0
    expected = op.adjoint(residual) - op.adjoint(others)
    assert_close(part.adjoint(residual[some]), expected, tol, "A* on some samples", float(expected.abs().max()))
    assert part.norm_upper() <= op.norm_upper() * (1 + tol), "part: its norm is bounded by more than that of all"
    both = part.both_ways(Factors(stack[:, :, 0], stack[:, 0], torch.arange(len(stack))))
    assert both[0].shape == part.output_shape, "part: neurons"


def _check_factors(op: Operator, generator: torch.Generator, tol: float) -> None:
    P, p, q = op.stack_shape
    for n_neurons in (0, 2 * P + 1):
        factors = Factors(
            normal(generator, n_neurons, p, dtype=op.dtype),
            normal(generator, n_neurons, q, dtype=op.dtype),
            torch.randint(P, (n_neurons,), generator=generator),
        )
        residual = normal(generator, *op.output_shape, dtype=op.dtype)
        slope = op.adjoint(residual)[factors.gate]  # (N, p, q)
        assert_close(op.forward_factors(factors), op.forward(factors.stack(P)), tol, "A on factors")
        left, right = op.adjoint_factors(residual, factors)
        assert_close(left, torch.einsum("npq,nq->np", slope, factors.right), tol, "A* on factors, G v")
        assert_close(right, torch.einsum("npq,np->nq", slope, factors.left), tol, "A* on factors, Gᵀ u")
        prediction, back = op.both_ways(factors)
        assert_close(prediction, op.forward_factors(factors), tol, "both_ways, forward")
        for mine, other, name in zip(back(residual), (left, right), ("G v", "Gᵀ u"), strict=True):
            assert_close(mine, other, tol, f"both_ways, {name}")
        _check_alone(op, factors, tol)
        jacobian = op.jacobian(factors)
        pulled = (jacobian * residual).flatten(2).sum(2)
        assert_close(pulled, torch.cat([left, right], dim=1), tol, "jacobian against A* on factors")
        second = op.second_layer_columns(factors.left, factors.gate)
        assert_close(second, jacobian[:, p:], tol, "second_layer_columns against the jacobian")


def _check_alone(op: Operator, factors: Factors, tol: float) -> None:
    """Each neuron's own outputs add up to all of theirs, on some samples; and first layers may be turned."""
    together = op.forward_factors(factors)
    n = len(together)
    if factors.n_neurons:
        for rows in (slice(0, n), slice(n // 3, n // 3 + (n + 1) // 2)):
            assert_close(op.alone(factors, rows).sum(0), together[rows], tol, "the sum of neurons alone")
    axes = op.principal_axes()
    if axes is not None:
        assert_close(axes.basis.T @ axes.basis, op.space.eye(op.p), tol, "VᵀV of principal axes")
        assert axes.moments.shape == (op.p,), "moments along axes: wrong shape"
        assert float(axes.moments.min()) >= 0, "moments along axes: a negative one"
        turned = Factors(factors.left @ axes.basis, factors.right, factors.gate)
        assert_close(op.turned(axes.basis).forward_factors(turned), together, tol, "A along principal axes")


def _check_rounding(operator: Operator, generator: torch.Generator) -> None:
    """``rounding`` bounds what float32 hides, seen from float64 on the very same numbers."""
    rough = operator.to(Space(dtype=torch.float32))
    exact = rough.to(Space())
    for scale in (1e-6, 1.0, 1e6):
        residual = normal(generator, *operator.output_shape, dtype=torch.float32) * scale
        error = rough.adjoint(residual).double() - exact.adjoint(residual.double())
        hidden = float(torch.linalg.matrix_norm(error, 2).max())
        bound = rough.rounding(residual)
        least = torch.finfo(torch.float32).eps * float(torch.linalg.matrix_norm(exact.adjoint(residual.double())).max())
        assert least <= bound, f"rounding: {bound:.3e} is less than eps times the size of A*R, {least:.3e}"
        assert hidden <= bound, f"rounding: {hidden:.3e} is hidden, but the bound says {bound:.3e}"
        _check_product_rounding(rough, exact, residual, generator)


def _check_product_rounding(rough: Operator, exact: Operator, residual: Tensor, generator: torch.Generator) -> None:
    """Of G v and Gᵀu, which sum up ``product_terms`` more."""
    P, p, q = rough.stack_shape
    left, right = (unit(normal(generator, P, size, dtype=torch.float32)) for size in (p, q))
    factors = Factors(left, right, torch.arange(P))
    pairs = zip(
        rough.adjoint_factors(residual, factors),
        exact.adjoint_factors(residual.double(), factors.to(Space())),
        strict=True,
    )
    bound = rough.rounding(residual) * (1 + rough.product_terms / rough.shards.n) * (1 + 1e-6)
    for mine, other in pairs:
        hidden = float(torch.linalg.vector_norm(mine.double() - other, dim=1).max())
        assert hidden <= bound, f"rounding: a product hides {hidden:.3e}, but the bound says {bound:.3e}"
