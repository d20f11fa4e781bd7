"""Choosing β by cross-validation along warm-started paths."""

from __future__ import annotations

import copy
import warnings
from functools import wraps
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from provenet.estimators.base import TrainingData
from provenet.estimators.beta import USUAL, Beta, parse_beta
from provenet.estimators.settings import ManyBetas
from provenet.problem import Problem
from provenet.solvers import Solution, Status
from provenet.solvers.path import beta_grid, path

_ENOUGH = 1e-2  # relative gap of networks that are only scored: closer ones say the same of nearly every sample


class Candidate(NamedTuple):
    """One kind of network that was tried: β and the scores (folds, betas) there."""

    activation: str
    gates: Any
    betas: NDArray[np.float64]
    scores: NDArray[np.float64]

    @property
    def best(self) -> int:
        return _best(self.scores)[0]

    @property
    def score(self) -> float:
        return _best(self.scores)[1]


class BetaSearch(ManyBetas):
    """Training at the β of the best mean score over the folds; the largest of equals.

    Losses are sums over samples, so a fold that holds a share s of the total weight is trained at s·β: loss and penalty
    then trade off as they do on all the data, and ``betas_`` and ``beta_`` are in units of all the data.  Where
    ``activation`` or ``gates`` are lists of names, each is tried, with β of its own; the first of equals is taken.
    """

    betas_: NDArray[np.float64]
    beta_: float
    cv_scores_: NDArray[np.float64]
    path_: list[Solution]
    candidates_: list[Candidate]
    activation_: str
    gates_: Any

    def _train(self: Any, data: TrainingData) -> Solution:
        seed = self._seed()
        tried = [self._try(*choice, data, seed) for choice in self._choices()]
        self.candidates_ = [candidate for candidate, _, _ in tried]
        chosen, model, problem = max(tried, key=lambda each: each[0].score)
        self.activation_, self.gates_, self.betas_, self.cv_scores_ = chosen
        self.beta_ = float(self.betas_[chosen.best])
        if self.whiten:
            self.whitening_ = model.whitening_
        self.path_ = self._follow(problem, self.betas_[: chosen.best + 1], self.tol)
        return self.path_[-1]

    def _choices(self: Any) -> list[tuple[str, Any]]:
        """Activations and gates to try; a linear network has no gates to choose."""
        activations, gates = _several(self.activation), _several(self.gates)
        return [(each, own) for each in activations for own in (gates[:1] if each == "linear" else gates)]

    def _try(self: Any, activation: str, gates: Any, data: TrainingData, seed: int) -> tuple[Candidate, Any, Problem]:
        """With the estimator that has this choice, and its problem on all the data."""
        model = copy.copy(self)
        model.activation, model.gates = activation, gates
        problem = model._formulate(data, model._middle(), seed)
        betas = np.array(model._grid(problem))
        return Candidate(activation, gates, betas, model._cross_validate(data, seed, betas)), model, problem

    def _middle(self) -> Beta:
        """The β for which gates that depend on it are found: the geometric mean of those that are listed."""
        listed = self._listed()
        if listed is None or any(beta.relative != listed[0].relative for beta in listed):
            return USUAL
        return Beta(float(np.exp(np.mean(np.log([beta.value for beta in listed])))), listed[0].relative)

    def _grid(self, problem: Problem) -> list[float]:
        listed = self._listed()
        if listed is None:
            return beta_grid(problem.beta_max, int(self.betas), self.beta_ratio)  # type: ignore[arg-type]
        return np.unique([beta.of(problem) for beta in listed])[::-1].tolist()

    def _listed(self) -> list[Beta] | None:
        """The values of β that were given; None where it is how many."""
        if isinstance(self.betas, Integral) and not isinstance(self.betas, bool):
            return None
        try:
            listed = [parse_beta(beta) for beta in self.betas]  # type: ignore[union-attr]
        except (ValueError, TypeError):
            listed = []
        if not listed or isinstance(self.betas, str):
            raise ValueError(
                f"betas: give a number of values, or a list of positive ones or shares such as '0.01max', got "
                f"{self.betas!r}."
            )
        return listed

    def _follow(self: Any, problem: Problem, betas: NDArray[np.float64], tol: float) -> list[Solution]:
        callback = self._callback(from_verbose=2)
        progress = _print_solution if self.verbose else None
        solutions = path(
            problem,
            betas.tolist(),
            self.solver,
            tol,
            max_steps=self.max_steps,
            max_seconds=self.max_seconds,
            callback=callback,
            progress=progress,
        )
        if solutions[-1].status is Status.INTERRUPTED:
            raise KeyboardInterrupt(f"{type(self).__name__}: interrupted during its search for beta.")
        return solutions

    def _cross_validate(self: Any, data: TrainingData, seed: int, betas: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores (folds, betas) on the samples each fold leaves out."""
        folds = list(check_cv(self.cv, data.y, classifier=is_classifier(self)).split(data.X, data.y))
        scorer = check_scoring(self, self.scoring)
        scores = np.full((len(folds), len(betas)), np.nan)
        short, tol = 0, max(self.tol, _ENOUGH)
        for row, (train, test) in zip(scores, folds, strict=True):
            model, share = copy.copy(self), _share(data, train)  # a fold has a whitening of its own
            # and gates of its own: those that look at targets must not see the ones they are judged by
            problem = model._formulate(data.rows(train), self._middle().scaled(share), seed)
            solutions = model._follow(problem, betas * share, tol)
            short += sum(s.status is not Status.SOLVED for s in solutions)
            row[:] = [model._score(scorer, solution, data, test) for solution in solutions]
        if short:
            warnings.warn(
                f"{type(self).__name__}: {short} of {scores.size} fits in the folds stopped above tol={tol:g}; "
                "their scores are of networks that are not proven to that tolerance.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return scores

    def _score(self: Any, scorer: Any, solution: Solution, data: TrainingData, test: Any) -> float:
        model = copy.copy(self)
        model._keep(solution)
        vars(model).pop("feature_names_in_", None)  # the folds are plain arrays, without names
        weight = {} if data.sample_weight is None else {"sample_weight": data.sample_weight[test]}
        if weight and not weight["sample_weight"].any():
            return np.nan
        asked = model if data.mask is None else _Masked(model, data.mask[test])
        return float(scorer(asked, data.X[test], data.y[test], **weight))


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


def _share(data: TrainingData, rows: Any) -> float:
    """The share of the total weight that these rows have."""
    weight = np.ones(len(data.X)) if data.weight is None else data.weight
    return float(weight[rows].sum() / weight.sum())


def _best(scores: NDArray[np.float64]) -> tuple[int, float]:
    """The β of the best mean, and that; folds without a score (no weight, one sample for R²) do not count."""
    scored = ~np.isnan(scores).any(axis=1)
    if not scored.any():
        raise ValueError("scoring: no fold has a score that is a number at every beta; choose another scoring or cv.")
    means = scores[scored].mean(axis=0)
    return int(np.argmax(means)), float(means.max())


def _several(setting: Any) -> list[Any]:
    """The names in a list of names; anything else is one choice."""
    named = isinstance(setting, (list, tuple)) and len(setting) > 0 and all(isinstance(each, str) for each in setting)
    return list(setting) if named else [setting]


def _print_solution(solution: Solution) -> None:
    gap = solution.certificate.relative_gap
    print(f"beta {solution.problem.beta:.3e}  {solution.steps:>6} steps  relative gap {gap:.2e}")
