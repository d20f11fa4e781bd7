"""Classification: labels ↔ logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets

from provenet.estimators.base import ProvenEstimator, SingleBeta
from provenet.estimators.samples import TrainingData, read_weights
from provenet.estimators.search import BetaSearch
from provenet.estimators.settings import ClassifierSettings, documented
from provenet.estimators.together import labels_of_all, sums_of_all


class _Classifier(ClassifierMixin, ClassifierSettings, ProvenEstimator):
    """Labels of any kind in, labels, probabilities and logits out.

    ``loss="softmax"`` has a logit a class; ``"logistic"`` one logit for two classes, else one a class, each class
    against the rest, all trained jointly.
    """

    losses = ("softmax", "logistic")
    classes_: NDArray[Any]

    def _read(self, X: Any, y: Any, sample_weight: Any, mask: Any = None) -> TrainingData:
        if self.loss not in self.losses:
            raise ValueError(f"loss: {self.loss!r} is not a classifier's; choose 'softmax' or 'logistic'.")
        _check_labels(y)
        X, y = self._check_samples(X, y, mask)
        check_classification_targets(y)
        if self.readout == "tokens" and y.ndim != 2:
            raise ValueError(f"y: with readout='tokens' every token has a label, (n, s), got shape {y.shape}.")
        given = read_weights(sample_weight, X.shape[0])
        self.classes_ = labels_of_all(np.unique(y if given is None else y[given > 0]))
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y: it has one class only, {only!r}; a classifier needs two classes or more.")
        # a class all of whose samples have weight zero is none; its samples take no part, whatever their code
        code = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        weight = _times_class_weight(given, code, self.classes_, self.class_weight)
        binary = self.loss == "logistic" and len(self.classes_) == 2
        targets = code[..., None].astype(np.float64) if binary else np.eye(len(self.classes_))[code]
        return TrainingData(X, y, targets, weight, given, self._there(X.shape, mask))

    def decision_function(self, X: Any, mask: Any = None) -> NDArray[np.float64]:
        """Logits (n, classes); for two classes (n,), the second's logit above the first's.

        With ``readout="tokens"`` every token has its own: (n, s, classes) or (n, s).
        """
        logits = self._outputs(X, mask)
        if len(self.classes_) > 2:
            return logits
        return logits[..., 0] if self.loss == "logistic" else logits[..., 1] - logits[..., 0]

    def predict_proba(self, X: Any, mask: Any = None) -> NDArray[np.float64]:
        """Probabilities (n, classes), or (n, s, classes), in the order of ``classes_``."""
        score = self.decision_function(X, mask)
        if len(self.classes_) == 2:
            return np.stack([expit(-score), expit(score)], axis=-1)
        # one against the rest: σ(z_c)/Σσ(z), as a softmax of log σ so that nothing underflows
        return softmax(log_expit(score) if self.loss == "logistic" else score, axis=-1)

    def predict(self, X: Any, mask: Any = None) -> NDArray[Any]:
        """The most probable label of each sample, (n,), or of each token, (n, s)."""
        score = self.decision_function(X, mask)
        return self.classes_[(score > 0).astype(int) if len(self.classes_) == 2 else score.argmax(axis=-1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None, mask: Any = None) -> float:
        """The share of samples, or of tokens, whose label is right."""
        y, said, sample_weight = self._judged(y, self.predict(X, mask), sample_weight, mask)
        return float(accuracy_score(y, said, sample_weight=sample_weight))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ProvenClassifier(SingleBeta, _Classifier):
    """A two-layer classifier trained to a proven optimum.

    Minimises Σ_i w_i ℓ(f(x_i), y_i) + β/2 (‖W₁‖² + ‖W₂‖²): sums, not means.

    Fitted: ``network_`` (a torch module: its outputs are the logits), ``certificate_``, ``dual_gap_`` (the
    certificate's absolute gap), ``n_iter_``, ``solution_``, ``classes_``, ``sample_shape_``, ``n_features_in_``.
    """


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ProvenClassifierCV(BetaSearch, _Classifier):
    """`ProvenClassifier` with β chosen by cross-validation, then trained on all the data and certified.

    From the largest β down, each is tried on all folds before the next, every fold from where it stood, until smaller
    ones are no better (``patience``); ``rule`` picks one.  Folds are solved to ``cv_tol``, the network that is kept to
    ``tol``.  Gates are found, and features standardised or whitened, on each fold's own rows.  β is in units of all the
    data: a fold with a share s of the weight is trained at s·β.

    Fitted, besides the attributes of `ProvenClassifier`: ``betas_`` (decreasing), ``cv_scores_`` (folds,
    betas), ``cv_results_`` (as scikit-learn's searches have them, with the folds' ``relative_gap`` and the ``tol`` they
    were solved to), ``beta_``, and ``path_``, the solutions on all the data at ``betas_``: to ``cv_tol``, but for that
    of ``beta_``.  A search that Ctrl-C or ``max_seconds``, a limit of the whole fit, ends early has those that it
    reached, and warns.
    """


def _check_labels(y: Any) -> None:
    """ValueError for labels that are missing, which scikit-learn has no words for, or numbers beside text."""
    cells = np.asarray(y, dtype=object if isinstance(y, (list, tuple)) else None)  # of a list, NaN would become text
    if cells.dtype != object or cells.ndim == 0:
        return
    labels = cells.ravel().tolist()
    missing = next((k for k, label in enumerate(labels) if _is_missing(label)), None)
    if missing is not None:
        raise ValueError(f"y: entry {missing} is {labels[missing]!r}, no label; leave such samples out.")
    text = [isinstance(label, str) for label in labels]
    if any(text) and not all(text):
        other = labels[text.index(False)]
        raise ValueError(f"y: some labels are text, others are not, such as {other!r}; make all of them text.")


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)  # NaN
    except TypeError:  # pandas.NA, of which nobody knows what it equals
        return True
    except (ValueError, RuntimeError):  # several at once, an array or tensor: scikit-learn has words for it
        return False


def _times_class_weight(
    weight: NDArray[np.float64] | None, code: NDArray[np.intp], classes: NDArray[Any], class_weight: Any
) -> NDArray[np.float64] | None:
    """Sample weights times class weights.  "balanced": every class has the same total, weights of samples counted."""
    if class_weight is None:
        return weight
    if code.ndim > 1:
        raise ValueError("class_weight: with readout='tokens' a sample has labels of several classes; leave it None.")
    each = np.ones(len(code)) if weight is None else weight
    if class_weight == "balanced":
        totals = sums_of_all(np.bincount(code, weights=each, minlength=len(classes)))
        factor = totals.sum() / (len(classes) * totals)
    elif isinstance(class_weight, Mapping):
        labels = classes.tolist()
        unknown = [label for label in class_weight if label not in labels]
        if unknown:
            raise ValueError(f"class_weight: {unknown} are not among the classes {labels}.")
        given = [class_weight.get(label, 1.0) for label in labels]
        factor = np.array([float(one) if isinstance(one, Real) else np.nan for one in given])
        if not np.all((factor >= 0) & np.isfinite(factor)):
            raise ValueError(
                f"class_weight: finite numbers that are not negative are needed, got {dict(class_weight)}."
            )
    else:
        raise ValueError(f"class_weight: it must be a dict, 'balanced' or None, got {class_weight!r}.")
    return each * factor[code]
