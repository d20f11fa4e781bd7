"""How a network does on data: what it should say, what it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score
from torch import Tensor

from provenet.blocks.outputs import batch_size, outputs_in_batches
from provenet.problem import Problem
from provenet.report.canvas import plain
from provenet.solvers import Solution

Predict = Callable[[Any], Any]


@dataclass(frozen=True)
class Fit:
    """points: samples (n, …).  truth, predicted: class indices (m,) if there are ``labels``, else values (m, c).

    m counts samples, or the tokens of all of them that are there; ``unit`` says which.
    """

    points: np.ndarray
    truth: np.ndarray
    predicted: np.ndarray
    labels: tuple[str, ...] | None
    at: Callable[[np.ndarray], np.ndarray]  # new samples (m, …) → class indices (m,) or values (m, c)
    unit: str = "sample"

    @property
    def n_right(self) -> int:
        return int((self.truth == self.predicted).sum())

    @property
    def score(self) -> float:
        """Accuracy, or R² (NaN for a constant target)."""
        if self.labels is not None:
            return float(accuracy_score(self.truth, self.predicted))
        if not np.ptp(self.truth, axis=0).any():
            return float("nan")
        return float(r2_score(self.truth, self.predicted, multioutput="variance_weighted"))

    def confusion(self) -> np.ndarray:
        """(K, K): rows are the truth, columns the prediction."""
        return np.asarray(confusion_matrix(self.truth, self.predicted, labels=range(len(self.labels or ()))))


def evaluate(
    solution: Solution,
    X: Any = None,
    y: Any = None,
    predict: Predict | None = None,
    classes: Sequence[Any] | None = None,
    mask: Any = None,
) -> Fit:
    """The fit on (X, y), or on the problem's own data where they are not given.

    ``predict`` maps X to labels or values; without it the network's outputs are read, the largest of a row being its
    class.  ``classes`` are the labels in the order of the outputs.  ``mask`` says which tokens of X are there.
    """
    problem = solution.problem
    if (X is None) != (y is None):
        raise ValueError("X, y: give both, or neither for the data of the problem.")
    there = problem.mask if X is None else None if mask is None else torch.as_tensor(mask).bool()
    if classes is None and problem.loss.name not in ("softmax", "logistic"):
        return _evaluate_values(solution, X, y, predict or _speak(solution, there, X is not None), there)
    if classes is None and _several_labels(problem):  # each label has a probability of its own
        speak = _speak(solution, there, X is not None)
        return _evaluate_values(solution, X, y, predict or (lambda samples: expit(speak(samples))), there)
    names = np.array(_numbered(problem) if classes is None else classes, dtype=object)
    speak = _speak(solution, there, X is not None)
    if X is None:
        X, y = problem.X.numpy(), names[_target_classes(problem)]
    own = predict or (lambda samples: names[_output_classes(problem, speak(samples))])

    def labels_of(samples: Any) -> list[Any]:
        return np.asarray(own(samples)).ravel().tolist()

    kept = _kept(problem, there)
    truth, said = _chosen(np.asarray(y).ravel().tolist(), kept), _chosen(labels_of(X), kept)
    if classes is None and predict is not None:
        names = np.unique(np.array(truth + said))
    index = {label: i for i, label in enumerate(dict.fromkeys([*names.tolist(), *truth, *said]))}

    def indices(labels: list[Any]) -> np.ndarray:
        return np.array([index.get(label, len(index)) for label in labels], dtype=int)

    shown = tuple(plain(label) for label in index)
    at = lambda new: indices(labels_of(_like(X, new)))  # noqa: E731
    return Fit(_array(X), indices(truth), indices(said), shown, at, _unit(problem))


def _evaluate_values(solution: Solution, X: Any, y: Any, predict: Predict, there: Tensor | None) -> Fit:
    problem = solution.problem
    if X is None:
        X, y = problem.X.numpy(), problem.loss.target.numpy()
    width = problem.program.operator.output_shape[-1]
    kept = _kept(problem, there)

    def values(samples: Any) -> np.ndarray:
        return np.asarray(predict(samples), dtype=float).reshape(-1, width)

    truth, said = np.asarray(y, dtype=float).reshape(-1, width), values(X)
    if kept is not None:
        truth, said = truth[kept], said[kept]
    return Fit(_array(X), truth, said, None, lambda new: values(_like(X, new)), _unit(problem))


def training_score(solution: Solution, classify: bool) -> float:
    """Accuracy or R² of a solution on the data of its problem."""
    return evaluate(solution, classes=_numbered(solution.problem) if classify else None).score


def _speak(solution: Solution, there: Tensor | None, raw: bool) -> Predict:
    """Samples (m, …) → what the network itself says, (m, …, c): of the user's samples, or of the problem's own."""
    problem = solution.problem
    network = solution.network() if raw else problem.network(solution.factors)
    size = batch_size(problem.block, network, problem.X)
    return lambda samples: outputs_in_batches(network, _array(samples), there, size).numpy()


def _unit(problem: Problem) -> str:
    return "token" if problem.readout == "tokens" else "sample"


def _kept(problem: Problem, there: Tensor | None) -> np.ndarray | None:
    """Which of all tokens in a row, (n·s,), are judged; None: everything."""
    return None if there is None or problem.readout != "tokens" else there.numpy().ravel()


def _chosen(values: list[Any], kept: np.ndarray | None) -> list[Any]:
    return values if kept is None else [value for value, keep in zip(values, kept, strict=True) if keep]


def _several_labels(problem: Problem) -> bool:
    """Samples with no label, or more than one: no class to choose."""
    target = problem.loss.target
    return target.shape[-1] > 1 and problem.loss.name == "logistic" and not bool((target.sum(-1) == 1).all())


def _numbered(problem: Problem) -> range:
    """Classes without names; one output tells two apart."""
    return range(max(2, problem.program.operator.output_shape[-1]))


def _target_classes(problem: Problem) -> np.ndarray:
    target = problem.loss.target.numpy()
    return _classes(target, _halfway(target))


def _output_classes(problem: Problem, given: np.ndarray) -> np.ndarray:
    """A logit is cut at 0, a fitted label halfway between the labels."""
    return _classes(given, 0.0 if problem.loss.name == "logistic" else _halfway(problem.loss.target.numpy()))


def _classes(values: np.ndarray, cut: float) -> np.ndarray:
    several = values.shape[-1] > 1
    return values.argmax(axis=-1).ravel() if several else (values > cut).astype(int).ravel()


def _halfway(target: np.ndarray) -> float:
    return float(target.min() + target.max()) / 2


def _array(X: Any) -> np.ndarray:
    """Numbers as they are in float32 or float64, which may be many; others as float64."""
    array = np.asarray(X)
    return array if array.dtype in (np.float32, np.float64) else array.astype(float)


def _like(X: Any, samples: np.ndarray) -> Any:
    """New samples in the clothes of X: a data frame keeps its column names."""
    return type(X)(samples, columns=X.columns) if hasattr(X, "columns") else samples
