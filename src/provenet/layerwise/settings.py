"""The settings of deep networks, each said once, as `provenet.estimators.settings` has those of single blocks."""
# ruff: noqa: RUF009 — `setting` is dataclasses.field with a meaning

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from os import PathLike
from typing import Any

from provenet.estimators.settings import setting
from provenet.layerwise.layer import Layer
from provenet.layerwise.presets import Recipe
from provenet.proofs.sharpen import check_seconds


@dataclass(kw_only=True, eq=False, repr=False)
class LayerwiseSettings:
    """What both kinds have."""

    layers: Sequence[Layer] | int | None = setting(
        None, "the stages, or how many of the preset's own (None: three), made for the shape of X"
    )
    preset: str | Recipe = setting(
        "cpu",
        '"paper": the recipe of the Burer–Monteiro paper; "cpu": few passes, for two cores; or a Recipe. It decides '
        "what layers leave open",
    )
    n_gates: int | None = setting(None, "of every layer that does not say; None: the preset's")
    rank: int | None = setting(None, "the same: neurons behind each gate that are passed on, m")
    beta: float | str | None = setting(None, 'the same: weight decay of the sum, or "1e-4mean", "0.01max"')
    epochs: int | None = setting(None, "the same: of stages that are trained in batches")
    augment: Sequence[str] = setting((), '"flip", "crop": images changed anew in every epoch')
    validation_fraction: float | None = setting(
        0.1, "of the samples set aside: a stage that does not help on them is dropped, and is the last. None: no such"
    )
    early_stopping: bool = setting(True, "whether that is so; without, all stages are trained and kept")
    tol: float = setting(1e-3, "the relative gap asked for, stage by stage; a stage that misses it is kept, and said")
    certify: bool = setting(True, "whether stages trained in batches are certified: a few passes in float64")
    sharpen: float = setting(
        0.0,
        "seconds for each such certificate in which a better dual point is looked for, on all the stage's inputs at "
        "once; the network stays as it is. A resumed run sharpens what it has",
    )
    max_seconds: float | None = setting(None, "for each stage that is solved as a whole")
    finish: int = setting(
        0,
        "steps of L-BFGS on all samples, behind the gates, after batches: gaps come down. Kept unless the samples set "
        "aside are predicted worse; needs room for all the stage's inputs in float64",
    )
    checkpoint: str | PathLike[str] | None = setting(
        None, "a folder in which the run is kept, epoch by epoch, so that it can be resumed"
    )
    resume: bool = setting(False, "goes on with the run in that folder, which must be of these settings and data")
    cache: str | int = setting(
        "16GB", "for features of frozen stages, in memory and in files, of all processes together; beyond, made anew"
    )
    random_state: Any = setting(0, "for gates, first weights, orders and what is set aside")
    verbose: int = setting(0, "1 prints each epoch")


def check_settings(said: LayerwiseSettings) -> None:
    """Of numbers that count only later, hours perhaps: ValueError at once."""
    if not (isinstance(said.tol, Real) and 0 < said.tol < inf):
        raise ValueError(f"tol: it must be a positive, finite number, got {said.tol!r}.")
    check_seconds(said.sharpen)
    if said.max_seconds is not None and not (isinstance(said.max_seconds, Real) and said.max_seconds > 0):
        raise ValueError(f"max_seconds: a positive number, or None, is needed, got {said.max_seconds!r}.")
    if not (isinstance(said.finish, Integral) and said.finish >= 0):
        raise ValueError(f"finish: a whole number of steps from zero on is needed, got {said.finish!r}.")
    if isinstance(said.augment, str):
        raise ValueError(f"augment: a list of words is needed, such as [{said.augment!r}].")


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierSettings(LayerwiseSettings):
    loss: str = setting("softmax", '"softmax", or "squared" on one-hot targets')


@dataclass(kw_only=True, eq=False, repr=False)
class RegressorSettings(LayerwiseSettings):
    loss: str = setting("squared", '"squared", ½‖f − y‖², or "huber"')
