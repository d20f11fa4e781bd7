"""Gaps against seconds: a panel a program, a line a solver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from provenet.bench.speed.standings import Standing

_COLUMNS = 3


def draw(standings: Sequence[Standing], file: Path) -> None:
    rows = math.ceil(len(standings) / _COLUMNS)
    figure = Figure(figsize=(4.6 * _COLUMNS, 3.4 * rows), layout="constrained")
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).flatten()
    names = list(dict.fromkeys(["auto", *(who for standing in standings for who in standing.who)]))
    colours = {who: colormaps["tab20"](k % 20) for k, who in enumerate(names)}
    for axes, standing in zip(panels, standings, strict=False):
        _panel(axes, standing, colours)
    for axes in panels[len(standings) :]:
        axes.axis("off")
    drawn = {line.get_label(): line for axes in panels for line in axes.lines}
    if drawn:  # one for all panels, where it covers none of their lines
        figure.legend(drawn.values(), drawn.keys(), fontsize=8, ncols=7, frameon=False, loc="outside upper center")
    figure.savefig(file, dpi=90)


def _panel(axes: Any, standing: Standing, colours: dict[str, Any]) -> None:
    for who in standing.who:
        proven = [(one.seconds, one.gap) for one in standing.by(who) if one.gap is not None]
        points = sorted((seconds, gap) for seconds, gap in proven if seconds == standing.seconds(who, gap))
        if points:
            seconds, gaps = zip(*points, strict=True)
            style = {"linewidth": 2.5, "zorder": 3} if who == "auto" else {"linewidth": 1.2}
            axes.plot(
                seconds, [max(gap, 1e-12) for gap in gaps], "o-", markersize=3, color=colours[who], label=who, **style
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        _at_least_a_decade(axis)
    axes.xaxis.set_major_formatter(in_seconds)
    axes.xaxis.set_minor_formatter(in_seconds)
    axes.set_title(standing.case.name, fontsize=8)
    axes.set_xlabel("seconds", fontsize=8)
    axes.set_ylabel("certified relative gap", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.tick_params(which="minor", labelsize=6)
    axes.grid(alpha=0.3)


def in_seconds(seconds: float, _: int) -> str:
    """As one says them: 0.2, 0.5, 1, 2, 5, …"""
    return f"{seconds:g}" if f"{seconds:.0e}"[0] in "125" else ""


def _at_least_a_decade(axis: Any) -> None:
    """Powers of ten alone are labelled, and at least one of them is there."""
    low, high = axis.get_view_interval()
    if high < 10 * low:
        spare = math.sqrt(10 * low / high)
        low, high = low / spare, high * spare
    axis.set_view_interval(low, high, ignore=True)
    axis.set_minor_formatter(NullFormatter())
