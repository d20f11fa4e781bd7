"""Options that say a block, its settings and the shape of a sample."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from provenet.names import BLOCKS


def known_block(value: str) -> str:
    if value not in BLOCKS:
        raise typer.BadParameter(f"{value!r} is unknown; choose one of {', '.join(BLOCKS)}.")
    return value


@dataclass(frozen=True)
class ImageShape:
    """(channels, height, width), or (channels, length) of a sequence."""

    sizes: tuple[int, ...]


def parse_image(text: str) -> ImageShape:
    """ "1x28x28", or "3x100" for a sequence."""
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){1,2}", text):
        raise typer.BadParameter(f"{text!r} is not channels and sizes such as 1x28x28.")
    return ImageShape(tuple(map(int, text.split("x"))))


BlockOption = Annotated[str, typer.Option("--block", callback=known_block, help=f"{', '.join(BLOCKS)}.")]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the block, such as kernel=3 or grid=7x7. Repeat."),
]
Tokens = Annotated[
    int | None, typer.Option(min=1, help="Read each row as so many tokens, one after the other (for token blocks).")
]
Image = Annotated[
    ImageShape | None,
    typer.Option(parser=parse_image, metavar="CxHxW", help="Read each row as an image, or CxL a sequence (for cnn)."),
]
ReadoutOption = Annotated[
    Literal["mean", "tokens"], typer.Option(help="Predict from the mean over tokens, or something for every token.")
]
