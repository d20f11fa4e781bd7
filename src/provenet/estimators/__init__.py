"""The scikit-learn protocol."""

from provenet.estimators.classifier import ProvenClassifier, ProvenClassifierCV
from provenet.estimators.regressor import ProvenRegressor, ProvenRegressorCV

__all__ = ["ProvenClassifier", "ProvenClassifierCV", "ProvenRegressor", "ProvenRegressorCV"]
