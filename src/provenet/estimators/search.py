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

from provenet.data.sharded import comes_in_shards
from provenet.estimators.base import TrainingData
from provenet.estimators.beta import USUAL, Beta, parse_beta
from provenet.estimators.budget import Budget
from provenet.estimators.settings import ManyBetas
from provenet.estimators.together import refuse_together
from provenet.problem import Problem
from provenet.solvers import Limits, Solution, Status
from provenet.solvers.path import along, beta_grid


class Candidate(NamedTuple):
    """One kind of network that was tried: β and the scores (folds, betas) there."""

    activation: str
    gates: Any
    betas: NDArray[np.float64]
    scores: NDArray[np.float64]

    @property
    def score(self) -> float:
        """Of its best β, by the folds that are whole; without any it is the last to be taken."""
        whole = ~np.isnan(self.scores).any(axis=1)
        return float(self.scores[whole].mean(axis=0).max()) if whole.any() else -np.inf


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
        """One search after the other, where there are several choices; Ctrl-C ends them with those that are done."""
        refuse_together("betas", "Choose beta on some rows in one process, and fit all with ProvenClassifier(beta=…).")
        budget, choices, tried = Budget(self.max_seconds), self._choices(), []
        for k, (activation, gates) in enumerate(choices):
            model = copy.copy(self)
            model.activation, model.gates = activation, gates
            own = budget if len(choices) == 1 else Budget(budget.left(len(choices) - k))
            best, interrupted = model._search(data, own)
            tried.append((Candidate(activation, gates, model.betas_, model.cv_scores_), model, best))
            if interrupted:
                break
        self.candidates_ = [candidate for candidate, _, _ in tried]
        chosen, model, best = max(tried, key=lambda each: each[0].score)
        self.activation_, self.gates_, self.betas_, self.cv_scores_ = chosen
        self.beta_, self.path_ = float(self.betas_[best]), model.path_
        if self.whiten:
            self.whitening_ = model.whitening_
        return self.path_[best]

    def _in_shards(self, X: Any, limit: int | None) -> bool:
        if comes_in_shards(X):
            raise ValueError(
                "X: folds are taken of arrays, not of shards; choose beta on a part that fits into memory."
            )
        return False

    def _choices(self: Any) -> list[tuple[str, Any]]:
        """Activations and gates to try; a linear network has no gates to choose."""
        activations, gates = _several(self.activation), _several(self.gates)
        return [(each, own) for each in activations for own in (gates[:1] if each == "linear" else gates)]

    def _search(self: Any, data: TrainingData, budget: Budget) -> tuple[int, bool]:
        """Which β is best, and whether Ctrl-C ended it.

        The path on all the data first, then the folds: whenever time ends or Ctrl-C comes there are certified
        networks to choose from, by the folds that are done.
        """
        seed = self._seed()
        folds = list(check_cv(self.cv, data.y, classifier=is_classifier(self)).split(data.X, data.y))
        with budget.within():
            problem = self._formulate(data, self._middle(), seed)
        self._say_memory(problem)
        grid = np.array(self._grid(problem))
        self.path_, interrupted = self._follow(problem, grid, budget.left(len(folds) + 1))
        if not self.path_:
            raise KeyboardInterrupt
        if len(self.path_) > 1 and self.path_[-1].status in (Status.INTERRUPTED, Status.TIME_LIMIT):
            self.path_.pop()  # cut short, and there are others that were finished
        self.betas_ = grid[: len(self.path_)]
        self.cv_scores_ = np.full((len(folds), len(self.betas_)), np.nan)
        if not interrupted:
            interrupted = self._cross_validate(data, folds, seed, budget)
        ended = interrupted or (self.max_seconds is not None and self._lacks(len(grid)))
        best = _best(self.cv_scores_, cut_short=ended)
        if ended:
            self._tell_cut_short("by hand" if interrupted else "by max_seconds", len(grid))
        return best, interrupted

    def _lacks(self: Any, asked: int) -> bool:
        """Whether there are fewer β or scores than asked for."""
        return len(self.path_) < asked or bool(np.isnan(self.cv_scores_).any())

    def _tell_cut_short(self: Any, how: str, asked: int) -> None:
        folds, betas = self.cv_scores_.shape
        scored = int((~np.isnan(self.cv_scores_)).any(axis=1).sum())
        chosen = "beta_ is the best by these" if scored else "beta_ is the smallest reached, not chosen by validation"
        warnings.warn(
            f"{type(self).__name__}: the search was ended {how}, with {scored} of {folds} folds and {betas} of {asked} "
            f"values of beta; {chosen}.",
            ConvergenceWarning,
            stacklevel=6,
        )

    def _middle(self) -> Beta:
        """The β for which gates that depend on it are found: the geometric mean of those that are listed."""
        listed = self._listed()
        if listed is None or any(beta.unit != listed[0].unit for beta in listed):
            return USUAL
        return Beta(float(np.exp(np.mean(np.log([beta.value for beta in listed])))), listed[0].unit)

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

    def _follow(
        self: Any, problem: Problem, betas: NDArray[np.float64], seconds: float | None
    ) -> tuple[list[Solution], bool]:
        """The solutions along ``betas`` until Ctrl-C or the end of the time; whether it was Ctrl-C."""
        callback = self._callback(from_verbose=2)
        limits = Limits(self.tol, self.max_steps, seconds)
        solutions: list[Solution] = []
        try:
            for solution in along(problem, betas.tolist(), self.solver, limits, callback):
                solutions.append(solution)
                if self.verbose:
                    _print_solution(solution)
        except KeyboardInterrupt:
            return solutions, True
        return solutions, solutions[-1].status is Status.INTERRUPTED

    def _cross_validate(self: Any, data: TrainingData, folds: list[Any], seed: int, budget: Budget) -> bool:
        """Fills ``cv_scores_`` (folds, betas) on the samples each fold leaves out; whether Ctrl-C ended it."""
        scorer = check_scoring(self, self.scoring)
        short = 0
        for k, (train, test) in enumerate(folds):
            if budget.over and k > 0:
                break
            model, share = copy.copy(self), _share(data, train)  # a fold has a whitening of its own
            # and gates of its own: those that look at targets must not see the ones they are judged by
            try:
                with budget.within():
                    problem = model._formulate(data.rows(train), self._middle().scaled(share), seed)
                solutions, interrupted = model._follow(problem, self.betas_ * share, budget.left(len(folds) - k))
            except KeyboardInterrupt:
                return True
            done = [s for s in solutions if s.status is not Status.INTERRUPTED]
            short += sum(s.status is not Status.SOLVED for s in done)
            self.cv_scores_[k, : len(done)] = [model._score(scorer, solution, data, test) for solution in done]
            if interrupted:
                return True
        if short:
            warnings.warn(
                f"{type(self).__name__}: {short} of {self.cv_scores_.size} fits in the folds stopped above "
                f"tol={self.tol:g}; their scores are of networks that are not proven to that tolerance.",
                ConvergenceWarning,
                stacklevel=6,
            )
        return False

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


def _best(scores: NDArray[np.float64], cut_short: bool = False) -> int:
    """The β of the best mean; folds without a score (no weight, one sample for R²) do not count.

    Of a search that was ``cut_short`` without a whole fold, the best of those β that most folds reached; without any
    score the last."""
    scored = ~np.isnan(scores)
    whole = scored.all(axis=1)
    if whole.any():
        return int(np.argmax(scores[whole].mean(axis=0)))
    if not cut_short:
        raise ValueError("scoring: no fold has a score that is a number at every beta; choose another scoring or cv.")
    most = scored.sum(axis=0).max()
    if most == 0:
        return scores.shape[1] - 1
    reached = np.flatnonzero(scored.sum(axis=0) == most)
    return int(reached[np.argmax(np.nanmean(scores[:, reached], axis=0))])


def _several(setting: Any) -> list[Any]:
    """The names in a list of names; anything else is one choice."""
    named = isinstance(setting, (list, tuple)) and len(setting) > 0 and all(isinstance(each, str) for each in setting)
    return list(setting) if named else [setting]


def _print_solution(solution: Solution) -> None:
    gap = solution.certificate.relative_gap
    print(f"beta {solution.problem.beta:.3e}  {solution.steps:>6} steps  relative gap {gap:.2e}")
