"""How well the network fits: truth against prediction."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.ticker import MaxNLocator

from provenet.report.canvas import DENSE, INK, Drawing, canvas, class_colour, ink, readable_ticks, shortened
from provenet.report.fit import Fit
from provenet.report.numerals import count, number
from provenet.report.words import share_right


def quality(fit: Fit) -> list[Drawing]:
    return [confusion(fit)] if fit.labels is not None else [predicted_against_true(fit), residuals(fit)]


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
    with canvas("confusion", 4.3, 3.3 + 0.1 * min(max(size - 6, 0), 10)) as drawn:
        ax = drawn.axes
        ax.imshow(pixels, interpolation="nearest")
        ax.grid(False)
        ax.set(xlabel="predicted", ylabel="true")
        if size <= 24:
            names = [shortened(label, 12) for label in fit.labels]
            turn = 90 if max(map(len, names)) * size > 32 else 0
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
    text = f"{count(fit.n_right)} of {count(total, fit.unit)} right ({share_right(fit.n_right, total)})."
    wrong = table - np.diag(np.diag(table))
    if wrong.max() == 1:
        text += " No mistake is made twice." if wrong.sum() > 1 else ""
    elif wrong.any():
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
    with canvas("predicted", 4.3, 3.4) as drawn:
        ax = drawn.axes
        ax.plot([low - room, high + room], [low - room, high + room], color=INK["muted"], linewidth=0.8)
        dense = truth.size > DENSE
        for output in range(truth.shape[1]):
            ax.scatter(
                truth[:, output], said[:, output], s=4 if dense else 9, linewidths=0, alpha=0.35 if dense else 0.6,
                color=class_colour(output) if 1 < truth.shape[1] <= 8 else ink("primal", dense), rasterized=dense,
                label=f"output {output}",
            )  # fmt: skip
        if 1 < truth.shape[1] <= 8:
            ax.legend(loc="upper left", markerscale=4 if dense else 1.5)
        ax.set(xlabel="true", ylabel="predicted", xlim=(low - room, high + room), ylim=(low - room, high + room))
        readable_ticks(ax.xaxis, ax.yaxis)
        score = "" if np.isnan(fit.score) else f" R² = {number(fit.score)}."
        return drawn.drawing("Predicted against true", f"A perfect fit would lie on the line.{score}")


def residuals(fit: Fit) -> Drawing:
    left = (fit.predicted - fit.truth).ravel()
    size = float(np.sqrt(np.mean(left**2)))
    with canvas("residuals", 4.3, 3.4) as drawn:
        ax = drawn.axes
        bins = int(np.clip(2 * np.sqrt(left.size), 8, 60))
        ax.hist(left, bins=bins, color=INK["primal"], alpha=0.8, edgecolor=INK["card"], linewidth=0.4)
        ax.axvline(0, color=INK["muted"], linewidth=0.8)
        ax.grid(axis="x", visible=False)
        ax.set(xlabel="predicted − true", ylabel=f"{fit.unit}s" if fit.truth.shape[1] == 1 else "values")
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        readable_ticks(ax.xaxis, ax.yaxis)
        return drawn.drawing(
            "Residuals",
            f"Root mean square {number(size)}, mean {number(float(left.mean()))}, "
            f"largest {number(float(np.abs(left).max()))}.",
        )
