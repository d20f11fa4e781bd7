"""Which tables are compared on, chosen by a rule before anything was run on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.model_selection import train_test_split

from provenet.bench.uci import WHERE, read_uci

Task = Literal["classification", "regression"]

# Of the collection's tables with 100 to 5,000 rows, 2 to 100 classes and at least 5 rows of each class (90), in the
# order of their names: every fourth from the first on, and two named in advance, contrac and yeast.
JUDGED = (
    "abalone",
    "balance-scale",
    "breast-cancer-wisc-prog",
    "car",
    "congressional-voting",
    "contrac",
    "credit-approval",
    "energy-y1",
    "haberman-survival",
    "heart-switzerland",
    "horse-colic",
    "iris",
    "molec-biol-promoter",
    "monks-3",
    "oocytes_trisopterus_nucleus_2f",
    "pima",
    "pittsburg-bridges-TYPE",
    "plant-texture",
    "soybean",
    "statlog-australian-credit",
    "statlog-vehicle",
    "tic-tac-toe",
    "waveform-noise",
    "wine",
    "yeast",
)
# What defaults were chosen on: every fourth from the third on, less those that share their rows with one above.
DEVELOPED = (
    "acute-nephritis",
    "blood",
    "breast-cancer",
    "cardiotocography-3clases",
    "conn-bench-vowel-deterding",
    "dermatology",
    "fertility",
    "heart-cleveland",
    "hepatitis",
    "image-segmentation",
    "libras",
    "oocytes_merluccius_nucleus_4d",
    "ozone",
    "seeds",
    "spect",
    "statlog-heart",
    "synthetic-control",
    "vertebral-column-2clases",
    "wine-quality-red",
)
MOST_TRAINED_ON = 1500  # rows; what is left is tested on


@dataclass(frozen=True)
class Table:
    """X (n, d), and y (n,): classes, or numbers."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[Any]
    task: Task = "classification"

    @property
    def size(self) -> str:
        """ "150 × 4, 3 classes"."""
        classes = f", {len(np.unique(self.y))} classes" if self.task == "classification" else ""
        return f"{self.X.shape[0]} × {self.X.shape[1]}{classes}"

    def split(self, seed: int) -> Split:
        """70 % to train on, at most `MOST_TRAINED_ON` rows, stratified by class; columns standardised by that part.

        Targets of a regression are standardised too, for everybody: R² does not see it.
        """
        n = len(self.y)
        chosen = {"train_size": min(round(0.7 * n), MOST_TRAINED_ON), "random_state": seed}
        classes = self.y if self.task == "classification" else None
        X, X_test, y, y_test = train_test_split(self.X, self.y, stratify=classes, **chosen)
        if self.task == "regression":
            y, y_test = _standardised(y, y_test)
        return Split(*_standardised(X, X_test), y, y_test)


@dataclass(frozen=True)
class Split:
    X: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y: NDArray[Any]
    y_test: NDArray[Any]


def suite(folder: Path | None) -> Iterator[Table]:
    """The UCI tables in the folder and scikit-learn's regressions; without a folder, what scikit-learn brings."""
    if folder is None:
        yield from bundled()
        return
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder. {WHERE}")
    yield from uci_tables(folder, JUDGED)
    yield from (table for table in bundled() if table.task == "regression")


def uci_tables(folder: Path, names: tuple[str, ...]) -> Iterator[Table]:
    for name in names:
        yield Table(name, *read_uci(folder, name))


def bundled() -> Iterator[Table]:
    """scikit-learn's own: four of classes, diabetes, and Friedman's three surfaces (1991), noisy, 500 rows each."""
    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield Table(name, X, y)
    X, y = datasets.load_diabetes(return_X_y=True)
    yield Table("diabetes", X, y, "regression")
    for name, noise in (("friedman1", 1.0), ("friedman2", 125.0), ("friedman3", 0.1)):
        X, y = getattr(datasets, f"make_{name}")(n_samples=500, noise=noise, random_state=0)
        yield Table(name, X, y, "regression")


def _standardised(train: NDArray[Any], test: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By mean and deviation of ``train``; columns that do not vary there become zero where they do not vary."""
    mean, deviation = train.mean(0), train.std(0)
    scale = np.where(deviation > 1e-12 * np.maximum(1.0, np.abs(mean)), deviation, 1.0)
    return (train - mean) / scale, (test - mean) / scale
