"""How the command line speaks: results on stdout, everything else on stderr."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from provenet.certificates import Certificate

DONE, FAILED, WRONG_USE = 0, 1, 2


def complain(message: str) -> None:
    """One red line."""
    errors().print(f"[bold red]error:[/] {escape(' '.join(message.split()))}", soft_wrap=True, highlight=False)


def warn(message: str) -> None:
    errors().print(f"[yellow]note:[/] {escape(message)}", soft_wrap=True, highlight=False)


def say(message: str) -> None:
    output().print(escape(message), soft_wrap=True, highlight=False)


def counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_certificate(certificate: Certificate) -> None:
    colour = "green" if certificate.status == "certified" else "red"
    status, *rest = str(certificate).splitlines()
    output().print(f"[bold {colour}]{escape(status)}[/]", soft_wrap=True, highlight=False)
    say("\n".join(rest))


def print_table(headings: list[str], rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def as_csv(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


def output() -> Console:
    """Made anew each time: stdout may be another one by now."""
    return Console()


def errors() -> Console:
    return Console(stderr=True)
