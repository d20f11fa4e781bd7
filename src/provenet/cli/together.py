"""A command in one of several processes that torchrun started: rows by process, and the first one speaks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from provenet import ranks
from provenet.cli.fitting import Fitting
from provenet.estimators.base import ProvenEstimator
from provenet.formulation import pose
from provenet.ranks import Ranks
from provenet.ranks.context import started_by_torchrun
from provenet.solvers.snapshot import snapshots


@contextmanager
def joined(out: Path, kept: Path | None, every: int) -> Iterator[Ranks | None]:
    """With the others, if torchrun started this process; None: it is alone.

    Snapshots go to ``kept``, by default beside the folder ``out`` where there are others, one of which may be killed.
    """
    if not started_by_torchrun():
        with nullcontext() if kept is None else snapshots(kept, every):
            yield None
        return
    with ranks.joined() as group, snapshots(kept or out.with_name(f"{out.name}.snapshots"), every):
        yield group


def own_rows(fitting: Fitting, group: Ranks | None) -> tuple[Any, Any, Any, Any]:
    """X, y, weight and mask of this process."""
    data = fitting.data
    if group is None:
        return data.X, fitting.y, data.weight, data.mask
    rows = group.rows(len(data.X))
    weight, mask = (None if part is None else part[rows] for part in (data.weight, data.mask))
    return data.X[rows], fitting.y[rows], weight, mask


def of_all_rows(estimator: ProvenEstimator, fitting: Fitting) -> None:
    """After a fit with others: its problem posed anew on the data of all, for a report."""
    solution, data = estimator.solution_, fitting.data
    known = solution.problem
    read = estimator._read(data.X, fitting.y, data.weight, data.mask)
    gates = 1 if known.gate_vectors is None else known.gate_vectors
    group = None if known.gate_vectors is None else known.gates.group
    whole = pose(
        known.statement,
        read.X,
        read.targets,
        gates,
        gate_group=group,
        sample_weight=read.weight,
        mask=read.mask,
        standardize=known.scaling or False,
    )
    whole = replace(whole, gates=replace(whole.gates, seconds=known.gates.seconds))
    estimator.solution_ = replace(solution, problem=whole)


def restarts_on_failure() -> bool:
    """Whether torchrun would begin anew if this process ended with an error."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0
