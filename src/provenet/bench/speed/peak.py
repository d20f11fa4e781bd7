"""Peak memory of a fit, in a process of its own: prints the bytes it added, and the bytes it may add."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import provenet as pn

N, D, GATES, OUTPUTS = 6000, 100, 1000, 4


def allowed_bytes() -> int:
    """The kernel, and three copies of X, the gates and Z."""
    return 8 * (N * N + 3 * (N * D + N * GATES + GATES * D * OUTPUTS))


def peak_bytes() -> int:
    """The high-water mark of this process alone (the resource module's is inherited from the parent)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("this system does not tell the peak memory of a process")


def main() -> None:
    rng = np.random.default_rng(0)
    # everything is loaded and warm before the measurement begins
    tiny = pn.formulate("mlp", rng.standard_normal((30, 3)), rng.standard_normal((30, 2)), gates=5, beta=0.1)
    pn.solve(tiny, "admm", tol=1e-3)
    X = rng.standard_normal((N, D))
    Y = rng.standard_normal((N, OUTPUTS))
    before = peak_bytes()
    problem = pn.formulate("mlp", X, Y, gates=GATES, beta=1.0)
    problem = problem.with_beta(0.1 * problem.beta_max)
    solution = pn.solve(problem, sys.argv[1] if len(sys.argv) > 1 else "admm", tol=1e-3, max_steps=12)
    print(peak_bytes() - before, allowed_bytes(), solution.certificate.relative_gap)


if __name__ == "__main__":
    main()
