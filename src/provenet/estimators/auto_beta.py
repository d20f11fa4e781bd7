"""β by short trainings: networks of the same block, on parts of the data, judged on what each part leaves out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from provenet import deadline
from provenet.beta import OTHERWISE
from provenet.estimators.held_out import HeldOut, Verdict, classes, scores
from provenet.formulation.sample import sample_of
from provenet.formulation.trainee import BlockTrainee
from provenet.gates.training import PASSES, Layers, begun, descended
from provenet.problem import Problem
from provenet.ranks.context import first_says

SHARES = (0.5, 0.26, 0.13, 0.07, 0.036, 0.019, 0.01, 0.005)  # of β_max, each trained from the one before
# β_max grows with the samples, the β that predicts best hardly: of many samples smaller shares are tried, too
LEAST = 3.0  # what a share times the samples is at least, as 0.005 of 600
_DEARER = 0.02  # of its score: what each halving below SHARES has to gain, as short trainings flatter a small β
_PER_SAMPLE = 0.5  # the power of the part that was looked at, by which the best share of all samples is smaller
_FOLDS = 3
_FEW, _DRAWS = 250, 2  # fewer samples are divided into folds twice: what a third of them says hangs much on chance
_MANY = 1000  # of so many one fold says as much, and more of them can be looked at
STEPS = (60, 25)  # of L-BFGS: at the first share, and at each that follows
# A step that gains less of the objective is the last.  Labels ask for no more; numbers do: at small β steps gain so
# little that networks would stay where they are, and one β look like another.
ENOUGH = {"labels": 1e-4, "numbers": 1e-6}
NEURONS = 50
_FEWEST = 10  # samples, below which there is nothing to leave out
_WORK = 7e9  # multiply-adds that the trainings may take, a second or two: fewer samples are looked at where it is more
_SAMPLES = 300  # but not fewer than so many
_MOST = 5e10  # multiply-adds beyond which it is not tried
_TIME = 0.3  # of what is left of a time limit
_EARLY = 10  # times less than they may take at most
_NO_TIME = "the time limit leaves none for them."


@dataclass(frozen=True)
class BetaChoice:
    """How a β was chosen: as the ``share`` of β_max, from the one of ``shares`` (k,) with the least of ``scores`` (k,)
    on that ``part`` of the samples.

    They are of samples that were left out: of ``losses`` (folds, k), means a sample, and for labels of the parts that
    are ``wrong`` (folds, k); see `held_out`.  Where there was nothing to choose by, ``reason`` says why."""

    share: float
    shares: NDArray[np.float64]
    losses: NDArray[np.float64]
    wrong: NDArray[np.float64]
    seconds: float
    reason: str = ""
    part: float = 1.0

    @property
    def scores(self) -> NDArray[np.float64]:
        return _scores(self.shares, self.losses, self.wrong)

    def __str__(self) -> str:
        if self.reason:
            return f"beta is {self.share:g} of beta_max, as there were no trainings to choose it by: {self.reason}"
        folds, k = self.losses.shape
        where = f"{folds} folds" if folds > 1 else "one fold"
        of = "" if self.part == 1.0 else f" of {100 * self.part:.3g} % of the samples"
        return f"beta chosen from {k} by short trainings on {where}{of} in {self.seconds:.2g} s"

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        arrays = {name: getattr(self, name).tolist() for name in ("shares", "losses", "wrong")}
        return {
            "share": self.share,
            **arrays,
            "part": self.part,
            "seconds": self.seconds,
            "reason": self.reason or None,
        }


def shares_for(samples: int) -> tuple[float, ...]:
    """Which shares of β_max are tried, decreasing: the usual ones, and halves of the least where samples are many."""
    shares = list(SHARES)
    while shares[-1] / 2 * samples >= LEAST:
        shares.append(shares[-1] / 2)
    return tuple(shares)


def _scores(
    shares: NDArray[np.float64], losses: NDArray[np.float64], wrong: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What is to be small, (k,): that of samples left out, and more where a share is below the usual ones."""
    halvings = np.log2(np.maximum(SHARES[-1] / shares, 1.0))
    return scores(losses, wrong) * (1.0 + _DEARER * halvings)


def choose_beta(problem: Problem, labels: bool, seed: int, neurons: int = NEURONS, among: float = 1.0) -> BetaChoice:
    """The β that does best on samples that were left out, for networks of the problem's block, loss and weights.

    ``problem``: with few gates, at any β, for its data and β_max; ``labels``: targets are classes, of which each fold
    has its part; ``among``: the part of all samples that the problem is of."""
    tried: tuple[float, ...] = SHARES
    began, part = time.perf_counter(), 1.0
    losses = wrong = np.empty((0, len(tried)))
    if problem.memory is not None:
        reason = "data in shards are not gone over so often."
    else:
        search = _Search(problem, min(neurons, NEURONS), np.random.default_rng(seed))
        tried, part, reason = search.shares, among * search.part, search.hindrance()
        if not reason:
            with deadline.within(_TIME * deadline.left()):
                losses, wrong = search.judged(labels)
            reason = "" if len(losses) else _NO_TIME
    reason, *found = first_says([reason, losses.tolist(), wrong.tolist()])  # of several processes, whose clocks differ
    losses, wrong = (np.array(told).reshape(-1, len(tried)) for told in found)
    shares = np.array(tried)
    least = 0 if reason else int(_scores(shares, losses, wrong).argmin())  # the largest of equals
    share = OTHERWISE if reason else tried[least] * part**_PER_SAMPLE
    return BetaChoice(share, shares, losses, wrong, time.perf_counter() - began, reason, part)


def folds_of(strata: NDArray[np.int64] | None, n: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The fold (n,) of each sample: of every class the same part in each; −1, always trained on, of one alone in its
    class."""
    order = generator.permutation(n)
    if strata is None:
        alone = np.zeros(n, dtype=bool)
    else:
        order = order[np.argsort(strata[order], kind="stable")]
        alone = np.bincount(strata)[strata] == 1
    fold = np.empty(n, dtype=np.int64)
    fold[order] = np.arange(n) % count
    return np.where(alone, -1, fold)


def _work_in_time() -> float:
    """Multiply-adds of trainings that there is time for; most end long before their last step."""
    return _EARLY * _TIME * deadline.left() * deadline.FAST


class _Search:
    """The trainings: so many neurons in each group, on as many samples as the work allows."""

    def __init__(self, problem: Problem, neurons: int, generator: np.random.Generator) -> None:
        relu = problem.activation != "linear"
        beta_max = problem.program.beta_max or 1.0
        trainee = BlockTrainee(problem.on_data, problem.program.loss, beta_max, problem.units, relu)
        shards = problem.program.operator.shards
        seen = sample_of(trainee, shards)
        whole, _ = seen.merged().narrowed()
        groups = len(whole.on.groups)
        self.group = torch.arange(groups).repeat_interleave(neurons)
        self.generator, self.shares = generator, shares_for(whole.samples)
        n, steps = whole.samples, STEPS[0] + STEPS[1] * (len(self.shares) - 1)
        each = PASSES * steps * whole.work(len(self.group))  # multiply-adds a sample, on one fold
        most, self.folds = _affordable(n, each)
        some = torch.from_numpy(np.sort(generator.permutation(n)[:most]))
        self.trainee = whole if n <= most else whole.part(some)
        self.part = seen.samples / shards.n * self.trainee.samples / n
        self.work = self.folds * each * self.trainee.samples

    def hindrance(self) -> str:
        """Why there is nothing to choose by, in a sentence; empty where there is."""
        n = self.trainee.samples
        if n < _FEWEST:
            return f"{n} different samples are too few to leave some out."
        if self.work > _MOST:
            return "training takes too long on samples of this size."
        return _NO_TIME if self.work > _work_in_time() else ""

    def judged(self, labels: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Losses and the parts of labels that are wrong, both (folds, shares), of those folds that are done in time; at
        each share outputs are multiplied by the factor that is best for all folds together."""
        target = self.trainee.loss.target
        labels = labels and target.ndim == 2  # tokens have no strata
        strata = classes(target, 0.5).numpy() if labels else None
        draws = [folds_of(strata, len(target), _FOLDS, self.generator) for _ in range(-(-self.folds // _FOLDS))]
        parts = [(fold, k) for fold in draws for k in range(_FOLDS) if (fold == k).any()][: self.folds]
        rows = (self._fold(fold, k, labels) for fold, k in parts)
        done = [row for row in takewhile(lambda row: row is not None, rows) if row is not None]
        if not done:
            return np.empty((0, len(self.shares))), np.empty((0, len(self.shares)))
        losses = np.array([[verdict.losses for verdict in row] for row in done])  # (folds, shares, factors)
        best = losses.mean(0).argmin(1)
        wrong = np.array([[verdict.wrong for verdict in row] for row in done])
        return np.take_along_axis(losses, best[None, :, None], axis=2)[:, :, 0], wrong

    def _fold(self, fold: NDArray[np.int64], k: int, labels: bool) -> list[Verdict] | None:
        """What is said at every share; None where the time is over before."""
        learner, judge = (self.trainee.part(torch.from_numpy(np.flatnonzero(own))) for own in (fold != k, fold == k))
        held_out = HeldOut(judge, self.group, labels)
        layers: Layers = begun(learner, self.group, self.generator)
        enough = ENOUGH["labels" if labels else "numbers"]
        found = []
        for i, share in enumerate(self.shares):
            layers = descended(learner.at(share * learner.beta), self.group, layers, STEPS[i > 0], enough)
            if deadline.over():
                return None
            found.append(held_out.verdict(layers))
        return found


def _affordable(n: int, each: float) -> tuple[int, int]:
    """On how many of n samples, and on how many folds of them: on one of many, where three would be too much work.

    ``each``: multiply-adds a sample, on one fold."""
    folds, work = _FOLDS * (_DRAWS if n < _FEW else 1), min(_WORK, _work_in_time())
    if folds * each * n > work == _WORK and min(n, work / each) >= _MANY:  # where time is short, folds one by one
        return int(work / each), 1
    return max(_SAMPLES, int(work / (folds * each))), folds
