"""The binary batches of CIFAR-10 and CIFAR-100: label bytes, then 3 × 32 × 32 bytes, image after image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TEN = tuple(f"data_batch_{k}.bin" for k in range(1, 6)), ("test_batch.bin",), 1
HUNDRED = ("train.bin",), ("test.bin",), 2
_PIXELS = 3 * 32 * 32


def batches_in(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...], int] | None:
    """(training files, test files, label bytes) of the set that is there."""
    return next((kind for kind in (TEN, HUNDRED) if (folder / kind[0][0]).exists()), None)


def is_pickled(folder: Path) -> bool:
    """Whether the folder holds the Python version."""
    return (folder / "data_batch_1").exists() or ((folder / "train").is_file() and (folder / "meta").exists())


def read_batches(folder: Path, names: tuple[str, ...], labels: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 3, 32, 32), and the last of the label bytes: CIFAR-100's fine one."""
    parts = []
    for name in names:
        path = folder / name
        if not path.exists():
            raise FileNotFoundError(f"{path}: it is missing, so the set is not whole.")
        content = np.frombuffer(path.read_bytes(), np.uint8)
        if content.size == 0 or content.size % (labels + _PIXELS):
            raise ValueError(f"{path}: {content.size} bytes are no whole number of images; it is truncated or damaged.")
        parts.append(content.reshape(-1, labels + _PIXELS))
    rows = np.concatenate(parts)
    return rows[:, labels:].reshape(-1, 3, 32, 32), rows[:, labels - 1].astype(np.int64)
