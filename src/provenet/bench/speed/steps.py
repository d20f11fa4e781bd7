"""What a step of `lbfgs` takes, by samples, inputs, outputs, gates and neurons: `python -m provenet.bench.speed.steps`.

Processor milliseconds of one thread.  "products" are A and A* on neurons; "bare" the five matrix products in them,
alone, at the same shapes and precision, without gates; "loss" its value and gradient in float64.
"""

from __future__ import annotations

import torch

from provenet.bench.clock import least
from provenet.gauges.prox.nuclear import NuclearNorm
from provenet.losses import Softmax
from provenet.operators.blocks.mlp import MLPOperator
from provenet.problem import Program
from provenet.solvers.neurons.lbfgs.coordinates import Coordinates, spot
from provenet.solvers.neurons.lbfgs.pairs import Pairs
from provenet.variable import Factors

_CASES = [  # n, d, c, P, neurons
    (1_000, 784, 10, 64, 128),
    (2_000, 784, 10, 64, 128),
    (10_000, 784, 10, 64, 128),
    (60_000, 784, 10, 64, 128),
    (10_000, 196, 10, 64, 128),
    (10_000, 784, 100, 64, 128),
    (10_000, 784, 10, 1_000, 128),
    (10_000, 784, 10, 64, 32),
    (10_000, 784, 10, 64, 512),
]


def main() -> None:
    torch.set_num_threads(1)
    print("| n | d | c | P | neurons | products | bare | share | loss | 80 steps' memory | A* in float64 |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for case in _CASES:
        print(_row(*case), flush=True)


def _row(n: int, d: int, c: int, P: int, neurons: int) -> str:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(n, d, generator=generator, dtype=torch.float64)
    pattern = torch.rand(n, P, generator=generator) < 0.5
    target = torch.eye(c, dtype=torch.float64)[torch.randint(c, (n,), generator=generator)]
    program = Program(MLPOperator(X, pattern, c), Softmax(target), NuclearNorm(), 1.0)
    gate = torch.randint(P, (neurons,), generator=generator)
    left, right = (torch.randn(neurons, size, generator=generator) / (neurons * size) ** 0.5 for size in (d, c))
    factors = Factors(left, right, gate)
    here = Coordinates(program.operator.to(factors.space)).opened(gate)
    at = spot(program, here, factors)
    X32 = here.operator.X  # type: ignore[attr-defined]
    residual = program.loss.gradient(at.prediction).to(here.dtype)
    hidden, out = torch.empty(neurons, n), torch.empty(n, c)

    def products() -> None:
        here.both_ways(factors)[1](residual)

    def bare() -> None:
        torch.mm(factors.left, X32.T, out=hidden)
        torch.mm(hidden.T, factors.right, out=out)
        torch.mm(hidden, residual)
        torch.mm(factors.right, residual.T, out=hidden)
        torch.mm(hidden, X32)

    def loss() -> None:
        program.loss.value(at.prediction)
        program.loss.gradient(at.prediction)

    pairs = Pairs(80)
    for seed in range(80):
        step = torch.randn(at.gradient.shape, generator=torch.Generator().manual_seed(seed))
        pairs = pairs.after(step, step)
    took = [
        least(products),
        least(bare),
        least(loss),
        least(lambda: pairs.direction(at.gradient, torch.ones_like(at.gradient))),
        least(lambda: program.operator.adjoint(target), 1),
    ]
    ms = [f"{1e3 * seconds:.1f}" for seconds in took]
    share = f"{took[1] / took[0]:.0%}"
    return "| " + " | ".join([f"{n:,}", str(d), str(c), f"{P:,}", str(neurons), *ms[:2], share, *ms[2:]]) + " |"


if __name__ == "__main__":
    main()
