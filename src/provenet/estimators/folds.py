"""A part of the samples, followed along decreasing β: a fold, which is scored on what it leaves out, or all samples."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import check_scoring

from provenet.beta import Beta
from provenet.deadline import Budget
from provenet.estimators.samples import TrainingData
from provenet.problem import Problem
from provenet.solvers import Limits, Solution, Status
from provenet.solvers.solve import solve_quietly
from provenet.variable import Factors


@dataclass(frozen=True)
class Fold:
    """Where a part of the samples stands: nothing here is shared, so that it can go to another process and back.

    model: an estimator of its own, with the fold's own whitening.  train, test: rows; None: all, and no score.
    share: of the total weight.  problem: None before the first β.  start: the neurons at the last one."""

    model: Any
    train: NDArray[np.intp] | None = None
    test: NDArray[np.intp] | None = None
    share: float = 1.0
    problem: Problem | None = None
    start: Factors | None = None

    @staticmethod
    def of(model: Any, data: TrainingData, train: Any, test: Any) -> Fold:
        weight = np.ones(len(data.X)) if data.weight is None else data.weight
        return Fold(copy.copy(model), train, test, float(weight[train].sum() / weight.sum()))

    def alone(self) -> Fold:
        """For another process, where nobody listens."""
        model = copy.copy(self.model)
        for listener in ("_watcher", "_speaker", "_counter"):
            vars(model).pop(listener, None)
        model.verbose = 0
        return replace(self, model=model)


class Next(NamedTuple):
    """A fold one β further.  score: NaN where there is none, or the solution was cut short by hand."""

    fold: Fold
    solution: Solution
    score: float


def followed(
    fold: Fold, data: TrainingData, beta: float, found_at: Beta, seed: int, tol: float, seconds: float | None
) -> Next:
    """The fold at its share of ``beta``, from where it stands; posed first, with gates of its own, if it is new.

    Gates that look at targets are found on the fold's own rows: they must not see the targets they are judged by.
    """
    model, problem = fold.model, fold.problem
    budget = Budget(seconds)
    if problem is None:
        own = data if fold.train is None else data.rows(fold.train)
        with budget.within():
            problem = model._formulate(own, found_at.scaled(fold.share), seed)
    tell = model._callback(from_verbose=2)
    at = problem.with_beta(beta * fold.share)
    limits = Limits(tol, model.max_steps, budget.left())
    solution = solve_quietly(at, model.solver, limits, fold.start, tell, model.memory_limit)
    scored = fold.test is not None and solution.status is not Status.INTERRUPTED
    score = score_of(model, data, fold.test, **model._told_of(solution)) if scored else np.nan
    # its gates may have grown
    return Next(replace(fold, problem=solution.problem, start=solution.factors), solution, score)


def score_of(fitted: Any, data: TrainingData, test: Any, **found: Any) -> float:
    """The score on these rows of an estimator with these fitted attributes; NaN where they have no weight."""
    model = copy.copy(fitted)
    vars(model).update(found)
    vars(model).pop("feature_names_in_", None)  # the folds are plain arrays, without names
    weight = {} if data.sample_weight is None else {"sample_weight": data.sample_weight[test]}
    if weight and not weight["sample_weight"].any():
        return np.nan
    asked = model if data.mask is None else _Masked(model, data.mask[test])
    return float(check_scoring(fitted, fitted.scoring)(asked, data.X[test], data.y[test], **weight))


class _Masked:
    """A fitted model on samples some of whose tokens are not there, for scorers: they know no masks."""

    def __init__(self, model: Any, mask: Any) -> None:
        self._model, self._mask = model, mask

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if name not in ("predict", "predict_proba", "decision_function", "score"):
            return found

        @wraps(found)
        def with_mask(*args: Any, **options: Any) -> Any:
            return found(*args, mask=self._mask, **options)

        return with_mask
