"""A run's folder: a page in Markdown, every picture as PNG and SVG, and all numbers as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from provenet.files import write_atomically
from provenet.reproduce.experiment import Experiment, Findings, Table

PAGE, NUMBERS = "page.md", "numbers.json"


def write(folder: Path, experiment: Experiment, found: Findings, seconds: float, quick: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in found.pictures.items():
        figure.savefig(folder / f"{name}.png", dpi=120, facecolor="white")
        figure.savefig(folder / f"{name}.svg", facecolor="white")
    numbers = {"experiment": experiment.name, "quick": quick, "seconds": seconds, **found.numbers}
    write_atomically(folder / NUMBERS, json.dumps(numbers, indent=1).encode())
    write_atomically(folder / PAGE, page(experiment, found, seconds, quick).encode())


def page(experiment: Experiment, found: Findings, seconds: float, quick: bool) -> str:
    command = f"provenet reproduce {experiment.name}" + (" --quick" if quick else "")
    parts = [f"# {experiment.title}", f"{experiment.paper}. The paper reports: {experiment.reported}"]
    if quick:
        parts.append("**In small** (`--quick`): fewer and shorter runs than the paper's; it shows the same, roughly.")
    parts += ["\n".join(f"- {word}" for word in found.words)]
    parts += [f"![{name.replace('-', ' ')}]({name}.png)" for name in found.pictures]
    parts += [f"## {table.title}\n\n{as_markdown(table)}" for table in found.tables]
    parts.append(f"`{command}`, {seconds:.0f} s.")
    return "\n\n".join(parts) + "\n"


def as_markdown(table: Table) -> str:
    rows = [table.columns, tuple("---" for _ in table.columns), *table.rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
