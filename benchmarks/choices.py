"""What `auto` chooses, against every method that takes the program: ``python -m benchmarks.choices FILE [NAME…]``.

Processor seconds of `solve`, certificate and all, to a relative gap of 1e-3, on one thread.  FILE (JSON lines) is added
to: what is there already is not run again.  The page, docs/choices.md but for its words, is printed.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

import provenet as pn
from benchmarks.programs import PROGRAMS
from provenet.reductions import STANDARD, reduced
from provenet.solvers import METHODS

TOL = 1e-3
_SECONDS = 30.0  # of one run
_PATIENCE = 1.2  # times the best so far: no need to know more of a slower one
_LEAST = 0.3  # seconds that every run may take
_AGAIN = 3.0  # seconds: what is quicker runs three times, and the least counts
_ASKED_FOR = ("cvx", "cutting_plane", "active_ipm")  # references, and what only finishes


@dataclass(frozen=True)
class Reached:
    """seconds: of the processor, inf where the gap was not proven; ``ran``: the names of the methods."""

    program: str
    method: str
    seconds: float
    gap: float
    steps: int
    ran: str


def follow(name: str, problem: pn.Problem, method: str, limit: float) -> Reached:
    """One run, until the gap is proven or ``limit`` is used up; quick ones more than once."""
    began = time.process_time()

    def late(_: Any) -> bool:
        return time.process_time() - began > limit

    solution = pn.solve(problem, method, tol=TOL, max_seconds=4 * limit, callback=late)
    used, gap = time.process_time() - began, solution.certificate.relative_gap
    return Reached(name, method, used if gap <= TOL else math.inf, gap, solution.steps, solution.method)


def quickest(name: str, problem: pn.Problem, method: str, limit: float) -> Reached:
    first = follow(name, problem, method, limit)
    times = 2 if first.seconds < _AGAIN else 0
    return min([first, *(follow(name, problem, method, limit) for _ in range(times))], key=lambda one: one.seconds)


def runs(names: list[str], known: list[Reached]) -> Iterator[Reached]:
    done = {(one.program, one.method) for one in known}
    for name in names:
        problem: pn.Problem | None = None
        best = min((one.seconds for one in known if one.program == name), default=math.inf)
        for method in ("auto", *(method for method in METHODS if method not in _ASKED_FOR)):
            if (name, method) in done:
                continue
            problem = problem or PROGRAMS[name]()
            if method != "auto" and _not_for_it(problem, method):
                continue
            patience = math.inf if method == "auto" else max(_LEAST, _PATIENCE * best)
            try:
                one = quickest(name, problem, method, min(_SECONDS, patience))
            except (ValueError, MemoryError):  # not for it
                continue
            best = min(best, one.seconds)
            yield one


def _not_for_it(problem: pn.Problem, method: str) -> bool:
    """By itself: the name of a family may stand for another member of it, which has a row of its own."""
    program = reduced(problem.program, STANDARD)[0] if METHODS[method].reduces else problem.program
    return METHODS[method]().refuses(program) is not None


def page(known: list[Reached]) -> Iterator[str]:
    yield "| program | `auto` runs | `auto` | the best method | `auto` / best | others |"
    yield "|---|---|---|---|---|---|"
    for name in dict.fromkeys(one.program for one in known):
        by_method = {one.method: one for one in known if one.program == name}
        auto = by_method.pop("auto")
        order = sorted(by_method.values(), key=lambda one: one.seconds)
        best, proven = order[0], [one for one in order[1:] if one.seconds < math.inf]
        slow = [f"{one.method} {one.gap:.0e}" for one in order if one.seconds == math.inf]
        others = ", ".join(f"{one.method} {one.seconds:.2f}" for one in proven)
        told = "; ".join(part for part in (others, f"stopped at: {', '.join(slow)}" if slow else "") if part)
        regret = auto.seconds / best.seconds if best.seconds < math.inf else 1.0
        quickest_one = f"{best.method} {best.seconds:.2f}" if best.seconds < math.inf else "none sooner"
        yield f"| {name} | {auto.ran} | {auto.seconds:.2f} | {quickest_one} | {regret:.2f} | {told} |"


def main(file: str, *names: str) -> None:
    warnings.simplefilter("ignore")
    path = Path(file)
    known = [Reached(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
    wanted = [name for name in PROGRAMS if not names or any(part in name for part in names)]
    torch.set_num_threads(1)
    with threadpool_limits(limits=1), path.open("a") as out:
        for one in runs(wanted, known):
            known.append(one)
            out.write(json.dumps(asdict(one)) + "\n")
            out.flush()
            print(f"{one.program}: {one.method} {one.seconds:.2f} s {one.gap:.1e} {one.ran}", file=sys.stderr)
    print("\n".join(page([one for name in wanted for one in known if one.program == name])))


if __name__ == "__main__":
    main(*sys.argv[1:])
