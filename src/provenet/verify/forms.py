"""What each block computes, written out: hidden values, outputs, and the adjoint of one gate.

Every form turns samples into an array that holds no weight (`prepare`), from which for neurons u, v

    hidden (b, ρ, N) = Φ_i u_j        outputs (b, t, c) = Σ_j B_i(hidden_j, v_j)        slope (p, q) = A_k*Θ

t is the number of tokens, one where a block has none.  Weights are read row by row, as vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Opened = NDArray[np.bool_]


class Rows:
    """Φ_i is a table of rows (ρ, p), and each hidden value has an output of its own: h vᵀ (AT eq. 160)."""

    def prepare(self, X: Array) -> Array:
        return X

    def absolute(self) -> Rows:
        """The form without minus signs: on |X| and |Θ| it bounds what every sum adds up."""
        return self

    def tokens(self, rows: Array) -> int:
        """How many outputs a sample has."""
        return rows.shape[1]

    def rho(self, rows: Array) -> int:
        """How many hidden values a neuron has on a sample."""
        return rows.shape[1]

    def hidden(self, rows: Array, first: Array) -> Array:
        return rows @ first.T

    def table(self, rows: Array) -> Array:
        """Φ_i written down, (b, ρ, p)."""
        return rows

    def outputs(self, rows: Array, hidden: Array, second: Array) -> Array:
        return hidden @ second

    def slope(self, rows: Array, opened: Opened, theta: Array) -> Array:
        p, c = rows.shape[2], theta.shape[2]
        return (rows * opened[:, :, None]).reshape(-1, p).T @ theta.reshape(-1, c)


@dataclass(frozen=True)
class MLP(Rows):
    """Φ_i = x_iᵀ (BM eq. 1), with a last entry of one where there is an intercept."""

    fit_intercept: bool

    def prepare(self, X: Array) -> Array:
        if self.fit_intercept:
            X = np.hstack([X, np.ones((len(X), 1))])
        return X[:, None, :]


@dataclass(frozen=True)
class PoolFormer(Rows):
    """Φ_i = P X_i: the mean of the tokens at most window//2 rows and columns away (AT eq. 158)."""

    grid: tuple[int, int]
    window: int

    def prepare(self, X: Array) -> Array:
        cells = np.array(list(product(range(self.grid[0]), range(self.grid[1]))))
        far = np.abs(cells[:, None] - cells[None]).max(axis=2)
        near = (far <= self.window // 2).astype(float)
        return (near / near.sum(axis=1, keepdims=True)) @ X


@dataclass(frozen=True)
class FNet(Rows):
    """Φ_i = Re(F_s X_i F_dᵀ), F[a, b] = exp(−2πi ab/size) (AT eq. 159)."""

    def prepare(self, X: Array) -> Array:
        _, s, d = X.shape
        return np.real(_fourier(s) @ X @ _fourier(d))

    def absolute(self) -> Rows:
        return _Total()


class _Total(Rows):
    """What |Re(a)| + |Im(a)| of Fourier's coefficients, at most two, makes of a sample."""

    def prepare(self, X: Array) -> Array:
        return np.broadcast_to(2 * X.sum(axis=(1, 2), keepdims=True), X.shape)


def _fourier(size: int) -> NDArray[np.complex128]:
    at = np.arange(size)
    return np.exp(-2j * np.pi * (np.outer(at, at) % size) / size)


@dataclass(frozen=True)
class FNO(Rows):
    """Φ_i = circ(X_i): row t is X_i shifted by t, cyclically on the grid, one token after the other (AT eq. 23)."""

    grid: tuple[int, int]

    def prepare(self, X: Array) -> Array:
        n, s, d = X.shape
        cells = np.array(list(product(range(self.grid[0]), range(self.grid[1]))))
        row, column = np.moveaxis((cells[:, None] + cells[None]) % self.grid, 2, 0)  # (t, τ)
        return X[:, row * self.grid[1] + column].reshape(n, s, s * d)


@dataclass(frozen=True)
class CNN(Rows):
    """Φ_i: the patches (K, channels·kernel), each with a last entry of one where ``ones``; outputs V P h with pooling
    P (a, K) and V (c, a) (BM eq. 22)."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    pool: Array
    ones: bool = False

    def prepare(self, X: Array) -> Array:
        room = [(0, 0), (0, 0)] + [(pad, pad) for pad in self.padding]
        X = np.pad(X, room)
        cells = positions(X.shape[2:], self.kernel, self.stride, self.dilation)
        taps = []
        for tap in product(*(range(size) for size in self.kernel)):
            start = [k * dilation for k, dilation in zip(tap, self.dilation, strict=True)]
            along = tuple(
                slice(a, a + stride * (count - 1) + 1, stride)
                for a, stride, count in zip(start, self.stride, cells, strict=True)
            )
            taps.append(X[(slice(None),) * 2 + along].reshape(*X.shape[:2], -1))
        patches = np.stack(taps, axis=2)  # (b, channels, taps, K)
        rows = patches.reshape(len(X), -1, patches.shape[3]).transpose(0, 2, 1)
        return np.concatenate([rows, np.ones_like(rows[..., :1])], axis=2) if self.ones else rows

    def absolute(self) -> Rows:
        return replace(self, pool=np.abs(self.pool))

    def tokens(self, rows: Array) -> int:
        return 1

    def outputs(self, rows: Array, hidden: Array, second: Array) -> Array:
        a = len(self.pool)
        V = second.reshape(len(second), second.shape[1] // a, a)  # (N, c, a)
        pooled = self.pool @ hidden  # (b, a, N)
        return np.einsum("iaj,jca->ic", pooled, V, optimize=True)[:, None, :]

    def slope(self, rows: Array, opened: Opened, theta: Array) -> Array:
        pooled = self.pool @ (rows * opened[:, :, None])  # (b, a, p)
        return np.einsum("iap,ic->pca", pooled, theta[:, 0], optimize=True).reshape(rows.shape[2], -1)


def positions(
    size: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[int, ...]:
    """How many places a kernel has along each side of a (padded) image."""
    return tuple(
        (a - dilation_ * (k - 1) - 1) // stride_ + 1
        for a, k, stride_, dilation_ in zip(size, kernel, stride, dilation, strict=True)
    )


def cell_means(cells: tuple[int, ...], places: tuple[int, ...]) -> Array:
    """P (a, K): the mean over each cell of a grid of cells laid over the places."""
    sides = []
    for a, k in zip(cells, places, strict=True):
        inside = np.zeros((a, k))
        for i in range(a):
            inside[i, i * k // a : -(-(i + 1) * k // a)] = 1
        sides.append(inside / inside.sum(axis=1, keepdims=True))
    matrix = sides[0]
    for side in sides[1:]:
        matrix = np.einsum("ak,bl->abkl", matrix, side).reshape(len(matrix) * len(side), -1)
    return matrix


@dataclass(frozen=True)
class Attention(Rows):
    """Hidden X W₁ Xᵀ (s, s) times ``scale``, outputs H X W₂ (AT eq. 11, 12)."""

    scale: float

    def rho(self, X: Array) -> int:
        return X.shape[1] ** 2

    def hidden(self, X: Array, first: Array) -> Array:
        n, s, d = X.shape
        W = first.reshape(-1, d, d)
        return np.einsum("ita,jab,irb->itrj", X, W, self.scale * X, optimize=True).reshape(n, s * s, -1)

    def table(self, X: Array) -> Array:
        n, s, d = X.shape
        return np.einsum("ita,irb->itrab", X, self.scale * X).reshape(n, s * s, d * d)

    def outputs(self, X: Array, hidden: Array, second: Array) -> Array:
        n, s, d = X.shape
        values = np.einsum("ire,jec->irjc", X, second.reshape(len(second), d, second.shape[1] // d), optimize=True)
        return np.einsum("itrj,irjc->itc", hidden.reshape(n, s, s, -1), values, optimize=True)

    def slope(self, X: Array, opened: Opened, theta: Array) -> Array:
        """G[ab, ec] = Σ_i Σ_{t,r} D[t, r] X[t, a] X[r, b] X[r, e] Θ[t, c]."""
        n, s, d = X.shape
        c = theta.shape[2]
        seen = (X[:, :, :, None] * theta[:, :, None, :]).reshape(n, s, d * c)
        gated = opened.reshape(n, s, s).transpose(0, 2, 1) @ seen  # (b, r, ac)
        pairs = X[:, :, :, None] * X[:, :, None, :]
        G = gated.reshape(n * s, d * c).T @ pairs.reshape(n * s, d * d)
        return self.scale * G.reshape(d, c, d, d).transpose(0, 2, 3, 1).reshape(d * d, d * c)


@dataclass(frozen=True)
class Mixer(Rows):
    """Hidden W₁ X (s, d), outputs H W₂ (AT eq. 17)."""

    def rho(self, X: Array) -> int:
        return X.shape[1] * X.shape[2]

    def hidden(self, X: Array, first: Array) -> Array:
        n, s, d = X.shape
        W = first.reshape(-1, s, s)
        return np.einsum("jtr,irf->itfj", W, X, optimize=True).reshape(n, s * d, -1)

    def table(self, X: Array) -> Array:
        n, s, d = X.shape
        return np.einsum("tu,irf->itfur", np.eye(s), X).reshape(n, s * d, s * s)

    def outputs(self, X: Array, hidden: Array, second: Array) -> Array:
        n, s, d = X.shape
        W = second.reshape(len(second), d, second.shape[1] // d)
        return np.einsum("itfj,jfc->itc", hidden.reshape(n, s, d, -1), W, optimize=True)

    def slope(self, X: Array, opened: Opened, theta: Array) -> Array:
        """G[tr, fc] = Σ_i D[t, f] X[r, f] Θ[t, c]."""
        n, s, d = X.shape
        G = np.empty((s, s, d, theta.shape[2]))
        for t, f in product(range(s), range(d)):
            gated = X[:, :, f] * opened.reshape(n, s, d)[:, t, f, None]
            G[t, :, f] = gated.T @ theta[:, t]
        return G.reshape(s * s, -1)
