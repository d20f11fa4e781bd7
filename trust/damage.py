"""Damaged model files: bits, truncations, swaps, holes, and folders whose digests were forged to agree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from provenet.cli.subject import contradicted
from provenet.layerwise.base import Layerwise
from trust.figure import Figure, Seen, Try, pick
from trust.forgery import forged
from trust.models import Small, meaning, seeded, small_models

FILES = ("model.json", "model.safetensors", "certificate.json")
Files = dict[str, bytes]


@contextmanager
def ready(folder: Path) -> Iterator[Try]:
    bank = seeded(small_models)
    originals: list[Files] = []
    meanings: list[str] = []
    for number, small in enumerate(bank):
        there = pn.save(small.model, folder / f"original-{number}")
        originals.append({name: (there / name).read_bytes() for name in FILES})
        meanings.append(meaning(pn.load(there)))
    place = folder / "damaged"

    def attempt(case: int) -> Seen:
        rng = np.random.default_rng([case, 1])
        number = case % len(bank)
        whole = originals[number]
        is_forged = rng.random() < 0.4
        if is_forged:
            word, files = forged(rng, whole)
        else:
            word, files = damaged(rng, whole, originals[(number + 1) % len(bank)])
        if files == whole:
            return Seen("nothing changed by chance")
        write(place, files)
        return judge(place, bank[number], meanings[number], f"forged, {word}" if is_forged else word, is_forged)

    yield attempt


def judge(place: Path, small: Small, meant: str, word: str, is_forged: bool) -> Seen:
    """Refused with a reason, or the same model as before; a forged one may be another, if its certificate is true."""
    try:
        loaded = pn.load(place)
    except (ValueError, OSError) as error:
        named = str(place) in str(error)
        return Seen("refused", None if named else f"{word}: the reason names no file: {error}")
    except BaseException as error:
        return Seen("crashed", f"{word}: {type(error).__name__}: {error}")
    if not is_forged:
        same = meaning(loaded) == meant
        return Seen("loaded, the same", None if same else f"{word}: loaded silently as another model")
    if isinstance(loaded, Layerwise):
        return Seen("forged whole: certificates of stages, which only data could contradict")
    return judge_forged(loaded, small, word)


def judge_forged(loaded: Any, small: Small, word: str) -> Seen:
    """Who can forge digests can write any model; what is claimed of it must still be true of it, or be found out."""
    saved = getattr(loaded, "saved_", loaded)
    try:
        X, Y, weight, mask = small.posed(loaded)
        found = saved.certify(X, Y, weight, mask=mask)
    except (ValueError, OSError) as error:
        return Seen("forged: certify refuses", None if str(error) else f"{word}: no reason is given")
    except BaseException as error:
        return Seen("crashed", f"{word}, certify: {type(error).__name__}: {error}")
    if contradicted(saved.certificate, found):
        return Seen("forged: certify contradicts")
    return Seen("forged whole: the certificate is true of it")


def damaged(rng: np.random.Generator, whole: Files, other: Files) -> tuple[str, Files]:
    """Some of the ways in which files are damaged, by disks, copies and hands."""
    files = dict(whole)
    name = pick(rng, list(FILES))
    content = bytearray(whole[name])
    at, length = int(rng.integers(len(content))), int(rng.integers(1, 64))
    how = pick(rng, ["bit", "bits", "truncated", "longer", "hole", "noise", "moved", "swapped", "missing", "exchanged"])
    if how == "bit":
        content[at] ^= 1 << int(rng.integers(8))
    elif how == "bits":
        for place in rng.integers(len(content), size=int(rng.integers(2, 9))):
            content[place] ^= 1 << int(rng.integers(8))
    elif how == "truncated":
        del content[at:]
    elif how == "longer":
        content += rng.bytes(length)
    elif how == "hole":
        content[at : at + length] = bytes(len(content[at : at + length]))
    elif how == "noise":
        content[at : at + length] = rng.bytes(len(content[at : at + length]))
    elif how == "moved":
        content = content[at:] + content[:at]
    elif how == "swapped":
        content = bytearray(other[name])
    elif how == "exchanged":
        second = pick(rng, [each for each in FILES if each != name])
        files[second], content = whole[name], bytearray(whole[second])
    if how == "missing":
        del files[name]
    else:
        files[name] = bytes(content)
    return f"{name} {how}", files


def write(place: Path, files: Files) -> None:
    place.mkdir(exist_ok=True)
    for name in FILES:
        if name in files:
            (place / name).write_bytes(files[name])
        elif (place / name).exists():
            os.unlink(place / name)


FIGURE = Figure(
    name="damage",
    title="damaged model files",
    promise="none loads as another model, none ends in a foreign exception",
    checked=(
        "Folders of six kinds of small models, with bits flipped, files cut, lengthened, overwritten, moved, swapped "
        "and missing: `load` gives a ValueError or OSError that names the file, or the same model, bit by bit (white "
        "space in model.json is free). In four of ten, values, tensors or bytes are changed and all digests forged to "
        "agree: then `load` refuses, or the certificate computed anew from the data refutes the stored one, or that "
        "is true of what the folder holds. Who can forge digests can write any honest model; a lie about one is found "
        "out."
    ),
    count=100_000,
    chunk=1000,
    small=120,
    ready=ready,
)
