from __future__ import annotations


def page(figures, records):
    return ""
