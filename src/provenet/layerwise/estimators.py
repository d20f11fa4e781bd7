"""Deep networks by convex stages, in scikit-learn's protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from provenet.estimators.settings import documented
from provenet.estimators.together import labels_of_all
from provenet.layerwise.base import Layerwise
from provenet.layerwise.grow import Samples
from provenet.layerwise.scores import Accuracy, RSquared, Score
from provenet.layerwise.settings import ClassifierSettings, RegressorSettings


class _Classifier(ClassifierMixin, ClassifierSettings, Layerwise):
    """Labels of any kind in, labels, probabilities and logits out."""

    losses = ("softmax", "squared")
    classes_: NDArray[Any]

    def _checked(self, X: NDArray[Any], y: Any) -> NDArray[Any]:
        if y is None:
            raise ValueError("y: labels are missing; a stage is trained on them.")
        y = np.asarray(y)
        if y.shape[:1] != X.shape[:1]:
            raise ValueError(f"y: {len(X)} samples need {len(X)} labels, got shape {y.shape}.")
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError(f"y: {int((~np.isfinite(y)).sum())} labels are missing (not a number).")
        check_classification_targets(y)
        return y

    def _targets(self, y: NDArray[Any]) -> Tensor:
        self.classes_ = labels_of_all(np.unique(y))
        if len(self.classes_) < 2:
            raise ValueError(f"y: it has one class only, {self.classes_.tolist()}; a classifier needs two or more.")
        return torch.from_numpy(np.eye(len(self.classes_))[np.searchsorted(self.classes_, y)])

    def _strata(self, targets: Tensor) -> NDArray[Any] | None:
        return None if targets.ndim > 2 else targets.argmax(1).numpy()

    def _score(self, training: Samples) -> Score:
        return Accuracy()

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Logits (n, classes); for two classes (n,), the second's above the first's."""
        logits = self._outputs(X)
        return logits if len(self.classes_) > 2 else logits[..., 1] - logits[..., 0]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (n, classes)."""
        return softmax(self._outputs(X), axis=-1)

    def predict(self, X: Any) -> NDArray[Any]:
        return self.classes_[self._outputs(X).argmax(-1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy."""
        return float(accuracy_score(np.ravel(y), self.predict(X).ravel(), sample_weight=sample_weight))


class _Regressor(RegressorMixin, RegressorSettings, Layerwise):
    """Predictions have the shape of the y of the fit."""

    losses = ("squared", "huber")

    def _checked(self, X: NDArray[Any], y: Any) -> NDArray[Any]:
        if y is None:
            raise ValueError("y: targets are missing; a stage is trained on them.")
        y = np.asarray(y, dtype=np.float64)
        if y.shape[:1] != X.shape[:1]:
            raise ValueError(f"y: {len(X)} samples need {len(X)} targets, got shape {y.shape}.")
        if not np.isfinite(y).all():
            raise ValueError(f"y: {int((~np.isfinite(y)).sum())} targets are not finite.")
        return y

    def _targets(self, y: NDArray[Any]) -> Tensor:
        self._single_target = y.ndim == 1
        return torch.from_numpy(y[:, None] if y.ndim == 1 else y.copy())

    def _strata(self, targets: Tensor) -> NDArray[Any] | None:
        return None

    def _score(self, training: Samples) -> Score:
        return RSquared.on(training.targets, training.inputs.shards)

    def predict(self, X: Any) -> NDArray[np.float64]:
        outputs = self._outputs(X)
        return outputs[:, 0] if self._single_target else outputs

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R²."""
        said = self.predict(X)
        return float(r2_score(np.reshape(y, (len(said), -1)), said.reshape(len(said), -1), sample_weight=sample_weight))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LayerwiseClassifier(_Classifier):
    """A deep classifier by convex stages: each a two-layer block, trained on what the frozen ones below pass on.

    Fitted: ``network_`` (`provenet.nn.Layers`; its outputs are the logits), ``stages_`` (prints as a table: scores,
    gap, filters, time; ``stages_[k].certificate`` is of stage k's own problem, conditional on the stages below, whose
    digest is ``stages_[k].below``), ``classes_``, ``sample_shape_``.
    """


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LayerwiseRegressor(_Regressor):
    """A deep regressor by convex stages; `LayerwiseClassifier` says how.  y is (n,), (n, c), or, where the last stage
    reads out tokens, (n, s, c)."""
