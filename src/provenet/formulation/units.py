"""A loss, and the data's sizes, in units in which solvers see numbers of moderate size."""

from __future__ import annotations

import math

from provenet.losses import Loss
from provenet.problem import Units
from provenet.vectors import power_of_four


def normalised(loss: Loss, x_size: float, degree: int) -> tuple[Loss, Units]:
    """The loss on targets and weights of moderate size, and the units; all must be numbers float64 can hold."""
    scaled, y = loss.normalised()
    w = power_of_four(loss.largest_weight)
    x = power_of_four(x_size)
    x_unit = math.prod([x] * degree)  # a product overflows to infinity, a power would raise
    units = Units(x, y / max(x_unit, 1e-307), y, y * y * w, x_unit * y * w)
    if not all(1e-305 < u < 1e305 for u in (x_unit, *units[1:])):
        raise ValueError(
            f"X, Y, sample_weight: at sizes of about {x_unit:.1g}, {y:.1g} and {w:.1g} the weights or the "
            "objective leave the range of float64; rescale them."
        )
    return scaled.divided(w), units
