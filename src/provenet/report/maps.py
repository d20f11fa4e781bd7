"""The network as a picture, where the samples have one or two features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from provenet.report.anatomy import Anatomy
from provenet.report.canvas import DENSE, INK, Canvas, Drawing, canvas, class_colour, ink, readable_ticks, shortened
from provenet.report.fit import Fit
from provenet.solvers import Solution

_PIXELS = 240
_BORDERS_SHOWN = 40
_TITLES = {True: "The decision map", False: "The function it learnt"}

Extent = tuple[float, float, float, float]


def network_map(fit: Fit, solution: Solution, anatomy: Anatomy, features: Sequence[str]) -> list[Drawing]:
    """A curve for one feature, maps for two, nothing for more; one drawing an output where values are predicted."""
    if fit.points.ndim != 2 or fit.points.shape[1] > 2 or solution.problem.readout == "tokens":
        return []
    outputs = range(1 if fit.labels is not None else min(fit.truth.shape[1], 4))
    if fit.points.shape[1] == 1:
        return [] if fit.labels is not None else [_curve(fit, output, features) for output in outputs]
    borders = _borders(solution, anatomy)
    if fit.labels is not None:
        return [_decisions(fit, borders, features)]
    return [_surface(fit, output, borders, features) for output in outputs]


def _decisions(fit: Fit, borders: np.ndarray, features: Sequence[str]) -> Drawing:
    assert fit.labels is not None
    extent, grid = _grid(fit.points)
    classes = fit.at(grid).reshape(_PIXELS, _PIXELS)
    pixels = np.array([to_rgba(class_colour(k), 0.3) for k in range(len(fit.labels) + 1)])[classes]
    with canvas("map", 4.3, 3.9) as drawn:
        ax = drawn.axes
        ax.imshow(pixels, extent=extent, origin="lower", aspect="auto", interpolation="nearest")
        _draw_borders(ax, borders, extent)
        for k, label in enumerate(fit.labels):
            mine = fit.points[fit.truth == k]
            if mine.size:
                _scatter(ax, mine, fit.points.shape[0], color=class_colour(k), label=shortened(label))
        if len(fit.labels) <= 12:
            widest = max(len(shortened(label)) for label in fit.labels)
            drawn.figure.legend(loc="outside upper center", ncols=max(1, min(len(fit.labels), 40 // (widest + 4))))
        said = "Colours are the classes the network chooses; dots are samples."
        return _finished(drawn, extent, features, True, borders, said)


def _surface(fit: Fit, output: int, borders: np.ndarray, features: Sequence[str]) -> Drawing:
    extent, grid = _grid(fit.points)
    values = fit.at(grid)[:, output].reshape(_PIXELS, _PIXELS)
    truth = fit.truth[:, output]
    low, high = min(values.min(), truth.min()), max(values.max(), truth.max())
    with canvas(f"map-{output}", 4.3, 3.9) as drawn:
        ax = drawn.axes
        scale: dict[str, Any] = {"cmap": "viridis", "vmin": low, "vmax": high}
        image = ax.imshow(values, extent=extent, origin="lower", aspect="auto", interpolation="bilinear", **scale)
        _draw_borders(ax, borders, extent)
        _scatter(ax, fit.points, fit.points.shape[0], c=truth, **scale)
        bar = drawn.figure.colorbar(image, ax=ax, pad=0.02, label="predicted, and true inside the dots")
        bar.outline.set_visible(False)
        readable_ticks(bar.ax.yaxis)
        which = "" if fit.truth.shape[1] == 1 else f" Output {output}."
        said = f"The surface is the network's prediction; a dot that blends in is a sample it fits.{which}"
        return _finished(drawn, extent, features, False, borders, said)


def _curve(fit: Fit, output: int, features: Sequence[str]) -> Drawing:
    x = fit.points[:, 0]
    room = 0.05 * (x.max() - x.min()) or 1.0
    line = np.linspace(x.min() - room, x.max() + room, 800)
    with canvas(f"map-{output}", 4.3, 3.2) as drawn:
        ax = drawn.axes
        points = np.column_stack([x, fit.truth[:, output]])
        _scatter(ax, points, x.size, color=ink("muted", x.size > DENSE), alpha=0.7, label="samples")
        ax.plot(line, fit.at(line[:, None])[:, output], color=INK["primal"], label="network")
        ax.set(xlabel=shortened(features[0], 40), ylabel="value" if fit.truth.shape[1] == 1 else f"output {output}")
        ax.legend()
        readable_ticks(ax.xaxis, ax.yaxis)
        return drawn.drawing(_TITLES[False], "The network's prediction over the one feature, with the samples.")


def _grid(points: np.ndarray) -> tuple[Extent, np.ndarray]:
    """A frame around the samples, and the centres of its pixels, row by row."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.where(high > low, 0.06 * (high - low), 1.0)
    low, high = low - room, high + room
    centres = (np.arange(_PIXELS) + 0.5) / _PIXELS
    first, second = np.meshgrid(low[0] + centres * (high[0] - low[0]), low[1] + centres * (high[1] - low[1]))
    return (low[0], high[0], low[1], high[1]), np.column_stack([first.ravel(), second.ravel()])


def _borders(solution: Solution, anatomy: Anatomy) -> np.ndarray:
    """Vectors (m, 3) of the heaviest active gates: g₀x₀ + g₁x₁ + g₂ = 0 is where a gate opens.

    A ReLU neuron is its own gate; the vector of its arrangement is but some point of the same cone."""
    vectors, factors = solution.problem.gate_vectors, solution.factors
    if vectors is None:
        return np.zeros((0, 3))
    if solution.problem.activation == "relu":
        size = factors.left.norm(dim=1) * factors.right.norm(dim=1)
        chosen = factors.left[size.argsort(descending=True)[:_BORDERS_SHOWN]].numpy()
    else:
        chosen = vectors[[k for k, _ in anatomy.by_weight[:_BORDERS_SHOWN]]].numpy()
    return np.pad(chosen, ((0, 0), (0, 3 - chosen.shape[1])))


def _draw_borders(ax: Axes, borders: np.ndarray, extent: Extent) -> None:
    for g0, g1, offset in borders:
        if g0 == g1 == 0:
            continue
        if abs(g1) * (extent[3] - extent[2]) > abs(g0) * (extent[1] - extent[0]):
            x = np.array(extent[:2])
            y = -(g0 * x + offset) / g1
        else:
            y = np.array(extent[2:])
            x = -(g1 * y + offset) / g0
        ax.plot(x, y, color=INK["ink"], linewidth=0.5, alpha=0.3)


def _scatter(ax: Axes, points: np.ndarray, total: int, **look: Any) -> None:
    pixels: dict[str, Any] = {"s": 5, "linewidths": 0, "rasterized": True}
    shapes: dict[str, Any] = {"s": 16, "linewidths": 0.5, "edgecolors": INK["card"]}
    ax.scatter(points[:, 0], points[:, 1], **((pixels if total > DENSE else shapes) | look))


def _finished(
    drawn: Canvas, extent: Extent, features: Sequence[str], classify: bool, borders: np.ndarray, caption: str
) -> Drawing:
    ax = drawn.axes
    ax.grid(False)
    ax.set(xlim=extent[:2], ylim=extent[2:], xlabel=shortened(features[0], 40), ylabel=shortened(features[1], 40))
    readable_ticks(ax.xaxis, ax.yaxis)
    if len(borders) == _BORDERS_SHOWN:
        caption += f" Thin lines are where the {_BORDERS_SHOWN} heaviest gates open."
    elif len(borders):
        caption += " Thin lines are where the active gates open; between them the network is linear."
    return drawn.drawing(_TITLES[classify], caption)
