"""An embedding on disk: tokens as a memory-mapped array, and what they are.

``tokens.npy`` (n, s, d) float32, ``mask.npy`` (n, s) where samples have tokens that are not there,
``reduction.safetensors`` where a PCA was taken, and, last, ``embedding.json``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from numpy.typing import NDArray

from provenet.files import read_regular
from provenet.nn.reduction import Reduction

FORMAT, VERSION = "provenet-embedding", 1
TOKENS, MASK, REDUCTION, ABOUT = "tokens.npy", "mask.npy", "reduction.safetensors", "embedding.json"


@dataclass(frozen=True, repr=False)
class Embedding:
    """A backbone's tokens on disk.

    Parameters
    ----------
    folder : Path
        Where they lie.
    X : array (n, s, d)
        The tokens, a memory map of float32.
    mask : array (n, s), optional
        Which tokens are there.
    y : array (n,), optional
        Labels.
    about : mapping
        Backbone, reduction, what was skipped.
    """

    folder: Path
    X: NDArray[np.float32]
    mask: NDArray[np.bool_] | None
    y: NDArray[Any] | None
    about: Mapping[str, Any]

    @property
    def backbone(self) -> str:
        return str(self.about["backbone"]["name"])

    @property
    def digest(self) -> str | None:
        """Of the backbone's weights; None where it had none to look at."""
        found = self.about["backbone"]["digest"]
        return None if found is None else str(found)

    @property
    def grid(self) -> tuple[int, int] | None:
        """Of the tokens as they are here."""
        found = self.about["reduction"]["pool"] or self.about["reduction"]["grid"]
        return None if found is None else (int(found[0]), int(found[1]))

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """(name, why) of samples that could not be read."""
        return [(name, why) for name, why in self.about["skipped"]]

    @property
    def size(self) -> int | None:
        """Pixels that images were brought to."""
        found = self.about["size"]
        return None if found is None else int(found)

    def reduction(self) -> Reduction:
        """What was done to the backbone's tokens."""
        return read_reduction(self.folder, self.about["reduction"])

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        n, s, d = self.X.shape
        return f"Embedding({n} samples of {s} tokens, {d} features, by {self.backbone!r})"

    def check_like(self, other: Embedding) -> None:
        """ValueError unless the other's tokens mean the same: the same backbone, reduced in the same way."""
        if (self.backbone, self.digest) != (other.backbone, other.digest):
            mine, theirs = (f"{each.backbone!r} ({(each.digest or 'no weights')[:12]})" for each in (self, other))
            raise ValueError(
                f"{other.folder}: its tokens are by another backbone, {theirs}, than those of {self.folder}, {mine}; "
                "embed both with one backbone."
            )
        if self.about["reduction"] != other.about["reduction"] or self.size != other.size:
            raise ValueError(
                f"{other.folder}: its tokens were reduced in another way than those of {self.folder}; embed it with "
                f"like={str(self.folder)!r}."
            )


def load_embedding(folder: str | Path, check: bool = True) -> Embedding:
    """The embedding in a folder; ValueError or OSError says what is wrong with it.

    Parameters
    ----------
    folder : path
        As `provenet.embed` wrote it.
    check : bool, default True
        Compare the arrays' checksums, too.
    """
    folder = Path(folder)
    if not (folder / ABOUT).exists():
        begun = (folder / "progress.json").exists()
        more = "it was begun and is not whole; run the same command again, which goes on." if begun else "embed first."
        raise FileNotFoundError(f"{folder}: there is no embedding; {more}")
    try:
        about = json.loads(read_regular(folder / ABOUT).decode())
        known = (about["format"], about["version"]) == (FORMAT, VERSION)
        files, shape = about["files"], tuple(about["shape"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / ABOUT}: it does not describe an embedding ({error}).") from None
    if not known:
        raise ValueError(f"{folder / ABOUT}: format {about['format']!r}, version {about['version']!r} is not known.")
    for name, digest in files.items():
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder / name}: it is missing; embed again.")
        if check and file_digest(folder / name) != digest:
            raise ValueError(f"{folder / name}: its checksum does not agree (edited or damaged); embed again.")
    X = _mapped(folder / TOKENS)
    if X.shape != shape or X.dtype != np.float32:
        raise ValueError(f"{folder / TOKENS}: {X.dtype} of shape {X.shape}, and float32 of {shape} was written.")
    mask = np.asarray(_mapped(folder / MASK)) if MASK in files else None
    y = None if about["labels"] is None else np.array(about["labels"])
    return Embedding(folder, X, mask, y, about)


def read_reduction(folder: Path, about: Mapping[str, Any]) -> Reduction:
    """The reduction that is described, with its PCA if it has one."""
    pca = {}
    if about["pca"] is not None:
        pca = safetensors.torch.load(read_regular(folder / REDUCTION))
    grid, pool = (None if about[key] is None else (int(about[key][0]), int(about[key][1])) for key in ("grid", "pool"))
    return Reduction(grid, pool, about["features"], pca.get("mean"), pca.get("components"))


def file_digest(path: Path) -> str:
    """SHA-256, a megabyte at a time."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


def _mapped(path: Path) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path}: it is no NPY file ({error}); embed again.") from None
