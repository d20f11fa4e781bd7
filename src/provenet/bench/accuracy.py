"""Accuracy, or R², on rows that were not trained on: every entrant on the same splits of every table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from threadpoolctl import threadpool_limits

from provenet.bench.entrants import Make, entrants
from provenet.bench.records import Record, Records
from provenet.bench.tables import Split, Table, Task
from provenet.deadline import Budget


@dataclass(frozen=True)
class Setup:
    """How many splits, how long at most, with how many random states, and who: names of a task's, or all there are."""

    splits: int = 5
    max_seconds: float | None = None
    states: int = 1
    who: Collection[str] | Mapping[str, Make] | None = None

    def entrants(self, task: Task) -> Mapping[str, Make]:
        if isinstance(self.who, Mapping):
            return self.who
        return {name: make for name, make in entrants(task).items() if not self.who or name in self.who}


def run(
    tables: Iterable[Table], records: Records[Record], setup: Setup, tell: Callable[[Record], Any] | None = None
) -> bool:
    """Fill in what the records lack, all tables' first splits first; whether it came to the end in its time.

    One thread, so that times can be compared; they are of the processor, not of the clock on the wall.
    """
    chosen, budget = list(tables), Budget(setup.max_seconds)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for state, seed in product(range(setup.states), range(setup.splits)):
            for table in chosen:
                split = table.split(seed)
                for who, make in setup.entrants(table.task).items():
                    if (table.name, (state, seed), who) in records:
                        continue
                    if budget.over:
                        return False
                    records.add(record := _judge(table, (state, seed), split, who, make))
                    if tell is not None:
                        tell(record)
    return True


_FAR = 1000  # between random states of one split, so that no two splits share one


def _judge(table: Table, of: tuple[int, int], split: Split, who: str, make: Make) -> Record:
    """A fit that fails is a result too: it is kept with what it said, and has no score."""
    state, seed = of
    began = time.process_time()
    try:
        model = make(seed + _FAR * state).fit(split.X, split.y)
        seconds = time.process_time() - began
        score = float(model.score(split.X_test, split.y_test))
    except (ValueError, ArithmeticError, MemoryError) as error:
        return Record(table.name, seed, who, None, time.process_time() - began, error=str(error)[:200], state=state)
    proof = getattr(model, "certificate_", None)
    return Record(table.name, seed, who, score, seconds, None if proof is None else proof.relative_gap, state=state)
