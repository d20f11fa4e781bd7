"""Cone-constrained PCA with several outputs, from above: max ‖Gᵀu‖² ≤ λ_max(GGᵀ + Σ_m S_m sym(a_m b_mᵀ)) over unit u of
the cone, for any S ≥ 0 and any a, b = Kᵀλ, λ ≥ 0, as aᵀu·bᵀu ≥ 0.

First the rows that hold a peak back, each with the vector h·e − a that says how wide the cone is across it; then, with
the best S for these, vectors that the relaxation's own matrix U violates.  Nothing need be accurate: what is returned
is an eigenvalue at some S, widened by its rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from provenet.verify.cones import projected

Array = NDArray[np.float64]
Dual = tuple[Array, float]  # a vector of the dual cone, of unit length, and what its rounding is in proportion to
_ASCENTS, _WIDTHS, _ROUNDS, _STEPS = 30, 6, 8, 60
_NONE = 1e-7
_BEGIN, _CARRIES = 0.01, 1e-4  # what every S begins with, and, of the largest, what it must be to stay
EPS = float(np.finfo(np.float64).eps)


def narrow_bound(G: Array, K: Array, inside: Array, enough: float) -> float:
    """For G (p, q), unit rows K (N, p) and a u with Ku > 0; a bound no larger than ``enough`` is not tightened."""
    size = float(np.linalg.norm(G, 2)) ** 2
    if not np.isfinite(size) or size == 0:
        return float(np.sqrt(size))
    found = _Relaxation(G @ G.T / size, K, inside / np.linalg.norm(inside), 8 * (sum(G.shape) + len(K) + 4) * EPS)
    return float(np.sqrt(found.bound(enough**2 / size) * size)) * (1 + 4 * EPS)


class _Relaxation:
    """R (p, p) of norm one; depth: the rounding of a sum of products of these lengths."""

    def __init__(self, R: Array, K: Array, inside: Array, depth: float) -> None:
        self.R, self.K, self.inside, self.depth = R, K, inside, depth
        self.pairs: list[tuple[Dual, Dual]] = []

    def bound(self, enough: float) -> float:
        point, _, force = projected(-self.inside, self.K)
        centre = _unit(point + self.inside, 1 + force.sum())
        rows, force = self._peak()
        held = [(self.K[row], 1.0) for row in rows]
        self.pairs = [(a, self._across(a, centre)) for a in held] + [(a, centre) for a in held]
        best = 1 + self.depth
        S = np.zeros(len(self.pairs))
        for _ in range(_ROUNDS):
            if not self.pairs:
                break
            try:
                S, U = self._minimised(S, enough)
                best = min(best, self._value(S))
            except np.linalg.LinAlgError:  # pairs that all but coincide: what is proven so far stands
                break
            more = [pair for a in [*held, centre] for pair in self._violated(a, U)]
            if best <= enough or not more:
                break
            kept = [m for m in range(len(S)) if S[m] > _CARRIES * S.max()]
            self.pairs = [self.pairs[m] for m in kept] + more
            S = np.concatenate([S[kept], np.zeros(len(more))])
        return max(best, 0.0)

    def _peak(self) -> tuple[list[int], Array]:
        """The rows that hold the end of a climb from inside back, and their multipliers."""
        u = self.inside
        rows: list[int] = []
        force = np.zeros(0)
        for _ in range(_ASCENTS):
            point, rows, force = projected(self.R @ u, self.K)
            length = float(np.linalg.norm(point))
            if length < _NONE or float(np.linalg.norm(point / length - u)) < _NONE:
                break
            u = point / length
        return rows, force

    def _across(self, a: Dual, centre: Dual) -> Dual:
        """About h·e − a for the least h that has it in the dual cone: the largest aᵀw/eᵀw over w of the cone."""
        h = float(a[0] @ self.inside) / max(float(centre[0] @ self.inside), _NONE)
        for _ in range(_WIDTHS):
            g = a[0] - h * centre[0]
            point, _, force = projected(g, self.K)
            found = _unit(point - g, 1 + float(np.linalg.norm(g)) + force.sum())
            height = float(centre[0] @ point)
            if np.linalg.norm(point) <= _NONE or height <= 1e-6 * np.linalg.norm(point):
                break
            h = max(h, float(a[0] @ point) / height)
        return found

    def _violated(self, a: Dual, U: Array) -> list[tuple[Dual, Dual]]:
        """a with the b of the dual cone that has the least aᵀUb, and that with its own, where they are negative."""
        found: list[tuple[Dual, Dual]] = []
        for _ in range(2):
            pull = U @ a[0]
            pull = pull / max(float(np.linalg.norm(pull)), 1e-300)
            point, _, force = projected(pull, self.K)
            b = _unit(point - pull, 2 + force.sum())
            if not b[0] @ pull < -1e-9:
                break
            found.append((a, b))
            a = b
        return found

    def _value(self, S: Array) -> float:
        """The bound that S proves."""
        left, right, weight = self._arrays()
        half = (left * S[:, None]).T @ right
        return float(np.linalg.eigvalsh(self.R + (half + half.T) / 2)[-1]) + self.depth * (1 + float(S @ weight))

    def _arrays(self) -> tuple[Array, Array, Array]:
        left, right = (np.array([pair[side][0] for pair in self.pairs]) for side in (0, 1))
        return left, right, np.array([a[1] * b[1] for a, b in self.pairs])

    def _minimised(self, start: Array, enough: float) -> tuple[Array, Array]:
        """The best S met on the way of Newton's steps on t/μ − logdet(tI − R − Σ …) − Σ log S while μ falls, and U."""
        left, right, _ = self._arrays()
        p, M = len(self.R), len(left)
        S, mu = start + _BEGIN, 0.1
        half = (left * S[:, None]).T @ right
        t = float(np.linalg.eigvalsh(self.R + (half + half.T) / 2)[-1]) + mu
        best, at, W = np.inf, S, np.eye(p)
        for _ in range(_STEPS):
            half = (left * S[:, None]).T @ right
            W = np.linalg.inv(t * np.eye(p) - self.R - (half + half.T) / 2)
            LW, RW = left @ W, right @ W
            cross = LW @ right.T
            slope = np.concatenate([[1 / mu - np.trace(W)], (LW * right).sum(1) - 1 / S])
            H = np.zeros((M + 1, M + 1))
            H[0, 0] = (W * W).sum()
            H[0, 1:] = H[1:, 0] = -(LW * RW).sum(1)
            H[1:, 1:] = ((LW @ left.T) * (RW @ right.T) + cross * cross.T) / 2 + np.diag(S**-2)
            scale = np.sqrt(np.diag(H))
            step = -np.linalg.solve(H / np.outer(scale, scale) + 1e-12 * np.eye(M + 1), slope / scale) / scale
            decrement = max(-float(step @ slope), 0.0)
            t, S = self._moved(t, S, step, left, right)
            value = self._value(S)
            if value < best:
                best, at = value, S
            if best <= enough or mu * (M + p) < 1e-7:
                break
            if decrement < 0.5:
                mu *= 0.1
        return at, W / np.trace(W)

    def _moved(self, t: float, S: Array, step: Array, left: Array, right: Array) -> tuple[float, Array]:
        """As far as the barrier's domain goes."""
        length = min(1.0, 0.9 / max(float((-step[1:] / S).max()), 1e-300))
        for _ in range(30):
            there, at = t + length * step[0], S + length * step[1:]
            half = (left * at[:, None]).T @ right
            if np.linalg.eigvalsh(self.R + (half + half.T) / 2)[-1] < there:
                return float(there), at
            length /= 2
        return t, S


def _unit(vector: Array, weight: float) -> Dual:
    length = float(np.linalg.norm(vector))
    return (vector / length, weight / length) if length > 1e-9 else (np.zeros_like(vector), 0.0)
