"""Enums that are words."""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """A word of a fixed few: it prints, compares and is written to JSON as the plain string."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec)

    def __repr__(self) -> str:
        return str.__repr__(self)
