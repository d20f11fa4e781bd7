"""What an operator costs on neurons, A on factors and A* on factors, beside the bare matmuls and FFTs it consists of.

For every block, linear and gated, at one size: n = 2,000 samples, s = 49 tokens (7 × 7 positions), d = 64 features,
c = 10 outputs, 32 gates with a neuron each.  What "bare" means is said in `bare.py`.  Both run on one thread
and in turns, and the fastest run of each counts; the bare products are tried in batches of several sizes, and
their fastest way counts.

Where an operator keeps its pooled features (what a fit does, as long as they fit into memory) it is measured as it is,
"features kept", against products with these features, and once more "through the hidden layer", as on larger data.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import unfold

from provenet.bench.clock import timed
from provenet.bench.speed import bare
from provenet.blocks import BLOCKS, Block
from provenet.formulation import formulate
from provenet.nn.settings import Neighbourhood
from provenet.nn.tokens import pool_tokens
from provenet.operators import FeatureOperator, Operator, PooledOperator
from provenet.variable import Factors

GRID = (7, 7)
_BATCHES = (10, 40, 160, 640)  # samples at a time that the bare products may choose from
_SECONDS = 2.0  # of repetitions a row, at least three


@dataclass(frozen=True)
class Size:
    n: int = 2000
    d: int = 64
    c: int = 10
    gates: int = 32

    @property
    def s(self) -> int:
        return GRID[0] * GRID[1]


@dataclass(frozen=True)
class Cost:
    """Seconds of A and A* on factors, and of the bare products."""

    name: str
    how: str
    ours: float
    bare: float

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.how

    @property
    def ratio(self) -> float:
        return self.ours / self.bare


def make(name: str) -> Block:
    settings: dict[str, dict[str, Any]] = {
        "cnn": {"kernel": 3, "padding": 1},
        "fno": {"grid": GRID},
        "bfno": {"groups": 2, "grid": GRID},
    }
    return BLOCKS[name](**settings.get(name, {}))


def samples(name: str, size: Size) -> Tensor:
    """Entries up to one, so that the operator leaves X as it is."""
    shapes = {"mlp": (size.n, size.d), "cnn": (size.n, size.d, *GRID)}
    X = torch.randn(shapes.get(name, (size.n, size.s, size.d)), generator=torch.Generator().manual_seed(0))
    return (X / X.abs().max()).double()


def neurons(operator: Operator, count: int) -> Factors:
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(count, m, generator=generator, dtype=torch.float64) for m in (operator.p, operator.q))
    return Factors(left, right, torch.arange(count) * operator.n_gates // count)


def hidden_layer(name: str, X: Tensor, mean: bool) -> bare.Bare:
    """The products of a block's two layers, whatever lies between."""
    if name == "mlp":
        return bare.Rows(X.unsqueeze(1), mean)
    if name == "cnn":
        return bare.Rows(unfold(X, 3, padding=1).transpose(1, 2).contiguous(), mean)
    if name == "poolformer":
        return bare.Rows(pool_tokens(X, Neighbourhood(GRID)), mean)
    if name == "fnet":
        return bare.Rows(torch.fft.fft2(X).real.contiguous(), mean)
    if name == "mixer":
        return bare.Mixer(X, mean)
    if name == "attention":
        return bare.Attention(X, mean)
    if name == "fno":
        return bare.Fourier(X, GRID, mean)
    if name == "bfno":
        return bare.Grouped([bare.Fourier(x, GRID, mean) for x in X.chunk(2, 2)])
    raise ValueError(f"block {name!r}: its bare products are not written yet.")


def summed_first(name: str, X: Tensor) -> bare.Bare:
    """Linear, readout ``mean``: tokens are averaged before any weight."""
    if name == "attention":
        return bare.LinearAttention(X)
    if name == "mixer":
        return bare.Repeated(bare.Pooled(X.transpose(1, 2).contiguous() / X.shape[1]), X.shape[1])
    if name == "fno":
        return bare.Repeated(bare.Pooled(X.mean(1, keepdim=True)), X.shape[1])
    return bare.Grouped([summed_first("fno", x) for x in X.chunk(2, 2)])


def with_features(kept: FeatureOperator) -> bare.Bare:
    """The products of pooled features that are kept (n, P, a, p)."""
    features = kept.features
    if features.shape[1] == 1:
        return bare.Pooled(features.squeeze(1))
    return bare.GatedPooled(features.squeeze(2).transpose(0, 1).contiguous())


def nothing_kept(operator: PooledOperator) -> PooledOperator:
    """As on data whose features do not fit."""
    other = copy.copy(operator)
    other.kept = None
    return other


@dataclass(frozen=True)
class Row:
    """A block, an activation and a readout: one way of working, or two."""

    block: str
    activation: str
    readout: str

    @property
    def name(self) -> str:
        return f"{self.block}, {self.activation}" + (f", {self.readout}" if make(self.block).tokens else "")

    def is_in(self, known: Iterable[Cost]) -> bool:
        return any(cost.name == self.name for cost in known)

    def costs(self, size: Size | None = None) -> list[Cost]:
        torch.set_num_threads(1)
        with threadpool_limits(limits=1):
            return list(block_costs(self, size or Size()))


def rows(names: Iterable[str] = BLOCKS) -> Iterator[Row]:
    """Every block, activation and readout."""
    for name in names:
        for readout in ("mean", "tokens") if make(name).tokens else ("mean",):
            for activation in ("linear", "gated_relu"):
                yield Row(name, activation, readout)


def block_costs(row: Row, size: Size) -> Iterator[Cost]:
    name, activation, readout = row.block, row.activation, row.readout
    X, block = samples(name, size), make(name)
    Y = torch.ones((size.n, size.s, size.c) if readout == "tokens" else (size.n, size.c))
    problem = formulate(block, X, Y, activation, size.gates // block.groups, readout=readout)
    operator, linear, mean = problem.program.operator, activation == "linear", readout == "mean"
    del problem
    factors = neurons(operator, size.gates)
    if isinstance(operator, PooledOperator) and operator.kept is not None:
        yield measure(row.name, "features kept", operator, with_features(operator.kept), factors, exact=True)
        through = nothing_kept(operator)
        yield measure(row.name, "hidden layer", through, hidden_layer(name, X, mean), factors, exact=linear)
    elif linear and mean and name != "mlp":
        yield measure(row.name, "tokens averaged", operator, summed_first(name, X), factors, exact=True)
    elif linear and name == "attention":
        yield measure(row.name, "Gram matrices", operator, bare.LinearTokenAttention(X), factors, exact=True)
    else:
        yield measure(row.name, "hidden layer", operator, hidden_layer(name, X, mean), factors, exact=linear)


def measure(name: str, how: str, operator: Operator, plain: bare.Bare, factors: Factors, exact: bool) -> Cost:
    """The best of several runs, ours and bare in turns.  ``exact``: no gates are in between, so both must agree."""
    residual = torch.randn(operator.output_shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def ours() -> tuple[Tensor, ...]:
        return operator.forward_factors(factors), *operator.adjoint_factors(residual, factors)

    def theirs(batch: int) -> tuple[Tensor, ...]:
        batches = [slice(i, min(i + batch, len(residual))) for i in range(0, len(residual), batch)]
        outputs = torch.cat([plain.forward(rows, factors.left, factors.right) for rows in batches])
        slopes = [plain.adjoint(rows, residual[rows], factors.left, factors.right) for rows in batches]
        left, right = (torch.stack(parts).sum(0) for parts in zip(*slopes, strict=True))
        return outputs, left, right

    if exact:
        for found, expected in zip(ours(), theirs(_BATCHES[2]), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-9 * float(expected.abs().max()))
    else:
        ours()  # what is prepared once is prepared
    batch = min(_BATCHES, key=lambda size: timed(lambda: theirs(size))[0])
    best_ours, best_bare, began, runs = float("inf"), float("inf"), time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - began < _SECONDS:
        best_ours = min(best_ours, timed(ours)[0])
        best_bare = min(best_bare, timed(lambda: theirs(batch))[0])
        runs += 1
    return Cost(name, how, best_ours, best_bare)
