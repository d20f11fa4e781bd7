"""One head: a path of β judged on validation samples, then all samples at the best one."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from provenet.blocks import CNN, Block, Mixer
from provenet.embeddings import Embedding
from provenet.estimators import ProvenClassifier
from provenet.estimators.choice import seen_enough
from provenet.estimators.scales import ScaleWarning
from provenet.heads.kinds import HEADS, Tokens
from provenet.nn.backbone import as_convolved, weighed
from provenet.solvers import Status

Array = NDArray[Any]
_SEARCH = 0.6  # of the seconds: what the path may take; the rest is for the head that is kept
_ROUGHLY = 3e-2  # the gap along the path
_LOST = 0.3  # a gap that time did not close: smaller β take longer still


@dataclass(frozen=True)
class Samples:
    """X (n, s, d), y (n,), mask (n, s) or None: as heads are trained and judged on them."""

    X: Array
    y: Array
    mask: Array | None

    @staticmethod
    def of(embedding: Embedding) -> Samples:
        if embedding.y is None:
            raise ValueError(f"{embedding.folder}: it has no labels; embed with them (y=, or label=).")
        return Samples(np.asarray(embedding.X), embedding.y, embedding.mask)

    def rows(self, rows: Array) -> Samples:
        return Samples(self.X[rows], self.y[rows], None if self.mask is None else self.mask[rows])

    def and_also(self, other: Samples) -> Samples:
        masks = [each.mask for each in (self, other) if each.mask is not None]
        mask = np.concatenate(masks) if len(masks) == 2 else None
        return Samples(np.concatenate([self.X, other.X]), np.concatenate([self.y, other.y]), mask)

    @property
    def weighed(self) -> Array:
        """X so that means over all tokens are means over those that are there."""
        return self.X if self.mask is None else weighed(self.X, self.mask)

    def read_by(self, block: Block) -> tuple[Array, dict[str, Array]]:
        """X as a head of this block reads it, and the mask for one that takes it."""
        if isinstance(block, CNN):
            return as_convolved(self.X, self.mask, block), {}
        if block.masks and self.mask is not None:
            return self.X, {"mask": self.mask}
        return self.X if isinstance(block, Mixer) else self.weighed, {}


@dataclass(frozen=True)
class Asked:
    """How heads are fitted; ``betas``: how many, or shares of β_max, decreasing."""

    betas: int | tuple[float, ...] = 6
    beta_range: tuple[float, float] = (0.3, 3e-3)
    n_gates: int = 20
    tol: float = 1e-2
    max_seconds: float | None = None
    patience: int = 2
    seed: int = 0

    @property
    def shares(self) -> list[float]:
        if isinstance(self.betas, int):
            return np.geomspace(*self.beta_range, self.betas).tolist()
        return sorted(self.betas, reverse=True)


@dataclass(frozen=True)
class Row:
    """A head in the table: how often it is right, the proof, and what it took.

    Parameters
    ----------
    head : str
        Its name.
    beta : float
        The β chosen, a share of β_max.
    beta_sum : float
        β itself, on all samples.
    validation, top1, top5 : float
        Shares of samples whose label is right: on those set aside, on the test set, and among five there.
    relative_gap : float
        Proven.
    primal : float
        The objective on all samples.
    parameters, neurons : int
        How large it is.
    seconds, cpu : float
        Of the path and the fit, by the clock and of the processor.
    status : str
        Of its certificate.
    why : str
        Of a head that was not fitted: why.
    path : tuple
        β, validation accuracy and relative gap along the path.
    """

    head: str
    beta: float | None = None
    beta_sum: float | None = None
    validation: float | None = None
    top1: float | None = None
    top5: float | None = None
    relative_gap: float | None = None
    primal: float | None = None
    parameters: int | None = None
    neurons: int | None = None
    seconds: float = 0.0
    cpu: float = 0.0
    status: str = "refused"
    why: str = ""
    path: tuple[tuple[float, float, float], ...] = ()  # β, validation accuracy, relative gap

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def fit_head(
    name: str, train: Samples, validation: Samples, whole: Samples, test: Samples | None, grid: Any, asked: Asked
) -> tuple[Row, ProvenClassifier]:
    """The row of this head, and the head; ValueError where its block does not go with the tokens, MemoryError
    where it takes more than there is."""
    began, cpu = time.perf_counter(), time.process_time()
    _, s, d = train.X.shape
    tokens = Tokens(s, d, len(np.unique(whole.y)), grid or (1, s), train.X, train.y)  # by no sample that chooses
    kind = HEADS[name]
    block = kind.block(tokens)
    model = ProvenClassifier(
        block=block,
        activation=kind.activation,
        gates="gaussian",
        n_gates=int(min(asked.n_gates, kind.most_gates)),
        random_state=asked.seed,
        warm_start=True,
    )
    path = _follow(model, train, validation, asked, began)
    best = max(range(len(path)), key=lambda k: path[k][1])
    left = None if asked.max_seconds is None else max(asked.max_seconds - (time.perf_counter() - began), 1.0)
    model.set_params(beta=f"{path[best][0]!r}max", tol=asked.tol, max_seconds=left)
    _quietly(model, whole)
    row = Row(
        head=name,
        beta=path[best][0],
        beta_sum=model.beta_,
        validation=path[best][1],
        top1=None if test is None else right(model, test, 1),
        top5=None if test is None or tokens.c <= 5 else right(model, test, 5),
        relative_gap=model.certificate_.relative_gap,
        primal=model.certificate_.primal,
        parameters=sum(each.numel() for each in model.network_.parameters()),
        neurons=model.solution_.factors.n_neurons,
        seconds=time.perf_counter() - began,
        cpu=time.process_time() - cpu,
        status=str(model.certificate_.status),
        path=tuple(path),
    )
    return row, model


def _follow(
    model: ProvenClassifier, train: Samples, validation: Samples, asked: Asked, began: float
) -> list[tuple[float, float, float]]:
    """(share of β_max, validation accuracy, relative gap) from the largest β down, until smaller ones are no better."""
    shares = asked.shares
    found: list[tuple[float, float, float]] = []
    for k, share in enumerate(shares):
        seconds = None
        if asked.max_seconds is not None:
            left = _SEARCH * asked.max_seconds - (time.perf_counter() - began)
            if left <= 0 and found:
                break
            seconds = max(left / (1 if k + 1 == len(shares) else 2), 0.5)
        model.set_params(tol=max(asked.tol, _ROUGHLY), max_seconds=seconds)
        if k == 0:
            model.set_params(beta=f"{share!r}max")
            _quietly(model, train)
        else:
            model._go_on(model.beta_ * share / shares[k - 1])
            _check_whole(model)
        found.append((share, right(model, validation, 1), model.certificate_.relative_gap))
        scores = np.array([[score for _, score, _ in found]])
        if seen_enough([each for each, _, _ in found], scores, asked.patience) or found[-1][2] > _LOST:
            break
    return found


def _quietly(model: ProvenClassifier, samples: Samples) -> None:
    """The gap that is reached stands in the table, and features are the backbone's: no warning is of either."""
    X, more = samples.read_by(model.block)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, ScaleWarning):
            warnings.simplefilter("ignore", category)
        model.fit(X, samples.y, **more)
    _check_whole(model)


def _check_whole(model: ProvenClassifier) -> None:
    if model.solution_.status is Status.INTERRUPTED:  # a fit keeps what it has; a comparison ends, and can go on
        raise KeyboardInterrupt


def right(model: Any, samples: Samples, among: int) -> float:
    """The share of samples whose label is among the ``among`` most probable ones."""
    X, more = samples.read_by(model.block)
    proba = model.predict_proba(X, **more)
    first = np.argsort(-proba, axis=1)[:, :among]
    return float((model.classes_[first] == samples.y[:, None]).any(axis=1).mean())
