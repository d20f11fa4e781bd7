"""The settings of the estimators, each said once: its name, type, default, and what it means.

A dataclass makes an estimator's constructor of those it inherits: keywords only, kept as they were given, and nothing
else done, as scikit-learn wants it.
"""
# ruff: noqa: RUF009 — `setting` is dataclasses.field with a meaning

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from textwrap import fill
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from provenet.blocks.base import Block
from provenet.gauges.prox.mixed import WEIGHT_DECAY

Kind = TypeVar("Kind", bound=type)


def setting(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


def seed_of(random_state: Any) -> int:
    """A number is the seed; of what else scikit-learn takes, or of numpy's generators, one is drawn."""
    if isinstance(random_state, Integral):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))


def documented(kind: Kind) -> Kind:
    """The class, with the meaning of all its settings in its docstring."""
    listed = [
        f"    {each.name} : {each.type}, default {each.default!r}\n"
        + fill(each.metadata["meaning"], 110, initial_indent=" " * 8, subsequent_indent=" " * 8)
        for each in fields(kind)
    ]
    kind.__doc__ = f"{(kind.__doc__ or '').rstrip()}\n\n    Parameters\n    ----------\n" + "\n".join(listed) + "\n    "
    return kind


@dataclass(kw_only=True, eq=False, repr=False)
class Settings:
    """What all estimators have."""

    block: str | Block = setting("mlp", "a name, or a block object with settings of its own")
    activation: str | Sequence[str] = setting("gated_relu", '"gated_relu", "relu" or "linear"')
    gates: str | Any = setting(
        "auto",
        'how gates are found: "trained" (the units of a ReLU network trained for a moment), "gaussian", "between" '
        '(halfway between rows of different targets), "auto" (trained where that takes a moment, Gaussian on samples '
        'too large for it), "grow" (some Gaussian ones, to which those are added that pull '
        "hardest, up to ``n_gates``); or gate vectors of your own, or a torch network, whose units "
        'they are; for "relu" gates are activation patterns, and "all" enumerates every one there is, so that the '
        "certificate speaks of all ReLU networks; a search tries each of a list of names",
    )
    n_gates: int | Any = setting(50, 'how many; or gate vectors, or "all", as ``gates`` takes them')
    readout: str = setting(
        "mean", 'over the tokens of a block that has them, or "tokens", with a label (n, s) or target for each'
    )
    fit_intercept: bool | str = setting(
        "free",
        'True, for "mlp" alone: gives X a column of ones, whose weights are penalised like the others; "free", for '
        "every block: also a bias of the outputs that costs nothing",
    )
    solver: str | Any = setting("auto", "as in `provenet.solve`")
    tol: float = setting(1e-3, "the relative gap to be certified")
    max_steps: int | None = setting(None, "as in `provenet.solve`")
    max_seconds: float | None = setting(
        None,
        "a limit of the whole fit, with its gates and folds; the certificate may take a second or a tenth more.  Where "
        "time is short for the data β is chosen on a part of them, and no more gates are looked for than there is time "
        "for, which is told; where there is none for a single gate the fit is refused, with the seconds that it takes",
    )
    memory_limit: str | int | None = setting(
        None,
        '"4GB", or bytes: what a fit may allocate beyond what the process has; data whose copies would take more than '
        "a quarter of it are gone over in shards, and a limit below the least that works is refused",
    )
    verbose: int = setting(
        0, "1 prints each look at the gap, how long gates took, and what memory data in shards will take"
    )
    random_state: Any = setting(0, "for gates that are sampled or trained, and for the choice of β")
    whiten: bool = setting(
        False,
        "makes XXᵀ = I first (ZCA, for tables with no more samples than features), and does the same to new data",
    )
    standardize: bool | str = setting(
        "auto",
        "brings features, and the targets of a regression, to mean zero and variance one, in the fit and for new data; "
        "network_ does it itself, predictions are in the units of y, and the certificate is of the standardised "
        'problem: its penalty is on weights of standardised features; "auto": for tables, not for images and tokens',
    )
    penalty: tuple[float, float] = setting(
        WEIGHT_DECAY, "the norms (C, R) of β/2 Σ_j (‖u_j‖_C² + ‖v_j‖_R²), as in `provenet.formulate`"
    )


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierSettings(Settings):
    loss: str = setting("softmax", '"softmax" or "logistic"')
    class_weight: Mapping[Any, float] | str | None = setting(None, 'a dict, or "balanced"')


@dataclass(kw_only=True, eq=False, repr=False)
class RegressorSettings(Settings):
    loss: str = setting("squared", '"squared", ½‖f − y‖², or "huber"')
    delta: float = setting(
        1.0,
        "the huber loss is quadratic within it, and linear beyond; standardized targets are in units of their "
        "deviation from the median",
    )


@dataclass(kw_only=True, eq=False, repr=False)
class OneBeta:
    """Of training at one β."""

    beta: float | str = setting(
        "auto",
        'the weight decay, a share of β_max such as "0.01max", or "auto": chosen by short trainings of networks of the '
        "same block, judged on samples that they were not trained on",
    )
    warm_start: bool = setting(False, "begins at the last solution where sizes and gates agree")


@dataclass(kw_only=True, eq=False, repr=False)
class ManyBetas:
    """Of choosing β, and what else is to be chosen."""

    activation: str | Sequence[str] = setting(
        "auto",
        '"gated_relu", "relu", "linear", or a list of them, of which each is tried; "auto": on tables linear and ReLU, '
        "or gated ReLU where outputs are too many for a proof in seconds; gated ReLU alone on other samples, and with "
        "gates, a penalty or a solver of your own",
    )
    betas: int | Sequence[float | str] = setting(
        8,
        "how many, log-spaced from 0.3·β_max down to beta_ratio·β_max, or the values, or shares of β_max: "
        '["0.1max", …]',
    )
    beta_ratio: float | str = setting(
        "auto",
        'the smallest β in parts of β_max; "auto": 0.002, or three divided by the samples where that is less: equal '
        "ones count once, as one of a larger weight does",
    )
    cv: Any = setting(5, "as in scikit-learn")
    scoring: Any = setting(None, "as in scikit-learn; by default accuracy or R²")
    rule: str = setting(
        "best",
        'which β is taken: "best", that of the best mean score over the folds, the largest of equals; "smooth", half '
        'of it that of its neighbours; or "one_se", the largest whose mean is within a standard error of the best',
    )
    cv_tol: float | str = setting(
        "auto",
        "the relative gap to which the folds are solved, or ``tol`` where that is larger: an objective is then so near "
        'its least; "auto": 0.03, and ReLU networks of the folds, and on tables all with more than six outputs, are '
        "trained by L-BFGS, without proof; the network that is kept goes on to ``tol``",
    )
    patience: int | None = setting(
        3,
        "the search ends where so many β in a row, down to a fifth of the best one, had no better mean score; None: "
        "never",
    )
    n_jobs: int | None = setting(
        None, "folds that are solved at the same time, in processes of their own; the answer is the same"
    )
