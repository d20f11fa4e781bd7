"""The idx format of MNIST and its kin: a magic number, sizes, and bytes; gzipped or not."""

from __future__ import annotations

import gzip
import hashlib
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

# SHA-256 of the official files, unpacked
OFFICIAL = {
    "MNIST": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "Fashion-MNIST": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}


def find(folder: Path, part: str) -> Path | None:
    """A part of the set in the folder, packed or not, with a dot or a dash before idx."""
    names = [part, part.replace("-idx", ".idx")]
    return next(
        (folder / f"{name}{end}" for name in names for end in ("", ".gz") if (folder / f"{name}{end}").exists()), None
    )


def read_idx(path: Path) -> tuple[NDArray[np.uint8], str]:
    """The array, and the SHA-256 of the file as it is unpacked."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: it is a damaged gzip file ({error}).") from None
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != 8:
        raise ValueError(f"{path}: it is no idx file of bytes (it begins with {content[:4]!r}).")
    dims = content[3]
    start = 4 + 4 * dims
    if len(content) < start:
        raise ValueError(f"{path}: it ends within its sizes.")
    sizes = struct.unpack(f">{dims}I", content[4:start])
    if len(content) - start != int(np.prod(sizes, dtype=object)):
        times = " × ".join(map(str, sizes))
        raise ValueError(f"{path}: it says {times} bytes and holds {len(content) - start}; it is truncated or damaged.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes), hashlib.sha256(content).hexdigest()


def official_name(digests: tuple[str, ...]) -> str | None:
    """The set whose official files these are."""
    return next((name for name, known in OFFICIAL.items() if known == digests), None)
