"""Deep networks by several processes, as `driver.py` has single blocks; `test_deep.py` reads what they say."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import driver
import numpy as np
from sklearn.datasets import load_digits

import provenet as pn
from provenet import ranks
from provenet.layerwise import inputs
from provenet.layerwise.minibatch import Minibatches
from provenet.ranks.context import by_first

X, LABELS = load_digits(return_X_y=True)
X, LABELS = X[:201].reshape(-1, 1, 8, 8).astype(np.float32), LABELS[:201]
TABLE, VALUES = X.reshape(len(X), -1)[:, 20:40], X[:, 0, 3, 3] / 16
FIRST, SECOND = pn.CNN(kernel=3, padding=1, pool=2), pn.CNN(kernel=3, stride=2, padding=1, pool=2)
SOME = {"n_gates": 6, "epochs": 3, "engine": "minibatch", "normalise": "standard"}
TWO = [pn.Layer(FIRST, **SOME), pn.Layer(SECOND, **SOME | {"rank": 2, "normalise": "whiten"})]
SOLVED = [pn.Layer(FIRST, **SOME | {"engine": "solve", "gates": "gaussian"}), *TWO[1:]]
MLPS = [pn.Layer(pn.MLP(fit_intercept=True), **SOME | {"epochs": 30})] * 2
RELU = [pn.Layer(pn.CNN(kernel=8), **SOME | {"activation": "relu", "n_gates": 3})]

CASES: dict[str, tuple[Any, Any, Any]] = {
    "deep": (pn.LayerwiseClassifier(layers=TWO, early_stopping=False), X, np.array(list("abcdefghij"))[LABELS]),
    "solved": (pn.LayerwiseClassifier(layers=SOLVED, beta="1e-2mean", validation_fraction=None), X, LABELS),
    "paper": (
        pn.LayerwiseClassifier(layers=TWO, preset="paper", augment=("flip", "crop"), certify=False, cache=0),
        X.astype(np.uint8),
        LABELS,
    ),
    "relu": (pn.LayerwiseClassifier(layers=RELU, beta="1e-2mean"), X, LABELS),
    "table": (pn.LayerwiseRegressor(layers=MLPS, early_stopping=False), TABLE, VALUES),
    "sharp": (
        pn.LayerwiseClassifier(layers=TWO[:1], beta="3e-2mean", sharpen=60.0, validation_fraction=None),
        X,
        LABELS,
    ),
    "finished": (pn.LayerwiseClassifier(layers=TWO[:1], beta="3e-2mean", finish=20), X, LABELS),
}


def rows_of(group: ranks.Ranks | None) -> slice:
    """The last process has few, the others more than their share: they go where they belong."""
    if group is None or group.world == 1:
        return slice(0, len(X))
    cuts = [*(rank * (len(X) - 3) // (group.world - 1) for rank in range(group.world)), len(X)]
    return slice(cuts[group.rank], cuts[group.rank + 1])


def told(model: Any) -> dict[str, Any]:
    stages = [stage.to_dict() for stage in model.stages_]
    for stage in stages:
        del stage["seconds"], stage["cpu"]
    weights = {name: value.flatten().tolist() for name, value in model.network_.state_dict().items()}
    return {"stages": stages, "weights": weights, "classes": list(map(str, getattr(model, "classes_", [])))}


def fitted(group: ranks.Ranks | None, name: str, **more: Any) -> dict[str, Any]:
    model, samples, targets = CASES[name]
    rows = rows_of(group)
    return told(model.set_params(**more).fit(samples[rows], targets[rows]))


def fit_all(group: ranks.Ranks | None, names: list[str], folder: Path) -> dict[str, Any]:
    found = {}
    for name in names:
        found[name] = fitted(group, name)
        if group is not None and group.world == 2:
            pn.save(CASES[name][0], folder / name)
    return found


def at_step(moment: int, rank: int, number: signal.Signals) -> None:
    """A signal to this process, if it has that rank, in the middle of an epoch."""
    before, calls = Minibatches._step, iter(range(10**9))

    def counted(*args: Any) -> None:
        group = ranks.current()
        if next(calls) == moment and group is not None and group.rank == rank:
            os.kill(os.getpid(), number)
        before(*args)

    Minibatches._step = counted  # type: ignore[method-assign]


def killed(group: ranks.Ranks | None, names: list[str], folder: Path) -> dict[str, Any]:
    """Two steps an epoch: in the second stage, whose features are in files."""
    inputs._IN_MEMORY = 0
    at_step(9, 1, signal.SIGKILL)
    return fitted(group, "deep", checkpoint=folder / "run")


def resumed(group: ranks.Ranks | None, names: list[str], folder: Path) -> dict[str, Any]:
    inputs._IN_MEMORY = 0
    at_step(4, 0, signal.SIGKILL)  # of six of the second stage, one epoch is done
    return fitted(group, "deep", checkpoint=folder / "run", resume=True)


def interrupted(group: ranks.Ranks | None, names: list[str], folder: Path) -> dict[str, Any]:
    """Ctrl-C, which one process hears of first."""
    at_step(8, 1, signal.SIGINT)
    return fitted(group, "deep")


def unreadable(folder: Path) -> Path:
    """A run whose first stage is not a file that can be read, whoever tries."""

    def damage() -> None:
        shutil.copytree(folder / "run", folder / "unreadable")
        stage = folder / "unreadable" / "stage-1.safetensors"
        stage.unlink()
        stage.mkdir()

    by_first(damage)
    return folder / "unreadable"


def refused(group: ranks.Ranks | None, names: list[str], folder: Path) -> dict[str, Any]:
    """What the first process says of what is wrong with the data of the second, and of settings."""
    assert group is not None
    rows, second = rows_of(group), group.rank == 1
    model, labels = CASES["deep"][0], LABELS[rows].astype(float)
    said = {}
    for name, samples, targets, more in (
        ("labels", X[rows], np.where(second, np.nan, labels), {}),
        ("types", X[rows].astype(np.uint8) if second else X[rows], labels, {}),
        ("shapes", X[rows][:, :, second:], labels, {}),
        ("run", X[rows], labels[::-1], {"checkpoint": folder / "run", "resume": True}),
        ("again", X[rows], labels, {"checkpoint": folder / "run"}),
        ("unreadable", X[rows], CASES["deep"][2][rows], {"checkpoint": unreadable(folder), "resume": True}),
    ):
        try:
            pn.LayerwiseClassifier(**model.get_params() | {"checkpoint": None, "resume": False} | more).fit(
                samples, targets
            )
        except (ValueError, OSError) as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


driver.JOBS |= {
    "fit": fit_all,
    "killed": killed,
    "resumed": resumed,
    "interrupted": interrupted,
    "refused": refused,
}


def main() -> None:
    folder = Path(sys.argv[1])
    few = ["deep", "paper", "table"]
    world = driver.world_of
    world(1, "fit", [name for name in CASES if name != "paper"], folder, "one")
    world(2, "fit", list(CASES), folder, "two")
    world(3, "fit", few, folder, "three")
    world(2, "killed", [], folder, "killed")
    world(3, "resumed", [], folder, "resumed")
    world(2, "interrupted", [], folder, "interrupted")
    world(2, "refused", [], folder, "refused")


if __name__ == "__main__":
    main()
