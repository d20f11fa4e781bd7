"""What is embedded: images in arrays, pictures on disk, texts; read in batches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from provenet.data.images import load_images, pictures_in, read_picture
from provenet.data.table import read_table
from provenet.nn.backbone import resized


class Batch(NamedTuple):
    """inputs: what the backbone gets; kept: positions, of those asked for, that could be read; skipped: (name, why)."""

    inputs: Any
    kept: list[int]
    skipped: list[tuple[str, str]]


class Source(Protocol):
    """labels (n,), or None.  digest: the same for the same samples in the same order."""

    @property
    def labels(self) -> NDArray[Any] | None: ...

    def __len__(self) -> int: ...

    def batch(self, rows: Sequence[int]) -> Batch: ...

    def digest(self) -> str: ...


@dataclass(frozen=True)
class Arrays:
    """X (n, …): bytes become numbers in [0, 1]; size: images (n, channels, height, width) are brought to it."""

    X: NDArray[Any]
    labels: NDArray[Any] | None = None
    size: int | None = None

    def __len__(self) -> int:
        return len(self.X)

    def batch(self, rows: Sequence[int]) -> Batch:
        chosen = torch.as_tensor(np.ascontiguousarray(self.X[list(rows)]))
        chosen = chosen.float() / 255 if chosen.dtype == torch.uint8 else chosen.float()
        inputs = chosen if self.size is None else resized(chosen, self.size)
        return Batch(inputs, list(range(len(rows))), [])

    def digest(self) -> str:
        found = hashlib.sha256(f"{self.X.dtype} {self.X.shape} {self.size}".encode())
        for start in range(0, len(self.X), 4096):
            found.update(np.ascontiguousarray(self.X[start : start + 4096]).tobytes())
        return found.hexdigest()


@dataclass(frozen=True)
class Pictures:
    """Files, read when they are asked for; size: all are brought to it, in three colours."""

    paths: tuple[Path, ...]
    labels: NDArray[Any] | None
    size: int

    def __len__(self) -> int:
        return len(self.paths)

    def batch(self, rows: Sequence[int]) -> Batch:
        images, kept, skipped = [], [], []
        for position, row in enumerate(rows):
            try:
                picture = torch.as_tensor(read_picture(self.paths[row]).copy()).float() / 255
            except ValueError as error:
                skipped.append((str(self.paths[row]), str(error)))
                continue
            images.append(resized(picture.expand(3, -1, -1)[None], self.size))
            kept.append(position)
        return Batch(torch.cat(images) if images else torch.empty(0, 3, self.size, self.size), kept, skipped)

    def digest(self) -> str:
        said = "\n".join(f"{path.parent.name}/{path.name} {path.stat().st_size}" for path in self.paths)
        return hashlib.sha256(f"{self.size}\n{said}".encode()).hexdigest()


@dataclass(frozen=True)
class Texts:
    """Strings."""

    texts: tuple[str, ...]
    labels: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def batch(self, rows: Sequence[int]) -> Batch:
        return Batch([self.texts[row] for row in rows], list(range(len(rows))), [])

    def digest(self) -> str:
        return hashlib.sha256("\0".join(self.texts).encode()).hexdigest()


PARTS = ("train", "test")


def read_source(
    data: Any,
    y: Any = None,
    *,
    part: str = "train",
    size: int | None = None,
    column: str | None = None,
    label: str | None = None,
) -> Source:
    """A source of arrays, a list of texts, or a path, as `provenet.embed` describes them."""
    if part not in PARTS:
        raise ValueError(f"part: {part!r} is unknown; choose 'train' or 'test'.")
    if isinstance(data, str | Path):
        return _on_disk(Path(data), y, part, size, column, label)
    labels = None if y is None else np.asarray(y)
    source: Source
    if isinstance(data, Sequence) and data and all(isinstance(each, str) for each in data):
        source = Texts(tuple(data), labels)
    else:
        array = data.numpy() if isinstance(data, torch.Tensor) else np.asarray(data)
        if array.dtype.kind not in "biuf" or array.ndim < 2 or not len(array):
            raise ValueError(
                f"data: images (n, channels, height, width), a list of texts, or a path is needed, got {array.dtype} "
                f"of shape {array.shape}."
            )
        source = Arrays(array, labels, size)
    if labels is not None and len(labels) != len(source):
        raise ValueError(f"y: {len(labels)} labels of {len(source)} samples.")
    return source


def _on_disk(path: Path, y: Any, part: str, size: int | None, column: str | None, label: str | None) -> Source:
    if y is not None:
        raise ValueError("y: files have labels of their own; leave it out.")
    if path.suffix.lower() in (".txt", ".csv", ".tsv"):
        return _texts(path, column, label)
    where = path / part if part == "test" or (path / "train").is_dir() else path
    found = pictures_in(where) if where.is_dir() else []
    if found:
        if size is None:
            raise ValueError(f"{path}: pictures are of many sizes; say to how many pixels they are brought (size).")
        labels = np.array([name for _, name in found])
        return Pictures(tuple(picture for picture, _ in found), labels, size)
    images = load_images(path)
    if part == "test" and images.test is None:
        raise ValueError(f"{path}: there is no test part in it.")
    X, labels = images.training if part == "train" or images.test is None else images.test
    return Arrays(X, labels, size)


def has_test(path: Path) -> bool:
    """Whether there is a test part."""
    if path.suffix.lower() in (".txt", ".csv", ".tsv"):
        return False
    if path.is_dir() and ((path / "train").is_dir() or pictures_in(path)):
        return (path / "test").is_dir()
    return load_images(path).test is not None


def _texts(path: Path, column: str | None, label: str | None) -> Texts:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    if path.suffix.lower() == ".txt":
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines:
            raise ValueError(f"{path}: it is empty; one text a line is needed.")
        return Texts(tuple(lines))
    table = read_table(path, None)
    names = list(table.columns)
    if column is None:
        others = [name for name in names if name != label]
        if len(others) != 1:
            raise ValueError(f"{path}: say which column holds the texts (column); it has {', '.join(names)}.")
        column = others[0]
    texts = tuple(str(text) for text in table.columns[table.resolve(column)])
    return Texts(texts, None if label is None else np.asarray(table.labels(table.resolve(label))))
