"""The notebook of the first five minutes, made of the page: text and code are written once.

Run: python examples/notebook.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

PAGE = Path(__file__).with_name("first_five_minutes.md")
NOTEBOOK = PAGE.with_suffix(".ipynb")
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def cells(page: str) -> list[dict[str, object]]:
    """Text, and code with what it prints, by turns, as nbformat 4 has them."""
    made = [_cell("markdown", "# provenet in five minutes", 0)]
    for part in re.split(r"(```(?:python|text)\n.*?```)", page, flags=re.DOTALL):
        block = re.fullmatch(r"```(python|text)\n(.*?)\n```", part, re.DOTALL)
        if block and block[1] == "text":
            made[-1]["outputs"] = [_printed(block[2] + "\n")]
            continue
        text = (block[2] if block else part).strip()
        if text:
            made.append(_cell("code" if block else "markdown", text, len(made)))
    return made


def _printed(text: str) -> dict[str, object]:
    return {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}


def _cell(kind: str, text: str, number: int) -> dict[str, object]:
    cell: dict[str, object] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
    cell["source"] = text.splitlines(keepends=True)
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def notebook() -> str:
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    made = {"cells": cells(PAGE.read_text()), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook())
