"""ZCA whitening: x ↦ (x − mean)·matrix + shift, with XXᵀ = I on the data it was fitted to (CP §3.3, A.1.4).

XXᵀ = I needs n ≤ d samples, linearly independent.  Demeaned rows add up to zero, so they are not: they only reach
XXᵀ = I − 11ᵀ/n, which is not spike-free.  So demeaning is followed by a constant shift of length 1/√n across all
whitened rows, along what the mean has of its own: XXᵀ = I again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from provenet import memory
from provenet.data.validation import as_samples

_INDEPENDENT = 1e-10  # of the largest singular value; below it a direction is rounding


@dataclass(frozen=True)
class Whitening:
    """mean (d,), matrix (d, d), shift (d,): what a model folder keeps, to be applied to new data."""

    mean: Tensor
    matrix: Tensor
    shift: Tensor

    @classmethod
    def fit(cls, X: Any, demean: bool = False) -> Self:
        """The whitening of samples X (n, d), n ≤ d."""
        X = as_samples(X).to(torch.float64)
        if X.ndim != 2:
            raise ValueError(f"X: whitening needs a table of samples (n, d), got {tuple(X.shape)}.")
        n, d = X.shape
        if n > d:
            raise ValueError(
                f"X: {n} samples of {d} features cannot be whitened: XXᵀ = I needs n ≤ d. Take at most {d} samples, "
                "more features, or train without whitening."
            )
        memory.check_fits(
            3 * 8 * d * d, f"whiten: a matrix of {d} × {d} features", "Take fewer features, or none whitened."
        )
        mean = X.mean(0) if demean else torch.zeros(d, dtype=torch.float64)
        centred = X - mean
        _, sigma, Vh = torch.linalg.svd(centred, full_matrices=False)
        wanted = n - 1 if demean else n
        found = int((sigma[:wanted] > _INDEPENDENT * sigma[0]).sum()) if float(sigma[0]) > 0 else 0
        if found < wanted:
            _refuse(found + demean, n)
        V = Vh[:wanted]
        matrix = (V.T / sigma[:wanted]) @ V
        shift = torch.zeros_like(mean)
        if demean:
            own = mean - (mean @ V.T) @ V
            if float(own.norm()) <= _INDEPENDENT * max(float(sigma[0]), float(mean.norm())):
                _refuse(n - 1, n)
            shift = own / own.norm() / n**0.5
        return cls(mean, matrix, shift)

    def apply(self, X: Any) -> Tensor:
        """Samples (…, d), whitened in float64."""
        X = as_samples(X).to(torch.float64)
        if X.shape[-1] != len(self.mean):
            raise ValueError(f"X: this whitening is of {len(self.mean)} features, got {X.shape[-1]}.")
        whitened: Tensor = (X - self.mean) @ self.matrix + self.shift
        return whitened

    def tensors(self) -> dict[str, Tensor]:
        """What to store, by name."""
        return {"mean": self.mean, "matrix": self.matrix, "shift": self.shift}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Back from `tensors`; ValueError where they do not belong together."""
        missing = {"mean", "matrix", "shift"} - set(tensors)
        if missing:
            raise ValueError(f"tensors: a whitening needs {', '.join(sorted(missing))} too.")
        mean, matrix, shift = (tensors[name].to(torch.float64) for name in ("mean", "matrix", "shift"))
        d = mean.numel()
        if mean.shape != (d,) or matrix.shape != (d, d) or shift.shape != (d,):
            shapes = ", ".join(str(tuple(part.shape)) for part in (mean, matrix, shift))
            raise ValueError(f"tensors: mean, matrix and shift must be (d,), (d, d) and (d,), got {shapes}.")
        if not all(bool(torch.isfinite(part).all()) for part in (mean, matrix, shift)):
            raise ValueError("tensors: the whitening has entries that are not finite.")
        return cls(mean, matrix, shift)


def _refuse(rank: int, n: int) -> None:
    raise ValueError(
        f"X: its {n} samples have rank {rank}; XXᵀ = I needs them linearly independent. Drop repeated, zero or "
        "dependent samples."
    )
