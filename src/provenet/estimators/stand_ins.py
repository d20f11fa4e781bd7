"""What networks that were trained for a search hide of those that are solved in the end.

Of many outputs ReLU networks stand for gated ones (`trained_folds`), which have more freedom and may predict worse.
Where another kind is about as good, gated ones are solved on some folds, and count as much less as they are worse
there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from provenet.beta import Beta
from provenet.deadline import Budget
from provenet.estimators.choice import Candidate
from provenet.estimators.folds import Fold, followed
from provenet.estimators.samples import TrainingData

Tried = tuple[Candidate, Any, int]
"""What was tried, the estimator that tried it, and which β it would take."""

_CLEAR = 0.03  # of the score: a lead over all other kinds that is not looked into
_FOLDS = 2


def checked(tried: list[Tried], data: TrainingData, tol: float, budget: Budget) -> list[Tried]:
    """With what the kind that leads by little hides taken off its score; tol: the relative gap to solve folds to."""
    candidate, model, best = max(tried, key=lambda each: each[0].score)
    others = [other.score for other, _, _ in tried if other is not candidate]
    stands_in = candidate.activation == "gated_relu" and not model.path_
    if not (stands_in and others and candidate.score <= max(others) + _CLEAR):
        return tried
    less = candidate._replace(less=_hidden(model, data, best, tol, budget))
    return [(less if each[0] is candidate else each[0], *each[1:]) for each in tried]


def _hidden(model: Any, data: TrainingData, best: int, tol: float, budget: Budget) -> float:
    """How much lower solved networks score at this β than what was trained in their place, on the mean of folds; zero
    where Ctrl-C, or the end of the time, comes first."""
    beta, lower = float(model.betas_[best]), []
    try:
        for k, split in enumerate(model._splits(data)[:_FOLDS]):
            if budget.over:
                break
            left = budget.left(_FOLDS - k + 1)  # one part for the network that is kept
            fold = Fold.of(model, data, *split).alone()
            solved = followed(fold, data, beta, Beta(beta), model._seed(), tol, left)
            lower.append(model.cv_scores_[k, best] - solved.score)
    except KeyboardInterrupt:
        return 0.0
    return float(np.nanmean(lower)) if np.isfinite(lower).any() else 0.0
