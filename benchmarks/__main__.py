"""``make bench``: ratios from one run, one thread (two where a row says so), each printed as soon as it is known.

    python -m benchmarks [gated] [relu] [arrangements] [operators] [digits] [memory]

runs the parts that are named, or all of them.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import date

import torch
from threadpoolctl import threadpool_limits

from benchmarks import operators, rows
from benchmarks.progress import doing

_CORES = torch.get_num_threads()
Cells = tuple[str, ...]
_WIDTHS = (66, 11, 9, 28, 13, 11, 9, 8, 14, 3)
_OPERATOR_WIDTHS = (44, 18, 21, 15, 6, 7, 3)


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Compare with other solvers.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all if none is named")
    asked = parser.parse_args().parts or list(PARTS)
    if unknown := [name for name in asked if name not in PARTS]:
        parser.error(f"{', '.join(unknown)}: unknown; the parts are {', '.join(PARTS)}.")
    warnings.simplefilter("ignore")
    for name in asked:
        doing(f"part {name}")
        PARTS[name]()
    print(f"{date.today()}, {platform.machine()}, {_CORES} cores, Python {platform.python_version()}")


def _compare(part: Callable[[], Iterator[rows.Row]], threads: int | None = 1) -> Callable[[], None]:
    def run() -> None:
        _print(rows.HEADER, _WIDTHS)
        torch.set_num_threads(threads or _CORES)
        with threadpool_limits(limits=threads):
            for row in part():
                _print(row.cells(), _WIDTHS)

    return run


def _operators() -> None:
    """A and A* on neurons against the bare matmuls and FFTs, one thread."""
    _print(("block", "how", "A and A* on neurons", "bare products", "ratio", "target", "met"), _OPERATOR_WIDTHS)
    torch.set_num_threads(1)
    with threadpool_limits(limits=1):
        for cost in operators.costs():
            ours, bare = f"{cost.ours * 1e3:.1f} ms", f"{cost.bare * 1e3:.1f} ms"
            met = "yes" if cost.ratio <= operators.TARGET else "NO"
            cells = (cost.name, cost.how, ours, bare, f"{cost.ratio:.2f}", f"≤ {operators.TARGET}", met)
            _print(cells, _OPERATOR_WIDTHS)


def _memory() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.peak"], capture_output=True, text=True, check=True
    ).stdout.split()
    used, allowed = int(answer[0]), int(answer[1])
    verdict = "met" if used <= allowed else "NOT met"
    print(f"Peak memory of a fit: {used / 2**20:.0f} MiB of {allowed / 2**20:.0f} MiB allowed: {verdict}.", flush=True)


def _print(cells: Cells, widths: tuple[int, ...]) -> None:
    print("  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip(), flush=True)


PARTS: dict[str, Callable[[], None]] = {
    "gated": _compare(rows.gated),
    "relu": _compare(rows.relu_one_output),
    "arrangements": _compare(rows.relu_every_arrangement),
    "operators": _operators,
    "digits": _compare(rows.digits, threads=None),
    "memory": _memory,
}


if __name__ == "__main__":
    main()
