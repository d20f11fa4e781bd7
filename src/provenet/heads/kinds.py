"""Heads by name: a block and an activation, fitted to the tokens they will read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd, inf
from typing import Any

from numpy.typing import NDArray

from provenet.blocks import BFNO, CNN, FNO, Block, FNet, Mixer, PoolFormer, SelfAttention
from provenet.heads.fisher import fisher_pool

_MOST_GROUPS = 5  # as AT has it,
_MOST_GATES = {"attention": 5}  # and of gates, where a neuron's first layer is d² weights
_MOST_PLACES = 16  # beyond, neighbours are read out together: time and memory grow with places


@dataclass(frozen=True)
class Tokens:
    """What a head reads: s tokens of d features on a ``grid``, (1, s) of a text, for c classes; and the samples that
    it is trained on, X (n, s, d) and y (n,), for a block that is made by them."""

    s: int
    d: int
    c: int
    grid: tuple[int, int]
    X: NDArray[Any]
    y: NDArray[Any]


@dataclass(frozen=True)
class HeadKind:
    """A head before it knows its tokens.  most_gates: no more of them than this, however many are asked for."""

    block: Callable[[Tokens], Block]
    activation: str
    most_gates: float = inf


def _b_fno(tokens: Tokens) -> Block:
    common = gcd(tokens.d, tokens.c)
    groups = max(g for g in range(1, _MOST_GROUPS + 1) if common % g == 0)
    if groups == 1:
        raise ValueError(f"bfno: {tokens.d} features and {tokens.c} classes have no groups in common.")
    return BFNO(groups=groups, grid=tokens.grid)


def _gated_mixer(tokens: Tokens) -> Block:
    """A neuron mixes all tokens of a feature to one value, the same way for every feature, and reads each of these out
    with weights of its own: (D ∘ (wᵀX + b)) W₂, the mixer whose W₁ has rows behind one and the same gate.

    With the mean over tokens such rows come to one, so that a first layer is s long, not s².
    """
    return CNN(kernel=(tokens.s, 1), pool=(1, tokens.d), fit_intercept=True)


def _fisher(tokens: Tokens) -> Block:
    """`places` with a pooling matrix that is learnt of the labels beforehand, and fixed while the head is trained."""
    pool = fisher_pool(tokens.X, tokens.y, min(tokens.s, _MOST_PLACES))
    return CNN(kernel=1, pool=tuple(map(tuple, pool.tolist())), fit_intercept=True)


# what reads every token by itself is a convolution with a kernel of one, and its neurons have a bias: without one the
# gated MLP is behind the linear head.  "mlp" is read out by the mean over tokens, so that linear it is the linear head;
# "places" has weights of its own for the readout of each place
_BLOCKS: dict[str, Callable[[Tokens], Block]] = {
    "mlp": lambda tokens: CNN(kernel=1, pool=1, fit_intercept=True),
    "places": lambda tokens: CNN(kernel=1, pool=min(tokens.s, _MOST_PLACES), fit_intercept=True),
    "fisher": _fisher,
    "attention": lambda tokens: SelfAttention(),
    "fno": lambda tokens: FNO(grid=tokens.grid),
    "bfno": _b_fno,
    "poolformer": lambda tokens: PoolFormer(grid=tokens.grid),
    "fnet": lambda tokens: FNet(),
}

HEADS: dict[str, HeadKind] = {
    "linear": HeadKind(lambda tokens: PoolFormer(window=1, grid=tokens.grid), "linear"),
    "mixer-linear": HeadKind(lambda tokens: Mixer(), "linear"),
    "mixer-gated": HeadKind(_gated_mixer, "gated_relu"),
} | {
    f"{name}-{word}": HeadKind(block, activation, _MOST_GATES.get(name, inf))
    for name, block in _BLOCKS.items()
    for word, activation in (("linear", "linear"), ("gated", "gated_relu"))
    if (name, word) != ("mlp", "linear")
}
QUICK = ("linear", "mixer-linear", "fisher-linear", "mlp-gated")


def head_names(asked: str | Iterable[str]) -> tuple[str, ...]:
    """ "all", "quick", or names; ValueError for one that is unknown."""
    if isinstance(asked, str):
        asked = {"all": tuple(HEADS), "quick": QUICK}.get(asked) or [name.strip() for name in asked.split(",")]
    names = tuple(dict.fromkeys(asked))
    unknown = [name for name in names if name not in HEADS]
    if unknown or not names:
        said = f"{unknown[0]!r} is unknown" if unknown else "none is named"
        raise ValueError(f"heads: {said}; choose of {', '.join(HEADS)}, or 'all' or 'quick'.")
    return names
