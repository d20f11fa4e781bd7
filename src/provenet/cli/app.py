"""The `provenet` command: its sub-commands, and what becomes of errors."""

from __future__ import annotations

import io
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from provenet import __version__
from provenet.cli import certify, demo, export, fit, layerwise, path, predict
from provenet.cli.console import FAILED, WRONG_USE, complain
from provenet.data.table import ColumnError
from provenet.solvers.plan import Refused


class _Commands(TyperGroup):
    """Foreseen errors end in one line and an exit code, not in a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader has seen enough: typer ends quietly
        except KeyboardInterrupt as stop:  # before there was a network to keep: a single fit returns its best so far
            complain(f"interrupted, and nothing was saved. {stop}".rstrip())
            raise typer.Exit(FAILED) from None
        except (ColumnError, Refused) as error:
            complain(str(error))
            raise typer.Exit(WRONG_USE) from None
        except (ValueError, OSError, MemoryError, ImportError) as error:  # ImportError: an extra is not installed
            complain(str(error) or type(error).__name__)
            raise typer.Exit(FAILED) from None


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


app.command()(demo.demo)
app.command()(fit.fit)
app.command()(predict.predict)
app.command()(certify.certify)
app.command()(path.path)
app.command()(export.export)
app.command()(layerwise.layerwise)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ≤ or β still gets its answer
    app(prog_name="provenet")
