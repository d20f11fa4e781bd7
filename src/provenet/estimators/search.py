"""Choosing β by cross-validation along warm-started paths."""

from __future__ import annotations

import copy
import reprlib
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from provenet.beta import AUTO, USUAL, Beta, parse_beta
from provenet.data.sharded import comes_in_shards
from provenet.deadline import Budget
from provenet.estimators.auto_beta import LEAST
from provenet.estimators.choice import Candidate, check_patience, check_rule, chosen, results, seen_enough
from provenet.estimators.folds import Fold, Next, followed
from provenet.estimators.kinds import kinds_to_try, many_outputs
from provenet.estimators.samples import TrainingData
from provenet.estimators.settings import ManyBetas
from provenet.estimators.stand_ins import Tried, checked
from provenet.estimators.together import refuse_together
from provenet.estimators.trained_folds import roughly, trained_scores
from provenet.gauges.prox.mixed import WEIGHT_DECAY
from provenet.problem import Problem
from provenet.solvers import Solution, Status

_LARGEST = 0.3  # of β_max: beyond it networks hardly differ from none
_SMALLEST = 2e-3  # of β_max, of up to 1,500 samples; of more, what β would be of 1,500 (`auto_beta`)
_COARSE = 3e-2  # the relative gap to which folds are solved, where no other is asked for
_SEARCH = 0.75  # of the seconds: what the search may take; the rest is for the network that is kept


class BetaSearch(ManyBetas):
    """Training at the β that the folds' scores speak for.

    From the largest β down, each is tried on all folds, and on all the data, before the next: each part begins where it
    stood.  They are solved to ``cv_tol`` only, which bounds how far each objective is from its least; the network of
    the chosen β then goes on to ``tol``.  ReLU networks of the folds, and any with more than six outputs, are trained,
    not solved (`trained_folds`), unless a ``cv_tol`` is asked for, and only the one that is kept is solved.

    Losses are sums over samples, so a fold that holds a share s of the total weight is trained at s·β: loss and penalty
    then trade off as they do on all the data, and ``betas_`` and ``beta_`` are in units of all the data.  Where
    ``activation`` or ``gates`` are lists of names, or "auto" (`kinds`), each is tried, with β of its own; the first of
    equals is taken.
    """

    betas_: NDArray[np.float64]
    beta_: float
    cv_scores_: NDArray[np.float64]
    cv_results_: dict[str, Any]
    path_: list[Solution]
    candidates_: list[Candidate]
    activation_: str
    gates_: Any

    def _train(self: Any, data: TrainingData) -> Solution:
        """One search after the other, where there are several choices; Ctrl-C ends them with those that are done."""
        refuse_together("betas", "Choose beta on some rows in one process, and fit all with ProvenClassifier(beta=…).")
        check_rule(self.rule)
        check_patience(self.patience)
        tried: list[Tried] = []
        budget, choices = Budget(self.max_seconds), kinds_to_try(self, data)
        models = [_of_kind(self, *choice) for choice in choices]
        for k, ((activation, gates), model) in enumerate(zip(choices, models, strict=True)):
            model._counter = self._counts(k, len(choices), activation)
            if tried and budget.over:
                self._warn(f"the search was ended by max_seconds, before activation={activation!r} was tried.")
                break
            own = budget.left(len(choices) - k)
            look = model._train_folds if model._trains_folds(data) else model._search
            try:
                best, interrupted = look(data, Budget(None if own is None else _SEARCH * own))
            except KeyboardInterrupt:
                if not tried:
                    raise
                interrupted = True
                self._warn(f"the search was ended by hand, before activation={activation!r} had a score.")
                break
            tried.append((Candidate(activation, gates, model.betas_, model.cv_scores_), model, best))
            if interrupted:
                break
        if not interrupted:
            tried = checked(tried, data, max(float(self.tol), self._coarse()), budget)
        self.candidates_ = [candidate for candidate, _, _ in tried]
        kept, model, best = max(tried, key=lambda each: each[0].score)
        self.activation_, self.gates_, self.betas_, self.cv_scores_, _ = kept
        self.beta_, self.path_, self.cv_results_ = float(self.betas_[best]), model.path_, model.cv_results_
        self._count(1.0, "the network that is kept")
        if not self.path_:  # nothing but folds was looked at
            self.path_, best = [model._alone(data, self.beta_, budget)], 0
        elif not interrupted:
            self.path_[best] = self._finished(self.path_[best], budget)
        if self.whiten:
            self.whitening_ = model.whitening_
        return self.path_[best]

    def _counts(self: Any, k: int, of: int, activation: str) -> Callable[[float, str], None]:
        """The counter of the search of one kind of ``of``, the k-th."""
        return lambda done, what: self._count((k + done) / of, f"{activation}, {what}")

    def _count(self: Any, done: float, what: str) -> None:
        if self._counter is not None:
            self._counter(done, what)

    def _alone(self: Any, data: TrainingData, beta: float, budget: Budget) -> Solution:
        """All the data at this β, with gates found for it."""
        with budget.within():
            problem = self._formulate(data, Beta(beta), self._seed())
        self._say_memory(problem)
        return self._solve(problem, None, budget.left())

    def _finished(self: Any, rough: Solution, budget: Budget) -> Solution:
        """The solution to the tolerance that was asked for; what there is, where that was cut short and proves less."""
        # said to be of the tolerance that was asked for, not of the folds'
        rough = replace(rough, certificate=replace(rough.certificate, tol=float(self.tol)))
        if rough.certificate.holds(self.tol):
            return rough
        try:
            fine = self._solve(rough.problem, rough.factors, budget.left())
        except KeyboardInterrupt:
            return replace(rough, status=Status.INTERRUPTED)
        better = fine.certificate.relative_gap <= rough.certificate.relative_gap
        return fine if better else replace(rough, status=fine.status)

    def _in_shards(self, X: Any, limit: int | None) -> bool:
        if comes_in_shards(X):
            raise ValueError(
                "X: folds are taken of arrays, not of shards; choose beta on a part that fits into memory."
            )
        return False

    def _trains_folds(self: Any, data: TrainingData) -> bool:
        """Whether networks of the folds are trained, not solved: only with weight decay."""
        if self.cv_tol != "auto" or tuple(self.penalty) != WEIGHT_DECAY:
            return False
        return self.activation == "relu" or many_outputs(self, data)

    def _train_folds(self: Any, data: TrainingData, budget: Budget) -> tuple[int, bool]:
        """As `_search`, by networks that are trained on the folds, one fold after the other; Ctrl-C leaves nothing."""
        self.path_, seed, splits = [], self._seed(), self._splits(data)
        self._fit_whitening(data)
        with budget.within():
            grid = self._grid(roughly(self, data, seed), data)
        folds = [Fold.of(self, data, *split).alone() for split in splits]
        if self.n_jobs in (None, 1):
            scores: list[Any] = []
            for k, fold in enumerate(folds):
                self._count(k / len(folds), f"fold {k + 1} of {len(folds)}")
                scores.append(trained_scores(fold, data, grid, seed, budget.left(len(folds) - k)))
        else:
            calls = (delayed(trained_scores)(fold, data, grid, seed, budget.left()) for fold in folds)
            scores = Parallel(n_jobs=self.n_jobs)(calls)
        self.betas_, self.cv_scores_ = np.array(grid), np.array(scores)
        ended = budget.over and bool(np.isnan(self.cv_scores_).any())
        best = chosen(self.cv_scores_, self.rule, cut_short=ended)
        self.cv_results_ = results(self.betas_, self.cv_scores_, np.full_like(self.cv_scores_, np.nan), np.nan)
        self._tell(len(grid), 0, np.nan, "by max_seconds" if ended else None)
        if self.verbose:
            known = f"score {np.nanmax(self.cv_results_['mean_test_score']):.4f}" if not ended else "ended"
            told = f"{self.activation} networks trained at {len(grid)} values on {len(folds)} folds"
            print(f"{told}  {known} at {grid[best]:.3e}")
        return best, False

    def _splits(self: Any, data: TrainingData) -> list[Any]:
        cv = check_cv(self.cv, data.y, classifier=is_classifier(self))
        try:
            splits = list(cv.split(data.X, data.y))
        except ValueError as error:
            if "groups" not in str(error):
                raise
            raise ValueError(
                f"cv: {type(cv).__name__} asks for groups, which fit does not take; give the splits themselves, "
                "cv=list(splitter.split(X, y, groups))."
            ) from None
        if not splits:
            raise ValueError("cv: it makes no split; give at least one pair (train, test) of rows.")
        for k, rows in ((k, rows) for k, split in enumerate(splits) for rows in split):
            _check_rows(k, np.asarray(rows), len(data.X))
        return splits

    def _search(self: Any, data: TrainingData, budget: Budget) -> tuple[int, bool]:
        """Which β is best, and whether Ctrl-C ended it: by what the folds had scored until then."""
        asked = _Asked(data, self._middle(), self._seed(), max(float(self.tol), self._coarse()))
        splits = self._splits(data)
        with budget.within():
            problem = self._formulate(data, asked.found_at, asked.seed)
        self._say_memory(problem)
        grid = self._grid(problem, data)
        parts = [Fold(copy.copy(self), problem=problem), *(Fold.of(self, data, *split) for split in splits)]
        scores: list[list[float]] = []
        self.path_, gaps, short, interrupted = [], [], 0, False
        for beta in grid:
            began = time.perf_counter()
            self._count(len(scores) / len(grid), f"beta {len(scores) + 1} of {len(grid)}")
            steps, interrupted = self._round(parts, asked, beta, budget)
            if not steps or (self.path_ and steps[0].solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT)):
                break  # cut short, and there are others that were finished
            missing = len(parts) - len(steps)
            parts = [step.fold for step in steps] + parts[len(steps) :]
            self.path_.append(steps[0].solution)
            scores.append([step.score for step in steps[1:]] + [np.nan] * missing)
            gaps.append([step.solution.certificate.relative_gap for step in steps[1:]] + [np.nan] * missing)
            short += sum(step.solution.status not in (Status.SOLVED, Status.INTERRUPTED) for step in steps[1:])
            if self.verbose:
                _print_round(grid, scores, steps[0].solution, time.perf_counter() - began)
            if interrupted or budget.over or seen_enough(grid, np.array(scores).T, self.patience):
                break
        if not self.path_:
            raise KeyboardInterrupt
        self.betas_, self.cv_scores_ = np.array(grid[: len(scores)]), np.array(scores).T.copy()
        ended = interrupted or (budget.over and self._lacks(len(grid)))
        best = chosen(self.cv_scores_, self.rule, cut_short=ended)
        self.cv_results_ = results(self.betas_, self.cv_scores_, np.array(gaps).T, asked.tol)
        self._tell(len(grid), short, asked.tol, ("by hand" if interrupted else "by max_seconds") if ended else None)
        return best, interrupted

    def _round(self: Any, parts: list[Fold], asked: _Asked, beta: float, budget: Budget) -> tuple[list[Next], bool]:
        """All parts at the next β, as far as time goes, all the data first; whether it was ended by Ctrl-C."""
        steps: list[Next] = []
        try:
            if self.n_jobs not in (None, 1):
                left = budget.left(len(parts))
                calls = (delayed(followed)(part.alone(), *asked.at(beta), left) for part in parts)
                steps = Parallel(n_jobs=self.n_jobs)(calls)
                return steps, any(step.solution.status is Status.INTERRUPTED for step in steps)
            for part in parts:
                if budget.over and steps:
                    break
                steps.append(followed(part, *asked.at(beta), budget.left(len(parts) - len(steps))))
                if steps[-1].solution.status is Status.INTERRUPTED:
                    return steps, True
        except KeyboardInterrupt:
            return steps, True
        return steps, False

    def _lacks(self: Any, asked: int) -> bool:
        """Whether there are fewer β or scores than asked for."""
        return len(self.path_) < asked or bool(np.isnan(self.cv_scores_).any())

    def _tell(self: Any, asked: int, short: int, tol: float, ended: str | None) -> None:
        """What the user should know of the search: how it was ``ended`` early, and fits that stopped short."""
        if ended is not None:
            folds, betas = self.cv_scores_.shape
            scored = int((~np.isnan(self.cv_scores_)).any(axis=1).sum())
            how = "chosen by these" if scored else "the smallest reached, not chosen by validation"
            self._warn(
                f"the search (activation={self.activation!r}) was ended {ended}, with {scored} of {folds} folds and "
                f"{betas} of {asked} values of beta; its beta is {how}."
            )
        elif short:
            self._warn(
                f"{short} of {self.cv_scores_.size} fits in the folds stopped above cv_tol={tol:g}; their "
                "scores are of networks that are not proven to that tolerance."
            )

    def _warn(self, what: str) -> None:
        warnings.warn(f"{type(self).__name__}: {what}", ConvergenceWarning, stacklevel=6)

    def _coarse(self: Any) -> float:
        """The relative gap for the folds, before ``tol`` is looked at."""
        tol = _COARSE if isinstance(self.cv_tol, str) and self.cv_tol == "auto" else self.cv_tol
        if isinstance(tol, bool) or not isinstance(tol, Real) or not float(tol) > 0:
            raise ValueError(f"cv_tol: it must be a positive number or 'auto', got {tol!r}.")
        return float(tol)

    def _middle(self) -> Beta:
        """The β for which gates that depend on it are found: the geometric mean of those that are listed."""
        listed = self._listed()
        if listed is None or any(beta.unit != listed[0].unit for beta in listed):
            return USUAL
        return Beta(float(np.exp(np.mean(np.log([beta.value for beta in listed])))), listed[0].unit)

    def _grid(self: Any, problem: Problem, data: TrainingData) -> list[float]:
        listed = self._listed()
        if listed is not None:
            return np.unique([beta.of(problem) for beta in listed])[::-1].tolist()
        if self.betas < 2:
            raise ValueError(f"betas: a path has at least two values of beta, got {self.betas}.")
        top = problem.beta_max or 1.0  # where it is zero the zero network is optimal at every β
        return (top * np.geomspace(_LARGEST, self._smallest(data), int(self.betas))).tolist()

    def _smallest(self: Any, data: TrainingData) -> float:
        """The share of β_max that the search ends at."""
        ratio = self.beta_ratio
        if isinstance(ratio, str) and ratio == AUTO:
            return min(_SMALLEST, LEAST / data.different)
        if isinstance(ratio, bool) or not isinstance(ratio, Real) or not 0 < float(ratio) < _LARGEST:
            raise ValueError(f"beta_ratio: it must lie between 0 and {_LARGEST}, or be 'auto', got {ratio!r}.")
        return float(ratio)

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


class _Asked(NamedTuple):
    """What is the same for all parts and all β."""

    data: TrainingData
    found_at: Beta
    seed: int
    tol: float

    def at(self, beta: float) -> tuple[TrainingData, float, Beta, int, float]:
        return self.data, beta, self.found_at, self.seed, self.tol


def _check_rows(k: int, rows: NDArray[Any], n: int) -> None:
    """That a part of split ``k`` is some of n samples, said by numbers or as true and false."""
    numbers = rows.dtype.kind in "iu" and rows.size > 0 and rows.min() >= -n and rows.max() < n
    truths = rows.dtype.kind == "b" and rows.shape == (n,) and rows.any()
    if rows.ndim != 1 or not (numbers or truths):
        raise ValueError(
            f"cv: split {k} has to name some of the {n} samples for each part, got {reprlib.repr(rows.tolist())}."
        )


def _of_kind(model: Any, activation: str, gates: Any) -> Any:
    """The same search for one kind of networks; refused here, before any other is trained, where there is none."""
    model = copy.copy(model)
    model.activation, model.gates = activation, gates
    model._statement(1.0)
    return model


def _print_round(grid: list[float], scores: list[list[float]], solution: Solution, seconds: float) -> None:
    """One β of at most so many, on all folds and all the data."""
    known = [score for score in scores[-1] if not np.isnan(score)]
    mean = f"{np.mean(known):.4f}" if known else "none"
    print(
        f"beta {grid[len(scores) - 1]:.3e}  {len(scores)} of {len(grid)} at most  score {mean} over {len(known)} folds"
        f"  {solution.factors.n_neurons} neurons  {seconds:.2g} s"
    )
