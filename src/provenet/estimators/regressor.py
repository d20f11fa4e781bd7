"""Regression: one target or many, jointly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from provenet.estimators.base import ProvenEstimator, SingleBeta
from provenet.estimators.samples import TrainingData, read_weights
from provenet.estimators.search import BetaSearch
from provenet.estimators.settings import RegressorSettings, documented


class _Regressor(RegressorMixin, RegressorSettings, ProvenEstimator):
    """Predictions have the shape of the y of the fit: (n,) or (n, c); (n, s) or (n, s, c) for tokens."""

    losses = ("squared", "huber")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def _loss_settings(self) -> dict[str, Any]:
        return {"delta": self.delta} if self.loss == "huber" else {}

    def _read(self, X: Any, y: Any, sample_weight: Any, mask: Any = None) -> TrainingData:
        if self.loss not in self.losses:
            raise ValueError(f"loss: {self.loss!r} is not a regressor's; choose 'squared' or 'huber'.")
        _check_numbers(y)
        X, y = self._check_samples(X, y, mask, dtype=np.float64, ensure_2d=False, allow_nd=True)
        self._single_target = y.ndim == (2 if self.readout == "tokens" else 1)
        given = read_weights(sample_weight, X.shape[0])
        targets = y[..., None] if self._single_target else y
        return TrainingData(X, y, targets, given, given, self._there(X.shape, mask))

    def predict(self, X: Any, mask: Any = None) -> NDArray[np.float64]:
        """The network's outputs, in the shape of the y of the fit; zero for tokens that are not there."""
        outputs = self._outputs(X, mask)
        return outputs[..., 0] if self._single_target else outputs

    def score(self, X: Any, y: Any, sample_weight: Any = None, mask: Any = None) -> float:
        """R², of all tokens that are there if the readout is "tokens"."""
        y, said, sample_weight = self._judged(y, self.predict(X, mask), sample_weight, mask)
        return float(r2_score(y, said, sample_weight=sample_weight))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ProvenRegressor(SingleBeta, _Regressor):
    """A two-layer regressor trained to a proven optimum.

    Minimises Σ_i w_i ℓ(f(x_i), y_i) + β/2 (‖W₁‖² + ‖W₂‖²): sums, not means.

    Fitted: ``network_`` (a torch module), ``certificate_``, ``dual_gap_`` (the certificate's absolute gap),
    ``n_iter_``, ``solution_``, ``sample_shape_``, ``n_features_in_``.
    """


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ProvenRegressorCV(BetaSearch, _Regressor):
    """`ProvenRegressor` with β chosen by cross-validation, then trained on all the data and certified.

    How it searches, and what it has once fitted besides the attributes of `ProvenRegressor`, is said of
    `ProvenClassifierCV`.
    """


def _check_numbers(y: Any) -> None:
    """ValueError for targets that are text, which scikit-learn has no words for."""
    try:
        np.asarray(y).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y: targets of a regression are numbers, and not all of these are ({error}).") from None
