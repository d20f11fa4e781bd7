"""Steps of gradient methods on a few tensors, with a state that is nothing but tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

_ROOT, _INNER = "root", "inner"


class Optimiser(ABC):
    """``state``: tensors by name, of which a run that resumes makes the same steps.  Weight decay is in the loss.

    A weight W (N, p) with a root R (p, p) in the state is stepped in other coordinates, W = W̃R (`in_coordinates`).
    """

    def __init__(self, weights: Sequence[Tensor], state: dict[str, Tensor]):
        self.weights, self.state = list(weights), dict(state)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Along the weights' gradients, which are used up."""
        for place, weight in enumerate(self.weights):
            assert weight.grad is not None
            root = self.state.get(f"{place}.{_ROOT}")
            if root is None:
                weight -= rate * self.direction(str(place), weight.grad, weight)
            else:
                inner = self.state[f"{place}.{_INNER}"]
                inner -= rate * self.direction(str(place), weight.grad @ root, inner)
                torch.matmul(inner, root, out=weight)
            weight.grad = None

    @abstractmethod
    def direction(self, place: str, gradient: Tensor, weight: Tensor) -> Tensor: ...

    def _kept(self, name: str, like: Tensor) -> Tensor:
        if name not in self.state:
            self.state[name] = torch.zeros_like(like)
        return self.state[name]


@torch.no_grad()
def in_coordinates(weight: Tensor, root: Tensor, place: int = 0) -> dict[str, Tensor]:
    """The state in which a weight begins to be stepped in coordinates W̃ = WR⁻¹; R symmetric and regular."""
    inner = torch.linalg.solve(root.to(torch.float64), weight.T.to(torch.float64)).T
    return {f"{place}.{_ROOT}": root, f"{place}.{_INNER}": inner.to(weight.dtype).contiguous()}


def root_of(state: dict[str, Tensor], place: int = 0) -> Tensor | None:
    """The root that a state has for a weight."""
    return state.get(f"{place}.{_ROOT}")


class SGD(Optimiser):
    """With momentum, as torch's: b ← μb + g, w ← w − rate·b."""

    momentum = 0.9

    def direction(self, place: str, gradient: Tensor, weight: Tensor) -> Tensor:
        return self._kept(f"{place}.momentum", gradient).mul_(self.momentum).add_(gradient)


class Adam(Optimiser):
    """Kingma and Ba (2015), with their defaults, but for steps in units of the weights' own size: so one rate does for
    stages of all sizes, and for inputs of all scales."""

    first, second, tiny = 0.9, 0.999, 1e-8

    def direction(self, place: str, gradient: Tensor, weight: Tensor) -> Tensor:
        count = self._kept(f"{place}.count", torch.zeros((), dtype=torch.float64)).add_(1)
        mean = self._kept(f"{place}.mean", gradient).lerp_(gradient, 1 - self.first)
        square = (
            self._kept(f"{place}.square", gradient)
            .mul_(self.second)
            .addcmul_(gradient, gradient, value=1 - self.second)
        )
        steps = float(count)
        size = square.sqrt().div_((1 - self.second**steps) ** 0.5).add_(self.tiny)
        own = weight.square().mean().sqrt()
        return mean / size * (own / (1 - self.first**steps))


OPTIMISERS: dict[str, type[Optimiser]] = {"sgd": SGD, "adam": Adam}
