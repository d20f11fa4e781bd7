"""BM Fig. 1 (§4.2, C.2): CIFAR-10 in five stages."""

from __future__ import annotations

from functools import partial

from provenet.reproduce.deep import Deep, run
from provenet.reproduce.experiment import Experiment

CIFAR10 = Deep(
    "CIFAR-10",
    stages=5,
    gates=32,
    epochs=(8, 8, 8, 8, 8),
    augment=("flip", "crop"),
    paper={1: 80.9, 2: 81.1, 4: 81.5},
    paper_end_to_end=81.6,
    where="the binary version, www.cs.toronto.edu/~kriz/cifar.html",
    prove=False,
)

LAYERWISE_CIFAR10 = Experiment(
    "layerwise-cifar10",
    "CIFAR-10 in five convex stages",
    "Scaling convex neural networks with Burer–Monteiro factorization (ICLR 2024), Fig. 1, §4.2 and C.2",
    "test accuracy 80.9, 81.1 and 81.5 % for m = 1, 2, 4; 81.6 % for a CNN of six layers trained end to end.",
    partial(run, deep=CIFAR10),
    resizable=True,
)
