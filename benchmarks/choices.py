"""What `auto` chooses, against every method that takes the program: ``python -m benchmarks.choices FILE [NAME…]``.

Each run's gap is followed over its processor time, on one thread, so that one run says when each tolerance was reached.
FILE (JSON lines) is added to: what is there already is not run again.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import provenet as pn
from benchmarks import problems
from provenet.solvers import METHODS

TOLERANCES = (1e-2, 1e-3, 1e-4)
_SECONDS = 60.0  # of one run
_PATIENCE = 4.0  # times the best so far: no need to know more of a slower one
_LEAST = 1.0  # seconds that every run may take
_ASKED_FOR = ("cvx", "cutting_plane", "active_ipm")  # references, and what only finishes
_FASHION = Path("/usr/share/datasets/fashion-mnist/")


@dataclass(frozen=True)
class Reached:
    """Processor seconds until each of `TOLERANCES` was proven, None where it was not; ``ran``: the methods' names."""

    program: str
    method: str
    seconds: tuple[float | None, ...]
    last_gap: float
    total: float
    steps: int
    ran: str


def _posed(block: Any, X: np.ndarray, Y: np.ndarray, loss: str, share: float = 0.01, **more: Any) -> pn.Problem:
    problem = pn.formulate(block, X, Y, loss=loss, **more)
    return problem.with_beta(share * problem.beta_max)


def _labelled(shape: tuple[int, ...], classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian samples, labelled by a random two-layer network of what they are on the average, with some noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape)
    flat = X.reshape(len(X), -1)
    hidden = np.maximum(flat @ rng.standard_normal((flat.shape[1], 20)) / flat.shape[1] ** 0.5, 0)
    return X, (hidden @ rng.standard_normal((20, classes)) + 0.3 * rng.standard_normal((len(X), classes))).argmax(1)


def _scored(shape: tuple[int, ...], outputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape)
    flat = X.reshape(len(X), -1)
    hidden = np.maximum(flat @ rng.standard_normal((flat.shape[1], 10)) / flat.shape[1] ** 0.5, 0)
    return X, hidden @ rng.standard_normal((10, outputs)) + 0.1 * rng.standard_normal((len(X), outputs))


def _standard(load: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def _fashion(n: int) -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(_FASHION / "train-images-idx3-ubyte.gz") as file:
        X = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(_FASHION / "train-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(), np.uint8, offset=8)
    return X[:n] / 255.0, y[:n].astype(int)


def _digit_images(n: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:n].reshape(-1, 1, 8, 8) / 16, y[:n]


PROGRAMS: dict[str, Callable[[], pn.Problem]] = {
    "mlp squared spiral 150 × 2, c 3, P 100": lambda: problems.spiral(1e-3),
    "mlp squared 1,000 × 20, c 1, P 100": lambda: problems.teacher(1000, 20, 100, 0.01),
    "mlp squared 10,000 × 50, c 1, P 100": lambda: problems.teacher(10_000, 50, 100, 0.01),
    "mlp squared digits, c 10, P 100": lambda: problems.digits("squared", 100),
    "mlp softmax digits, c 10, P 100": lambda: problems.digits("softmax", 100),
    "mlp softmax iris 150 × 4, c 3, P 100": lambda: _posed("mlp", *_standard(load_iris), "softmax", gates=100),
    "mlp logistic cancer 569 × 30, c 1, P 100": lambda: _posed(
        "mlp", *_standard(load_breast_cancer), "logistic", gates=100
    ),
    "mlp huber diabetes 442 × 10, c 1, P 100": lambda: _posed("mlp", *_standard(load_diabetes), "huber", gates=100),
    "mlp linear softmax digits, c 10": lambda: _posed("mlp", *_standard(load_digits), "softmax", activation="linear"),
    "mlp linear squared 10,000 × 50, c 5": lambda: _posed(
        "mlp", *_scored((10_000, 50), 5), "squared", activation="linear"
    ),
    "mlp softmax 10,000 × 20, c 4, P 50": lambda: _posed("mlp", *_labelled((10_000, 20), 4), "softmax", gates=50),
    "mlp softmax Fashion-MNIST 2,000 × 784, c 10, P 64": lambda: _posed("mlp", *_fashion(2000), "softmax", gates=64),
    "mlp relu squared 300 × 10, c 1, P 50": lambda: _posed(
        "mlp", *_scored((300, 10), 1), "squared", activation="relu", gates=50
    ),
    "mlp relu softmax 200 × 6, c 3, P 30": lambda: _posed(
        "mlp", *_labelled((200, 6), 3), "softmax", activation="relu", gates=30
    ),
    "cnn softmax digits 500 × 8 × 8, P 20": lambda: _posed(
        pn.CNN(kernel=3, pool=2), *_digit_images(500), "softmax", gates=20
    ),
    "cnn linear squared digits 1,797 × 8 × 8": lambda: _posed(
        pn.CNN(kernel=3, pool=2),
        _digit_images(1797)[0],
        np.eye(10)[_digit_images(1797)[1]],
        "squared",
        activation="linear",
    ),
    "attention linear softmax 1,000 × 16 × 8, c 10": lambda: _posed(
        "attention", *_labelled((1000, 16, 8), 10), "softmax", activation="linear"
    ),
    "attention squared 200 × 8 × 6, c 5, P 16": lambda: _posed(
        "attention", *_scored((200, 8, 6), 5), "squared", gates=16
    ),
    "mixer softmax 300 × 8 × 6, c 5, P 16": lambda: _posed("mixer", *_labelled((300, 8, 6), 5), "softmax", gates=16),
    "fno squared 300 × 16 × 4, c 3, P 16": lambda: _posed("fno", *_scored((300, 16, 4), 3), "squared", gates=16),
    "attention softmax 400 × 9 × 12, c 5, P 16": lambda: _posed(
        "attention", *_labelled((400, 9, 12), 5), "softmax", gates=16
    ),
    "fno softmax 1,000 × 49 × 8, c 10, P 16": lambda: _posed("fno", *_labelled((1000, 49, 8), 10), "softmax", gates=16),
    "bfno softmax 300 × 16 × 4, c 4, P 8": lambda: _posed(
        pn.BFNO(groups=2), *_labelled((300, 16, 4), 4), "softmax", gates=8
    ),
    "poolformer softmax 1,000 × 16 × 16, c 5, P 32": lambda: _posed(
        "poolformer", *_labelled((1000, 16, 16), 5), "softmax", gates=32
    ),
    "fnet huber 2,000 × 8 × 8, c 2, P 32": lambda: _posed("fnet", *_scored((2000, 8, 8), 2), "huber", gates=32),
}


def follow(program: str, problem: pn.Problem, method: str, limit: float) -> Reached:
    """One run, until the smallest tolerance is proven or ``limit`` is used up."""
    began, reached, gap = time.process_time(), [None] * len(TOLERANCES), [float("inf")]

    def see(record: Any) -> bool:
        now = time.process_time() - began
        gap[0] = min(gap[0], record.relative_gap)
        for i, tol in enumerate(TOLERANCES):
            if reached[i] is None and gap[0] <= tol:
                reached[i] = now
        return now > limit

    solution = pn.solve(problem, method, tol=TOLERANCES[-1], max_seconds=3 * limit, callback=see)
    used = time.process_time() - began
    for i, tol in enumerate(TOLERANCES):
        if reached[i] is None and solution.certificate.relative_gap <= tol:
            reached[i] = used
    last = min(gap[0], solution.certificate.relative_gap)
    return Reached(program, method, tuple(reached), last, used, solution.steps, solution.method)


def runs(names: list[str], known: list[Reached]) -> Iterator[Reached]:
    done = {(one.program, one.method): one for one in known}
    for name in names:
        problem: pn.Problem | None = None
        best = min(
            (one.total for one in known if one.program == name and one.seconds[-1] is not None), default=_SECONDS
        )
        for method in ("auto", *(method for method in METHODS if method not in _ASKED_FOR)):
            if (name, method) in done:
                continue
            problem = problem or PROGRAMS[name]()
            try:
                one = follow(name, problem, method, min(_SECONDS, max(_LEAST, _PATIENCE * best)))
            except (ValueError, MemoryError):
                continue
            if one.seconds[-1] is not None:
                best = min(best, one.total)
            yield one


def table(known: list[Reached]) -> Table:
    """When each method reached each tolerance, the quickest first; ``auto``'s time over the best."""
    out = Table("program", *(f"{tol:g}: auto, others" for tol in TOLERANCES))
    for name in dict.fromkeys(one.program for one in known):
        cells = []
        for i in range(len(TOLERANCES)):
            times = {one.method: one.seconds[i] for one in known if one.program == name}
            others = sorted((t, m) for m, t in times.items() if t is not None and m != "auto")
            auto = times.get("auto")
            told = "–" if auto is None else f"{auto:.2f}"
            ratio = f" ({auto / others[0][0]:.1f}×)" if auto and others else ""
            cells.append(told + ratio + "; " + ", ".join(f"{m} {t:.2f}" for t, m in others[:4]))
        out.add_row(name, *cells)
    return out


def main(file: str, *names: str) -> None:
    warnings.simplefilter("ignore")
    path = Path(file)
    lines = path.read_text().splitlines() if path.exists() else []
    known = [Reached(**{**row, "seconds": tuple(row["seconds"])}) for row in map(json.loads, lines)]
    wanted = [name for name in PROGRAMS if not names or any(part in name for part in names)]
    torch.set_num_threads(1)
    with threadpool_limits(limits=1), path.open("a") as out:
        for one in runs(wanted, known):
            known.append(one)
            out.write(json.dumps(asdict(one)) + "\n")
            out.flush()
            print(f"{one.program}: {one.method}: {one.seconds} {one.last_gap:.1e} {one.ran[:80]}", file=sys.stderr)
    Console(width=200).print(table([one for one in known if one.program in wanted]))


if __name__ == "__main__":
    main(*sys.argv[1:])
