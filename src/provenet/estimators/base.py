"""What classifiers and regressors share: data → problem → solution → network."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from provenet.blocks import formulate, make_block
from provenet.blocks.base import Block
from provenet.certificates import Certificate
from provenet.data.validation import as_weights
from provenet.problem import Problem
from provenet.solvers import Record, Solution, Status, solve
from provenet.solvers.loop import Callback
from provenet.variable import Factors

_BATCH_BYTES = 64 * 2**20  # of hidden values in one batch of a prediction


@dataclass(frozen=True)
class TrainingData:
    """X (n, …), the user's y, what the network is to output (n, …, c), and the weights (n,) or None.

    ``weight`` is what multiplies the loss; ``sample_weight`` is what the user gave, and scores use.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    targets: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    sample_weight: NDArray[np.float64] | None


class ProvenEstimator(BaseEstimator):
    """Trains one block to a proven optimum.

    Settings are those of `provenet.formulate` and `provenet.solve`.  A kind of estimator says how targets are read
    (`_read`) and what its loss is; a search over β says how to train (`_train`).
    """

    block: str | Block
    activation: str
    n_gates: int | Any
    loss: str
    readout: str
    fit_intercept: bool
    solver: str | Any
    tol: float
    max_steps: int | None
    max_seconds: float | None
    verbose: int
    random_state: Any

    network_: nn.Module
    certificate_: Certificate
    solution_: Solution
    dual_gap_: float
    n_iter_: int

    _watcher: Callback | None = None  # set for a while by `watched`

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train on X (n, d) and y.  A ``sample_weight`` of two counts as the sample repeated, of zero as left out."""
        data = self._read(without_torch(X), without_torch(y), without_torch(sample_weight))
        self._keep(self._train(data))
        self._warn_if_short()
        return self

    @abstractmethod
    def _read(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Validated data, with targets as the loss wants them."""

    @abstractmethod
    def _train(self, data: TrainingData) -> Solution: ...

    def _loss_settings(self) -> dict[str, Any]:
        return {}

    def _formulate(self, data: TrainingData, beta: float, seed: int, rows: Any = slice(None)) -> Problem:
        """The problem of these rows of the data."""
        return formulate(
            make_block(self.block, fit_intercept=self.fit_intercept),
            data.X[rows],
            data.targets[rows],
            activation=self.activation,
            gates=_plain_number(self.n_gates),
            loss=self.loss,
            beta=_plain_number(beta),
            readout=self.readout,
            seed=seed,
            sample_weight=None if data.weight is None else data.weight[rows],
            loss_settings=self._loss_settings(),
        )

    def _callback(self, from_verbose: int) -> Callback | None:
        """Who hears of each look at the gap."""
        return self._watcher or (print_record if self.verbose >= from_verbose else None)

    def _solve(self, problem: Problem, start: Factors | None = None) -> Solution:
        callback = self._callback(from_verbose=1)
        return solve(problem, self.solver, self.tol, self.max_steps, self.max_seconds, start, callback)

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _keep(self, solution: Solution) -> None:
        self.solution_ = solution
        self.network_ = solution.network()
        self.certificate_ = solution.certificate
        self.dual_gap_ = solution.certificate.gap
        self.n_iter_ = solution.steps

    def _warn_if_short(self) -> None:
        status = self.solution_.status
        if status is not Status.SOLVED:
            warnings.warn(
                f"{type(self).__name__} stopped ({status.value}) with a certified relative gap of "
                f"{self.certificate_.relative_gap:.2e}, above tol={self.tol:g}. {status.advice}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _outputs(self, X: Any) -> NDArray[np.float64]:
        """The network's outputs (n, …, c), in float64, batch by batch."""
        check_is_fitted(self)
        X = validate_data(self, without_torch(X), reset=False, allow_nd=True)
        widest = max(self.network_.get_parameter("first").shape[0], int(np.prod(X.shape[1:])))
        rows = max(1, _BATCH_BYTES // (8 * widest))
        with torch.no_grad():
            batches = [
                self.network_(torch.from_numpy(np.array(X[i : i + rows], dtype=np.float64))).numpy()
                for i in range(0, X.shape[0], rows)
            ]
        return np.concatenate(batches)

    def _html_repr(self) -> str:
        """scikit-learn's diagram and, once fitted, the certificate."""
        proof = self.certificate_._repr_html_() if hasattr(self, "certificate_") else ""
        return estimator_html_repr(self) + proof


class SingleBeta:
    """Training at one ``beta``, from the last solution where ``warm_start`` asks for it and it fits."""

    beta: float
    warm_start: bool

    def _train(self: Any, data: TrainingData) -> Solution:
        problem = self._formulate(data, self.beta, self._seed())
        last = getattr(self, "solution_", None) if self.warm_start else None
        return self._solve(problem, None if last is None else carried_over(last, problem))


def carried_over(last: Solution, problem: Problem) -> Factors | None:
    """The neurons of ``last`` in the units of ``problem``; None where sizes or gates differ."""
    old, new = last.problem, problem
    if old.block != new.block or old.program.operator.stack_shape != new.program.operator.stack_shape:
        return None
    if new.gate_vectors is not None and not (
        old.gate_vectors is not None and torch.equal(old.gate_vectors, new.gate_vectors)
    ):
        return None
    return last.factors.scaled((old.unit / new.unit) ** 0.5)


def read_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    weight = as_weights(sample_weight, n)
    return None if weight is None else weight.numpy()


def without_torch(value: Any) -> Any:
    """Tensors as arrays, sharing memory where they can; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def print_record(record: Record) -> None:
    print(f"step {record.step:>6}  primal {record.primal:.8e}  relative gap {record.relative_gap:.2e}")


def _plain_number(value: Any) -> Any:
    """numpy's numbers as Python's; anything else as it is, for `formulate` to judge."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


@contextmanager
def watched(estimator: ProvenEstimator, callback: Callback) -> Iterator[None]:
    """While this lasts, fits of the estimator tell ``callback`` of each look at the gap; a true answer stops them."""
    estimator._watcher = callback
    try:
        yield
    finally:
        del estimator._watcher
