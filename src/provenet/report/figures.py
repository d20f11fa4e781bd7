"""Every figure of the report but the maps: each a small function from numbers to a `Drawing`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import MaxNLocator

from provenet.report.anatomy import Anatomy
from provenet.report.canvas import INK, Drawing, canvas, class_colour, readable_ticks, shortened
from provenet.report.fit import Fit
from provenet.report.numerals import count, number, percent, power_of_ten, seconds
from provenet.report.words import share_right
from provenet.solvers import Record, Solution

DENSE = 1500  # from here on points are drawn as pixels, not as shapes
_GATES_SHOWN = 60
_SMALLEST_GAP = 1e-17  # where a gap of nothing is drawn on a logarithmic axis


def objective(history: Sequence[Record]) -> Drawing:
    """Primal and dual closing in on the optimum."""
    step = np.array([record.step for record in history])
    primal = np.array([record.primal for record in history])
    dual = np.array([record.dual for record in history])
    with canvas("objective") as drawn:
        ax = drawn.axes
        marker = "o" if step.size < 40 else ""
        ax.fill_between(step, dual, primal, color=INK["muted"], alpha=0.12, linewidth=0)
        ax.plot(step, primal, color=INK["primal"], marker=marker, markersize=2.5, label="objective of the network")
        ax.plot(step, dual, color=INK["dual"], marker=marker, markersize=2.5, label="lower bound for every network")
        ax.set_ylim(*_squeeze(primal, dual))
        _steps_axis(ax, step)
        readable_ticks(ax.yaxis)
        ax.legend(loc="upper right")
        return drawn.drawing(
            "Closing in",
            "The best possible objective lies in the shaded band, between the lower bound and the network's own value. "
            f"The band ends at a width of {number(primal[-1] - dual[-1])}.",
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
    relative = np.maximum([record.relative_gap for record in history], _SMALLEST_GAP)
    best = np.minimum.accumulate(relative)
    with canvas("gap") as drawn:
        ax = drawn.axes
        ax.plot(step, relative, color=INK["primal"], linewidth=0.8, alpha=0.5)
        ax.plot(step, best, color=INK["primal"], marker="o" if step.size < 40 else "", markersize=2.5)
        ax.axhline(tol, color=INK["good"], linewidth=1, linestyle=(0, (4, 3)))
        ax.annotate(
            "asked for", (1, tol), (-2, 3), xycoords=ax.get_yaxis_transform(), textcoords="offset points",
            ha="right", color=INK["good"],
        )  # fmt: skip
        ax.set_ylabel("relative gap")
        _log(ax, "y")
        ax.set_ylim(10 ** np.floor(np.log10(min(best[-1], tol)) - 0.3), 10 ** np.ceil(np.log10(max(best[0], tol)) + 0.1))
        _steps_axis(ax, step)
        top = ax.secondary_xaxis("top")
        shown = [tick for tick in ax.get_xticks() if step[0] <= tick <= step[-1]]
        top.set_xticks(shown, [seconds(float(np.interp(tick, step, time))) if tick else "" for tick in shown])
        top.spines["top"].set_visible(False)
        top.tick_params(length=0)
        return drawn.drawing(
            "The gap falls",
            f"The share of the objective that is not yet proven necessary, after each look: {number(best[0])} at first, "
            f"{number(best[-1])} after {count(int(step[-1]), 'step')} and {seconds(float(time[-1]))}.",
        )


def _steps_axis(ax: Axes, step: np.ndarray) -> None:
    ax.set_xlabel("steps")
    if step[-1] > step[0]:
        ax.set_xlim(step[0], step[-1] + 0.02 * (step[-1] - step[0]))
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    readable_ticks(ax.xaxis)


def _log(ax: Axes, which: str) -> None:
    """A logarithmic axis with labels 10⁻⁶, and only at powers of ten."""
    getattr(ax, f"set_{which}scale")("log")
    axis = getattr(ax, f"{which}axis")
    readable_ticks(axis)
    axis.set_major_formatter(lambda value, _: power_of_ten(round(np.log10(value))) if value > 0 else "")


def gates(anatomy: Anatomy) -> Drawing:
    """The weight of each active gate, cut into its singular values."""
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
        ax.set_ylabel("weight (nuclear norm)")
        readable_ticks(ax.yaxis)
        ranks = ", ".join(f"{count(times, 'gate')} of rank {rank}" for rank, times in anatomy.ranks.items())
        return drawn.drawing(
            "Active gates and their ranks",
            f"{anatomy.n_active} of {count(anatomy.n_gates, 'gate')} are used: {ranks}. A bar is a gate, a piece of it a "
            "neuron.",
        )


def spectrum(anatomy: Anatomy) -> Drawing:
    """All singular values, sorted."""
    values = anatomy.singular_values
    with canvas("spectrum") as drawn:
        ax = drawn.axes
        place = np.arange(1, values.size + 1)
        ax.plot(
            place, values, color=INK["primal"], linewidth=1, marker="o", markersize=3 if values.size < 150 else 1.5,
            rasterized=values.size > DENSE,
        )  # fmt: skip
        if values.min() < 0.1 * values.max():
            _log(ax, "y")
        else:
            ax.set_ylim(0, 1.1 * values.max())
            readable_ticks(ax.yaxis)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlabel("neurons, heaviest first")
        ax.set_ylabel("singular value")
        half = int(np.searchsorted(np.cumsum(values), values.sum() / 2)) + 1
        lost = f" {count(anatomy.negligible, 'value')} under a millionth of the largest left out." if anatomy.negligible else ""
        return drawn.drawing(
            "Spectrum of the weights",
            f"{count(values.size, 'neuron')}, from {number(values[0])} down to {number(values[-1])}; the heaviest "
            f"{half if half > 1 else 'one'} carr{'y' if half > 1 else 'ies'} half of the weight.{lost}",
        )


def pull(anatomy: Anatomy) -> Drawing:
    """γ_k°(A_k*Θ)/β: at an optimum ≤ 1, and = 1 where a gate is active."""
    order = np.argsort(-anatomy.pull, kind="stable")
    active = np.array([int(k) in anatomy.spectrum for k in order])
    place = np.arange(1, order.size + 1)
    with canvas("pull") as drawn:
        ax = drawn.axes
        style = {"s": 12 if order.size <= 200 else 4, "linewidths": 0, "rasterized": order.size > DENSE}
        ax.scatter(place[~active], anatomy.pull[order][~active], color=INK["muted"], alpha=0.7, label="unused gate", **style)
        ax.scatter(place[active], anatomy.pull[order][active], color=INK["primal"], label="active gate", **style)
        ax.axhline(1, color=INK["good"], linewidth=1, linestyle=(0, (4, 3)))
        ax.set_ylim(0, 1.12 * max(1.0, float(anatomy.pull.max())))
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlabel("gates, strongest pull first")
        ax.set_ylabel("pull ÷ β")
        readable_ticks(ax.yaxis)
        ax.legend(loc="lower left")
        return drawn.drawing(
            "Why nothing better exists",
            "A gate's pull is what a new neuron behind it could gain per unit of weight; a unit of weight costs β. Where no "
            "gate pulls above the line, nothing can be gained; active gates pull exactly as much as they cost.",
        )


def confusion(fit: Fit) -> Drawing:
    """Truth against prediction."""
    assert fit.labels is not None
    table = fit.confusion()
    size = len(fit.labels)
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    pixels = np.zeros((size, size, 4))
    pixels[...] = to_rgba("#d1584f")
    pixels[np.diag_indices(size)] = to_rgba("#2fa36b")
    pixels[..., 3] = np.where(table > 0, 0.12 + 0.7 * share, 0)
    side = 3.1 + 0.13 * min(max(size - 6, 0), 10)
    with canvas("confusion", side + 0.6, side) as drawn:
        ax = drawn.axes
        ax.imshow(pixels, interpolation="nearest")
        ax.grid(False)
        ax.set(xlabel="predicted", ylabel="true")
        if size <= 24:
            names = [shortened(label, 12) for label in fit.labels]
            turn = 90 if max(map(len, names)) * size > 40 else 0
            ax.set_xticks(range(size), names, rotation=turn)
            ax.set_yticks(range(size), names)
        if size <= 16:
            font = 8.5 if size <= 10 else 6.5
            for row, column in zip(*np.nonzero(table), strict=True):
                ax.text(column, row, count(int(table[row, column])), ha="center", va="center", fontsize=font)
        return drawn.drawing("Confusion matrix", _confusion_words(fit, table))


def _confusion_words(fit: Fit, table: np.ndarray) -> str:
    assert fit.labels is not None
    total = fit.truth.size
    text = f"{count(fit.n_right)} of {count(total, 'sample')} right ({share_right(fit.n_right, total)})."
    wrong = table - np.diag(np.diag(table))
    if wrong.any():
        true, said = np.unravel_index(int(wrong.argmax()), wrong.shape)
        text += (
            f" The most frequent mistake: “{shortened(fit.labels[true], 40)}” taken for "
            f"“{shortened(fit.labels[said], 40)}” ({count(int(wrong.max()), 'time')})."
        )
    return text


def predicted_against_true(fit: Fit) -> Drawing:
    truth, said = fit.truth, fit.predicted
    low, high = min(truth.min(), said.min()), max(truth.max(), said.max())
    room = 0.04 * (high - low) or 1.0
    with canvas("predicted", 4.2, 3.6) as drawn:
        ax = drawn.axes
        ax.plot([low - room, high + room], [low - room, high + room], color=INK["muted"], linewidth=0.8)
        dense = truth.size > DENSE
        for output in range(truth.shape[1]):
            ax.scatter(
                truth[:, output], said[:, output], s=4 if dense else 9, linewidths=0, alpha=0.35 if dense else 0.6,
                color=class_colour(output) if truth.shape[1] <= 8 else class_colour(0), rasterized=dense,
                label=f"output {output}",
            )  # fmt: skip
        if 1 < truth.shape[1] <= 8:
            ax.legend(loc="upper left")
        ax.set(xlabel="true", ylabel="predicted", xlim=(low - room, high + room), ylim=(low - room, high + room))
        readable_ticks(ax.xaxis, ax.yaxis)
        score = "" if np.isnan(fit.score) else f" R² = {number(fit.score)}."
        return drawn.drawing("Predicted against true", f"A perfect fit would lie on the line.{score}")


def residuals(fit: Fit) -> Drawing:
    left = (fit.predicted - fit.truth).ravel()
    size = float(np.sqrt(np.mean(left**2)))
    with canvas("residuals", 4.2, 3.6) as drawn:
        ax = drawn.axes
        bins = int(np.clip(2 * np.sqrt(left.size), 8, 60))
        ax.hist(left, bins=bins, color=INK["primal"], alpha=0.8, edgecolor=INK["card"], linewidth=0.4)
        ax.axvline(0, color=INK["muted"], linewidth=0.8)
        ax.grid(axis="x", visible=False)
        ax.set(xlabel="predicted − true", ylabel="samples")
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        readable_ticks(ax.xaxis, ax.yaxis)
        return drawn.drawing(
            "Residuals",
            f"Root mean square {number(size)}, mean {number(float(left.mean()))}, "
            f"largest {number(float(np.abs(left).max()))}.",
        )


def path(solutions: Sequence[Solution], scores: Sequence[float], score_name: str) -> list[Drawing]:
    """Objective, gap, score and neurons along β; the solution of the report is marked by the caller's caption."""
    relative = np.array([s.problem.beta / s.problem.beta_max for s in solutions])
    certificates = [s.certificate for s in solutions]
    proven = sum(c.status == "certified" for c in certificates)
    gaps = np.maximum([c.relative_gap for c in certificates], _SMALLEST_GAP)
    neurons = [s.factors.n_neurons for s in solutions]
    best = int(np.nanargmax(scores)) if np.isfinite(scores).any() else None
    return [
        _along("path-objective", relative, [c.primal for c in certificates], "objective", "Objective",
               "The proven best objective at each β."),
        _along("path-gap", relative, gaps, "relative gap", "Gap",
               f"{proven} of {count(len(gaps), 'point')} certified; the largest gap is {number(gaps.max())}.", log=True,
               line=certificates[0].tol),
        _along("path-score", relative, scores, score_name, score_name.capitalize() if score_name != "R²" else "R²",
               "" if best is None else f"Highest at β = {number(relative[best])} β_max: {number(float(scores[best]), 4)}.",
               mark=best),
        _along("path-neurons", relative, neurons, "neurons", "Neurons",
               f"From {count(neurons[int(relative.argmax())], 'neuron')} at the largest β to "
               f"{count(neurons[int(relative.argmin())], 'neuron')} at the smallest."),
    ]  # fmt: skip


def _along(
    name: str, relative: np.ndarray, values: Sequence[float] | np.ndarray, label: str, title: str, caption: str,
    log: bool = False, line: float | None = None, mark: int | None = None,
) -> Drawing:  # fmt: skip
    with canvas(name) as drawn:
        ax = drawn.axes
        order = np.argsort(relative)
        values = np.asarray(values, dtype=float)
        ax.plot(relative[order], values[order], color=INK["primal"], marker="o", markersize=3)
        if line is not None:
            ax.axhline(line, color=INK["good"], linewidth=1, linestyle=(0, (4, 3)))
        if mark is not None:
            ax.plot(relative[mark], values[mark], "o", color=INK["dual"], markersize=6)
        ax.set(xlabel="β ÷ β_max", ylabel=label)
        _log(ax, "x")
        if log:
            _log(ax, "y")
        else:
            readable_ticks(ax.yaxis)
        return drawn.drawing(title, caption)
