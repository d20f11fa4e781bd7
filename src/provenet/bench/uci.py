"""The UCI tables in the form of Fernández-Delgado et al., JMLR 2014: a folder a table, ``NAME/NAME_R.dat``.

A file has a line of names, then a line a row: its number, the features, and the class, a whole number.  Some tables
come as ``NAME_train_R.dat`` and ``NAME_test_R.dat``; the two are put together.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WHERE = (
    "The UCI tables are not part of provenet. Get data.tar.gz of Fernández-Delgado et al. (JMLR 2014) from "
    "persoal.citius.usc.es/manuel.fernandez.delgado/papers/jmlr, or the folder data/ of "
    "github.com/CameronDiao/GLVQ-For-Classification-In-Randomized-NN-And-HDC at commit dec0fe3, "
    "and name the folder that holds abalone/, balance-scale/ and so on."
)


def read_uci(folder: Path, name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features (n, d) and classes (n,) of one table."""
    files = [folder / name / f"{name}_R.dat"]
    if not files[0].is_file():
        files = [folder / name / f"{name}_{part}_R.dat" for part in ("train", "test")]
    if not all(file.is_file() for file in files):  # a few have one file, under another name
        files = sorted((folder / name).glob("*_R.dat"))[:1]
    if not files:
        raise FileNotFoundError(f"{folder}: it has no table {name!r} ({name}/{name}_R.dat). {WHERE}")
    return _joined([_read(file) for file in files])


def _read(file: Path) -> NDArray[np.float64]:
    """(n, d + 1): the features, and the class last."""
    try:
        rows = np.loadtxt(file, skiprows=1, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{file}: it is not a table of numbers: {error}") from None
    if rows.shape[1] < 3 or not np.isfinite(rows).all() or (rows[:, -1] % 1).any():
        raise ValueError(f"{file}: a line is to hold its number, finite features and a whole number, the class.")
    return rows[:, 1:]


def _joined(parts: list[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rows = np.vstack(parts)
    return rows[:, :-1], rows[:, -1].astype(np.int64)
