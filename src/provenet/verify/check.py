"""The verdict on a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.verify.cones import cone_bound, is_reached, sectors
from provenet.verify.forms import Rows, make_form
from provenet.verify.losses import EPS, LOSSES, best_squared_scale, targets
from provenet.verify.losses import conjugate as conjugate_of
from provenet.verify.norms import checked, pull_of_one, squared_lengths, strongest

Array = NDArray[np.float64]
_BATCH_NUMBERS = 2**17  # of X at a time


@dataclass(frozen=True)
class Verdict:
    """The network's objective, a lower bound of every such network's, and the largest σ_max(A_k*Θ).

    ``exact`` False: ``polar_max`` is a bound that may be far above the number itself, as for ReLU with several outputs
    in more than three dimensions; then a large gap says nothing.
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


def verify(
    X: Any,
    Y: Any,
    first: Any,
    second: Any,
    gates: Any = None,
    *,
    block: str = "mlp",
    loss: str,
    beta: float,
    sample_weight: Any = None,
    gate_vectors: Any = None,
    delta: float = 1.0,
    readout: str = "mean",
    mask: Any = None,
    group: Any = None,
    gate_group: Any = None,
    groups: int = 1,
    fit_intercept: bool = False,
    scale: str | None = None,
    grid: Any = None,
    window: int = 3,
    kernel: Any = 3,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    pool: Any = 1,
    relu: bool = False,
    all_arrangements: bool = False,
    penalty: Any = (2, 2),
    dual: Any = None,
) -> Verdict:
    """The verdict on a network's weights and its data, in the user's own units.

    X (n, d), tokens (n, s, d) or images (n, channels, …), by ``block``; the transformed tokens h(X) for "token_map".
    Y (n, c) or (n,), class indices (n,) for softmax; (n, s, c) or (n, s) with ``readout="tokens"``.
    first (N, p), second (N, q), gates (N, p) or None for the linear network.  gate_vectors (P, p): all gates of the
    problem; by default the network's own.  group (N,), gate_group (P,): the feature group of each neuron and gate, for
    "bfno" with its ``groups``.  mask (n, s): which tokens are there, by default all.
    loss: "squared", "softmax", "logistic" or "huber" (with its ``delta``).  The rest are settings of the blocks.
    relu: the neurons are their own gates, and gate_vectors name the activation patterns that networks may have.  In the
    plane, where p = 2, ``all_arrangements`` finds all there are.
    penalty (C, R): the norms, each 1, 2 or inf, of β/2 Σ_j (‖u_j‖_C² + ‖v_j‖_R²); (2, 2) is weight decay.
    dual, like Y: a dual point Θ that may prove more than the gradient of the loss at the network; the better counts.
    """
    if loss not in LOSSES:
        raise ValueError(f"loss: {loss!r} is unknown; choose one of {', '.join(map(repr, LOSSES))}.")
    if not (0 < beta < np.inf and 0 < delta < np.inf):
        raise ValueError(f"beta, delta: they must be positive, finite numbers, got {beta!r} and {delta!r}.")
    if readout not in ("mean", "tokens") or (readout == "tokens" and block in ("mlp", "cnn")):
        raise ValueError(f"readout: 'mean', or 'tokens' for blocks that have tokens, got {readout!r}.")
    if relu and gates is not None:
        raise ValueError("gates: a ReLU neuron is its own gate; leave them out.")
    if all_arrangements and not (relu and groups == 1):
        raise ValueError("all_arrangements: it goes with relu and blocks without groups.")
    norms = checked(penalty)
    if norms != (2, 2) and (block != "mlp" or (relu and norms != (2, 1))):
        raise ValueError(f"penalty: {penalty} goes with block 'mlp', and for ReLU no other than (2, 1) is judged.")
    X, Y, mask, w = _used(X, Y, mask, sample_weight)
    first, second = (np.asarray(a, dtype=np.float64) for a in (first, second))
    settings = {"fit_intercept": fit_intercept, "scale": scale, "grid": grid, "window": window, "kernel": kernel}
    settings |= {"stride": stride, "padding": padding, "dilation": dilation, "pool": pool}
    form = make_form(block, X.shape, settings)
    data = _Samples(form, X, readout, mask, relu, norms)
    if relu and gate_vectors is None:
        gate_vectors, gate_group = (data.sectors(first.shape[1]), None) if all_arrangements else (first, group)
    elif all_arrangements:
        raise ValueError("gate_vectors, all_arrangements: give one of the two.")
    parts = _Parts(groups, X.shape[-1], len(first), gates, gate_vectors, group, gate_group)

    data.check_weights(first, second, parts)
    prediction = data.outputs(first, second, parts)
    if not np.isfinite(prediction).all():
        raise ValueError("first, second: the network's outputs on X are not finite; there is nothing to verify.")
    Y = targets(Y, loss, prediction.shape[-1], tokens=readout == "tokens")
    if Y.shape != prediction.shape:
        raise ValueError(f"Y: it has shape {Y.shape}, the network's outputs {prediction.shape}.")
    w = data.row_weights(w)
    rows = (-1, Y.shape[-1])
    value, theta, conjugate = LOSSES[loss](prediction.reshape(rows), Y.reshape(rows), delta)
    decay = squared_lengths(first, norms[0]) + squared_lengths(second, norms[1])
    primal = float((w * value).sum()) + beta / 2 * decay

    sizes = first.shape[1], second.shape[1]

    def polar_of(slope: Array) -> float:
        """The largest polar at Θ, the gradient of the weighted loss."""
        unit = 2.0 ** np.clip(np.frexp(np.abs(slope).max())[1], -1000, 1000)  # squares of what is tiny would vanish
        return float(unit * max(data.polar(b, slope / unit, sizes, parts) for b in range(groups)))

    def scale_of(slope: Array, polar: float) -> float:
        largest = beta / polar if polar > 0 else np.inf
        return best_squared_scale(slope, Y.reshape(rows), w, largest) if loss == "squared" else min(1.0, largest)

    polar_max = polar_of((w * theta).reshape(Y.shape))
    best = -float((w * conjugate(scale_of(theta, polar_max))).sum())
    if dual is not None:
        other = np.asarray(dual, dtype=np.float64)
        if other.shape != Y.shape or not np.isfinite(other).all():
            raise ValueError(f"dual: finite numbers of the targets' shape {Y.shape} are needed, got {other.shape}.")
        apart = other.reshape(rows) / w
        scaled = scale_of(apart, polar_of(other)) * apart
        best = max(best, -float((w * conjugate_of(loss, scaled, Y.reshape(rows), delta)).sum()))
    return Verdict(primal, best, polar_max, data.exact)


def _used(X: Any, Y: Any, mask: Any, sample_weight: Any) -> tuple[NDArray[Any], NDArray[Any], Any, Array]:
    """The samples that count, and how much."""
    X, Y = np.asarray(X), np.asarray(Y)
    w = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if w.shape != (len(X),) or not ((w >= 0) & (w < np.inf)).all():
        raise ValueError("sample_weight: one weight a sample, finite and not negative, is needed.")
    if Y.ndim == 0 or len(Y) != len(X):
        raise ValueError(f"Y: {len(X)} samples need as many targets, got shape {Y.shape}.")
    if mask is not None:
        mask = np.asarray(mask, dtype=bool)[w > 0]
    return X[w > 0], Y[w > 0], mask, w[w > 0]


class _Parts:
    """What belongs to each feature group: columns of X, neurons, and the gate vectors to be judged."""

    def __init__(
        self, groups: int, d: int, neurons: int, gates: Any, vectors: Any, group: Any, vector_group: Any
    ) -> None:
        self.groups, self.width = groups, d // groups
        if groups > 1 and (group is None or d % groups):
            raise ValueError(f"groups: {groups} of them need group (N,) and a number of features they divide, got {d}.")
        self.gates = None if gates is None else np.asarray(gates, dtype=np.float64)
        self.vectors = None if vectors is None else np.asarray(vectors, dtype=np.float64)
        if groups > 1 and vectors is not None and vector_group is None:
            raise ValueError("gate_group: gate_vectors of a block with groups need it.")
        self.group = np.zeros(neurons, dtype=int) if group is None else np.asarray(group)
        n_vectors = 0 if self.vectors is None else len(self.vectors)
        self.vector_group = np.zeros(n_vectors, dtype=int) if vector_group is None else np.asarray(vector_group)
        for name, found in (("group", self.group), ("gate_group", self.vector_group)):
            if not np.isin(found, np.arange(groups)).all():
                raise ValueError(f"{name}: with {groups} groups its entries are 0 to {groups - 1}.")

    def columns(self, X: Array, b: int) -> Array:
        return X if self.groups == 1 else X[..., b * self.width : (b + 1) * self.width]

    def judged(self, b: int, p: int) -> Array | None:
        """Every gate of the problem and of the network in group b, (P, p); None: no gates at all."""
        if self.gates is None and self.vectors is None:
            return None
        found = []
        if self.vectors is not None:
            found.append(self.vectors[self.vector_group == b])
        if self.gates is not None:
            found.append(self.gates[self.group == b])
        vectors = np.vstack([np.zeros((0, p)), *(g for g in found if len(g))])
        return np.unique(vectors, axis=0) if len(vectors) else np.zeros((1, p))


class _Samples:
    """The samples, batch by batch, and how tokens are read out: outputs (n, t, c) → predictions."""

    def __init__(
        self,
        form: Rows,
        X: NDArray[Any],
        readout: str,
        mask: NDArray[np.bool_] | None,
        relu: bool,
        norms: tuple[float, float],
    ) -> None:
        self.form, self.X, self.readout, self.relu, self.norms = form, X, readout, relu, norms
        self.exact = True  # until a bound of the polar is a rough one
        self.size = min(max(_BATCH_NUMBERS // X[0].size, 16), 4096)
        self.mask = mask
        if mask is not None and (X.ndim != 3 or mask.shape != X.shape[:2] or not mask.any(axis=1).all()):
            raise ValueError(f"mask: (n, s) with a token in every sample is needed, got shape {mask.shape}.")

    def batches(self) -> Iterator[tuple[slice, Array]]:
        for i in range(0, len(self.X), self.size):
            rows = slice(i, min(i + self.size, len(self.X)))
            x = self.X[rows].astype(np.float64)
            if self.mask is not None:
                x = np.where(self.mask[rows][..., None], x, 0.0)
            if not np.isfinite(x).all():
                raise ValueError("X: it has entries that are not finite.")
            yield rows, x

    def share(self, rows: slice, tokens: int) -> Array:
        """How much each token counts in the prediction, (b, t) for the mean readout."""
        if self.mask is None:
            return np.full((rows.stop - rows.start, tokens), 1 / tokens)
        there = self.mask[rows]
        return there / there.sum(axis=1, keepdims=True)

    def check_weights(self, first: Array, second: Array, parts: _Parts) -> None:
        """Raise where a neuron's weights are not those of the block."""
        ready = self.form.prepare(parts.columns(self.X[:1].astype(np.float64), 0))
        everywhere = np.ones((1, self.form.rho(ready)), dtype=bool)
        p, each = self.form.slope(ready, everywhere, np.zeros((1, self.form.tokens(ready), 1))).shape
        for name, weights in (("first", first), ("gates", parts.gates), ("gate_vectors", parts.vectors)):
            if weights is not None and (weights.ndim != 2 or weights.shape[1] != p):
                raise ValueError(f"{name}: {p} numbers a row are needed on this X, got shape {weights.shape}.")
        if second.ndim != 2 or len(second) != len(first) or second.shape[1] == 0 or second.shape[1] % each:
            raise ValueError(f"second: {len(first)} rows of {each}·c numbers are needed on this X, got {second.shape}.")
        if parts.gates is not None and len(parts.gates) not in (0, len(first)):
            raise ValueError(f"gates: {len(first)} neurons need as many, got {len(parts.gates)}.")

    def outputs(self, first: Array, second: Array, parts: _Parts) -> Array:
        """The network's predictions, (n, c) or (n, s, c)."""
        found = []
        for rows, x in self.batches():
            per_group = []
            for b in range(parts.groups):
                mine = parts.group == b
                ready = self.form.prepare(parts.columns(x, b))
                hidden = self.form.hidden(ready, first[mine])
                if self.relu:
                    hidden = np.maximum(hidden, 0)
                elif parts.gates is not None:
                    hidden = hidden * (self.form.hidden(ready, parts.gates[mine]) >= 0)
                per_group.append(self.form.outputs(ready, hidden, second[mine]))
            tokens = np.concatenate(per_group, axis=2)
            if self.readout == "mean":
                tokens = np.einsum("it,itc->ic", self.share(rows, tokens.shape[1]), tokens)
            found.append(tokens)
        return np.concatenate(found)

    def row_weights(self, w: Array) -> Array:
        """How much each row of the predictions counts in the loss, (rows, 1); a missing token's does not."""
        if self.readout == "mean":
            return w[:, None]
        there = np.ones(self.X.shape[:2]) if self.mask is None else self.mask
        return (w[:, None] * there).reshape(-1, 1)

    def polar(self, b: int, theta: Array, weights: tuple[int, int], parts: _Parts) -> float:
        """max_k γ°(A_k*Θ) over the gates of group b, σ_max for weight decay: no less, rounding included."""
        outputs = theta.shape[-1] // parts.groups
        theta = theta[..., b * outputs : (b + 1) * outputs]
        vectors = parts.judged(b, weights[0])
        slopes = np.zeros((1 if vectors is None else len(vectors), *weights))
        sizes = np.zeros(weights)  # what the entries of every slope add up, in absolute value
        bound = self.form.absolute()
        terms = 0
        for rows, x in self.batches():
            x = parts.columns(x, b)
            ready = self.form.prepare(x)
            at = self._at_tokens(theta[rows], rows, ready)
            sides = self.form.hidden(ready, np.zeros((1, weights[0])) if vectors is None else vectors)
            for k in range(len(slopes)):
                slopes[k] += self.form.slope(ready, sides[:, :, k] >= 0, at)
            sizes += bound.slope(bound.prepare(np.abs(x)), np.ones(sides.shape[:2], dtype=bool), np.abs(at))
            terms = max(terms, sides.shape[0] * sides.shape[1])
        # an entry rounds where X is prepared, in the sum over a batch, and where batches are added
        roundings = self.X[0].size + terms + len(self.X) // self.size + 8
        hidden_by_rounding = roundings * EPS * _frobenius_norm(sizes) * pull_of_one(self.norms, *weights)
        polar = hidden_by_rounding + self._largest(slopes, vectors, parts)
        if not np.isfinite(polar):
            raise ValueError("X, Y: at these sizes the dual leaves the range of float64; rescale them.")
        return polar

    def _largest(self, slopes: Array, vectors: Array | None, parts: _Parts) -> float:
        """max_k γ°(G_k), for ReLU over the cones of the patterns, the largest pulls first."""
        norms = np.array([strongest(G, self.norms) for G in slopes])
        rows = self.table() if self.relu and parts.groups == 1 else None
        if rows is None or vectors is None:
            self.exact = not self.relu
            return float(norms.max())
        found, self.exact = 0.0, True
        for k in np.argsort(-norms):
            if norms[k] <= found:
                break
            cone = np.where((rows @ vectors[k] >= 0)[:, None], rows, -rows)
            for G in self._judged_apart(slopes[k]):
                bound = cone_bound(G, cone)
                if bound > found:
                    found, self.exact = bound, is_reached(G, cone, bound)
        return found

    def _judged_apart(self, G: Array) -> list[Array]:
        """With the 1-norm for second layers a neuron writes to one output; else all outputs are judged together."""
        return list(G.T[:, :, None]) if self.norms[1] == 1 else [G]

    def table(self) -> Array | None:
        """The rows of Φ, of unit length, without those of zeros; None where hidden values are no such table's."""
        if type(self.form).hidden is not Rows.hidden:
            return None
        prepared = [self.form.prepare(x) for _, x in self.batches()]
        rows = np.concatenate([part.reshape(-1, part.shape[2]) for part in prepared])
        size = np.abs(rows).max(axis=1)
        rows = rows[size > 0] / size[size > 0, None]
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def sectors(self, p: int) -> Array:
        rows = self.table()
        if p != 2 or rows is None:
            raise ValueError("all_arrangements: they are found in the plane alone; give gate_vectors instead.")
        return sectors(rows)

    def _at_tokens(self, theta: Array, rows: slice, ready: Array) -> Array:
        """Θ of the predictions → Θ of the outputs (b, t, c)."""
        if self.readout == "tokens":
            return theta
        return self.share(rows, self.form.tokens(ready))[:, :, None] * theta[:, None, :]


def _frobenius_norm(G: Array) -> float:
    """Without squares of huge numbers."""
    largest = float(np.abs(G).max())
    return largest * float(np.linalg.norm(G / largest)) if largest > 0 else 0.0
