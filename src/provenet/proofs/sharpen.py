"""A better dual point than the network's own gradient: by solving its problem, for so many seconds."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from provenet import deadline
from provenet.certificates import Certificate
from provenet.nn import TwoLayer
from provenet.problem import Problem
from provenet.ranks.context import least
from provenet.solvers.loop import Limits
from provenet.solvers.solve import solve_quietly


def check_seconds(sharpen: Any) -> None:
    if not (isinstance(sharpen, Real) and 0 <= float(sharpen) < math.inf):
        raise ValueError(f"sharpen: seconds from zero on are needed, got {sharpen!r}.")


def sharp(tol: float, seconds: float) -> Limits:
    """For a dual point that proves more than the tolerance asks."""
    return Limits(min(tol, 1e-4) / 4, max_seconds=seconds)


def sharpened(certificate: Certificate, network: TwoLayer, pose: Callable[[], Problem], seconds: float) -> Certificate:
    """That of a network among those with its gates, with the best dual point that solving its problem finds in so many
    seconds, posing included.  What is solved for begins at this network and is thrown away: a dual point bounds both.
    Where samples do not fit into memory, or time is over before the first step, the certificate stays as it is."""
    began = time.perf_counter()
    try:
        with deadline.within(seconds):
            problem = pose()
        left = least(seconds - (time.perf_counter() - began))
        best = solve_quietly(problem, "auto", sharp(certificate.tol, left), network) if left > 0 else None
    except deadline.TooLong:
        best = None
    except MemoryError as error:
        warnings.warn(f"{error} The bound is by the network's own gradient.", ConvergenceWarning, stacklevel=2)
        best = None
    return certificate if best is None else certificate.sharpened(best.certificate)
