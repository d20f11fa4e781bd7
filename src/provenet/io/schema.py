"""Reading JSON that may hold anything."""

from __future__ import annotations

from typing import Any, TypeVar

from provenet.word import Word

T = TypeVar("T")


class SchemaError(ValueError):
    """A model file that is whole but does not say what a model must say."""


def take(record: Any, name: str, kind: type[T]) -> T:
    """``record[name]``, which must be of this kind; whole numbers pass for floats, bools for nothing but bools."""
    if not isinstance(record, dict) or name not in record:
        raise SchemaError(f"{name}: missing")
    value = record[name]
    if issubclass(kind, Word) and isinstance(value, str):
        words = [str(word) for word in kind]
        if value not in words:
            raise SchemaError(f"{name}: {value!r} is not one of {', '.join(words)}")
        return kind(value)
    if kind is float and type(value) is int:
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise SchemaError(f"{name}: expected {kind.__name__}, found {type(value).__name__}")
    return value


def as_shape(name: str, sizes: list[Any]) -> tuple[int, ...]:
    """Whole numbers above zero, one or more."""
    if not sizes or not all(type(size) is int and size > 0 for size in sizes):
        raise SchemaError(f"{name} is not a shape")
    return tuple(sizes)
