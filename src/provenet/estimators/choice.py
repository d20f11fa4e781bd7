"""Which β the scores of a search speak for, and when it has seen enough.  Scores are (folds, betas), β decreasing."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Scores = NDArray[np.float64]

_FAR = 0.2  # of the best β: closer ones are its neighbours, however many


def best(means: Scores, scores: Scores) -> int:
    """The largest mean; of equals the largest β."""
    return int(np.nanargmax(means))


def one_se(means: Scores, scores: Scores) -> int:
    """The largest β whose mean is within a standard error of the best one's mean (Breiman et al. 1984)."""
    top = best(means, scores)
    folds = scores[:, top]
    error = float(folds.std(ddof=1)) / len(folds) ** 0.5 if len(folds) > 1 else 0.0
    return int(np.argmax(np.nan_to_num(means, nan=-np.inf) >= means[top] - error))


def smooth(means: Scores, scores: Scores) -> int:
    """The largest mean together with its neighbours': those differ by chance more than in what they can do."""
    return int(np.nanargmax(with_neighbours(means)))


def with_neighbours(values: Scores) -> Scores:
    """Half of each of a row of values (k,), and a quarter of each of its two neighbours; itself where there is none."""
    padded = np.pad(values, 1, mode="edge")
    sides = [np.where(np.isnan(side), values, side) for side in (padded[:-2], padded[2:])]
    return np.asarray(0.5 * values + 0.25 * sides[0] + 0.25 * sides[1])


RULES: dict[str, Callable[[Scores, Scores], int]] = {"best": best, "smooth": smooth, "one_se": one_se}


def check_rule(rule: Any) -> str:
    if not isinstance(rule, str) or rule not in RULES:
        raise ValueError(f"rule: {rule!r} is unknown; choose one of {', '.join(map(repr, RULES))}.")
    return rule


def check_patience(patience: Any) -> None:
    if patience is not None and (isinstance(patience, bool) or not isinstance(patience, Integral) or patience < 0):
        raise ValueError(f"patience: it must be a whole number from zero on, or None, got {patience!r}.")


def mean_scores(scores: Scores) -> tuple[Scores, Scores]:
    """Means (betas,), NaN where a fold that scores at all has no score, and the scores of those folds."""
    counting = scores[~np.isnan(scores).all(axis=1)]
    if not len(counting):
        return np.full(scores.shape[1], np.nan), counting
    return counting.mean(axis=0), counting


def chosen(scores: Scores, rule: str = "best", cut_short: bool = False) -> int:
    """Which β is taken: by the β that all folds have scored; folds without any score (no weight, one sample for R²) do
    not count.

    Of a search that was ``cut_short`` before all had scored one, the best of those that most folds reached; without any
    score the last, which is the smallest."""
    means, counting = mean_scores(scores)
    if not np.isnan(means).all():
        return RULES[rule](means, counting)
    if not cut_short:
        raise ValueError("scoring: no beta has a score that is a number in every fold; choose another scoring or cv.")
    reached = (~np.isnan(scores)).sum(axis=0)
    if reached.max() == 0:
        return scores.shape[1] - 1
    most = np.flatnonzero(reached == reached.max())
    return int(most[np.argmax(np.nanmean(scores[:, most], axis=0))])


def seen_enough(betas: list[float], scores: Scores, patience: int | None) -> bool:
    """Whether the last ``patience`` β, and all down to a fifth of it, were no better on the mean than the best."""
    means = mean_scores(scores)[0]
    if patience is None or np.isnan(means).all():
        return False
    top = int(np.nanargmax(means))
    return len(means) - 1 - top >= patience and betas[len(means) - 1] <= _FAR * betas[top]


def results(betas: Scores, scores: Scores, gaps: Scores, tol: float) -> dict[str, Any]:
    """As scikit-learn's searches have them; relative_gap: the largest of the folds at each β, NaN where they prove
    nothing; tol: what was asked."""
    means, counting = mean_scores(scores)
    place = np.where(np.isnan(means), np.inf, -means)
    return {
        "beta": betas,
        **{f"split{k}_test_score": own for k, own in enumerate(scores)},
        "mean_test_score": means,
        "std_test_score": counting.std(axis=0) if len(counting) else np.full(len(betas), np.nan),
        "rank_test_score": rankdata(place, "min").astype(int),
        "relative_gap": np.where(
            np.isnan(gaps).all(axis=0), np.nan, np.where(np.isnan(gaps), -np.inf, gaps).max(axis=0)
        ),
        "tol": tol,
    }


class Candidate(NamedTuple):
    """One kind of network that was tried: β and the scores (folds, betas) there.  ``less``: by how much networks of
    this kind scored less, where they were solved, than those that stood for them in ``scores``."""

    activation: str
    gates: Any
    betas: Scores
    scores: Scores
    less: float = 0.0

    @property
    def score(self) -> float:
        """Of its best β; without any that all folds have scored it is the last to be taken."""
        means = mean_scores(self.scores)[0]
        return -np.inf if np.isnan(means).all() else float(np.nanmax(means)) - self.less
