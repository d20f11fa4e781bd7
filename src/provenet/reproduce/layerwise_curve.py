"""What deep networks by stages gain by more gates, neurons behind each, images and epochs: one changed at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from provenet.reproduce.deep import Deep, Images, digits_or_official, grown
from provenet.reproduce.experiment import Experiment, Findings, OutOfTime, Piece, Run, Table
from provenet.reproduce.layerwise_cifar10 import CIFAR10

_COLOURS = ("#9bb8de", "#3b6fb6", "#1d3a66")


@dataclass(frozen=True)
class Size:
    """Of one network: gates of a stage, neurons behind each (m), images, and epochs of a stage."""

    gates: int
    rank: int
    images: int
    epochs: int

    def work(self) -> tuple[int, int]:
        """About what a first stage costs; of two that cost the same, the one with more gates is first."""
        return self.gates * self.rank * self.images * self.epochs, self.rank


@dataclass(frozen=True)
class Curve:
    """The size in the middle, what each of its numbers is changed to, and how many stages there are.  far: one beyond
    all those, to see where they lead."""

    centre: Size
    others: dict[str, tuple[int, ...]]
    stages: int
    far: Size | None = None

    def sizes(self) -> list[Size]:
        """The cheapest first, by about what they cost."""
        changed = {replace(self.centre, **{name: value}) for name, values in self.others.items() for value in values}
        return sorted(changed | {self.centre} | ({self.far} if self.far else set()), key=Size.work)

    def along(self, name: str) -> list[Size]:
        return [replace(self.centre, **{name: value}) for value in sorted({*self.others[name], self._own(name)})]

    def _own(self, name: str) -> int:
        own: int = getattr(self.centre, name)
        return own


_FULL = Curve(
    Size(16, 1, 10_000, 4),
    {"gates": (8, 32, 64), "rank": (2, 4), "images": (2_500, 5_000, 20_000), "epochs": (2, 8, 16)},
    stages=2,
    far=Size(160, 1, 50_000, 8),
)
_QUICK = Curve(  # of scikit-learn's digits
    Size(4, 1, 250, 48), {"gates": (8,), "rank": (2,), "images": (125,), "epochs": (12,)}, stages=2
)


def run(run: Run) -> Findings:
    curve = _QUICK if run.quick else _FULL
    images = digits_or_official(run, CIFAR10)
    deep = replace(CIFAR10, stages=curve.stages, prove=False)
    found: dict[Size, Piece] = {}
    for size in curve.sizes():
        try:
            found[size] = run.piece(
                f"{images.name}, {curve.stages} stages, {size}", partial(_one, images, deep, size, run)
            )
        except OutOfTime:  # those that an earlier run has are still shown
            continue
    if not found:
        raise OutOfTime
    missing = len(curve.sizes()) - len(found)
    words = (
        f"{images.name}, all {len(images.X_test)} test images, {curve.stages} stages, β = {deep.beta}, augmentation: "
        f"{', '.join(deep.augment)}. In the middle: {_said(curve.centre)}; each panel changes one of these.",
        *([f"The last panel has all of these, and one far beyond: {_said(curve.far)}."] if curve.far in found else []),
        *(
            [f"Not run in the time given: {missing} of {len(curve.sizes())}; the same command goes on."]
            if missing
            else []
        ),
    )
    numbers = [vars(size) | piece for size, piece in found.items()]
    return Findings((_table(found),), {"accuracy-by-size": _picture(curve, found)}, words, {"networks": numbers})


def _one(images: Images, deep: Deep, size: Size, run: Run) -> Piece:
    few = replace(images, X=images.X[: size.images], y=images.y[: size.images])
    one = replace(deep, gates=size.gates, epochs=(size.epochs,) * deep.stages)
    return grown(few, one, size.rank, replace(run, kept=None), certify=False)


def _said(size: Size) -> str:
    return f"{size.gates} gates, m = {size.rank}, {size.images:,} images, {size.epochs} epochs"


def _table(found: dict[Size, Piece]) -> Table:
    rows = []
    for size, piece in found.items():
        test = ", ".join(f"{100 * value:.1f}" for value in piece["test"])
        numbers = (size.gates, size.rank, size.images, size.epochs)
        rows.append((*map(str, numbers), test, f"{100 * piece['train'][-1]:.1f}", f"{sum(piece['cpu']):.0f}"))
    columns = ("gates", "m", "images", "epochs", "test by stage, %", "training, last stage, %", "CPU seconds")
    return Table("By size", columns, tuple(rows))


def _picture(curve: Curve, found: dict[Size, Piece]) -> Figure:
    """A panel for each number that is changed, and one for what all networks took."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    panels = figure.subplots(1, len(curve.others) + 1, sharey=True)
    labels = {"gates": "gates of a stage", "rank": "neurons behind each, m", "images": "images", "epochs": "epochs"}
    for axes, name in zip(panels, curve.others, strict=False):
        sizes = [size for size in curve.along(name) if size in found]
        at = [getattr(size, name) for size in sizes]
        for stage in range(curve.stages):
            test = [100 * found[size]["test"][stage] for size in sizes]
            axes.plot(at, test, "o-", color=_COLOURS[stage % len(_COLOURS)], label=f"stage {stage + 1}")
        axes.set(xscale="log", xlabel=labels[name], xticks=at)
        axes.set_xticklabels([f"{value:,}" for value in at], fontsize=8)
        axes.minorticks_off()
    last = panels[-1]
    seconds, test = ([sum(p["cpu"]) for p in found.values()], [100 * p["test"][-1] for p in found.values()])
    order = np.argsort(seconds)
    last.plot(seconds, test, "o", color=_COLOURS[(curve.stages - 1) % len(_COLOURS)])
    last.step(np.array(seconds)[order], np.maximum.accumulate(np.array(test)[order]), where="post", color="0.5", lw=0.8)
    ticks = np.geomspace(min(seconds), max(seconds), 3)
    last.set(xscale="log", xlabel="CPU seconds, all stages", xticks=ticks)
    last.set_xticklabels([f"{value:,.2g}" if value < 10 else f"{value:,.0f}" for value in ticks], fontsize=8)
    last.minorticks_off()
    panels[0].set_ylabel("test accuracy, %")
    panels[0].legend(frameon=False, fontsize=8)
    for axes in panels:
        axes.grid(alpha=0.2)
    return figure


LAYERWISE_CURVE = Experiment(
    "layerwise-curve",
    "What gates, neurons, images and epochs bring, stage by stage",
    "Scaling convex neural networks with Burer–Monteiro factorization (ICLR 2024), §4.2",
    "256 gates on 50,000 images of CIFAR-10, 50 epochs: 80.9, 81.1 and 81.5 % for m = 1, 2, 4.",
    run,
)
