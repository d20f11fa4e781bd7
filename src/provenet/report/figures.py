"""How the run went and what the network is made of: each figure a small function from numbers to a `Drawing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from provenet.report.anatomy import Anatomy
from provenet.report.canvas import DENSE, INK, Drawing, canvas, ink, log_axis, readable_ticks
from provenet.report.numerals import count, gap_number, number, seconds
from provenet.solvers import Record

_GATES_SHOWN = 60
SMALLEST_GAP = 1e-17  # where a gap of nothing is drawn on a logarithmic axis


def objective(history: Sequence[Record]) -> Drawing:
    """Primal and dual closing in on the optimum."""
    step = np.array([record.step for record in history])
    primal = np.minimum.accumulate([record.primal for record in history])
    dual = np.maximum.accumulate([record.dual for record in history])
    with canvas("objective") as drawn:
        ax = drawn.axes
        marker = "o" if step.size < 40 else ""
        ax.fill_between(step, dual, primal, color=INK["muted"], alpha=0.12, linewidth=0)
        ax.plot(step, primal, color=INK["primal"], marker=marker, markersize=2.5, label="best network so far")
        ax.plot(step, dual, color=INK["dual"], marker=marker, markersize=2.5, label="lower bound for every network")
        ax.set_ylim(*_squeeze(primal, dual))
        _steps_axis(ax, step)
        readable_ticks(ax.yaxis)
        ax.legend(loc="upper right")
        return drawn.drawing(
            "Closing in",
            "The best possible objective lies in the shaded band, between the lower bound and the best network so far. "
            f"The band ends at a width of {gap_number(primal[-1] - dual[-1], primal[-1])}.",
        )


def _squeeze(primal: np.ndarray, dual: np.ndarray) -> tuple[float, float]:
    """Limits around the optimum: what happens far from it would flatten the rest."""
    best = primal.min()
    above = np.quantile(primal - best, 0.9) if primal.size > 20 else (primal - best).max()
    below = min((best - dual).max(), max(above, 0.05 * abs(best)))
    room = 0.08 * max(above + below, 1e-12 * abs(best)) or 1.0
    return float(best - below - room), float(best + max(above, 0.3 * below) + room)


def gap(history: Sequence[Record], tol: float) -> Drawing:
    """The relative gap, in steps and seconds."""
    step = np.array([record.step for record in history])
    time = np.array([record.seconds for record in history])
    relative = np.maximum([record.relative_gap for record in history], SMALLEST_GAP)
    best = np.minimum.accumulate(relative)
    with canvas("gap") as drawn:
        ax = drawn.axes
        ax.plot(step, relative, color=INK["primal"], linewidth=0.8, alpha=0.5)
        ax.plot(step, best, color=INK["primal"], marker="o" if step.size < 40 else "", markersize=2.5)
        ax.axhline(tol, color=INK["good"], linewidth=1, linestyle=(0, (4, 3)))
        ax.annotate(
            "asked for", (0, tol), (4, 3), xycoords=ax.get_yaxis_transform(), textcoords="offset points",
            color=INK["good"],
        )  # fmt: skip
        ax.set_ylabel("relative gap")
        log_axis(ax, "y")
        ax.set_ylim(0.3 * min(best[-1], tol), 3 * max(relative.max(), tol))
        _steps_axis(ax, step)
        top = ax.secondary_xaxis("top")
        shown = [tick for tick in ax.get_xticks() if step[0] <= tick <= step[-1]]
        top.set_xticks(shown, [seconds(float(np.interp(tick, step, time))) if tick else "" for tick in shown])
        top.spines["top"].set_visible(False)
        top.tick_params(length=0)
        return drawn.drawing(
            "The gap falls",
            "The share of the objective that is not yet proven necessary, at each look: "
            f"{gap_number(best[0])} at first, {gap_number(best[-1])} after {count(int(step[-1]), 'step')} and "
            f"{seconds(float(time[-1]))}.",
        )


def _steps_axis(ax: Axes, step: np.ndarray) -> None:
    ax.set_xlabel("steps")
    if step[-1] > step[0]:
        ax.set_xlim(step[0], step[-1] + 0.02 * (step[-1] - step[0]))
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    readable_ticks(ax.xaxis)


def gates(anatomy: Anatomy) -> Drawing:
    """The weight of each active gate, cut into its singular values, or neurons."""
    shown = anatomy.by_weight[:_GATES_SHOWN]
    with canvas("gates") as drawn:
        ax = drawn.axes
        for place, (_, values) in enumerate(shown):
            bottom = np.concatenate([[0], np.cumsum(values)[:-1]])
            shade = np.linspace(1, 0.35, values.size)
            for height, base, alpha in zip(values, bottom, shade, strict=True):
                ax.bar(
                    place, height, 0.82, base, color=INK["primal"], alpha=alpha, edgecolor=INK["card"], linewidth=0.4
                )
        ax.grid(axis="x", visible=False)
        ax.set_xlim(-0.8, max(len(shown), 8) - 0.2)
        if len(shown) <= 12:
            ax.set_xticks(range(len(shown)), [str(k) for k, _ in shown])
        else:
            ax.set_xticks([])
        ax.set_xlabel("gate" if len(shown) <= 12 else f"active gates, heaviest first ({len(shown)} shown)")
        ax.set_ylabel(f"weight ({anatomy.gauge})")
        readable_ticks(ax.yaxis)
        ranks = ", ".join(f"{count(times, 'gate')} {_many(anatomy, rank)}" for rank, times in anatomy.ranks.items())
        return drawn.drawing(
            f"Active gates and their {'ranks' if anatomy.mix else anatomy.noun + 's'}",
            f"{anatomy.n_active} of {count(anatomy.n_gates, 'gate')} in use: {ranks}. "
            f"A bar is a gate, a piece of it a {anatomy.noun}.",
        )


def _many(anatomy: Anatomy, size: int) -> str:
    return f"of rank {size}" if anatomy.mix else f"with {count(size, anatomy.noun)}"


def spectrum(anatomy: Anatomy) -> Drawing:
    """All singular values, or sizes of neurons, sorted."""
    values = anatomy.sizes
    with canvas("spectrum") as drawn:
        ax = drawn.axes
        place = np.arange(1, values.size + 1)
        marker, size = ("", 0) if values.size > DENSE else ("o", 3 if values.size < 150 else 1.5)
        ax.plot(place, values, color=INK["primal"], linewidth=1, marker=marker, markersize=size)
        if values.min() < 0.05 * values.max():
            log_axis(ax, "y")
        else:
            ax.set_ylim(0, 1.1 * values.max())
            readable_ticks(ax.yaxis)
        ax.set_xlim(0, values.size + 1)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlabel(f"{anatomy.noun}s, heaviest first")
        ax.set_ylabel("singular value" if anatomy.mix else "size (product of norms)")
        half = int(np.searchsorted(np.cumsum(values), values.sum() / 2)) + 1
        tiny = anatomy.negligible
        lost = f" {count(tiny, 'value')} under a millionth of the largest left out." if tiny else ""
        return drawn.drawing(
            "Spectrum of the weights",
            f"{count(values.size, anatomy.noun)}, from {number(values[0])} down to {number(values[-1])}; the heaviest "
            f"{half if half > 1 else 'one'} carr{'y' if half > 1 else 'ies'} half of the weight.{lost}",
        )


def pull(anatomy: Anatomy, certified: bool) -> Drawing:
    """γ_k°(A_k*Θ)/β: at an optimum ≤ 1, and = 1 where a gate is active."""
    strongest = float(anatomy.pull.max())
    if certified:
        title = "Why nothing better exists"
        end = "No gate pulls above the line by more than the gap allows for; active gates pull as much as they cost."
        if anatomy.at_most:
            end += " What is drawn is what a gate pulls at most: weak ones may pull far less."
    else:
        title = "What is still to be gained"
        times = f"{'at most ' if anatomy.at_most else ''}{number(strongest)} times its cost"
        end = f"At an optimum no gate pulls above the line; here one pulls {times}."
    order = np.argsort(-anatomy.pull, kind="stable")
    active = np.array([int(k) in anatomy.spectrum for k in order])
    place = np.arange(1, order.size + 1)
    with canvas("pull") as drawn:
        ax = drawn.axes
        dense = order.size > DENSE
        style: dict[str, Any] = {"s": 12 if order.size <= 200 else 4, "linewidths": 0, "rasterized": dense}
        for which, label, tone in ((~active, "unused gate", "muted"), (active, "active gate", "primal")):
            if not which.any():
                continue
            ax.scatter(place[which], anatomy.pull[order][which], color=ink(tone, dense), label=label, **style)
        ax.axhline(1, color=INK["good"], linewidth=1, linestyle=(0, (4, 3)))
        ax.set_ylim(0, 1.12 * max(1.0, strongest))
        ax.set_xlim(0, order.size + 1)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlabel("gates, strongest pull first")
        ax.set_ylabel("pull ÷ β, at most" if anatomy.at_most else "pull ÷ β")
        readable_ticks(ax.yaxis)
        ax.legend(loc="best", markerscale=1.5)
        new = f"a new {anatomy.noun} behind it"
        start = f"A gate's pull is what {new} would gain per unit of weight; a unit of weight costs β."
        return drawn.drawing(title, f"{start} {end}")
