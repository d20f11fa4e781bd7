"""The path in β."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from provenet.report.canvas import INK, Drawing, canvas, log_axis, readable_ticks
from provenet.report.figures import SMALLEST_GAP
from provenet.report.numerals import count, gap_number, number
from provenet.solvers import Solution


def beta_path(
    here: Solution, solutions: Sequence[Solution], scores: Sequence[float], score_name: str, chosen: bool = False
) -> list[Drawing]:
    """Objective, gap, score and neurons along β; a dashed line marks the solution that the report is of, which
    validation has ``chosen`` or not."""
    at = here.problem.beta / here.problem.beta_max
    relative = np.array([s.problem.beta / s.problem.beta_max for s in solutions])
    certificates = [s.certificate for s in solutions]
    gaps = np.maximum([c.relative_gap for c in certificates], SMALLEST_GAP)
    proven = sum(c.status == "certified" for c in certificates)
    neurons = [s.factors.n_neurons for s in solutions]
    few, many = neurons[int(relative.argmax())], neurons[int(relative.argmin())]
    best = int(np.nanargmax(scores)) if np.isfinite(scores).any() else None
    high = "" if best is None else f"Highest at β = {number(relative[best])} β_max: {number(float(scores[best]), 4)}."
    if chosen:
        best = int(np.abs(relative - at).argmin())
        high += f" Validation chose β = {number(relative[best])} β_max, the large dot."
    proofs = f"{proven} of {count(len(gaps), 'point')} certified; the largest gap is {gap_number(gaps.max())}."
    sizes = f"{count(few, 'neuron').capitalize()} at the largest β, {many:,} at the smallest."
    objectives = [c.primal for c in certificates]
    return [
        _along("path-objective", relative, objectives, at, "Objective", "The objective of the network at each β."),
        _along("path-gap", relative, gaps, at, "Relative gap", proofs, tol=here.certificate.tol),
        _along("path-score", relative, scores, at, score_name, high, mark=best),
        _along("path-neurons", relative, neurons, at, "Neurons", sizes),
    ]


def _along(
    name: str, relative: np.ndarray, values: Sequence[float] | np.ndarray, here: float, title: str, caption: str,
    tol: float | None = None, mark: int | None = None,
) -> Drawing:  # fmt: skip
    """One quantity along β ÷ β_max; with ``tol`` it is a gap, on a logarithmic axis."""
    order = np.argsort(relative)
    values = np.asarray(values, dtype=float)
    with canvas(name) as drawn:
        ax = drawn.axes
        ax.axvline(here, color=INK["muted"], linewidth=0.8, linestyle=(0, (2, 2)))
        ax.plot(relative[order], values[order], color=INK["primal"], marker="o", markersize=3)
        if mark is not None:
            ax.plot(relative[mark], values[mark], "o", color=INK["dual"], markersize=6)
        ax.set(xlabel="β ÷ β_max", ylabel=title[0].lower() + title[1:])
        log_axis(ax, "x")
        readable_ticks(ax.yaxis)
        if tol is not None:
            ax.axhline(tol, color=INK["good"], linewidth=1, linestyle=(0, (4, 3)))
            log_axis(ax, "y")
            ax.set_ylim(0.01 * tol, 3 * max(values.max(), tol))
        return drawn.drawing(title, caption)
