"""First-order descent on the factors: with momentum, as in BM C.1, and preconditioned (BM A.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.neurons.place import Place, gradient, place, shifted
from provenet.variable import ByGate

_BACKTRACKS = 60


@dataclass(frozen=True)
class Plateau:
    """A learning rate that decays on plateau, with the meaning of torch's ReduceLROnPlateau and its defaults.

    A value is an improvement if it is below ``best`` by more than ``threshold`` of it; after more than ``patience``
    values in a row without one, the rate is multiplied by ``decay``.
    """

    rate: float
    decay: float = 0.9
    patience: int = 10
    threshold: float = 1e-4
    best: float = float("inf")
    bad: int = 0

    def after(self, value: float) -> Plateau:
        if value < self.best * (1 - self.threshold):
            return replace(self, best=value, bad=0)
        if self.bad < self.patience:
            return replace(self, bad=self.bad + 1)
        lower = self.rate * self.decay
        return replace(self, rate=lower if self.rate - lower > 1e-8 else self.rate, bad=0)


@dataclass(frozen=True)
class Momentum:
    """Gradient descent with heavy-ball momentum, torch.optim.SGD's: b ← μb + ∇, w ← w − rate·b.

    ``scale`` multiplies the objective.  BM C.1 gives a rate of 1.0 but not the scale of its loss; at the scale of a sum
    over samples that rate diverges on its spiral, so the mean over all n·c entries of the target is what is meant here.
    """

    schedule: Plateau
    momentum: float
    scale: float
    buffer: Tensor | None = None

    def step(self, program: Program, at: Place) -> tuple[Place, Momentum]:
        slope = self.scale * gradient(program, at)
        buffer = slope if self.buffer is None else self.momentum * self.buffer + slope
        there = place(program, shifted(at.factors, -self.schedule.rate * buffer))
        return there, replace(self, schedule=self.schedule.after(self.scale * at.value), buffer=buffer)


@dataclass(frozen=True)
class Preconditioned:
    """U_k ← U_k − η∇_U(V_kᵀV_k + εI)⁻¹, V_k ← V_k − η∇_V(U_kᵀU_k + εI)⁻¹, gate by gate (Zhang et al. 2023).

    ε = (‖∇‖/ℓ)² + ηβ, with ℓ a Lipschitz constant of the convex objective's gradient.  The first part has the units of
    UᵀU, and vanishes at a stationary point.  The second is weight decay's: in gates that the optimum leaves empty V_k
    goes to zero, and with it VᵀV; there η∇_U(VᵀV + ηβI)⁻¹ is about U, which is the step to zero, and without ηβ it would
    be many times that, so that η had to be tiny for all gates.  η starts at 1/ℓ, doubles after each step and is halved
    until the objective falls by a tenth of what the gradient promises.
    """

    lipschitz: float
    rate: float

    def step(self, program: Program, at: Place) -> tuple[Place, Preconditioned]:
        factors, p = at.factors, at.factors.left.shape[1]
        slope = gradient(program, at)
        least = (float(torch.linalg.vector_norm(slope)) / self.lipschitz) ** 2
        groups = ByGate(factors.gate)
        rate = 2 * self.rate
        for _ in range(_BACKTRACKS):
            damping = least + rate * program.beta
            direction = torch.cat(
                [
                    _precondition(groups, slope[:, :p], factors.right, damping),
                    _precondition(groups, slope[:, p:], factors.left, damping),
                ],
                dim=1,
            )
            promised = float((slope * direction).sum())
            there = place(program, shifted(factors, -rate * direction))
            if there.value <= at.value - 0.1 * rate * promised:
                return there, replace(self, rate=rate)
            rate /= 2
        return at, self


def _precondition(groups: ByGate, slope: Tensor, partner: Tensor, damping: float) -> Tensor:
    """(V_kᵀV_k + εI)⁻¹ on the neurons' gradients (N, w), for the other layer's weights V_k."""
    other = groups.gather(partner)
    gram = torch.bmm(other, other.transpose(1, 2))
    floor = torch.finfo(slope.dtype).eps * gram.diagonal(dim1=1, dim2=2).amax().clamp_min(1e-300)
    gram.diagonal(dim1=1, dim2=2).add_(damping + float(floor))
    return groups.scatter(torch.linalg.solve(gram, groups.gather(slope)))
