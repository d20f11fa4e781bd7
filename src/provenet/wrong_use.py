"""What is told of wrong use, whatever room finds it."""

from __future__ import annotations


class WrongUse(ValueError):
    """Something that was asked for and does not go with the data, or with what else was asked for."""
