"""BM Fig. 5 (§4.2, C.2): Fashion-MNIST in three stages."""

from __future__ import annotations

from functools import partial

from provenet.reproduce.deep import Deep, run
from provenet.reproduce.experiment import Experiment

FASHION_MNIST = Deep(
    "Fashion-MNIST",
    stages=3,
    gates=32,
    epochs=(6, 6, 6),
    augment=("flip",),
    paper={1: 91.5, 2: 91.4, 4: 91.6},
    paper_end_to_end=91.2,
    where="four idx files, github.com/zalandoresearch/fashion-mnist",
    prove=False,
)

LAYERWISE_FASHION_MNIST = Experiment(
    "layerwise-fashion-mnist",
    "Fashion-MNIST in three convex stages",
    "Scaling convex neural networks with Burer–Monteiro factorization (ICLR 2024), Fig. 5, §4.2 and C.2",
    "test accuracy 91.5, 91.4 and 91.6 % for m = 1, 2, 4; 91.2 % for a CNN of four layers trained end to end.",
    partial(run, deep=FASHION_MNIST),
    resizable=True,
)
