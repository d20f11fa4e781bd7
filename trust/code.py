"""Which code a record is of: figures of one tree say nothing of another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")


def digest() -> str:
    """SHA-256 of what is run: every source file of the package, as it is imported here, and of the figures, each by its
    name, and the versions of what they compute with."""
    total = hashlib.sha256(digest_of(_folder_of(name) for name in ("provenet", "trust")).encode())
    for name in LIBRARIES:
        total.update(f"{name} {version(name)}\n".encode())
    return total.hexdigest()


def digest_of(folders: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            name = file.relative_to(folder.parent).as_posix()
            total.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _folder_of(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


if __name__ == "__main__":
    print(digest())
