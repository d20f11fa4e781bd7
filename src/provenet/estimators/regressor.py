"""Regression: one target or many, jointly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from provenet.blocks.base import Block
from provenet.estimators.base import ProvenEstimator, SingleBeta, TrainingData, read_weights
from provenet.estimators.search import BetaSearch
from provenet.gauges.prox.mixed import WEIGHT_DECAY


class _Regressor(RegressorMixin, ProvenEstimator):
    """Predictions have the shape of the y of the fit: (n,) or (n, c); (n, s) or (n, s, c) for tokens."""

    losses = ("squared", "huber")
    delta: float

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


class ProvenRegressor(SingleBeta, _Regressor):
    """A two-layer regressor trained to a proven optimum.

    Minimises Σ_i w_i ℓ(f(x_i), y_i) + β/2 (‖W₁‖² + ‖W₂‖²): sums, not means; ``loss="squared"`` has ℓ = ½‖f − y‖².
    ``loss="huber"`` is quadratic within ``delta`` and linear beyond.

    Parameters: ``block`` a name or block object; ``activation`` "gated_relu", "relu" or "linear"; ``beta`` the weight
    decay; ``n_gates`` how many gates to sample (or gate vectors of your own; for "relu" gates are activation patterns,
    and "all" enumerates every one there is, so that the certificate speaks of all ReLU networks); ``readout`` "mean"
    over the tokens of a block that has them, or "tokens", with a target for each, y (n, s) or (n, s, c);
    ``fit_intercept``, for "mlp" alone, gives X a column of ones, whose weights are penalised like the others (a block
    object has its own settings); ``solver``, ``tol``, ``max_steps`` and ``max_seconds`` as in `provenet.solve`;
    ``warm_start`` begins at the last solution where sizes and gates agree; ``verbose=1`` prints each look at the gap;
    ``whiten`` (ZCA, for tables with no more samples than features) makes XXᵀ = I first, and does the same to new data;
    ``penalty`` the norms (C, R) of β/2 Σ_j (‖u_j‖_C² + ‖v_j‖_R²), as in `provenet.formulate`, if not weight decay's.

    Fitted: ``network_`` (a torch module), ``certificate_``, ``dual_gap_`` (the certificate's absolute gap),
    ``n_iter_``, ``solution_``, ``sample_shape_``, ``n_features_in_``.
    """

    def __init__(
        self,
        block: str | Block = "mlp",
        activation: str = "gated_relu",
        beta: float = 0.1,
        n_gates: int | Any = 100,
        loss: str = "squared",
        delta: float = 1.0,
        readout: str = "mean",
        fit_intercept: bool = True,
        solver: str | Any = "auto",
        tol: float = 1e-4,
        max_steps: int | None = None,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = 0,
        whiten: bool = False,
        penalty: tuple[float, float] = WEIGHT_DECAY,
    ):
        self.block = block
        self.activation = activation
        self.beta = beta
        self.n_gates = n_gates
        self.loss = loss
        self.delta = delta
        self.readout = readout
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.whiten = whiten
        self.penalty = penalty


class ProvenRegressorCV(BetaSearch, _Regressor):
    """`ProvenRegressor` with β chosen by cross-validation, then trained on all the data and certified.

    ``betas``: how many, log-spaced from β_max down to ``beta_ratio``·β_max, or the values.  ``cv`` and ``scoring`` as
    in scikit-learn (R² by default).  β is in units of all the data: a fold with a share s of the weight is trained at
    s·β; with ``whiten`` each fold has a whitening of its own.  The other parameters are those of `ProvenRegressor`.

    Fitted, besides the attributes of `ProvenRegressor`: ``betas_`` (decreasing), ``cv_scores_`` (folds, betas),
    ``beta_``, and ``path_``, the solutions on all the data from ``betas_[0]`` down to ``beta_``.
    """

    def __init__(
        self,
        block: str | Block = "mlp",
        activation: str = "gated_relu",
        betas: int | Sequence[float] = 20,
        beta_ratio: float = 1e-3,
        cv: Any = 5,
        scoring: Any = None,
        n_gates: int | Any = 100,
        loss: str = "squared",
        delta: float = 1.0,
        readout: str = "mean",
        fit_intercept: bool = True,
        solver: str | Any = "auto",
        tol: float = 1e-4,
        max_steps: int | None = None,
        max_seconds: float | None = None,
        verbose: int = 0,
        random_state: Any = 0,
        whiten: bool = False,
        penalty: tuple[float, float] = WEIGHT_DECAY,
    ):
        self.block = block
        self.activation = activation
        self.betas = betas
        self.beta_ratio = beta_ratio
        self.cv = cv
        self.scoring = scoring
        self.n_gates = n_gates
        self.loss = loss
        self.delta = delta
        self.readout = readout
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.verbose = verbose
        self.random_state = random_state
        self.whiten = whiten
        self.penalty = penalty
