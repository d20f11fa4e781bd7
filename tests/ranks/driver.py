"""Several processes, without starting Python for each: run as a script, it imports provenet once and forks.

Writes a JSON file for each job into the folder that it is given; `test_processes.py` reads them.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import provenet as pn
from provenet import ranks

RNG = np.random.default_rng(0)
X = RNG.standard_normal((203, 8))
LABELS = (X[:, :4] @ RNG.standard_normal((4, 4))).argmax(1)
WEIGHT = RNG.uniform(0.5, 2, len(X))
TOKENS = RNG.standard_normal((25, 4, 2))
IMAGES = RNG.standard_normal((25, 1, 5, 5))
SIGNS = (TOKENS[:, 0, :1] > 0).astype(float)
VALUES = np.tanh(TOKENS.sum((1, 2)))[:, None]
THERE = np.arange(4) < RNG.integers(1, 5, (25, 1))
FREE = {"fit_intercept": "free"}
TAGGED = {"activation": "linear", "readout": "tokens"} | FREE

Rows = slice
CASES: dict[str, Callable[[Rows], tuple[Any, ...]]] = {
    "mlp": lambda r: ("mlp", X[r], LABELS[r], {"loss": "softmax", "gates": 15, "sample_weight": WEIGHT[r]} | FREE),
    "trained": lambda r: ("mlp", X[r], LABELS[r], {"loss": "softmax", "gates": "trained", "n_gates": 9} | FREE),
    "penalised": lambda r: ("mlp", X[r], LABELS[r], {"loss": "softmax", "gates": 15}),
    "cnn": lambda r: (pn.CNN(kernel=3, pool=3), IMAGES[r], SIGNS[r], {"loss": "logistic", "gates": 3} | FREE),
    "attention": lambda r: ("attention", TOKENS[r], VALUES[r], {"loss": "huber", "gates": 3} | FREE),
    "tokens": lambda r: ("attention", TOKENS[r], TOKENS[r, :, :1], TAGGED | {"mask": THERE[r]}),
    "linear": lambda r: ("attention", TOKENS[r], VALUES[r], {"activation": "linear"}),
    "mixer": lambda r: ("mixer", TOKENS[r], VALUES[r], {"gates": 3}),
    "fno": lambda r: ("fno", TOKENS[r], VALUES[r], {"gates": 3}),
    "bfno": lambda r: (pn.BFNO(groups=2), TOKENS[r], np.hstack([VALUES, -VALUES])[r], {"gates": 3}),
    "poolformer": lambda r: ("poolformer", TOKENS[r], VALUES[r], {"gates": 3}),
    "fnet": lambda r: ("fnet", TOKENS[r], VALUES[r], {"gates": 3}),
}
TOL = 1e-2


def posed(name: str, rows: Rows, share: float = 0.05) -> pn.Problem:
    block, inputs, targets, settings = CASES[name](rows)
    problem = pn.formulate(block, inputs, targets, beta=1.0, **settings)
    return problem.with_beta(share * problem.beta_max)


def told(solution: pn.Solution) -> dict[str, Any]:
    weights = torch.cat([value.flatten() for value in solution.network().state_dict().values()])
    proof = solution.certificate
    numbers = {"primal": proof.primal, "dual": proof.dual, "steps": solution.steps, "status": proof.status}
    return numbers | {"weights": weights.tolist()}


def solve_all(group: ranks.Ranks | None, names: list[str], folder: Path) -> dict[str, Any]:
    found = {}
    for name in names:
        n = len(CASES[name](slice(None))[1])
        # the last process has few rows, the others more than their share: they go where they belong
        world, rank = (1, 0) if group is None else (group.world, group.rank)
        cuts = [0, n] if world == 1 else [*(r * (n - 3) // (world - 1) for r in range(world)), n]
        mine = slice(cuts[rank], cuts[rank + 1])
        solution = pn.solve(posed(name, mine), method="lbfgs", tol=TOL)
        found[name] = told(solution)
        if group is not None and group.world == 2 and name == "mlp":
            pn.save(solution, folder / "model")
    return found


def killed(group: ranks.Ranks | None, names: list[str], folder: Path) -> dict[str, Any]:
    """The second process of two is killed after a snapshot; whoever comes later goes on."""
    assert group is not None

    def die(record: Any) -> None:
        if group.rank == 1 and record.step >= 12:
            os.kill(os.getpid(), 9)

    problem = posed("mlp", group.rows(len(X)), 0.02)
    seen: list[int] = []
    with pn.snapshots(folder / "snapshots", every=5):
        solution = pn.solve(problem, tol=TOL, callback=lambda record: seen.append(record.step) or die(record))
    return told(solution) | {"seen": seen}


def plain(group: ranks.Ranks | None, names: list[str], folder: Path) -> dict[str, Any]:
    assert group is not None
    return told(pn.solve(posed("mlp", group.rows(len(X)), 0.02), tol=TOL))


def refused(group: ranks.Ranks | None, names: list[str], folder: Path) -> dict[str, Any]:
    """What each says of data that do not fit together, and a class that one has not seen."""
    assert group is not None
    mine = group.rows(len(X))
    seen = np.where(LABELS[mine] == 3, group.rank * 3, LABELS[mine])  # the last class is the second process's alone
    problem = pn.formulate("mlp", X[mine], seen, loss="softmax", gates=5)
    fitted = pn.ProvenClassifier(n_gates=5, tol=0.1, class_weight="balanced").fit(X[mine], np.array(list("abcd"))[seen])
    said = {"outputs": problem.loss.target.shape[1], "classes": fitted.classes_.tolist()}
    for name, inputs, targets in (
        ("widths", X[mine, : 8 - group.rank], LABELS[mine]),
        ("targets", X[mine], np.zeros((len(X[mine]), 1 + group.rank))),
    ):
        try:
            pn.formulate("mlp", inputs, targets, gates=3)
        except ValueError as error:
            said[name] = str(error)
    return said


JOBS = {"solve": solve_all, "killed": killed, "plain": plain, "refused": refused}


def child(job: str, rank: int, world: int, names: list[str], folder: Path, out: Path, store: Path) -> None:
    warnings.simplefilter("ignore")
    if world == 0:
        out.write_text(json.dumps(JOBS[job](None, names, folder)))
        return
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=90)
    )
    with ranks.joined() as group:
        said = JOBS[job](group, names, folder)
    if rank == 0:
        out.write_text(json.dumps(said))


def world_of(size: int, job: str, names: list[str], folder: Path, label: str) -> None:
    """So many processes; 0: one that is alone with all the data."""
    children = []
    for rank in range(max(size, 1)):
        pid = os.fork()
        if pid == 0:
            try:
                child(job, rank, size, names, folder, folder / f"{label}.json", folder / f"{label}.store")
            except BaseException:
                (folder / f"{label}.error-{rank}").write_text(traceback.format_exc())
                os._exit(1)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


def main() -> None:
    folder = Path(sys.argv[1])
    every, few = list(CASES), ["mlp", "trained", "attention"]
    for name in ("formulate", "solve", "save", "snapshots", "ProvenClassifier"):
        getattr(pn, name)  # imported before, not in each
    world_of(0, "solve", every, folder, "memory")
    world_of(1, "solve", few, folder, "one")
    world_of(2, "solve", every, folder, "two")
    world_of(2, "solve", few[:1], folder, "again")
    world_of(4, "solve", few[:1], folder, "four")
    world_of(2, "plain", [], folder, "plain")
    world_of(2, "killed", [], folder, "killed")
    world_of(1, "killed", [], folder, "resumed")
    world_of(2, "refused", [], folder, "refused")


if __name__ == "__main__":
    main()
