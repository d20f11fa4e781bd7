"""One head: a path of β judged on samples set aside, or on folds, then all samples at the best one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from provenet.blocks import Block
from provenet.deadline import Budget
from provenet.estimators import ProvenClassifier
from provenet.estimators.choice import seen_enough
from provenet.estimators.scales import ScaleWarning
from provenet.heads.kinds import HEADS, Tokens
from provenet.heads.samples import Samples, Split
from provenet.solvers import Status
from provenet.space import anew

_SEARCH = 0.6  # of the seconds: what the path may take; the rest is for the head that is kept
_ROUGHLY = 3e-2  # the gap along the path
_SHORTEST = 0.5  # seconds that a fit has at least
_LOST = 0.3  # a gap that time did not close: smaller β take longer still


@dataclass(frozen=True)
class Asked:
    """How heads are fitted; ``betas``: how many, or shares of β_max, decreasing."""

    betas: int | tuple[float, ...] = 6
    beta_range: tuple[float, float] = (0.3, 3e-3)
    n_gates: int = 20
    tol: float = 1e-2
    max_seconds: float | None = None
    patience: int = 2
    seed: int = 0

    @property
    def shares(self) -> list[float]:
        if isinstance(self.betas, int):
            return np.geomspace(*self.beta_range, self.betas).tolist()
        return sorted(self.betas, reverse=True)


@dataclass(frozen=True)
class Row:
    """A head in the table: how often it is right, the proof, and what it took.

    Parameters
    ----------
    head : str
        Its name.
    beta : float
        The β chosen, a share of β_max.
    beta_sum : float
        β itself, on all samples.
    validation, top1, top5 : float
        Shares of samples whose label is right: on those set aside, or on the mean over folds, on the test set, and
        among five there.
    error : float
        The standard error of ``validation``, which comes of so many samples.
    relative_gap : float
        Proven.
    primal : float
        The objective on all samples.
    parameters, neurons : int
        How large it is.
    seconds, cpu : float
        Of the path and the fit, by the clock and of the processor.
    status : str
        Of its certificate.
    why : str
        Of a head that was not fitted: why.
    path : tuple
        β, validation accuracy and relative gap, the largest of the folds, along the path.
    """

    head: str
    beta: float | None = None
    beta_sum: float | None = None
    validation: float | None = None
    error: float | None = None
    top1: float | None = None
    top5: float | None = None
    relative_gap: float | None = None
    primal: float | None = None
    parameters: int | None = None
    neurons: int | None = None
    seconds: float = 0.0
    cpu: float = 0.0
    status: str = "refused"
    why: str = ""
    path: tuple[tuple[float, float, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def fit_head(
    name: str, splits: Sequence[Split], whole: Samples, test: Samples | None, grid: Any, asked: Asked
) -> tuple[Row, ProvenClassifier]:
    """The row of this head, and the head; ValueError where its block does not go with the tokens, MemoryError
    where it takes more than there is.

    β is the best on the mean over ``splits`` of the whole, all of which is trained on then."""
    began, cpu = time.perf_counter(), time.process_time()
    classes = len(np.unique(whole.y))
    folds = [_Fold(_unfitted(name, whole.rows(split.train), classes, grid, asked), whole, split) for split in splits]
    path = _follow(folds, asked, Budget(None if asked.max_seconds is None else _SEARCH * asked.max_seconds))
    best, validation, _ = max(path, key=lambda point: point[1])
    model = folds[0].model.set_params(block=_block(name, whole, classes, grid))  # which begins where its fold ended
    del folds
    left = None if asked.max_seconds is None else max(asked.max_seconds - (time.perf_counter() - began), 1.0)
    model.set_params(beta=f"{best!r}max", tol=asked.tol, max_seconds=left)
    _quietly(model, whole)
    row = Row(
        head=name,
        beta=best,
        beta_sum=model.beta_,
        validation=validation,
        error=_standard_error(validation, sum(len(whole.y[split.judge]) for split in splits)),
        top1=None if test is None else right(model, test, 1),
        top5=None if test is None or classes <= 5 else right(model, test, 5),
        relative_gap=model.certificate_.relative_gap,
        primal=model.certificate_.primal,
        parameters=sum(each.numel() for each in model.network_.parameters()),
        neurons=model.solution_.factors.n_neurons,
        seconds=time.perf_counter() - began,
        cpu=time.process_time() - cpu,
        status=str(model.certificate_.status),
        path=tuple(path),
    )
    return row, model


def _unfitted(name: str, samples: Samples, classes: int, grid: Any, asked: Asked) -> ProvenClassifier:
    """A head for these samples."""
    kind = HEADS[name]
    return ProvenClassifier(
        block=_block(name, samples, classes, grid),
        activation=kind.activation,
        gates="gaussian",
        n_gates=int(min(asked.n_gates, kind.most_gates)),
        random_state=asked.seed,
        warm_start=True,
    )


def _block(name: str, samples: Samples, classes: int, grid: Any) -> Block:
    """What it learns beforehand it learns of these samples alone."""
    _, s, d = samples.X.shape
    return HEADS[name].block(Tokens(s, d, classes, grid or (1, s), samples.X, samples.y))


def _standard_error(share: float, count: int) -> float:
    """Of a share of so many samples."""
    return (share * (1 - share) / count) ** 0.5


@dataclass
class _Fold:
    """A head on its way down the path; ``share``: of β_max, where it is."""

    model: ProvenClassifier
    whole: Samples
    split: Split
    share: float | None = None

    def rest(self) -> None:
        """Until its next β nothing is kept that can be made again: of all folds it would be as often as much."""
        solution = self.model.solution_
        self.model.solution_ = replace(solution, problem=anew(solution.problem))

    def judged_at(self, share: float, tol: float, seconds: float | None) -> tuple[float, float]:
        """(how many of the samples that judge are right, a share; relative gap)."""
        model = self.model.set_params(tol=tol, max_seconds=seconds)
        if self.share is None:
            model.set_params(beta=f"{share!r}max")
            _quietly(model, self.whole.rows(self.split.train))
        else:
            model._go_on(model.beta_ * share / self.share)
            _check_whole(model)
        self.share = share
        return right(model, self.whole.rows(self.split.judge), 1), model.certificate_.relative_gap


def _follow(folds: Sequence[_Fold], asked: Asked, budget: Budget) -> list[tuple[float, float, float]]:
    """(share of β_max, mean accuracy, largest relative gap) from the largest β down, until smaller ones are no better.

    Each β is tried on all folds before the next one; it does not count where time was over before that, but the first.
    """
    shares = asked.shares
    found: list[tuple[float, float, float]] = []
    scores = np.empty((len(folds), 0))
    for k, share in enumerate(shares):
        turn, judged = Budget(budget.left(1 if k + 1 == len(shares) else 2)), []
        for j, fold in enumerate(folds):
            if budget.over and found:
                return found
            left = turn.left(len(folds) - j)
            seconds = None if left is None else max(left, _SHORTEST)
            judged.append(fold.judged_at(share, max(asked.tol, _ROUGHLY), seconds))
            if len(folds) > 1:
                fold.rest()
        accuracies, gaps = np.array(judged).T
        scores = np.column_stack([scores, accuracies])
        found.append((share, float(accuracies.mean()), float(gaps.max())))
        if seen_enough(shares[: k + 1], scores, asked.patience) or found[-1][2] > _LOST:
            break
    return found


def _quietly(model: ProvenClassifier, samples: Samples) -> None:
    """The gap that is reached stands in the table, and features are the backbone's: no warning is of either."""
    X, more = samples.read_by(model.block)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, ScaleWarning):
            warnings.simplefilter("ignore", category)
        model.fit(X, samples.y, **more)
    _check_whole(model)


def _check_whole(model: ProvenClassifier) -> None:
    if model.solution_.status is Status.INTERRUPTED:  # a fit keeps what it has; a comparison ends, and can go on
        raise KeyboardInterrupt


def right(model: Any, samples: Samples, among: int) -> float:
    """The share of samples whose label is among the ``among`` most probable ones."""
    X, more = samples.read_by(model.block)
    proba = model.predict_proba(X, **more)
    first = np.argsort(-proba, axis=1)[:, :among]
    return float((model.classes_[first] == samples.y[:, None]).any(axis=1).mean())
