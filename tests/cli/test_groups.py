"""Groups of options: spread out for typer, put together for the command."""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from provenet.cli.groups import grouped


@dataclass(frozen=True)
class Where:
    place: Annotated[str, typer.Argument(help="A place.")]
    floor: Annotated[list[int], typer.Option(help="Repeat.")] = field(default_factory=list)


def app_of(command) -> typer.Typer:
    app = typer.Typer()
    app.command()(command)
    return app


@grouped
def visit(name: Annotated[str, typer.Argument()], where: Where, often: int = 1) -> None:
    """Say where."""
    print(name, where, often)


def test_a_group_is_on_the_command_line_field_by_field():
    assert list(signature(visit).parameters) == ["name", "place", "floor", "often"]
    result = CliRunner().invoke(app_of(visit), ["Ada", "home", "--floor", "1", "--floor", "2"])
    assert result.exit_code == 0, result.output
    assert result.stdout == "Ada Where(place='home', floor=[1, 2]) 1\n"


@pytest.mark.parametrize("arguments", [["Ada"], ["Ada", "home", "--floor", "up"], ["Ada", "home", "--where", "x"]])
def test_wrong_use_is_told_of_each_field(arguments):
    assert CliRunner().invoke(app_of(visit), arguments).exit_code == 2


def test_help_is_the_commands_own():
    said = CliRunner().invoke(app_of(visit), ["--help"]).stdout
    assert "Say where." in said
    assert "Repeat." in said
