"""What estimators must know of the rows that other processes have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet import ranks


def labels_of_all(labels: NDArray[Any]) -> NDArray[Any]:
    """The labels, sorted, that any process has seen."""
    group = ranks.current()
    if group is None:
        return labels
    everywhere = [label for told in group.told(labels.tolist()) for label in told]
    # strings are as long as the longest anywhere
    return np.unique(np.array(everywhere, dtype=None if labels.dtype.kind == "U" else labels.dtype))


def sums_of_all(values: NDArray[Any]) -> NDArray[np.float64]:
    group = ranks.current()
    return np.asarray(values if group is None else np.sum(group.told(values.tolist()), axis=0), dtype=np.float64)


def refuse_together(what: str, advice: str) -> None:
    """ValueError where rows are spread over processes."""
    if ranks.current() is not None:
        raise ValueError(f"{what}: it needs all rows in one process, and they are spread over several. {advice}")
