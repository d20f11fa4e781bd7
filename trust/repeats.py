"""The same seed and threads in process after process: the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trust.figure import Figure, Seen, Try

CODE = """
import hashlib, warnings
import numpy as np, torch
import provenet as pn

warnings.simplefilter("ignore")
torch.set_num_threads(1)
rng = np.random.default_rng(0)
X, images = rng.standard_normal((60, 3)), rng.standard_normal((12, 1, 5, 5))
halves = np.arange(12) % 2
labels, values = np.where(X[:, 0] * X[:, 1] > 0, "a", "b"), np.sin(X[:, :2])
fits = [
    pn.ProvenClassifier(n_gates=20, beta="0.01max", random_state=7).fit(X, labels),
    pn.ProvenClassifier(block=pn.CNN(kernel=3, pool=1), n_gates=5, random_state=1).fit(images, halves),
    pn.ProvenClassifierCV(betas=3, cv=3, n_gates=10, gates="gaussian", random_state=0).fit(X, labels),
    pn.ProvenRegressor(activation="relu", n_gates=8, beta=0.5, random_state=3).fit(X[:20], values[:20, 0]),
]
networks = [fit.network_ for fit in fits]
problem = pn.formulate("mlp", X, values, gates=20, beta=0.05, seed=5)
networks += [pn.solve(problem, method, max_steps=60).network() for method in ("admm", "bm", "lbfgs", "apg")]
total = hashlib.sha256()
for network in networks:
    for tensor in network.state_dict().values():
        total.update(tensor.numpy().tobytes())
print(total.hexdigest())
"""


@contextmanager
def ready(_: Path) -> Iterator[Try]:
    first = digest(0)

    def attempt(case: int) -> Seen:
        found = digest(case)
        return Seen("the same bits", None if found == first else f"{found} after {first}")

    yield attempt


def digest(case: int) -> str:
    """Of all weights, by a process of its own; what Python hashes strings by is another each time."""
    own = {"PYTHONHASHSEED": str(case), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=os.environ | own, capture_output=True, text=True, timeout=600, check=False
    )
    return done.stdout.strip() or done.stderr[-400:]


FIGURE = Figure(
    name="repeats",
    title="same seed, same threads",
    promise="bit-identical over 20 processes",
    checked=(
        "A process fits four estimators (gated, convolution, cross-validated, ReLU) and solves a problem by four "
        "methods; all weights of all networks must have the digest that another process gave them."
    ),
    count=20,
    chunk=1,
    small=1,
    ready=ready,
)
