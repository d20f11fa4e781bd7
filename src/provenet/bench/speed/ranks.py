"""A step over several processes: `torchrun --nproc-per-node 2 -m provenet.bench.speed.ranks FOLDER [samples]`.

FOLDER has Fashion-MNIST's files.  Seconds are of the processor, of the process that takes longest: what it takes where
every process has a core of its own, but for waiting for the wire.  Bytes are what each process sends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import provenet
from provenet import ranks
from provenet.data.idx import read_idx
from provenet.solvers.neurons.lbfgs.coordinates import Coordinates, spot
from provenet.variable import Factors

_NEURONS, _GATES, _STEPS = 128, 64, 60


def main() -> None:
    folder, n = Path(sys.argv[1]), int((sys.argv[2:] or ["60000"])[0])
    with ranks.joined() as group:
        mine = group.rows(n)
        X = read_idx(folder / "train-images-idx3-ubyte.gz")[0][:n][mine].reshape(-1, 784) / np.float32(255)
        y = read_idx(folder / "train-labels-idx1-ubyte.gz")[0][:n][mine]

        def told(what: str, work: Callable[[], Any], times: int = 1) -> Any:
            began, wall, sent = time.process_time(), time.perf_counter(), group.sent
            for _ in range(times):
                result = work()
            spent = group.largest((time.process_time() - began) / times)
            waited = group.largest((time.perf_counter() - wall) / times)
            if group.is_first:
                print(
                    f"{what}: {spent:.3f} s ({waited:.2f} by the clock), {(group.sent - sent) / times:.0f} bytes",
                    flush=True,
                )
            return result

        settings: dict[str, Any] = {"gates": _GATES, "loss": "softmax", "beta": 1.0}
        problem = told("posed", lambda: provenet.formulate("mlp", X, y.astype(np.int64), **settings))
        problem = problem.with_beta(0.01 * told("beta_max", lambda: problem.beta_max))
        program, op = problem.program, problem.program.operator
        generator = torch.Generator().manual_seed(0)
        left, right = (torch.randn(_NEURONS, size, generator=generator) for size in (op.p, op.q))
        factors = Factors(left / 100, right / 100, torch.randint(op.n_gates, (_NEURONS,), generator=generator))
        here = told("turned", lambda: Coordinates.of(program, torch.float32)).opened(factors.gate)
        told("a step's products", lambda: spot(program, here, factors), 10)
        residual = program.loss.gradient(torch.zeros_like(program.loss.target))
        told("A*", lambda: op.adjoint(residual), 2)
        if len(sys.argv) > 3:
            solution = told(f"{_STEPS} steps", lambda: provenet.solve(problem, tol=1e-3, max_steps=_STEPS))
            if group.is_first:
                print(solution)


if __name__ == "__main__":
    main()
