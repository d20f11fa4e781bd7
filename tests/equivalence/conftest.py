"""The convex program of every block for CVXPY, written from the papers with explicit Kronecker and circulant matrices.

Nothing of the package's maths is used: samples, gate vectors and settings in, predictions as expressions of the
weights out.
Rows and columns of Z are ordered as in the papers; that permutes them, which no nuclear norm sees.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import isqrt
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.linalg import dft

from provenet.testing import Case

Array = np.ndarray


@dataclass(frozen=True)
class Posed:
    """A problem as a user poses it; ``gates``: the gate vectors of each group, None where all is open."""

    block: str
    X: Array
    Y: Array
    gates: list[Array] | None
    settings: dict[str, Any]
    loss: str
    beta: float
    readout: str
    mask: Array | None


def pose(case: Case) -> Posed:
    """The arrays and settings of a case, and nothing of its operator."""
    problem, gates = case.problem, None
    if problem.gate_vectors is not None:
        vectors = problem.gate_vectors.numpy()
        own = np.zeros(len(vectors)) if problem.gates.group is None else problem.gates.group.numpy()
        gates = [vectors[own == b] for b in range(int(own.max()) + 1)]
    settings = dict(problem.block.settings())
    return Posed(
        problem.block.name, case.X, case.Y, gates, settings, problem.loss.name, problem.beta, problem.readout, case.mask
    )


@pytest.fixture
def paper_optimum() -> Callable[[Case], float]:
    return lambda case: optimum(pose(case))


def optimum(posed: Posed) -> float:
    """p* of the paper's convex program."""
    predictions, weights = [], []
    groups = posed.settings.get("groups", 1)
    c = posed.Y.shape[-1] // groups
    parts = []
    for b in range(groups):
        width = posed.X.shape[-1] // groups
        samples = [x[..., b * width : (b + 1) * width] for x in present(posed)]
        found, Z = _PROGRAMS[posed.block](samples, None if posed.gates is None else posed.gates[b], c, posed.settings)
        parts.append(found)
        weights += Z
    for columns in zip(*parts, strict=True):
        tokens = cp.hstack(columns)
        predictions.append(
            cp.sum(tokens, axis=0, keepdims=True) / tokens.shape[0] if posed.readout == "mean" else tokens
        )
    prediction, target = cp.vstack(predictions), targets(posed)
    value = 0.5 * cp.sum_squares(prediction - target)
    if posed.loss == "softmax":
        value = cp.sum(cp.log_sum_exp(prediction, axis=1)) - cp.sum(cp.multiply(target, prediction))
    problem = cp.Problem(cp.Minimize(value + posed.beta * sum(cp.normNuc(Z) for Z in weights)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")  # more is asked than is needed
        return float(problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11))


def present(posed: Posed) -> Iterator[Array]:
    """Each sample, without the tokens that are not there."""
    for i, x in enumerate(posed.X):
        yield x if posed.mask is None else x[posed.mask[i]]


def targets(posed: Posed) -> Array:
    if posed.readout == "mean":
        return posed.Y
    there = np.ones(posed.Y.shape[:2], dtype=bool) if posed.mask is None else posed.mask
    return posed.Y[there]


Program = tuple[list[Any], list[Any]]  # the outputs (t, c) of every sample, and the weights


def rows(phi: Callable[[Array, dict[str, Any]], Array]) -> Callable[..., Program]:
    """Σ_k D_k Φ_i Z_k (AT eq. 25, 144, 160; BM eq. 16)."""

    def program(samples: list[Array], gates: Array | None, c: int, settings: dict[str, Any]) -> Program:
        tables = [phi(x, settings) for x in samples]
        p = tables[0].shape[1]
        Z = [cp.Variable((p, c)) for _ in range(1 if gates is None else len(gates))]
        outputs = []
        for table in tables:
            opened = [np.eye(len(table))] if gates is None else [np.diag((table @ h >= 0) * 1.0) for h in gates]
            outputs.append(sum(D @ table @ Zk for D, Zk in zip(opened, Z, strict=True)))
        return outputs, Z

    return program


def mlp(x: Array, settings: dict[str, Any]) -> Array:
    return np.append(x, 1.0)[None] if settings["fit_intercept"] else x[None]


def circ(x: Array, settings: dict[str, Any]) -> Array:
    """All cyclic shifts of the sample along its tokens, on the grid (AT Lemma 4.3)."""
    height, width = settings["grid"] or (1, len(x))
    image = x.reshape(height, width, -1)
    shifts = product(range(height), range(width))
    return np.stack([np.roll(image, (-a, -b), axis=(0, 1)).ravel() for a, b in shifts])


def pooled(x: Array, settings: dict[str, Any]) -> Array:
    """Each token's window on the grid, averaged, cell by cell (AT eq. 158)."""
    height, width = settings["grid"] or (isqrt(len(x)), isqrt(len(x)))
    image, reach = x.reshape(height, width, -1), settings["window"] // 2
    cells = product(range(height), range(width))
    around = [image[max(a - reach, 0) : a + reach + 1, max(b - reach, 0) : b + reach + 1] for a, b in cells]
    return np.stack([window.mean(axis=(0, 1)) for window in around])


def fourier(x: Array, settings: dict[str, Any]) -> Array:
    """Re((F_s ⊗ F_d) vec X) (AT eq. 159)."""
    return np.real(np.kron(dft(x.shape[0]), dft(x.shape[1])) @ x.ravel()).reshape(x.shape)


def differences(x: Array, settings: dict[str, Any]) -> Array:
    """The example's h(X)."""
    return np.hstack([x, x - np.roll(x, 1, axis=0)])


def attention(samples: list[Array], gates: Array | None, c: int, settings: dict[str, Any]) -> Program:
    """Σ_j Σ_kℓ G_ij^(k,ℓ) X_i Z_j^(k,ℓ), G_ij = (X_i ⊗ I)ᵀ D_j (X_i ⊗ I) (AT eq. 13, 123)."""
    d = samples[0].shape[1]
    Z = [cp.Variable((d * d, d * c)) for _ in range(1 if gates is None else len(gates))]
    scale = 1.0 if settings["scale"] is None else d**-0.5
    outputs = []
    for X in samples:
        s = len(X)
        wide = np.kron(X, np.eye(s))
        total = 0
        for j, Zj in enumerate(Z):
            side = np.ones(s * s) if gates is None else np.kron(X, X) @ gates[j].reshape(d, d).ravel(order="F") >= 0
            G = wide.T @ np.diag(side * 1.0) @ wide
            for k, m in product(range(d), range(d)):
                weight = Zj[k * d : (k + 1) * d, m * c : (m + 1) * c]
                total = total + scale * G[k * s : (k + 1) * s, m * s : (m + 1) * s] @ X @ weight
        outputs.append(total)
    return outputs, Z


def mixer(samples: list[Array], gates: Array | None, c: int, settings: dict[str, Any]) -> Program:
    """f_p = Σ_j [D_j^(i,1) Z_j^(p,1) … D_j^(i,d) Z_j^(p,d)] vec(X_i) (AT eq. 18, 20, 133)."""
    s, d = samples[0].shape
    Z = [cp.Variable((s * s, d * c)) for _ in range(1 if gates is None else len(gates))]
    outputs = []
    for X in samples:
        columns = [0] * c
        for j, Zj in enumerate(Z):
            side = np.ones(s * d)
            if gates is not None:
                side = np.kron(X.T, np.eye(s)) @ gates[j].reshape(s, s).ravel(order="F") >= 0
            for p, k in product(range(c), range(d)):
                block = cp.reshape(Zj[:, k * c + p], (s, s), order="F")
                columns[p] = columns[p] + np.diag(side[k * s : (k + 1) * s] * 1.0) @ block @ X[:, k]
        outputs.append(cp.vstack(columns).T)
    return outputs, Z


def cnn(samples: list[Array], gates: Array | None, c: int, settings: dict[str, Any]) -> Program:
    """f_j = Σ_k tr(P_a D_k Φ_i Z_k^(j)), Z_k^(j) (p, a) (BM eq. 22, Thm 3.6)."""
    tables = [patches(x, settings) for x in samples]
    P = pooling(samples[0], settings)
    p, a = tables[0].shape[1], len(P)
    Z = [cp.Variable((p, c * a)) for _ in range(1 if gates is None else len(gates))]
    outputs = []
    for table in tables:
        opened = [np.eye(len(table))] if gates is None else [np.diag((table @ h >= 0) * 1.0) for h in gates]
        f = [
            sum(cp.trace(P @ D @ table @ Zk[:, j * a : (j + 1) * a]) for D, Zk in zip(opened, Z, strict=True))
            for j in range(c)
        ]
        outputs.append(cp.reshape(cp.hstack(f), (1, c), order="C"))
    return outputs, Z


def each(value: Any, dims: int) -> tuple[int, ...]:
    return (value,) * dims if isinstance(value, int) else tuple(value)


def stops(x: Array, settings: dict[str, Any]) -> list[range]:
    """Where the kernel's first tap lies, in the coordinates of the image without padding."""
    dims = x.ndim - 1
    kernel, stride, pad, dilation = (each(settings[k], dims) for k in ("kernel", "stride", "padding", "dilation"))
    return [range(-pad[i], x.shape[i + 1] + pad[i] - dilation[i] * (kernel[i] - 1), stride[i]) for i in range(dims)]


def patches(x: Array, settings: dict[str, Any]) -> Array:
    """(K, channels·kernel), entry by entry; beyond the edge is zero; a one at the end where there is a bias."""
    dims = x.ndim - 1
    kernel, dilation = each(settings["kernel"], dims), each(settings["dilation"], dims)
    table = []
    for at in product(*stops(x, settings)):
        row = []
        for channel in x:
            for tap in product(*map(range, kernel)):
                where = tuple(a + t * step for a, t, step in zip(at, tap, dilation, strict=True))
                inside = all(0 <= w < size for w, size in zip(where, channel.shape, strict=True))
                row.append(channel[where] if inside else 0.0)
        table.append([*row, 1.0] if settings["fit_intercept"] else row)
    return np.array(table)


def pooling(x: Array, settings: dict[str, Any]) -> Array:
    """The mean over each cell, (a, K), or the matrix given."""
    if not isinstance(settings["pool"], int) and not isinstance(settings["pool"][0], int):
        return np.array(settings["pool"])
    sizes = [len(r) for r in stops(x, settings)]
    cells = each(settings["pool"], len(sizes))
    P = []
    for cell in product(*map(range, cells)):
        inside = np.ones(sizes)
        for axis, (i, a, size) in enumerate(zip(cell, cells, sizes, strict=True)):
            along = np.array([np.floor(i * size / a) <= k < np.ceil((i + 1) * size / a) for k in range(size)])
            inside = inside * along.reshape([-1 if k == axis else 1 for k in range(len(sizes))])
        P.append(inside.ravel() / inside.sum())
    return np.array(P)


_PROGRAMS: dict[str, Callable[..., Program]] = {
    "mlp": rows(mlp),
    "cnn": cnn,
    "attention": attention,
    "mixer": mixer,
    "fno": rows(circ),
    "bfno": rows(circ),
    "poolformer": rows(pooled),
    "fnet": rows(fourier),
    "token_map": rows(differences),
}
