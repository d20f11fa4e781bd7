"""All figures, in the order of the page."""

from __future__ import annotations

from trust import damage, hostile, interrupts, kills, limits, oracle, repeats, tampered
from trust.figure import Figure

_ALL = (
    damage.FIGURE,
    kills.SAVE,
    kills.SNAPSHOT,
    kills.PATH,
    interrupts.FIGURE,
    hostile.FIGURE,
    oracle.FIGURE,
    tampered.FIGURE,
    repeats.FIGURE,
    limits.FIGURE,
)
FIGURES: dict[str, Figure] = {figure.name: figure for figure in _ALL}
