"""The polar max_k γ°(A_k*Θ) over every gate: never less than it is, rounding included."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from provenet.verify.cones import cone_bound, is_reached, sectors
from provenet.verify.groups import Groups
from provenet.verify.losses import EPS
from provenet.verify.narrow import narrow_bound
from provenet.verify.norms import checked, pull_of_one, strongest
from provenet.verify.samples import Samples
from provenet.verify.types import Statement

Array = NDArray[np.float64]
_ENOUGH = 1 + 1e-4  # times β: polars that need not be bounded better
_MOST_WORK = 6e6  # rows of a cone times the square of their length: beyond, the relaxation takes minutes
Bound = tuple[float, bool]  # and whether it is the number itself


def polar(samples: Samples, groups: Groups, theta: Array, statement: Statement) -> Bound:
    """Over the gates of all groups, for the gradient Θ of the loss at the predictions."""
    unit = 2.0 ** np.clip(np.frexp(np.abs(theta).max())[1], -1000, 1000)  # squares of what is tiny would vanish
    enough = _ENOUGH * statement.beta / unit
    found = [_of_group(samples, groups, b, theta / unit, statement, enough) for b in range(groups.count)]
    largest, exact = max(found)
    return unit * largest, exact


def _of_group(samples: Samples, groups: Groups, b: int, theta: Array, statement: Statement, enough: float) -> Bound:
    sizes = groups.first.shape[1], groups.second.shape[1]
    table = samples.table(groups, b) if statement.relu else None
    norms = checked(statement.penalty)
    if statement.relu and norms != (2, 2) and norms[1] != 1 and sizes[1] > 1:
        raise ValueError(
            f"penalty: {statement.penalty} of ReLU networks with several outputs is not judged; (C, 1) is."
        )
    vectors = groups.judged(b)
    if statement.all_arrangements:
        vectors = sectors(table) if sizes[0] == 2 and table is not None else None
    slopes, hidden_by_rounding, total = _slopes(samples, groups, b, groups.columns(theta, b), vectors)
    if statement.all_arrangements and vectors is None:  # entry by entry no slope of any arrangement is larger
        largest, exact = strongest(total, norms), False
    elif table is None or vectors is None:
        largest, exact = max(strongest(G, norms) for G in slopes), not statement.relu
    else:
        size = 2.0 ** np.clip(np.frexp(np.abs(slopes).max())[1], -1000, 1000)  # squares of what is huge would overflow
        largest, exact = _in_cones(slopes / size, vectors, table, norms, enough / size)
        largest *= size
    bound = hidden_by_rounding * pull_of_one(norms, *sizes) + largest
    if not np.isfinite(bound):
        raise ValueError("X, Y: at these sizes the dual leaves the range of float64; rescale them.")
    return bound, exact


def _slopes(
    samples: Samples, groups: Groups, b: int, theta: Array, vectors: Array | None
) -> tuple[Array, float, Array]:
    """A_k*Θ (p, q) of each gate of group b, what rounding may hide in one, in Frobenius' norm, and what the entries of
    any gate's are at most, in absolute value."""
    sizes = groups.first.shape[1], groups.second.shape[1]
    slopes = np.zeros((1 if vectors is None else len(vectors), *sizes))
    total = np.zeros(sizes)
    form, bound = samples.form, samples.form.absolute()
    terms = 0
    for rows, x in samples.batches():
        x = groups.columns(x, b)
        ready = form.prepare(x)
        at = samples.at_tokens(theta[rows], rows, form.tokens(ready))
        sides = form.hidden(ready, np.zeros((1, sizes[0])) if vectors is None else vectors)
        for k in range(len(slopes)):
            slopes[k] += form.slope(ready, sides[:, :, k] >= 0, at)
        total += bound.slope(bound.prepare(np.abs(x)), np.ones(sides.shape[:2], dtype=bool), np.abs(at))
        terms = max(terms, sides.shape[0] * sides.shape[1])
    # an entry rounds where X is prepared, in the sum over a batch, and where batches are added
    roundings = samples.X[0].size + terms + len(samples.X) // samples.size + 8
    return slopes, roundings * EPS * _frobenius_norm(total), total


def _in_cones(slopes: Array, vectors: Array, table: Array, norms: tuple[float, float], enough: float) -> Bound:
    """max_k γ°(G_k) over the cones of the gates' activation patterns on unit rows, the largest pulls first.

    A bound of no more than ``enough`` is not tightened where that takes a relaxation."""
    pulls = np.array([strongest(G, norms) for G in slopes])
    if norms[0] != 2:  # what is known of cones here is of the 2-norm: this bound holds without them
        return float(pulls.max()), False
    found, exact = 0.0, True
    for k in np.argsort(-pulls):
        if pulls[k] <= found:
            break
        cone = np.where((table @ vectors[k] >= 0)[:, None], table, -table)
        # with the 1-norm for second layers a neuron writes to one output; else all outputs are judged together
        for G in slopes[k].T[:, :, None] if norms[1] == 1 else slopes[k][None]:
            bound = cone_bound(G, cone)
            reached = is_reached(G, cone, bound)
            if bound > max(found, enough) and not reached and cone.size * len(G) <= _MOST_WORK:
                bound = min(bound, narrow_bound(G, cone, vectors[k], max(found, enough)))
            if bound > found:
                found, exact = bound, reached
    return found, exact


def _frobenius_norm(G: Array) -> float:
    """Without squares of huge numbers."""
    largest = float(np.abs(G).max())
    return largest * float(np.linalg.norm(G / largest)) if largest > 0 else 0.0
