"""The options that `provenet certify` alone has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from provenet.cli import options as o
from provenet.names import LOSSES


@dataclass(frozen=True)
class OfTraining:
    """How a network of a state dict was trained, which a file of weights does not say."""

    loss: Annotated[
        str | None,
        typer.Option(callback=o.known_loss, help=f"Of a state dict: what it was trained with: {', '.join(LOSSES)}."),
    ] = None
    beta: Annotated[
        float | None, typer.Option(callback=o.positive, help="Of a state dict: the weight decay it was trained with.")
    ] = None
    mean: Annotated[bool, typer.Option("--mean", help="Of a state dict: its loss was a mean, not a sum.")] = False
    delta: o.Delta = 1.0
    activation: o.ActivationOption = "relu"
    sharpen: Annotated[
        float | None,
        typer.Option(callback=o.positive, help="Seconds to look for a better bound by solving the problem."),
    ] = None
    bias: Annotated[o.Bias, typer.Option(help="Of a state dict: whether its last bias was penalised.")] = "free"
    improved: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Write a better network, if one is found, to this .safetensors file."),
    ] = None

    def check(self) -> None:
        """What a state dict is certified by must be said."""
        if self.loss is None or self.beta is None:
            raise typer.BadParameter(
                "a state dict does not say how it was trained; give both.", param_hint="--loss, --beta"
            )
