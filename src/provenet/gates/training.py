"""Short trainings of networks by L-BFGS, for gates and for choosing β: no proof rests on them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from provenet import deadline
from provenet.gates.sight import Trainee
from provenet.vectors import unit

ENOUGH = 1e-6  # of the objective that training began with: a step that gains less is the last
_OUTPUTS = 0.3  # root mean square of the outputs that training begins with
PASSES = 4  # of the work of a forward pass: what a step takes, its line search included


class Layers(NamedTuple):
    """First and second layers (m, p) and (m, q), and the bias (c,) of the outputs, empty where there is none."""

    first: Tensor
    second: Tensor
    bias: Tensor

    def flat(self) -> NDArray[np.float64]:
        return torch.cat([part.flatten() for part in self]).numpy()

    def filled(self, values: NDArray[np.float64]) -> Layers:
        """Layers of these shapes with such values, one after the other."""
        sizes = [part.numel() for part in self]
        parts = torch.from_numpy(values).split(sizes)
        return Layers(*(part.view_as(own) for part, own in zip(parts, self, strict=True)))


def begun(trainee: Trainee, group: Tensor, generator: np.random.Generator) -> Layers:
    """Neurons in random directions, their layers balanced, that together say something of moderate size."""
    sizes = trainee.p, trainee.q
    first, second = (unit(torch.from_numpy(generator.standard_normal((len(group), k)))) for k in sizes)
    said = float(trainee.network(group)(first, second).square().mean()) ** 0.5
    root = (_OUTPUTS / said) ** 0.5 if said > 0 else 1.0
    return Layers(root * first, root * second, trainee.bias())


def descended(trainee: Trainee, group: Tensor, start: Layers, steps: int, enough: float = ENOUGH) -> Layers:
    """The layers after at most so many steps of L-BFGS at the trainee's β; where time is over, those it has then."""
    began = trainee.constant_loss(start.bias)
    if not began > torch.finfo(torch.float64).tiny:  # a constant fits: there is nothing to learn
        return start
    slopes, flat = trainee.slopes(group), start.flat()
    best, least = flat, float("inf")
    ends = np.cumsum([part.numel() for part in start])
    shapes = [part.shape for part in start]
    decay = trainee.beta / began

    def objective(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal best, least
        if deadline.over():
            raise TimeoutError
        parts = [part.reshape(shape) for part, shape in zip(np.split(values, ends[:-1]), shapes, strict=True)]
        loss, found = slopes(*parts)
        weights = values[: ends[1]]
        value = loss / began + 0.5 * decay * float(weights @ weights)
        if value < least:
            best, least = values.copy(), value
        slope = np.concatenate([part.ravel() for part in found])
        slope /= began
        slope[: ends[1]] += decay * weights
        return value, slope

    options: dict[str, Any] = {"maxiter": steps, "ftol": enough, "gtol": 0.0, "maxcor": 10}
    with suppress(TimeoutError):  # it ends with what it has
        minimize(objective, flat, jac=True, method="L-BFGS-B", options=options)
    return start.filled(best)
