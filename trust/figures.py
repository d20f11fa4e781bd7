"""All figures, in the order of the page."""

from __future__ import annotations

from trust import damage, kills, oracle, tampered
from trust.figure import Figure

_ALL = (damage.FIGURE, kills.SAVE, kills.SNAPSHOT, kills.PATH, oracle.FIGURE, tampered.FIGURE)
FIGURES: dict[str, Figure] = {figure.name: figure for figure in _ALL}
