"""Small tables against MLPClassifier: ``python -m provenet.bench.fits [--tables FOLDER] [--cv] [NAME…]``.

One fit of `ProvenClassifier()` to 1e-3 and 1e-4 beside one of ``MLPClassifier(max_iter=500)``; with ``--cv`` one of
`ProvenClassifierCV()` beside ``GridSearchCV`` over the same with four alphas and five folds.  Processor seconds on one
thread, all in one process, a row of a Markdown table each.  FOLDER holds tables as NPZ files with X and y.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import provenet as pn
from provenet.bench.clock import timed

BUNDLED = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
ALPHAS = [1e-4, 1e-3, 1e-2, 1e-1]


def table(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
    elif folder is not None:
        with np.load(folder / f"{name}.npz") as file:
            X, y = file["X"], file["y"]
    else:
        raise SystemExit(f"{name}: not one of {', '.join(BUNDLED)}; give --tables the folder it is in.")
    return StandardScaler().fit_transform(X), y


def one_fit(X: np.ndarray, y: np.ndarray) -> list[str]:
    theirs, _ = timed(lambda: MLPClassifier(max_iter=500, random_state=0).fit(X, y))
    cells = [f"{theirs:.2f}"]
    for tol in (1e-3, 1e-4):
        estimator = pn.ProvenClassifier(tol=tol)
        ours, model = timed(partial(estimator.fit, X, y))
        cells += [f"{ours:.2f}", f"{ours / theirs:.2f}", f"{model.certificate_.relative_gap:.0e}"]
    return cells


def search(X: np.ndarray, y: np.ndarray) -> list[str]:
    model = MLPClassifier(max_iter=500, random_state=0)
    theirs, grid = timed(lambda: GridSearchCV(model, {"alpha": ALPHAS}, cv=5).fit(X, y))
    ours, found = timed(lambda: pn.ProvenClassifierCV().fit(X, y))
    best = 100 * np.nanmax(found.cv_results_["mean_test_score"])
    scores = f"{best:.1f}", f"{100 * grid.best_score_:.1f}"
    return [f"{theirs:.1f}", f"{ours:.1f}", f"{ours / theirs:.2f}", str(len(found.betas_)), *scores]


def main() -> None:
    parser = argparse.ArgumentParser("python -m provenet.bench.fits", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="tables; those that come with scikit-learn if none")
    parser.add_argument("--tables", type=Path, help="a folder of NPZ files")
    parser.add_argument("--cv", action="store_true", help="the search for beta")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    header = ["MLPClassifier, s", "1e-3, s", "ratio", "gap", "1e-4, s", "ratio", "gap"]
    if asked.cv:
        header = ["GridSearchCV, s", "ours, s", "ratio", "β tried", "our score", "theirs"]
    print("| " + " | ".join(["table", "n × d, classes", *header]) + " |")
    print("|" + "---|" * (len(header) + 2), flush=True)
    with threadpool_limits(limits=1):
        one_fit(*table("iris", None))  # what is imported late is imported now
        for name in asked.names or BUNDLED:
            print(name, file=sys.stderr, flush=True)
            X, y = table(name, asked.tables)
            size = f"{X.shape[0]} × {X.shape[1]}, {len(np.unique(y))}"
            print("| " + " | ".join([name, size, *(search if asked.cv else one_fit)(X, y)]) + " |", flush=True)
    print(f"\n{date.today()}")


if __name__ == "__main__":
    main()
