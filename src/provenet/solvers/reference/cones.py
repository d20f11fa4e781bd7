"""ReLU programs handed to CVXPY: the reference of the tests.

One output: a neuron of each sign behind every gate, a second-order cone program (CP eq. 9).
Several outputs, where every cone has at most four rows that are not redundant, as in the plane: the cone-nuclear norm
is then the value of a small semidefinite program (CP eq. 17, and 19, which is tight there):

    ‖Z‖_{*,K} = min ½ tr U + ½ tr V   over   [U Z; Zᵀ V] ⪰ 0,  K U Kᵀ ≥ 0,   K the rows that are not redundant

Other cones are refused: the same program is then but a lower bound, which `copositive` gives at any size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from provenet.cones import Table, project
from provenet.cones.facets import facets
from provenet.gauges import ConeGauge
from provenet.problem import Program
from provenet.solvers.cones.frank_wolfe import fully_corrected, merge
from provenet.solvers.cones.newton import improved
from provenet.solvers.interior.copositive.rounding import neurons as neurons_of
from provenet.solvers.interior.copositive.walls import TIGHT_FACETS, Walls, are_tight
from provenet.solvers.needs import TABLE
from provenet.solvers.neurons.place import place
from provenet.variable import Factors

_HULLS = 2_000  # cones whose redundant rows are looked for; more are no matter for CVXPY
_DUST = 1e-5  # of the largest neuron: what an interior point leaves of those that are not there
_IMPROVEMENTS = 50

Posed = tuple[list[Any], list[Any], list[Any], Callable[[], Factors]]
"""Blocks Z_k, their gauges, the constraints, and how to read the neurons off a solution."""


def refuses_cones(program: Program[ConeGauge[Table]]) -> str | None:
    """Why the ReLU program cannot be written exactly; None if it can."""
    if (reason := TABLE.unmet(program)) is not None:
        return reason
    if program.operator.q > 1 and not _written(program.gauge.region):
        return (
            f"with {program.operator.q} outputs the cone-nuclear norm is written exactly in the plane, and where "
            f"no cone has more than four rows that are not redundant; the data have rank {program.operator.p}, and "
            "some cone has more. Method 'copositive' gives the lower bound that this program would be."
        )
    return None


def _written(cones: Table) -> bool:
    """Whether the semidefinite program is the cone-nuclear norm itself."""
    if cones.rows.shape[1] <= 2 or cones.rows.shape[0] <= TIGHT_FACETS:
        return True
    return len(cones.signs) <= _HULLS and are_tight(cones)


def pose(cp: Any, program: Program[ConeGauge[Table]]) -> Posed:
    """The program's blocks in CVXPY's terms."""
    return (_one_output if program.operator.q == 1 else _several_outputs)(cp, program, program.gauge.region)


def _one_output(cp: Any, program: Program[ConeGauge[Table]], cones: Table) -> Posed:
    P, p, _ = program.operator.stack_shape
    up, down = ([cp.Variable((p, 1)) for _ in range(P)] for _ in range(2))
    rows = [_rows(cones, k) for k in range(P)]
    constraints = [K @ u >= 0 for side in (up, down) for K, u in zip(rows, side, strict=True) if len(K)]
    blocks = [u - w for u, w in zip(up, down, strict=True)]
    norms = [cp.norm(u, 2) + cp.norm(w, 2) for u, w in zip(up, down, strict=True)]

    def neurons() -> Factors:
        u = torch.from_numpy(np.stack([x.value[:, 0] for x in (*up, *down)]))
        gate = torch.arange(P).repeat(2)
        u = project(cones.rows, cones.signs[gate], u).point
        size = torch.linalg.vector_norm(u, dim=1, keepdim=True)
        sign = torch.ones(2 * P, 1, dtype=u.dtype)
        sign[P:] = -1
        root = size.sqrt()
        keep = size[:, 0] > 0
        return Factors(u / root.clamp_min(1e-300), sign * root, gate).select(keep)

    return blocks, norms, constraints, neurons


def _several_outputs(cp: Any, program: Program[ConeGauge[Table]], cones: Table) -> Posed:
    P, p, q = program.operator.stack_shape
    whole = [cp.Variable((p + q, p + q), PSD=True) for _ in range(P)]
    rows = [_facets(cones, k) for k in range(P)]
    constraints = [K @ W[:p, :p] @ K.T >= 0 for K, W in zip(rows, whole, strict=True)]
    blocks = [W[:p, p:] for W in whole]
    norms = [0.5 * cp.trace(W) for W in whole]

    def neurons() -> Factors:
        if p > 2:
            return _read_off(program, cones, torch.from_numpy(np.stack([W.value[:p, :p] for W in whole])))
        parts = [_split(W.value, K, k) for k, (W, K) in enumerate(zip(whole, rows, strict=True))]
        return Factors.join(*parts)

    return blocks, norms, constraints, neurons


def _read_off(program: Program[ConeGauge[Table]], cones: Table, U: Tensor) -> Factors:
    """Neurons next to those of Σ uuᵀ = U_k (P, p, p), with the best second layers, then improved within their cones."""
    value, vectors = torch.linalg.eigh(U)
    root = vectors * value.clamp_min(0).sqrt()[:, None, :]
    u, gate = neurons_of(root, Walls.of(cones).normals, cones)
    size = torch.linalg.vector_norm(u, dim=1, keepdim=True)
    keep = size[:, 0] > _DUST * size.max()
    u, gate = (u / size.clamp_min(1e-300))[keep], gate[keep]
    second = u.new_zeros(len(u), program.operator.q)
    there = fully_corrected(program, program.nobody, Factors(u, second, gate))
    there = improved(program, cones, place(program, merge(there.factors)), _IMPROVEMENTS)
    return fully_corrected(program, there.factors, None).factors


def _rows(cones: Table, k: int) -> np.ndarray:
    """K_k without its rows of zeros."""
    K = cones.rows * cones.signs[k][:, None]
    return K[torch.linalg.vector_norm(cones.rows, dim=1) > 0].numpy()


def _facets(cones: Table, k: int) -> np.ndarray:
    K = _rows(cones, k)
    return K[:1] if K.shape[1] == 1 else K[facets(K, cones.inside[k].numpy())]


def _split(whole: np.ndarray, K: np.ndarray, gate: int) -> Factors:
    """Neurons a_i v_iᵀ of Z with K a_i ≥ 0: a Cholesky factor of K U Kᵀ ≥ 0, of one or two rows, is ≥ 0."""
    p = K.shape[1]
    U, Z = whole[:p, :p], whole[:p, p:]
    C = np.maximum(K @ U @ K.T, 0.0)
    L = np.sqrt(np.diag(np.diag(C)))
    if len(C) == 2 and C.max() > 0:
        big = int(np.argmax(np.diag(C)))
        L[1 - big, big] = min(C[0, 1] / L[big, big], L[1 - big, 1 - big])
        L[1 - big, 1 - big] = np.sqrt(L[1 - big, 1 - big] ** 2 - L[1 - big, big] ** 2)
    first = torch.from_numpy(np.linalg.solve(K, L))  # (p, p): a_i in its columns
    second = torch.linalg.pinv(first, rtol=1e-13) @ torch.from_numpy(Z)
    return Factors(first.T, second, torch.full((p,), gate)).balanced()
