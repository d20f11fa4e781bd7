"""The binary batches of CIFAR-10 and CIFAR-100: label bytes, then 3 × 32 × 32 bytes, image after image."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TEN = tuple(f"data_batch_{k}.bin" for k in range(1, 6)), ("test_batch.bin",), 1
HUNDRED = ("train.bin",), ("test.bin",), 2
_PIXELS = 3 * 32 * 32
_WHERE = "the binary version is at www.cs.toronto.edu/~kriz/cifar.html"

# SHA-1 of the official files, training and test: which they are, not whether they can be trusted
OFFICIAL = {
    "CIFAR-10": (
        "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
        "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
        "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
        "aab85764eb3584312d3c7f65fd2fd016e36a258e",
        "26e2849e66a845b7f1e4614ae70f4889ae604628",
        "67eb016db431130d61cd03c7ad570b013799c88c",
    ),
    "CIFAR-100": ("e207cd2e05b73b1393c74c7f5e7bea451d63e08e", "8fb6623e830365ff53cf14adec797474f5478006"),
}


def batches_in(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...], int] | None:
    """(training files, test files, label bytes) of the set that is there."""
    return next((kind for kind in (TEN, HUNDRED) if (folder / kind[0][0]).exists()), None)


def is_pickled(folder: Path) -> bool:
    """Whether the folder holds the Python version."""
    return (folder / "data_batch_1").exists() or ((folder / "train").is_file() and (folder / "meta").exists())


def official_name(folder: Path, names: tuple[str, ...]) -> str | None:
    """The set whose official files these are, training and test."""
    digests = tuple(hashlib.sha1((folder / name).read_bytes(), usedforsecurity=False).hexdigest() for name in names)
    return next((name for name, known in OFFICIAL.items() if known == digests), None)


def read_batches(folder: Path, names: tuple[str, ...], labels: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 3, 32, 32), and the last of the label bytes: CIFAR-100's fine one."""
    parts = []
    for name in names:
        path = folder / name
        if not path.exists():
            raise FileNotFoundError(f"{path}: it is missing, so the set is not whole; {_WHERE}.")
        content = np.frombuffer(path.read_bytes(), np.uint8)
        if content.size == 0 or content.size % (labels + _PIXELS):
            raise ValueError(f"{path}: {content.size} bytes are no whole number of images; it is truncated or damaged.")
        parts.append(content.reshape(-1, labels + _PIXELS))
    rows = np.concatenate(parts)
    return rows[:, labels:].reshape(-1, 3, 32, 32), rows[:, labels - 1].astype(np.int64)
