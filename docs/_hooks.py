"""What pages are made of beyond their text: the menu, pages from the root of the repository, tables of settings."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {"contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md", "changes.md": "CHANGELOG.md"}
MENU: list[Any] = []


def on_config(config: Any) -> None:
    MENU[:] = config["nav"]


def on_files(files: Any, config: Any) -> None:
    """The menu as it is written: the gallery would put every example into it a second time."""
    config["nav"] = list(MENU)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    source = PAGES.get(page.file.src_uri)
    if source is not None:
        return from_root((ROOT / source).read_text(encoding="utf-8"))
    return re.sub(r"<!-- settings: (\w+) -->", lambda found: settings_of(found[1]), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """A picture that is no link opens by itself, as large as it is."""
    links = r"(<a [^>]*>(?:(?!</a>).)*</a>)|(<img [^>]*src=\"([^\"]+)\"[^>]*>)"
    return re.sub(links, lambda found: found[1] or f'<a href="{found[3]}">{found[2]}</a>', html, flags=re.DOTALL)


def settings_of(name: str) -> str:
    """The settings of an estimator, which are the fields of a dataclass, as a table."""
    import provenet

    rows = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for each in fields(getattr(provenet, name)):
        default = "–" if each.default is MISSING else f"`{each.default!r}`"
        meaning = each.metadata.get("meaning", "").replace("|", "\\|")
        rows.append(f"| `{each.name}` | {default} | {meaning} |")
    return "\n".join(rows)


def from_root(text: str) -> str:
    """Links into docs/ lose that folder; those to other files of the repository become names."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\[([^\]]*)\]\((?!https?:|#|[\w/]+\.md)[^)]*\)", r"`\1`", text)
