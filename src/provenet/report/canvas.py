"""Figures that follow the page: matplotlib → inline SVG whose colours are CSS variables and whose text is text.

A figure is drawn in *inks*, colours that stand for names; on the way out each becomes ``var(--name)``, so that one
drawing serves light, dark and print.  Only rasters, which cannot hold variables, use the mid-tones of `CLASS_COLOURS`.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from provenet.report.numerals import number, power_of_ten

_NAMES = ("ink", "muted", "rule", "card", "primal", "dual", "good", "warn")
INK = {name: f"#0000{index:02x}" for index, name in enumerate(_NAMES, start=1)}
_VARIABLE = {colour: f"var(--{name})" for name, colour in INK.items()}

DENSE = 1500  # from here on points are drawn as pixels, not as shapes

# Mid-tones: each readable on white and on near-black.
CLASS_COLOURS = (
    "#4c78d8", "#e07b39", "#2fa36b", "#c94f7c", "#8a63d2", "#b8962e", "#2aa5b5", "#d1584f", "#7b8794", "#6f9a2f",
)  # fmt: skip

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a label is a label, whatever dollars are in it
    "font.family": "DejaVu Sans",  # only measures the text; the page chooses the font
    "font.size": 8.5,
    "axes.edgecolor": INK["rule"],
    "axes.labelcolor": INK["muted"],
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": INK["rule"],
    "grid.linewidth": 0.5,
    "text.color": INK["ink"],
    "xtick.color": INK["rule"],
    "ytick.color": INK["rule"],
    "xtick.labelcolor": INK["muted"],
    "ytick.labelcolor": INK["muted"],
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.labelcolor": INK["muted"],
    "legend.handlelength": 1.4,
}

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_HREF = f"{{{_XLINK}}}href"
ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _XLINK)
_COLOUR = re.compile(r"#[0-9a-f]{6}")
_NOT_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Drawing:
    """A figure on the page.  ``caption`` is read beneath it, and instead of it by those who cannot see it."""

    title: str
    caption: str
    svg: Markup


class Canvas:
    """One axes on one figure."""

    def __init__(self, name: str, width: float, height: float):
        self.name = name
        self.figure = Figure(figsize=(width, height), dpi=160, layout="constrained")
        self.axes: Axes = self.figure.add_subplot()

    def drawing(self, title: str, caption: str) -> Drawing:
        return Drawing(title, caption, _inline(_drawn(self.figure), self.name, f"{title}. {caption}"))


@contextmanager
def canvas(name: str, width: float = 4.3, height: float = 2.85) -> Iterator[Canvas]:
    """Draw inside the ``with`` block: the report's style holds there, and nowhere else.  No two share a ``name``."""
    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}):
        yield Canvas(name, width, height)


def plain(label: object) -> str:
    """A label of any kind as text that XML can hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", str(label))


def shortened(label: object, length: int = 16) -> str:
    text = plain(label)
    return text if len(text) <= length else text[: length - 1] + "…"


def readable_ticks(*axes: Axis) -> None:
    """Tick labels as `number` writes them, on linear and logarithmic axes alike."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 6)))
        axis.set_minor_formatter(NullFormatter())


def log_axis(ax: Axes, which: str) -> None:
    """Make the "x" or "y" axis logarithmic, with labels like 10⁻⁶."""
    getattr(ax, f"set_{which}scale")("log")
    axis = getattr(ax, f"{which}axis")
    readable_ticks(axis)
    axis.set_major_formatter(lambda value, _: power_of_ten(round(math.log10(value))) if value > 0 else "")


def ink(name: str, dense: bool) -> str:
    """An ink; for the pixels of a dense figure the mid-tone next to it."""
    return {"primal": CLASS_COLOURS[0], "muted": CLASS_COLOURS[8]}[name] if dense else INK[name]


def class_colour(index: int) -> str:
    return CLASS_COLOURS[index % len(CLASS_COLOURS)]


def _drawn(figure: Figure) -> str:
    out = io.StringIO()
    with warnings.catch_warnings():
        # a glyph that the measuring font lacks is no loss: the page's font draws it
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.draw_without_rendering()  # the first pass finds the sizes that the second one lays out
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None})
    return out.getvalue()


def _inline(svg: str, name: str, description: str) -> Markup:
    """Standalone SVG → a fragment for one page among others: described, scalable, with ids that clash with nothing."""
    root = ElementTree.fromstring(svg)
    for child in list(root):
        if child.tag == f"{{{_SVG}}}metadata" or child.find(f"{{{_SVG}}}style") is not None:
            root.remove(child)  # the page has its own
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    for element in root.iter():
        _adapt(element, name, used)
    root.set("role", "img")
    root.set("aria-label", plain(description))
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _adapt(element: ElementTree.Element, name: str, used: set[str]) -> None:
    attributes = element.attrib
    identity = attributes.pop("id", None)
    if identity in used:
        attributes["id"] = f"{name}-{identity}"
    if attributes.get(_HREF, "").startswith("#"):
        attributes[_HREF] = f"#{name}-{attributes[_HREF][1:]}"
    if "clip-path" in attributes:
        attributes["clip-path"] = attributes["clip-path"].replace("url(#", f"url(#{name}-")
    if "style" in attributes:
        kept = [part for part in attributes["style"].split("; ") if not part.startswith("font-family")]
        attributes["style"] = _COLOUR.sub(lambda found: _VARIABLE.get(found[0], found[0]), "; ".join(kept))
    if "d" in attributes:
        attributes["d"] = " ".join(attributes["d"].split())
