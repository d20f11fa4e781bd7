"""One dot a table: a score against another's."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from provenet.bench.summary import Summary

_LETTER = 0.0115  # of the width of a panel, about
_LINE = 0.025  # of its height
_POINTS = 320  # its height


def draw(summary: Summary, pairs: list[tuple[str, str]], file: Path) -> None:
    """A panel for each (ours, other's): above the diagonal ours predicts better; bars are standard deviations."""
    figure = Figure(figsize=(5.2 * len(pairs), 5.6), layout="constrained")
    for axes, (ours, theirs) in zip(figure.subplots(1, len(pairs), squeeze=False)[0], pairs, strict=True):
        x, y = (100 * summary.means[:, summary.who.index(who)] for who in (theirs, ours))
        dx, dy = (100 * summary.spread[:, summary.who.index(who)] for who in (theirs, ours))
        low = min(x.min(), y.min()) - 3
        axes.plot([low, 101], [low, 101], color="0.6", linewidth=1)
        axes.errorbar(x, y, dy, dx, fmt="none", ecolor="0.85", elinewidth=1, zorder=1)
        axes.scatter(
            x, y, s=28, color=["#1a7f5a" if a >= b else "#b8432f" for a, b in zip(y, x, strict=True)], zorder=2
        )
        named: list[float] = []  # heights of names to the right of their dots
        for k in sorted(sorted(range(len(x)), key=lambda k: -abs(y[k] - x[k]))[:5], key=lambda k: -y[k]):
            name, above = summary.tables[k], y[k] >= x[k]
            room = (x[k] - low if above else 101 - x[k]) / (101 - low)  # away from the diagonal, where few dots are
            outwards = room > _LETTER * len(name)
            down = 0.0
            if outwards and not above:
                height = min([y[k], *(each - _LINE * (101 - low) for each in named)])  # below the last
                named.append(height)
                down = (height - y[k]) / (101 - low) * _POINTS
            axes.annotate(
                name,
                (x[k], y[k]),
                xytext=((-6 if above else 6) if outwards else 0, down if outwards else (7 if above else -7)),
                textcoords="offset points",
                ha=("right" if above else "left") if outwards else ("left" if above else "right"),
                va="center" if outwards else ("bottom" if above else "top"),
                fontsize=8,
            )
        axes.set(xlabel=f"{theirs}, %", ylabel=f"{ours}, %", xlim=(low, 101), ylim=(low, 101), aspect="equal")
        ahead = (y - x).mean()
        axes.set_title(f"{len(x)} tables, {ahead:+.2f} points on average", fontsize=10)
    figure.savefig(file, dpi=110)
