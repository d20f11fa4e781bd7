"""First-layer weights of the strongest neurons, as pictures: an attention head's W₁, a CNN's filters, a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from provenet.problem import Problem
from provenet.report.canvas import CLASS_COLOURS, INK, Drawing, canvas
from provenet.report.nouns import nouns
from provenet.report.numerals import count, number
from provenet.solvers import Solution

_TILES, _ROWS = 8, 12  # pictures, or rows of one picture
_CHANNELS = 6
_WIDTH, _GAP, _LABEL, _TALLEST, _NAME, _ROW, _KEY = 4.2, 0.12, 0.17, 1.7, 0.95, 0.16, 0.48  # inches
_NEGATIVE, _POSITIVE = (np.array(to_rgb(colour)) for colour in CLASS_COLOURS[:2])


@dataclass(frozen=True)
class Neuron:
    """u (p,), its place in the network, its size ‖u‖‖v‖ and the group of features it sees."""

    u: np.ndarray
    place: int
    size: float
    group: int | None


@dataclass(frozen=True)
class Picture:
    """values: (height, width), or (height, width, 3) for red, green and blue.  note: what else to say of this one."""

    values: np.ndarray
    note: str = ""


def weight_pictures(solution: Solution) -> list[Drawing]:
    """The strongest neurons as a drawing; nothing for an MLP, whose features have no arrangement, or no neurons."""
    name = solution.problem.block.name
    if solution.factors.n_neurons == 0 or name == "mlp":
        return []
    if name in _PICTURES:
        picture, title, about = _PICTURES[name]
        return [_tiles(solution, picture, title, about)]
    return [_rows(solution)]


def _strongest(solution: Solution, most: int) -> list[Neuron]:
    problem = solution.problem
    first, second, _, group, _ = problem.neurons(solution.network())
    size = (first.norm(dim=1) * second.norm(dim=1)).numpy()
    order = np.argsort(-size, kind="stable")[:most]
    return [Neuron(first[j].numpy(), int(j), float(size[j]), None if group is None else int(group[j])) for j in order]


def _attention(neuron: Neuron, problem: Problem) -> Picture:
    return Picture(neuron.u.reshape(problem.X.shape[2], -1))


def _mixer(neuron: Neuron, problem: Problem) -> Picture:
    return Picture(neuron.u.reshape(problem.X.shape[1], -1))


def _filter(neuron: Neuron, problem: Problem) -> Picture:
    """Three channels of an image are colours; other channels stand side by side, those of a sequence in rows."""
    channels, dims = problem.X.shape[1], problem.X.ndim - 2
    if dims == 1:
        return Picture(neuron.u.reshape(channels, -1))
    kernel = problem.block.settings()["kernel"]
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    planes = neuron.u.reshape(channels, height, width)
    if channels == 3:
        return Picture(planes.transpose(1, 2, 0))
    shown = np.full((height, min(channels, _CHANNELS) * (width + 1) - 1), np.nan)
    for i, plane in enumerate(planes[:_CHANNELS]):
        shown[:, i * (width + 1) : i * (width + 1) + width] = plane
    return Picture(shown)


def _kernel(neuron: Neuron, problem: Problem) -> Picture:
    """On a grid the feature with the most weight; of a sequence every feature, a row each."""
    weights = neuron.u.reshape(problem.X.shape[1], -1)  # (s, features)
    grid = problem.block.settings()["grid"]
    if grid is None:
        return Picture(weights.T, "" if neuron.group is None else f"group {neuron.group}")
    feature = int(np.square(weights).sum(0).argmax())
    first = (neuron.group or 0) * weights.shape[1]  # a group's features follow those of the groups before
    return Picture(weights[:, feature].reshape(grid), f"feature {first + feature}")


def _about_filters(problem: Problem) -> str:
    channels, dims = problem.X.shape[1], problem.X.ndim - 2
    if dims == 1:
        return "A row is a channel."
    if channels == 3:
        return "The three channels are shown as red, green and blue."
    if channels > 1:
        shown = f"the first {_CHANNELS} of {channels}" if channels > _CHANNELS else f"the {channels}"
        return f"Side by side are {shown} channels."
    return ""


def _about_kernels(problem: Problem) -> str:
    if problem.block.settings()["grid"] is None:
        return "A column is a shift along the sequence, a row a feature."
    return "Shown is the feature with the most weight; a cell is a shift on the grid, none at the upper left."


Draw = Callable[[Neuron, Problem], Picture]
About = Callable[[Problem], str]

_PICTURES: dict[str, tuple[Draw, str, About]] = {
    "attention": (
        _attention,
        "What the heads look for",
        lambda problem: "Row a, column b of W₁ is how strongly feature a of one token asks for feature b of another.",
    ),
    "mixer": (
        _mixer,
        "How tokens are mixed",
        lambda problem: "Row a, column b of W₁ is how much of token b goes into the mixed token a.",
    ),
    "cnn": (_filter, "The filters", _about_filters),
    "fno": (_kernel, "The kernels", _about_kernels),
    "bfno": (_kernel, "The kernels", _about_kernels),
}


def _tiles(solution: Solution, picture: Draw, title: str, about: About) -> Drawing:
    """A picture a neuron, its name and size above it; everything is laid out in inches."""
    problem = solution.problem
    neurons = _strongest(solution, _TILES)
    pictures = [picture(neuron, problem) for neuron in neurons]
    tall = pictures[0].values.shape[0] / pictures[0].values.shape[1]
    columns = min(len(neurons), 4 if tall > 0.6 else 2 if tall > 0.2 else 1)
    width = min((_WIDTH - (columns - 1) * _GAP) / columns, _TALLEST / tall)
    left = (_WIDTH - columns * width - (columns - 1) * _GAP) / 2
    step = width * tall + _LABEL + _GAP
    boxes = [
        _Box(left + (i % columns) * (width + _GAP), i // columns * step + _LABEL, width, width * tall)
        for i in range(len(neurons))
    ]
    labels = [_label(problem, neuron, each.note) for neuron, each in zip(neurons, pictures, strict=True)]
    return _drawn(solution, title, about(problem), [each.values for each in pictures], boxes, labels)


def _rows(solution: Solution) -> Drawing:
    """A row of colours a neuron, its name and size before it."""
    neurons = _strongest(solution, _ROWS)
    boxes = [_Box(_NAME, i * (_ROW + 0.03), _WIDTH - _NAME, _ROW) for i in range(len(neurons))]
    labels = [_label(solution.problem, neuron) for neuron in neurons]
    about = "A row is a neuron, a column a feature of the mixed tokens."
    return _drawn(
        solution, "What the neurons look for", about, [n.u[None] for n in neurons], boxes, labels, beside=True
    )


def _label(problem: Problem, neuron: Neuron, note: str = "") -> str:
    size = number(neuron.size, 2)
    return f"{neuron.place}: {size}, {note}" if note else f"{nouns(problem).neuron} {neuron.place}: {size}"


@dataclass(frozen=True)
class _Box:
    """Where a picture goes, in inches from the upper left."""

    left: float
    top: float
    width: float
    height: float

    @property
    def extent(self) -> tuple[float, float, float, float]:
        return self.left, self.left + self.width, -self.top - self.height, -self.top


def _drawn(
    solution: Solution, title: str, about: str, pictures: Sequence[np.ndarray], boxes: Sequence[_Box],
    labels: Sequence[str], beside: bool = False,
) -> Drawing:  # fmt: skip
    scale = max(float(np.nanmax(np.abs(values))) for values in pictures) or 1.0
    coloured = pictures[0].ndim == 3
    bottom = max(box.top + box.height for box in boxes) + (0.05 if coloured else _KEY)
    with canvas("weights", _WIDTH + 0.1, bottom + 0.1) as drawn:
        ax = drawn.axes
        for values, box, label in zip(pictures, boxes, labels, strict=True):
            ax.imshow(_colours(values, scale), extent=box.extent, interpolation="nearest")
            x, _, y, top = box.extent
            ax.add_patch(Rectangle((x, y), box.width, box.height, fill=False, edgecolor=INK["rule"], linewidth=0.6))
            if beside:
                ax.text(x - 0.06, (y + top) / 2, label, fontsize=7.5, color=INK["muted"], ha="right", va="center")
            else:
                ax.text(x, top + 0.04, label, fontsize=7.5, color=INK["muted"])
        if not coloured:
            _key(ax, bottom, scale)
        ax.set(xlim=(0, _WIDTH), ylim=(-bottom, 0))
        ax.set_axis_off()
        return drawn.drawing(title, _caption(solution, about, len(pictures), coloured, scale))


def _key(ax: Axes, bottom: float, scale: float) -> None:
    """The one scale of all pictures."""
    left, right, y = _WIDTH / 2 - 0.7, _WIDTH / 2 + 0.7, 0.22 - bottom
    ramp = np.linspace(-scale, scale, 64)[None]
    ax.imshow(_colours(ramp, scale), extent=(left, right, y, y + 0.09), interpolation="nearest")
    for x, value, align in ((left, -scale, "left"), ((left + right) / 2, 0.0, "center"), (right, scale, "right")):
        ax.text(x, y - 0.04, number(value, 2), fontsize=7.5, color=INK["muted"], ha=align, va="top")


def _caption(solution: Solution, about: str, shown: int, coloured: bool, scale: float) -> str:
    noun, total = nouns(solution.problem).neuron, solution.factors.n_neurons
    which = f"All {count(total, noun)}" if shown == total else f"The {shown} strongest of {count(total, noun)}"
    which = f"The one {noun}, with" if total == 1 else f"{which}, each with"
    tone = (
        f"mid-grey is zero, full colour ±{number(scale, 2)}."
        if coloured
        else f"orange is positive, blue negative, no colour zero; full colour is ±{number(scale, 2)}."
    )
    text = f"{which} its place in the network and its size, the product of the norms of both layers."
    return " ".join(filter(None, (text, about, f"One scale for all: {tone}")))


def _colours(values: np.ndarray, scale: float) -> np.ndarray:
    """Diverging around zero, which is clear, so that it suits light and dark pages; (h, w, 3) are shown as they are."""
    if values.ndim == 3:
        return 0.5 + 0.5 * values / scale
    share = np.nan_to_num(values / scale)
    tone = np.where(share[..., None] > 0, _POSITIVE, _NEGATIVE)
    return np.concatenate([tone, np.abs(share)[..., None]], axis=-1)
