"""Who is compared: scikit-learn's usual choices, and provenet's estimators with no argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn import ensemble, linear_model, neural_network, svm
from sklearn.model_selection import GridSearchCV

from provenet import estimators
from provenet.bench.tables import Task

Make = Callable[[int], Any]  # of a seed

_NETWORKS = {"hidden_layer_sizes": [(50,), (100,)], "alpha": [1e-4, 1e-2, 1.0]}
_KERNELS = {"C": [0.1, 1.0, 10.0, 100.0, 1000.0], "gamma": ["scale", 0.01, 0.1]}


def _grid(model: Any, choices: Mapping[str, Any]) -> Any:
    """Three folds: the smallest classes have as many rows to train on."""
    return GridSearchCV(model, dict(choices), cv=3)


CLASSIFIERS: dict[str, Make] = {
    "LogisticRegressionCV": lambda seed: linear_model.LogisticRegressionCV(Cs=10, cv=3, max_iter=1000),
    "SVC grid": lambda seed: _grid(svm.SVC(), _KERNELS),
    "MLPClassifier()": lambda seed: neural_network.MLPClassifier(random_state=seed),
    "MLPClassifier grid": lambda seed: _grid(neural_network.MLPClassifier(max_iter=500, random_state=seed), _NETWORKS),
    "RandomForest": lambda seed: ensemble.RandomForestClassifier(random_state=seed),
    "HistGradientBoosting": lambda seed: ensemble.HistGradientBoostingClassifier(random_state=seed),
    "ProvenClassifier()": lambda seed: estimators.ProvenClassifier(random_state=seed),
    "ProvenClassifierCV()": lambda seed: estimators.ProvenClassifierCV(random_state=seed),
}
REGRESSORS: dict[str, Make] = {
    "RidgeCV": lambda seed: linear_model.RidgeCV(alphas=np.logspace(-4, 4, 9)),
    "SVR grid": lambda seed: _grid(svm.SVR(), _KERNELS),
    "MLPRegressor()": lambda seed: neural_network.MLPRegressor(random_state=seed),
    "MLPRegressor grid": lambda seed: _grid(neural_network.MLPRegressor(max_iter=500, random_state=seed), _NETWORKS),
    "RandomForest": lambda seed: ensemble.RandomForestRegressor(random_state=seed),
    "HistGradientBoosting": lambda seed: ensemble.HistGradientBoostingRegressor(random_state=seed),
    "ProvenRegressor()": lambda seed: estimators.ProvenRegressor(random_state=seed),
    "ProvenRegressorCV()": lambda seed: estimators.ProvenRegressorCV(random_state=seed),
}
# whom ours are to be no worse than
RIVALS: dict[Task, list[tuple[str, str]]] = {
    "classification": [("ProvenClassifier()", "MLPClassifier()"), ("ProvenClassifierCV()", "MLPClassifier grid")],
    "regression": [("ProvenRegressor()", "MLPRegressor()"), ("ProvenRegressorCV()", "MLPRegressor grid")],
}


def entrants(task: Task) -> dict[str, Make]:
    return CLASSIFIERS if task == "classification" else REGRESSORS
