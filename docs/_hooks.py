"""Pages of the site that stand at the root of the repository: read from there, with links as seen from here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {"contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md", "changes.md": "CHANGELOG.md"}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    source = PAGES.get(page.file.src_uri)
    return markdown if source is None else from_root((ROOT / source).read_text(encoding="utf-8"))


def from_root(text: str) -> str:
    """Links into docs/ lose that folder; those to other files of the repository become names."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\[([^\]]*)\]\((?!https?:|#|[\w/]+\.md)[^)]*\)", r"`\1`", text)
