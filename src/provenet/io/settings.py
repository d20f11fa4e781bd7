"""Settings ↔ JSON: plain values as they are, blocks and methods as a name with settings of their own."""

from __future__ import annotations

import warnings
from dataclasses import MISSING, asdict, fields
from math import isfinite
from typing import Any

import numpy as np

from provenet.blocks import Block, make_block
from provenet.io.schema import SchemaError, take
from provenet.solvers import METHODS, Method


class NotSaved:
    """In place of a value that could not be written."""


def encode(name: str, value: Any) -> Any:
    """What is neither plain nor of this package is told, and left at its default."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Block):
        return {"block": value.name, "settings": dict(value.settings())}
    if isinstance(value, Method) and METHODS.get(value.name) is type(
        value
    ):  # another's class is code: no file names it
        return {"method": value.name, "settings": {k: encode(k, v) for k, v in asdict(value).items()}}  # type: ignore[call-overload]
    if isinstance(value, dict):
        return {"pairs": [[encode(name, k), encode(name, v)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"tuple" if isinstance(value, tuple) else "list": [encode(name, item) for item in value]}
    warnings.warn(
        f"{name}: {value!r} cannot be written to a file; the loaded model has the default instead.", stacklevel=4
    )
    return {"not_saved": repr(value)}


def decode(value: Any) -> Any:
    """What `encode` was given; `NotSaved` where it could not be written."""
    if not isinstance(value, dict):
        return value
    if "block" in value:
        return make_block(take(value, "block", str), **take(value, "settings", dict))
    if "method" in value:
        return _method(take(value, "method", str), decode_all(take(value, "settings", dict)))
    if "pairs" in value:
        return {decode(k): decode(v) for k, v in take(value, "pairs", list)}
    if "float" in value:
        return float(take(value, "float", str))
    if "tuple" in value:
        return tuple(decode(item) for item in take(value, "tuple", list))
    if "list" in value:
        return [decode(item) for item in take(value, "list", list)]
    return NotSaved


def decode_all(saved: dict[str, Any]) -> dict[str, Any]:
    """Those that were written, by name."""
    decoded = {name: decode(value) for name, value in saved.items()}
    return {name: value for name, value in decoded.items() if value is not NotSaved}


def _method(name: str, settings: dict[str, Any]) -> Method[Any]:
    if name not in METHODS:
        raise SchemaError(f"method: {name!r} is none of {', '.join(METHODS)}")
    kind: Any = METHODS[name]
    for each in fields(kind):  # settings that are dataclasses themselves were written as their fields
        if each.name in settings and each.default_factory is not MISSING:
            settings[each.name] = type(each.default_factory())(**settings[each.name])
    return kind(**settings)
