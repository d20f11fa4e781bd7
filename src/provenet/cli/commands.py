"""The `provenet` command: its sub-commands, and what becomes of errors."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from provenet import __version__
from provenet.cli import interrupted, kept
from provenet.cli.console import FAILED, WRONG_USE, complain, print_json
from provenet.cli.inputs import Missing, check_inputs
from provenet.wrong_use import WrongUse

# what --help says of each, without importing it; the first lines of their docstrings
COMMANDS = {
    "demo": "Fit a spiral and handwritten digits to a proven optimum, and leave a report of each to look at.",
    "fit": "Train a network to a proven optimum; write it, its certificate and a report into a folder.",
    "predict": "Predict with a saved model, from the columns it was fitted with; a deep one reads X of an NPZ file.",
    "certify": "Compute the certificate of a saved model, or of a network trained elsewhere; exit with 1 if it does "
    "not hold.",
    "path": "Solve at many values of beta, each from the last; write path.csv, path.json and a report with pictures.",
    "export": "Write a saved network as an ONNX graph: input X, samples as in the fit, output the logits or "
    "predictions.",
    "layerwise": "Train a deep network stage by stage, each a two-layer block with a certificate of its own; it can be "
    "resumed.",
    "embed": "Write token grids of images or texts by a frozen backbone into a folder; it goes on where it was "
    "interrupted.",
    "head": "Fit heads for a frozen backbone over a path of beta; keep the best by validation, with its certificate.",
    "reproduce": "Repeat experiments of the papers; write a page, pictures and numbers beside what the papers report.",
    "bench": "Compare with scikit-learn's usual estimators and with other solvers; write results, a page and pictures.",
}


_USAGE_ERROR: Any = typer.BadParameter.__base__  # of click, which typer brings along under no public name
_FOR_MACHINES = "provenet.json"  # in the context: --json was given
_TOGETHER = ("fit", "layerwise")  # those that torchrun may start several processes of


class _Commands(TyperGroup):
    """Foreseen errors end in one line and an exit code, not in a traceback."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name=name, help=summary) for name, summary in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        ctx.meta[_FOR_MACHINES] = "--json" in args
        name, command, rest = super().resolve_command(ctx, args)
        if command is None or name is None:
            return name, None, rest
        check_inputs(name, rest)
        return name, _imported(name), rest

    def invoke(self, ctx: Any) -> Any:
        kept.begin()
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader has seen enough: typer ends quietly
        except _USAGE_ERROR as error:  # typer says it, with how the command is used
            _tell_machines(ctx, error.format_message(), error.exit_code)
            raise
        except KeyboardInterrupt as stop:  # a fit, a search and a path that have begun return what they have instead
            said, code = f"interrupted, {kept.told()}. {stop}".rstrip(), FAILED
        except Missing as error:
            said, code = str(error), WRONG_USE
        except (ValueError, OSError, MemoryError, ImportError) as error:  # ImportError: an extra is not installed
            said, code = str(error) or type(error).__name__, FAILED
            if interrupted():
                said = f"interrupted, {kept.told()}. ({error})"
            elif isinstance(error, WrongUse):
                code = WRONG_USE
        complain(said)
        _tell_machines(ctx, said, code)
        raise typer.Exit(code)


def _tell_machines(ctx: Any, said: str, code: int) -> None:
    """What went wrong as JSON too, where that is what was asked for."""
    if ctx.meta.get(_FOR_MACHINES):
        print_json({"error": " ".join(said.split()), "exit_code": code})


def _imported(name: str) -> Any:
    """The command itself, but for what its work needs: see `importing`."""
    if name not in _TOGETHER and "TORCHELASTIC_RUN_ID" in os.environ:
        raise typer.BadParameter(f"torchrun: {name} works in one process; start it without.")
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    command = getattr(import_module(f"provenet.cli.{name}"), name)
    single.command(name, help=_paragraphs(command))(command)
    return typer.main.get_command(single)


def _paragraphs(command: Any) -> str:
    """The docstring without its own ends of lines: those of the terminal are enough."""
    return "\n\n".join(" ".join(each.split()) for each in (getdoc(command) or "").split("\n\n"))


app = typer.Typer(
    name="provenet",
    cls=_Commands,
    help="Train two-layer networks to a proven optimum, and check the proofs.",
    epilog="Exit codes: 0 done, 1 not certified or failed, 2 wrong use.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _tell_version(asked: bool) -> None:
    if asked:
        print(f"provenet {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


def run() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ≤ or β still gets its answer
    app(prog_name="provenet")
