"""Which programs are compared on, suite by suite, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris

from provenet import names
from provenet.bench.speed import problems as of
from provenet.blocks import BFNO, CNN
from provenet.problem import Problem

Make = Callable[[Path | None], Problem]  # of the folder of data, where it needs one


@dataclass(frozen=True)
class Mark:
    """A gap to be proven within so many seconds, or so many times as fast as the quickest of these ``peers``; of them
    ``their_gap`` is asked, where it is another."""

    gap: float
    seconds: float | None = None
    times: float = 1.0
    peers: tuple[str, ...] = ()
    their_gap: float | None = None

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"{self.gap:.0e} in {self.seconds:g} s"
        theirs = "" if self.their_gap is None else f" to {self.their_gap:.1e}"
        return f"{self.gap:.0e}, {self.times:g}× as fast as {', '.join(self.peers)}{theirs}"


@dataclass(frozen=True)
class Case:
    """A program and its marks; ``tols``: the gaps that are asked for, one after the other."""

    name: str
    make: Make
    marks: tuple[Mark, ...] = ()
    tols: tuple[float, ...] = (1e-2, 1e-4, 1e-6, 1e-8)


_GROUP_LASSO = ("celer", "skglm", "pyscnn")
_SHORT = (1e-2, 1e-3)
_EXACT = (1e-2, 1e-4, 1e-6)


def _case(name: str, block: Any, draw: Callable[[], of.Samples], loss: str, share: float = 0.01, **more: Any) -> Case:
    return Case(name, lambda _: of.posed(block, draw(), loss, share, **more))


def _of_table(name: str, load: Callable[..., Any], loss: str, **more: Any) -> Case:
    return _case(name, "mlp", lambda: of.standard(load), loss, **more)


def _labelled(name: str, block: Any, shape: tuple[int, ...], classes: int, share: float = 0.01, **more: Any) -> Case:
    """Softmax."""
    size = " × ".join(f"{length:,}" for length in shape)
    return _case(f"{name} {size}, c {classes}", block, lambda: of.labelled(shape, classes), "softmax", share, **more)


def _scored(name: str, block: Any, shape: tuple[int, ...], c: int, loss: str, share: float = 0.01, **more: Any) -> Case:
    size = " × ".join(f"{length:,}" for length in shape)
    return _case(f"{name} {size}, c {c}", block, lambda: of.scored(shape, c), loss, share, **more)


def _teacher(n: int, d: int, gates: int, share: float, *marks: Mark) -> Case:
    name = f"one output {n} × {d}, P {gates}, β = {share:g} β_max"
    return Case(name, lambda _: of.teacher(n, d, gates, share), marks)


def _relu_teacher(n: int, d: int, gates: int, *marks: Mark) -> Case:
    name = f"ReLU, one output {n} × {d}, P {gates}"
    return Case(name, lambda _: of.teacher(n, d, gates, 0.01, "relu"), marks)


def _spiral(beta: float) -> Case:
    return Case(f"spiral 150 × 2, c 3, P 100, β = {beta:g}", lambda _: of.spiral(beta))


def _arms(beta: float) -> Case:
    name = f"ReLU spiral 60 × 2, c 3, all arrangements, β = {beta:g}"
    return Case(name, lambda _: of.every_arrangement(of.arms(60), beta), (Mark(1e-6, seconds=20),), _EXACT)


def _fashion(n: int, coarse: float, fine: float) -> Case:
    marks = (Mark(1e-2, seconds=coarse), Mark(1e-3, seconds=fine))

    def make(folder: Path | None) -> Problem:
        return of.posed("mlp", of.images(folder, n), "softmax", gates=64)

    return Case(f"Fashion-MNIST, softmax, n {n:,}, P 64", make, marks, _SHORT)


def _fashion_cnn(folder: Path | None) -> Problem:
    return of.posed(CNN(kernel=5, stride=2, pool=2), of.pictures(folder, 10_000), "softmax", 0.02, gates=32)


def _fashion_attention(folder: Path | None) -> Problem:
    return of.posed("attention", of.image_tokens(folder, 3000), "softmax", 0.02, activation="linear")


SMALL = (
    *map(_spiral, (1e-1, 1e-3)),
    _teacher(150, 2, 100, 0.01, Mark(1e-6, peers=("celer",))),
    *(_teacher(1000, 20, 100, share, Mark(1e-6, times=8, peers=_GROUP_LASSO)) for share in (0.1, 0.01, 0.001)),
    _teacher(2000, 50, 500, 0.01, Mark(1e-6, times=15, peers=_GROUP_LASSO)),
    _of_table("softmax iris, P 100", load_iris, "softmax", gates=100),
    _of_table("logistic breast cancer, P 100", load_breast_cancer, "logistic", gates=100),
    _of_table("huber diabetes, P 100", load_diabetes, "huber", gates=100),
    Case("squared digits, P 100", lambda _: of.digits("squared", 100)),
    Case("softmax digits, P 100", lambda _: of.digits("softmax", 100)),
    Case("softmax digits, P 500", lambda _: of.digits("softmax", 500), (Mark(1e-4, seconds=3), Mark(1e-6, seconds=6))),
    _of_table("linear softmax digits", load_digits, "softmax", activation="linear"),
    _labelled("softmax", "mlp", (100, 5), 3, gates=50),
    _labelled("softmax", "mlp", (900, 500), 10, gates=16),
    _case("softmax 900 × 500, labels at random", "mlp", lambda: of.guessed((900, 500), 10), "softmax", gates=16),
)
SIZE = (
    _teacher(5000, 100, 1000, 0.02, Mark(1e-6, times=4, peers=("pyscnn",), their_gap=1.4e-4)),
    _teacher(10_000, 50, 100, 0.01),
    _scored("linear squared", "mlp", (10_000, 50), 5, "squared", activation="linear"),
    replace(_labelled("softmax", "mlp", (10_000, 20), 4, gates=50), tols=_SHORT),
    _case("logistic 5,000 × 30, P 100", "mlp", lambda: of.labelled((5000, 30), 2), "logistic", gates=100),
    _scored("huber", "mlp", (3000, 20), 3, "huber", gates=60),
    _scored("squared, P 200:", "mlp", (2000, 100), 5, "squared", gates=200),
    _scored("squared, P 1,000, β = .3 β_max:", "mlp", (2000, 50), 1, "squared", 0.3, gates=1000),
    _scored("squared, P 1,000, β = .3 β_max:", "mlp", (2000, 50), 5, "squared", 0.3, gates=1000),
    _scored("squared, P 100, β = .1 β_max:", "mlp", (2000, 50), 5, "squared", 0.1, gates=100),
    _labelled("softmax, P 1,000, β = .4 β_max:", "mlp", (2000, 50), 5, 0.4, gates=1000),
    _fashion(2000, 8, 20),
    _fashion(10_000, 30, 90),
    _fashion(60_000, 240, 900),
    Case("Fashion-MNIST, gated CNN, n 10,000, P 32", _fashion_cnn, (Mark(1e-2, seconds=60),), (1e-2,)),
    Case("Fashion-MNIST, linear attention, n 3,000", _fashion_attention, (), _SHORT),
)
RELU = (
    _relu_teacher(150, 2, 100, Mark(1e-8, peers=("Clarabel",))),
    _relu_teacher(1000, 20, 100, Mark(1e-6, times=8, peers=("Clarabel",))),
    _relu_teacher(2000, 50, 500, Mark(1e-4, seconds=20), Mark(1e-6, seconds=60)),
    replace(_labelled("ReLU softmax", "mlp", (200, 6), 3, activation="relu", gates=30), tols=_SHORT),
    Case(
        "ReLU 25 × 2, c 5, all arrangements, β = 0.01",
        lambda _: of.every_arrangement(of.planar_teacher(), 1e-2),
        (Mark(1e-6, seconds=5),),
        _EXACT,
    ),
    *map(_arms, (1e-2, 1.0)),
)
_KERNEL = CNN(kernel=3, pool=2)
BLOCKS = (
    _case("CNN softmax digits, n 500, P 20", _KERNEL, lambda: of.digit_images(500), "softmax", gates=20),
    _case(
        "CNN linear squared digits",
        _KERNEL,
        lambda: of.one_hot(of.digit_images(1797)),
        "squared",
        activation="linear",
    ),
    _labelled("attention, linear softmax", "attention", (1000, 16, 8), 10, activation="linear"),
    _scored("attention, squared, P 16:", "attention", (200, 8, 6), 5, "squared", gates=16),
    _labelled("attention, softmax, P 16:", "attention", (400, 9, 12), 5, gates=16),
    _labelled("mixer, softmax, P 16:", "mixer", (300, 8, 6), 5, gates=16),
    _scored("FNO, squared, P 16:", "fno", (300, 16, 4), 3, "squared", gates=16),
    _labelled("FNO, softmax, P 16:", "fno", (1000, 49, 8), 10, gates=16),
    _labelled("B-FNO, softmax, P 8:", BFNO(groups=2), (300, 16, 4), 4, gates=8),
    _labelled("PoolFormer, softmax, P 32:", "poolformer", (1000, 16, 16), 5, gates=32),
    _scored("FNet, huber, P 32:", "fnet", (2000, 8, 8), 2, "huber", gates=32),
)

SUITES: Mapping[str, tuple[Case, ...]] = names.SUITES
