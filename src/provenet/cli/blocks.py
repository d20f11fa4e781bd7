"""The block that a command line asks for, and whether it goes with the data."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from provenet.blocks import BLOCKS, Block, make_block
from provenet.cli.groups import FromFile, OfBlock
from provenet.data.table import ColumnError

_ELSEWHERE = {"fit_intercept": "--intercept / --no-intercept"}  # settings with an option of their own


def chosen_block(asked: OfBlock, file: FromFile) -> Block:
    """The block with its settings; options that do not go with it are wrong use."""
    name, kind = asked.block, BLOCKS[asked.block]
    block = _with_settings(name, dict(_parse_setting(name, text) for text in asked.set_))
    if file.tokens is not None and not kind.tokens:
        raise typer.BadParameter(f"block {name} has no tokens.", param_hint="--tokens")
    if file.image is not None and name != "cnn":
        raise typer.BadParameter(f"block {name} takes no images; it goes with --block cnn.", param_hint="--image")
    if asked.readout == "tokens" and not kind.tokens:
        raise typer.BadParameter(f"block {name} has one output a sample, no tokens.", param_hint="--readout")
    return block


def check_fits(block: Block, X: NDArray[Any], outputs: int) -> None:
    """What of the settings does not go with the data is wrong use, told before the work."""
    if X.ndim == 2 and block.name != "mlp":
        how = "--tokens" if block.tokens else "--image"
        raise typer.BadParameter(
            f"block {block.name} does not take rows of {X.shape[1]} numbers; say how to read them.", param_hint=how
        )
    one = np.array(np.asarray(X[:1]), dtype=np.float64)
    try:
        block.check(torch.from_numpy(one).expand(len(X), *one.shape[1:]), outputs)  # of the data's shape, uncopied
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--block, --set") from None


def check_mask(path: Path, block: Block, mask: NDArray[Any] | None) -> None:
    """A mask in the data of a block that takes none is wrong use."""
    if mask is not None and not block.masks:
        raise ColumnError(
            f"{path}: it holds a mask, but block {block.name!r} has a fixed number of tokens; only attention takes one."
        )


def _parse_setting(block: str, text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if name in _ELSEWHERE:
        raise typer.BadParameter(f"{name} has an option of its own, {_ELSEWHERE[name]}.", param_hint="--set")
    own = [f.name for f in fields(BLOCKS[block]) if f.name not in _ELSEWHERE]  # type: ignore[arg-type]
    if name not in own:
        has = f"its settings are {', '.join(own)}" if own else "it has no settings"
        raise typer.BadParameter(f"block {block} has no setting {name!r}; {has}.", param_hint="--set")
    if not equals or not value:
        raise typer.BadParameter(f"{text!r}: give a value, {name}=VALUE.", param_hint="--set")
    read = _read(value)
    if not _is_of_kind(read, get_type_hints(BLOCKS[block])[name]):
        raise typer.BadParameter(
            f"{name}: {value!r} is not a value for it; numbers are written 3, sizes 7x7.", param_hint="--set"
        )
    return name, read


def _with_settings(name: str, settings: dict[str, Any]) -> Block:
    try:
        return make_block(name, **settings)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error), param_hint="--set") from None


def _read(text: str) -> Any:
    """none, true and false, whole numbers, fractions, sizes such as 7x7; anything else is a word."""
    named = {"none": None, "true": True, "false": False}
    if text.lower() in named:
        return named[text.lower()]
    if re.fullmatch(r"\d+(x\d+)+", text):
        return tuple(map(int, text.split("x")))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _is_of_kind(value: Any, hint: Any) -> bool:
    """Whether a dataclass field with this annotation can hold the value."""
    if get_origin(hint) in (Union, UnionType):
        return any(_is_of_kind(value, each) for each in get_args(hint))
    kind = get_origin(hint) or hint
    if isinstance(value, bool) or kind is bool:
        return type(value) is kind
    return isinstance(value, (int, float) if kind is float else kind)
