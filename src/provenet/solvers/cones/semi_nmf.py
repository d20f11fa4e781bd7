"""Semi-non-negative factorisation by coordinate descent: a ReLU network on orthogonal rows (CP Remark 5.1).

    min ½‖diag(ℓ)WV − Y‖² + β/2 (‖W‖² + ‖V‖²)   over   W ≥ 0 (n, m),  V (m, r)

One neuron at a time, each layer at its best for all others as they are; no step is too long, none needs a rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import deadline


@dataclass(frozen=True)
class Orthogonal:
    """Data of the problem: lengths ℓ (n, 1) > 0 of orthogonal rows, targets (n, r), both weighted, and β."""

    length: Tensor
    target: Tensor
    beta: float

    def objective(self, W: Tensor, V: Tensor) -> float:
        misfit = self.length * (W @ V) - self.target
        return 0.5 * float(misfit.square().sum() + self.beta * (W.square().sum() + V.square().sum()))

    def second_layer(self, W: Tensor) -> Tensor:
        """The best V (m, r) for W."""
        reached = self.length * W
        gram = reached.T @ reached
        gram.diagonal().add_(self.beta)
        return torch.linalg.solve(gram, reached.T @ self.target)

    def swept(self, W: Tensor, V: Tensor, sweeps: int) -> tuple[Tensor, Tensor]:
        """After so many rounds over all neurons."""
        columns, rows = list(W.T.clone()), list(V.clone())
        ell, square = self.length[:, 0], self.length[:, 0].square()
        for _ in range(sweeps):
            if deadline.over():
                break
            left = self.target - self.length * (torch.stack(columns, 1) @ torch.stack(rows))
            for j, (w, v) in enumerate(zip(columns, rows, strict=True)):
                left.addr_(ell * w, v)
                w = (ell * (left @ v)).clamp_min_(0) / (square * v.dot(v) + self.beta)
                reached = ell * w
                v = (reached @ left) / (reached.dot(reached) + self.beta)
                left.addr_(reached, v, alpha=-1)
                columns[j], rows[j] = w, v
        return torch.stack(columns, 1), torch.stack(rows)
