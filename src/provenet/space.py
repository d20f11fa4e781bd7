"""Where tensors live and how precise they are: one owner, for all that holds some.

A `Space` makes tensors and moves them; what holds tensors is `Placed`, and is moved as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Space:
    """A device, and the precision of the real numbers on it.  Whole numbers and truth values have a device alone."""

    device: torch.device = _CPU
    dtype: torch.dtype = torch.float64

    @staticmethod
    def of(tensor: Tensor) -> Space:
        return Space(tensor.device, tensor.dtype)

    def move(self, tensor: Tensor) -> Tensor:
        """The tensor here: real numbers in this precision, complex ones in the one that matches it."""
        if tensor.is_complex():
            return tensor.to(self.device, self.dtype.to_complex())
        return tensor.to(self.device, self.dtype) if tensor.is_floating_point() else tensor.to(self.device)

    def zeros(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.zeros(shape, dtype=dtype or self.dtype, device=self.device)

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.empty(shape, dtype=dtype or self.dtype, device=self.device)

    def ones(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.ones(shape, dtype=dtype or self.dtype, device=self.device)

    def full(self, shape: tuple[int, ...], value: float, dtype: torch.dtype | None = None) -> Tensor:
        return torch.full(shape, value, dtype=dtype or self.dtype, device=self.device)

    def eye(self, size: int) -> Tensor:
        return torch.eye(size, dtype=self.dtype, device=self.device)

    def arange(self, *ends: int) -> Tensor:
        """Whole numbers."""
        return torch.arange(*ends, device=self.device)

    def randn(self, *shape: int, seed: int) -> Tensor:
        """The same numbers in every space, but for their precision."""
        generator = torch.Generator().manual_seed(seed)
        return self.move(torch.randn(shape, generator=generator, dtype=torch.float64))


class Placed:
    """What holds tensors, and can be moved as a whole: its attributes are, and theirs.

    What is made of them on demand (cached properties, and names in ``remembered``) is not moved but made anew: what was
    rounded would not do in a higher precision.
    """

    remembered: tuple[str, ...] = ()  # attributes that the class has as None, until something is remembered there
    _made: frozenset[str] = frozenset()  # those, and the names of cached properties

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cached = {name for name, value in vars(cls).items() if isinstance(value, cached_property)}
        cls._made = cls._made | cached | set(cls.remembered)

    def to(self, space: Space) -> Self:
        """The same in another space; where nothing changes, itself."""
        own = self._own()
        there = {name: moved(value, space) for name, value in own.items()}
        return self if all(there[name] is own[name] for name in own) else self._with(**there)

    def _own(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._made}

    def made(self, name: str) -> Any:
        """What a cached property holds, None where nobody has asked for it yet."""
        return vars(self).get(name)

    def _with(self, **changed: Any) -> Self:
        """A copy with other attributes, that remembers nothing."""
        other = object.__new__(type(self))
        other.__dict__.update(self._own(), **changed)  # not by setting: frozen ones are made as others are
        return other


def read(*numbers: Tensor) -> list[float]:
    """Numbers, each a tensor of one, as the host's: together, since each reading waits for all that the device does."""
    return torch.stack([number.to(torch.float64) for number in numbers]).tolist()


def moved(value: Any, space: Space) -> Any:
    """A tensor, or anything placed, in another space, alone or in tuples, lists and dataclasses; all else as it is."""
    if isinstance(value, Tensor):
        return space.move(value)
    if isinstance(value, Space):
        return value if value == space else space
    if isinstance(value, Placed):
        return value.to(space)
    return _each(value, lambda part: moved(part, space))


def anew(value: Any) -> Any:
    """Anything placed, alone or in tuples, lists and dataclasses, with the same tensors and nothing that is made of
    them on demand: it takes the memory of what it holds, until it is used again."""
    if isinstance(value, Placed):
        return value._with(**{name: anew(own) for name, own in value._own().items()})
    return _each(value, anew)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Tuples, lists and dataclasses with their parts changed; where none is, and of all else, the same."""
    if isinstance(value, (tuple, list)):
        parts = [change(part) for part in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: change(getattr(value, field.name)) for field in fields(value)}
        same = all(new is getattr(value, name) for name, new in changed.items())
        return value if same else replace(value, **changed)
    return value
