"""One dot a table: a score against another's."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from provenet.bench.summary import Summary

_NAMED = 5  # tables whose scores differ most
_AWAY = (7, 16, 26, 38, 52)  # points from a dot at which its name is tried, the nearest first
_DOT = 4  # points around a dot that no name covers
_PER_INCH = 110


def draw(summary: Summary, pairs: list[tuple[str, str]], file: Path) -> None:
    """A panel for each (ours, other's): above the diagonal ours predicts better; bars are standard deviations."""
    figure = Figure(figsize=(5.2 * len(pairs), 5.6), layout="constrained", dpi=_PER_INCH)
    canvas = FigureCanvasAgg(figure)
    panels = []
    for axes, (ours, theirs) in zip(figure.subplots(1, len(pairs), squeeze=False)[0], pairs, strict=True):
        x, y = (100 * summary.means[:, summary.who.index(who)] for who in (theirs, ours))
        dx, dy = (100 * summary.spread[:, summary.who.index(who)] for who in (theirs, ours))
        low = min(x.min(), y.min()) - 3
        axes.plot([low, 101], [low, 101], color="0.6", linewidth=1)
        axes.errorbar(x, y, dy, dx, fmt="none", ecolor="0.85", elinewidth=1, zorder=1)
        axes.scatter(
            x, y, s=28, color=["#1a7f5a" if a >= b else "#b8432f" for a, b in zip(y, x, strict=True)], zorder=2
        )
        axes.set(xlabel=f"{theirs}, %", ylabel=f"{ours}, %", xlim=(low, 101), ylim=(low, 101), aspect="equal")
        ahead = (y - x).mean()
        axes.set_title(f"{len(x)} tables, {ahead:+.2f} points on average", fontsize=10)
        panels.append((axes, x, y))
    canvas.draw()  # where things are on paper is known from here on
    for axes, x, y in panels:
        most = np.argsort(-np.abs(y - x), kind="stable")[:_NAMED]
        _name(canvas, axes, x, y, [(int(k), summary.tables[k]) for k in most])
    figure.savefig(file, dpi=_PER_INCH)


def _name(
    canvas: FigureCanvasAgg,
    axes: Axes,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    names: Iterable[tuple[int, str]],
) -> None:
    """Names beside their dots, on the side away from the diagonal, where they cover neither dots nor one another."""
    dots = [Bbox.from_extents(*(at - _DOT), *(at + _DOT)) for at in axes.transData.transform(np.column_stack([x, y]))]
    taken, inside = list(dots), axes.get_window_extent()
    for k, name in names:
        side = 1 if y[k] < x[k] else -1  # to the right of dots below the diagonal, to the left of those above
        text = axes.annotate(
            name, (x[k], y[k]), xytext=(0, 0), textcoords="offset points", va="center", fontsize=8, zorder=3
        )
        text.set_horizontalalignment("left" if side > 0 else "right")
        for away, turn in product(_AWAY, (0, -40, 40, -80, 80)):
            angle = np.radians(turn)
            text.set_position((side * away * np.cos(angle), away * np.sin(angle)))
            place = text.get_window_extent(canvas.get_renderer())
            if inside.containsx(place.x0) and inside.containsx(place.x1) and not any(map(place.overlaps, taken)):
                break
        else:  # no room on that side: towards the middle
            text.set_horizontalalignment("right" if side > 0 else "left")
            text.set_position((-side * _AWAY[0], -_AWAY[0]))
            place = text.get_window_extent(canvas.get_renderer())
        taken.append(place)
