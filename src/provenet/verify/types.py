"""What is checked: data, a network's weights, and what is claimed of them; and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.verify.losses import LOSSES
from provenet.verify.norms import checked
from provenet.verify.standard import Standard

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Data:
    """What a network is judged on.

    Parameters
    ----------
    X : array
        (n, d), tokens (n, s, d) or images (n, channels, …), by block; the transformed tokens h(X) for "token_map".
    Y : array
        (n, c) or (n,), class indices (n,) for softmax; (n, s, c) or (n, s) with ``readout="tokens"``.
    sample_weight : array (n,), optional
        By default all ones.
    mask : array (n, s), optional
        Which tokens are there, by default all.
    """

    X: Any
    Y: Any
    sample_weight: Any = None
    mask: Any = None

    def used(self) -> tuple[NDArray[Any], NDArray[Any], Array, NDArray[np.bool_] | None]:
        """The samples that count, X and Y, how much, and which of their tokens are there."""
        X, Y = np.asarray(self.X), np.asarray(self.Y)
        w = np.ones(len(X)) if self.sample_weight is None else np.asarray(self.sample_weight, dtype=np.float64)
        if w.shape != (len(X),) or not ((w >= 0) & (w < np.inf)).all():
            raise ValueError("sample_weight: one weight a sample, finite and not negative, is needed.")
        if Y.ndim == 0 or len(Y) != len(X):
            raise ValueError(f"Y: {len(X)} samples need as many targets, got shape {Y.shape}.")
        kept = w > 0
        return X[kept], Y[kept], w[kept], None if self.mask is None else np.asarray(self.mask, dtype=bool)[kept]


@dataclass(frozen=True)
class Weights:
    """The network.

    Parameters
    ----------
    first, second : arrays (N, p), (N, q)
        The two layers, a row a neuron.
    gates : array (N, p), optional
        Of a gated network.
    group : array (N,), optional
        The feature group of each neuron.
    bias : array (c,), optional
        Added to every output, where the statement has a free intercept; None is zero.
    """

    first: Any
    second: Any
    gates: Any = None
    group: Any = None
    bias: Any = None


@dataclass(frozen=True)
class Statement:
    """Which networks are meant, and what their objective is, in the user's own units.

    Parameters
    ----------
    loss : str
        "squared", "softmax", "logistic" or "huber".
    beta : float
        Weight decay of the sum over samples.
    block : str
        "mlp" by default.
    settings : mapping
        Those of the block.
    delta : float
        Of "huber".
    readout : str
        "mean", or one output a token: "tokens".
    gate_vectors : array (P, p), optional
        All gates of the problem, by default the network's own.
    gate_group : array (P,), optional
        The feature group of each, for "bfno".
    relu : bool
        The neurons are their own gates, and gate_vectors name the activation patterns that networks may have.
    all_arrangements : bool
        With ``relu``: they may have any.  In the plane, where p = 2, these are found; elsewhere they have a rough bound
        only.
    penalty : (C, R)
        The norms, each 1, 2 or inf, of β/2 Σ_j (‖u_j‖_C² + ‖v_j‖_R²); (2, 2) is weight decay.
    free_intercept : bool
        Networks have a bias of their outputs, any, that costs nothing.
    standard : Standard, optional
        Data are raw, and the problem is of what this makes of them; its units are those of standardised data.
    """

    loss: str
    beta: float
    block: str = "mlp"
    settings: Mapping[str, Any] = field(default_factory=dict)
    delta: float = 1.0
    readout: str = "mean"
    gate_vectors: Any = None
    gate_group: Any = None
    relu: bool = False
    all_arrangements: bool = False
    penalty: tuple[float, float] = (2, 2)
    free_intercept: bool = False
    standard: Standard | None = None

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"loss: {self.loss!r} is unknown; choose one of {', '.join(map(repr, LOSSES))}.")
        if not (0 < self.beta < np.inf and 0 < self.delta < np.inf):
            raise ValueError(
                f"beta, delta: they must be positive, finite numbers, got {self.beta!r} and {self.delta!r}."
            )
        if self.readout not in ("mean", "tokens") or (self.readout == "tokens" and self.block in ("mlp", "cnn")):
            raise ValueError(f"readout: 'mean', or 'tokens' for blocks that have tokens, got {self.readout!r}.")
        if self.all_arrangements and not (self.relu and self.groups == 1):
            raise ValueError("all_arrangements: it goes with relu and blocks without groups.")
        if self.all_arrangements and self.gate_vectors is not None:
            raise ValueError("gate_vectors, all_arrangements: give one of the two.")
        if checked(self.penalty) != (2, 2) and self.block not in ("mlp", "cnn"):
            raise ValueError(f"penalty: {self.penalty} goes with blocks 'mlp' and 'cnn'.")

    @property
    def groups(self) -> int:
        """Of features, each with its own neurons and outputs."""
        return int(self.settings.get("groups", 1))


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Parameters
    ----------
    primal : float
        The network's objective.
    dual : float
        A lower bound of every such network's.
    polar_max : float
        The largest σ_max(A_k*Θ).
    exact : bool
        False: ``polar_max`` is a bound that may be far above the number itself, as for ReLU with several outputs in
        more than three dimensions; then a large gap says nothing.
    """

    primal: float
    dual: float
    polar_max: float
    exact: bool = True

    @property
    def gap(self) -> float:
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.primal), float(np.finfo(np.float64).tiny))
