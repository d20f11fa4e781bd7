"""Deep networks by convex stages on a set of images, as BM §4.2 has them: accuracy by stage, for several ranks m."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from provenet.data.images import load_images
from provenet.layerwise import LayerwiseClassifier
from provenet.layerwise.presets import PRESETS, default_layers
from provenet.reproduce.end_to_end import trained_at_once
from provenet.reproduce.experiment import Findings, OutOfTime, Piece, Run, Table

_COLOURS = {1: "#3b6fb6", 2: "#d9822b", 4: "#4b9a5b"}
_PART = 500  # samples at a time


@dataclass(frozen=True)
class Deep:
    """stages: how many; gates: of each, whatever m, so that a stage has m times as many neurons; epochs: of each.
    paper: its accuracy by m, in %, and that of a CNN trained end to end.  where: the data can be had.  prove: whether
    the stages of the first m are certified; tol: of stages small enough to be solved as a whole."""

    name: str
    stages: int
    gates: int
    epochs: tuple[int, ...]
    augment: tuple[str, ...]
    paper: dict[int, float]
    paper_end_to_end: float
    where: str
    beta: str = "1e-3mean"
    prove: bool = True
    tol: float = 1e-3

    @property
    def said_epochs(self) -> str:
        return str(self.epochs[0]) if len(set(self.epochs)) == 1 else ", ".join(map(str, self.epochs))

    def resized(self, gates: int | None, epochs: int | None) -> Deep:
        """With another number of gates, and of epochs of each stage; None: as it is."""
        return replace(self, gates=gates or self.gates, epochs=(epochs,) * self.stages if epochs else self.epochs)

    def in_small(self) -> Deep:
        return Deep(self.name, 3, 4, (4, 4, 4), (), self.paper, self.paper_end_to_end, self.where, "3e-2mean", tol=1e-2)


@dataclass(frozen=True)
class Images:
    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    name: str


def run(run: Run, deep: Deep) -> Findings:
    images = digits_or_official(run, deep)
    deep = (deep.in_small() if run.quick else deep).resized(run.gates, run.epochs)
    ranks = (1, 2) if run.quick else (1, 2, 4)
    about = (
        f"{images.name}, {len(images.X)}, {deep.stages} stages, {deep.gates} gates, {deep.said_epochs} epochs, "
        f"{' '.join(deep.augment) or 'as they are'}"
    )
    first, *others = ranks
    found = {first: run.piece(f"{about}, m = {first}", lambda: grown(images, deep, first, run, certify=False))}
    for m in others:
        piece = _in_time(run, f"{about}, m = {m}", lambda m=m: grown(images, deep, m, run, certify=False))  # type: ignore[misc]
        found |= {} if piece is None else {m: piece}
    widest, seconds = max(found), sum(found[max(found)]["cpu"])
    usual = _in_time(run, f"{about}, end to end", lambda: _at_once(images, deep, widest * deep.gates, seconds))
    if deep.prove:
        piece = _in_time(run, f"{about}, m = {first}, proven", lambda: grown(images, deep, first, run, certify=True))
        found |= {} if piece is None else {first: piece}
    tables = (_by_stage(found), _totals(found, usual, deep))
    pictures = {"accuracy-by-stage": _picture(found, usual, deep)}
    words = (*_words(found, usual, deep, images), *_missing(ranks, found, usual))
    return Findings(
        tables,
        pictures,
        words,
        {"gates": deep.gates, "epochs": list(deep.epochs), "layerwise": found, "end to end": usual},
    )


def _in_time(run: Run, key: str, make: Callable[[], Piece]) -> Piece | None:
    """A piece; None: it was not begun in the time given, and the page is of the others."""
    try:
        return run.piece(key, make)
    except OutOfTime:
        return None


def _missing(ranks: Sequence[int], found: dict[int, Piece], usual: Piece | None) -> list[str]:
    missing = [f"m = {m}" for m in ranks if m not in found] + ([] if usual else ["the CNN trained end to end"])
    told = f"Not run in the time given: {', '.join(missing)}; the same command goes on from what is kept."
    return [told] if missing else []


def grown(images: Images, deep: Deep, m: int, run: Run, certify: bool) -> Piece:
    """One deep network, stage by stage; a run that was cut off goes on, and one without proofs gets them."""
    folder = (
        None
        if run.kept is None
        else run.kept.parent / f"{run.kept.stem}-{deep.gates}-gates-{max(deep.epochs)}-epochs-m{m}"
    )
    layers = default_layers(PRESETS["cpu"], images.X.shape[1:], deep.stages)
    model = LayerwiseClassifier(
        layers=[replace(layer, epochs=epochs) for layer, epochs in zip(layers, deep.epochs, strict=True)],
        n_gates=deep.gates,
        rank=m,
        beta=deep.beta,
        augment=deep.augment,
        validation_fraction=None,
        early_stopping=False,
        certify=certify,
        tol=deep.tol,
        checkpoint=folder,
        resume=folder is not None,
        cache="2GB",
        random_state=0,
    )
    model._watcher = lambda event: run.tell(f"m = {m}  {event}") if event.epoch is not None else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # gaps are in the table
        model.fit(images.X, images.y)
    return {
        "train": [stage.score for stage in model.stages_],
        "test": _accuracies(model, images.X_test, images.y_test),
        "gap": [None if stage.certificate is None else stage.certificate.relative_gap for stage in model.stages_],
        "filters": [stage.filters for stage in model.stages_],
        "cpu": [stage.cpu for stage in model.stages_],
    }


def _accuracies(model: LayerwiseClassifier, X: NDArray[Any], y: NDArray[Any]) -> list[float]:
    """Of every stage's own outputs."""
    code = np.searchsorted(model.classes_, y)
    right = np.zeros(len(model.network_))
    with torch.no_grad():
        for i in range(0, len(X), _PART):
            said = model.network_.outputs(torch.from_numpy(X[i : i + _PART].astype(np.float32)))
            right += [int((each.argmax(1).numpy() == code[i : i + _PART]).sum()) for each in said]
    accuracies: list[float] = (right / len(X)).tolist()
    return accuracies


def _at_once(images: Images, deep: Deep, width: int, seconds: float) -> Piece:
    layers = default_layers(PRESETS["cpu"], images.X.shape[1:], deep.stages)
    convolutions = [dict(layer.made_block.settings()) for layer in layers]
    training, test = (images.X, images.y), (images.X_test, images.y_test)
    return trained_at_once(convolutions, width, training, test, seconds, deep.augment) | {"width": width}


def digits_or_official(run: Run, deep: Deep) -> Images:
    return _digits() if run.quick else _official(run.data, deep)


def _digits() -> Images:
    digits = load_digits()
    X, y = digits.images[:, None].astype(np.float32), digits.target
    return Images(X[:250], y[:250], X[1_000:], y[1_000:], "scikit-learn's digits")


def _official(data: Path | None, deep: Deep) -> Images:
    if data is None:
        raise FileNotFoundError(
            f"data: {deep.name} is needed, --data FOLDER; {deep.where}. --quick runs without, on scikit-learn's digits."
        )
    found = load_images(data)
    if found.test is None:
        raise ValueError(f"{data}: it has no test images; {deep.where}.")
    return Images(*found.training, *found.test, found.name)


def _percent(values: Sequence[float]) -> list[str]:
    return [f"{100 * value:.2f}" for value in values]


def _by_stage(found: dict[int, Piece]) -> Table:
    rows = []
    for m, piece in found.items():
        gaps = ["none" if gap is None else f"{gap:.2g}" for gap in piece["gap"]]
        columns = zip(
            _percent(piece["train"]), _percent(piece["test"]), gaps, piece["filters"], piece["cpu"], strict=True
        )
        rows += [
            (str(m), str(stage), train, test, gap, str(filters), f"{seconds:.0f}")
            for stage, (train, test, gap, filters, seconds) in enumerate(columns, 1)
        ]
    columns_ = ("m", "stage", "training, %", "test, %", "relative gap, proven", "filters", "CPU seconds")
    return Table("By stage", columns_, tuple(rows))


def _totals(found: dict[int, Piece], usual: Piece | None, deep: Deep) -> Table:
    rows = [
        (f"layerwise, m = {m}", f"{100 * piece['test'][-1]:.2f}", f"{sum(piece['cpu']):.0f}", f"{deep.paper[m]:.1f}")
        for m, piece in found.items()
    ]
    if usual is not None:
        epochs, test, cpu = (usual[name] for name in ("epochs", "test", "cpu"))
        rows.append(
            (f"end to end, {epochs:.1f} epochs", f"{100 * test:.2f}", f"{cpu:.0f}", f"{deep.paper_end_to_end:.1f}")
        )
    columns = ("network", "test, %", "CPU seconds", f"the paper, {deep.name}, %")
    return Table("In the end", columns, tuple(rows))


def _words(found: dict[int, Piece], usual: Piece | None, deep: Deep, images: Images) -> list[str]:
    first = found[min(found)]
    rises = all(b >= a for a, b in zip(first["test"], first["test"][1:], strict=False))
    words = [
        f"{images.name}: {len(images.X)} images to train on, {len(images.X_test)} to judge by. At m = {min(found)} "
        f"accuracy {'rises' if rises else 'does not rise'} with every stage: {', '.join(_percent(first['test']))} %.",
        f"Every stage has {deep.gates} gates and m neurons behind each. {deep.said_epochs} epochs, β = {deep.beta}, "
        f"augmentation: {', '.join(deep.augment) or 'none'}.",
        "Different from the paper: it has 256 gates, all positions, and 50 epochs of SGD on a GPU; here are fewer "
        "gates, strides, few epochs and preset='cpu', for two cores.",
        "A gap is of a stage's own convex problem, without augmentation, on what the stages below pass on."
        + ("" if deep.prove else " None is computed here: proofs would take longer than the training."),
    ]
    if usual is not None:
        words.append(
            f"The CNN that is trained end to end has the same convolutions, {usual['width']} wide, and as much CPU "
            f"time as m = {max(found)} took, but for 50 epochs at most: {100 * usual['test']:.2f} %."
        )
    return words


def _picture(found: dict[int, Piece], usual: Piece | None, deep: Deep) -> Figure:
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.subplots()
    for m, piece in found.items():
        stages = range(1, len(piece["test"]) + 1)
        axes.plot(stages, 100 * np.array(piece["test"]), "o-", color=_COLOURS[m], label=f"m = {m}, test")
        axes.plot(
            stages, 100 * np.array(piece["train"]), "o--", color=_COLOURS[m], label=f"m = {m}, training", alpha=0.5
        )
    if usual is not None:
        axes.axhline(100 * usual["test"], color="0.3", linewidth=0.9, label="end to end, test")
    axes.set(xlabel="stage", ylabel="accuracy, %", xticks=range(1, deep.stages + 1))
    axes.grid(alpha=0.2)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure
