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
_FOLDS = 3
_FEW, _DRAWS = 250, 2  # fewer samples are divided into folds twice: what a third of them says hangs much on chance
STEPS = (60, 25)  # of L-BFGS: at the first share, and at each that follows
# A step that gains less of the objective is the last.  Labels ask for no more; numbers do: at small β steps gain so
# little that networks would stay where they are, and one β look like another.
ENOUGH = {"labels": 1e-4, "numbers": 1e-6}
NEURONS = 50
_FEWEST = 10  # samples, below which there is nothing to leave out
_WORK = 5e9  # multiply-adds that the trainings may take, a second or two: fewer samples are looked at where it is more
_SAMPLES = 300  # but not fewer than so many
_MOST = 5e10  # multiply-adds beyond which it is not tried
_TIME = 0.3  # of what is left of a time limit
_EARLY = 10  # times less than they may take at most
_NO_TIME = "the time limit leaves none for them."


@dataclass(frozen=True)
class BetaChoice:
    """How a β was chosen: as the ``share`` of β_max, among ``shares`` (k,), with the least of ``scores`` (k,).

    They are of samples that were left out: of ``losses`` (folds, k), means a sample, and for labels of the parts that
    are ``wrong`` (folds, k); see `held_out`.  Where there was nothing to choose by, ``reason`` says why."""

    share: float
    shares: NDArray[np.float64]
    losses: NDArray[np.float64]
    wrong: NDArray[np.float64]
    seconds: float
    reason: str = ""

    @property
    def scores(self) -> NDArray[np.float64]:
        return scores(self.losses, self.wrong)

    def __str__(self) -> str:
        if self.reason:
            return f"beta is {self.share:g} of beta_max, as there were no trainings to choose it by: {self.reason}"
        folds, k = self.losses.shape
        return f"beta chosen from {k} by short trainings on {folds} folds in {self.seconds:.2g} s"

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        arrays = {name: getattr(self, name).tolist() for name in ("shares", "losses", "wrong")}
        return {"share": self.share, **arrays, "seconds": self.seconds, "reason": self.reason or None}


def choose_beta(problem: Problem, labels: bool, seed: int, neurons: int = NEURONS) -> BetaChoice:
    """The β that does best on samples that were left out, for networks of the problem's block, loss and weights.

    ``problem``: with few gates, at any β, for its data and β_max; ``labels``: targets are classes, of which each fold
    has its part."""
    began, losses, wrong = time.perf_counter(), np.empty((0, len(SHARES))), np.empty((0, len(SHARES)))
    if problem.memory is not None:
        reason = "data in shards are not gone over so often."
    else:
        search = _Search(problem, min(neurons, NEURONS), np.random.default_rng(seed))
        reason = search.hindrance()
        if not reason:
            with deadline.within(_TIME * deadline.left()):
                losses, wrong = search.judged(labels)
            reason = "" if len(losses) else _NO_TIME
    reason, *found = first_says([reason, losses.tolist(), wrong.tolist()])  # of several processes, whose clocks differ
    losses, wrong = (np.array(part).reshape(-1, len(SHARES)) for part in found)
    share = OTHERWISE if reason else SHARES[int(scores(losses, wrong).argmin())]  # the largest of equals
    return BetaChoice(share, np.array(SHARES), losses, wrong, time.perf_counter() - began, reason)


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


def _draws(n: int) -> int:
    """How often n samples are divided into folds."""
    return _DRAWS if n < _FEW else 1


def _work_in_time() -> float:
    """Multiply-adds of trainings that there is time for; most end long before their last step."""
    return _EARLY * _TIME * deadline.left() * deadline.FAST


class _Search:
    """The trainings: so many neurons in each group, on as many samples as the work allows."""

    def __init__(self, problem: Problem, neurons: int, generator: np.random.Generator) -> None:
        relu = problem.activation != "linear"
        beta_max = problem.program.beta_max or 1.0
        trainee = BlockTrainee(problem.on_data, problem.program.loss, beta_max, problem.units, relu)
        whole, _ = sample_of(trainee, problem.program.operator.shards).merged().narrowed()
        groups = len(whole.on.groups)
        self.group = torch.arange(groups).repeat_interleave(neurons)
        self.generator = generator
        steps = _draws(whole.samples) * _FOLDS * (STEPS[0] + STEPS[1] * (len(SHARES) - 1))
        self.each = PASSES * steps * whole.work(len(self.group))  # multiply-adds a sample
        n, most = whole.samples, max(_SAMPLES, int(min(_WORK, _work_in_time()) / self.each))
        some = torch.from_numpy(np.sort(generator.permutation(n)[:most]))
        self.trainee = whole if n <= most else whole.part(some)

    def hindrance(self) -> str:
        """Why there is nothing to choose by, in a sentence; empty where there is."""
        n = self.trainee.samples
        if n < _FEWEST:
            return f"{n} different samples are too few to leave some out."
        if n * self.each > _MOST:
            return "training takes too long on samples of this size."
        return _NO_TIME if n * self.each > _work_in_time() else ""

    def judged(self, labels: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Losses and the parts of labels that are wrong, both (folds, shares), of those folds that are done in time; at
        each share outputs are multiplied by the factor that is best for all folds together."""
        target = self.trainee.loss.target
        labels = labels and target.ndim == 2  # tokens have no strata
        strata = classes(target, 0.5).numpy() if labels else None
        draws = [folds_of(strata, len(target), _FOLDS, self.generator) for _ in range(_draws(len(target)))]
        folds = ((fold, k) for fold in draws for k in range(_FOLDS) if (fold == k).any())
        rows = (self._fold(fold, k, labels) for fold, k in folds)
        done = [row for row in takewhile(lambda row: row is not None, rows) if row is not None]
        if not done:
            return np.empty((0, len(SHARES))), np.empty((0, len(SHARES)))
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
        for i, share in enumerate(SHARES):
            layers = descended(learner.at(share * learner.beta), self.group, layers, STEPS[i > 0], enough)
            if deadline.over():
                return None
            found.append(held_out.verdict(layers))
        return found
