"""Accuracy, or R², on rows that were not trained on: every entrant on the same splits of every table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from provenet.bench.entrants import Make, entrants
from provenet.bench.records import Record, Records
from provenet.bench.tables import Split, Table
from provenet.deadline import Budget


@dataclass(frozen=True)
class Setup:
    """How many splits, how long at most, and who (all there are, where it is None)."""

    splits: int = 5
    max_seconds: float | None = None
    who: Mapping[str, Make] | None = None


def run(
    tables: Iterable[Table], records: Records[Record], setup: Setup, tell: Callable[[Record], Any] | None = None
) -> bool:
    """Fill in what the records lack, all tables' first splits first; whether it came to the end in its time.

    One thread, so that times can be compared; they are of the processor, not of the clock on the wall.
    """
    chosen, budget = list(tables), Budget(setup.max_seconds)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(setup.splits):
            for table in chosen:
                split = table.split(seed)
                for who, make in (setup.who or entrants(table.task)).items():
                    if (table.name, seed, who) in records:
                        continue
                    if budget.over:
                        return False
                    records.add(record := _judge(table, seed, split, who, make))
                    if tell is not None:
                        tell(record)
    return True


def _judge(table: Table, seed: int, split: Split, who: str, make: Make) -> Record:
    """A fit that fails is a result too: it is kept with what it said, and has no score."""
    began = time.process_time()
    try:
        model = make(seed).fit(split.X, split.y)
        seconds = time.process_time() - began
        score = float(model.score(split.X_test, split.y_test))
    except (ValueError, ArithmeticError, MemoryError) as error:
        return Record(table.name, seed, who, None, time.process_time() - began, error=str(error)[:200])
    proof = getattr(model, "certificate_", None)
    return Record(table.name, seed, who, score, seconds, None if proof is None else proof.relative_gap)
