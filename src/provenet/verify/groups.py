"""What belongs to each group of features; most blocks have one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.verify.types import Statement, Weights

Array = NDArray[np.float64]


class Groups:
    """The network by feature group: columns of X and of Θ, neurons, and the gate vectors to be judged."""

    def __init__(self, weights: Weights, statement: Statement, features: int) -> None:
        self.first, self.second = _floats(weights.first), _floats(weights.second)
        self.count, self.features = statement.groups, features
        if self.count > 1 and (weights.group is None or features % self.count):
            raise ValueError(
                f"groups: {self.count} of them need group (N,) and a number of features they divide, got {features}."
            )
        if statement.relu and weights.gates is not None:
            raise ValueError("gates: a ReLU neuron is its own gate; leave them out.")
        self.gates = None if weights.gates is None else _floats(weights.gates)
        vectors, vector_group = statement.gate_vectors, statement.gate_group
        if statement.relu and vectors is None and not statement.all_arrangements:
            vectors, vector_group = weights.first, weights.group
        if self.count > 1 and vectors is not None and vector_group is None:
            raise ValueError("gate_group: gate_vectors of a block with groups need it.")
        self.vectors = None if vectors is None else _floats(vectors)
        self.group = _members("group", weights.group, len(self.first), self.count)
        self.vector_group = _members("gate_group", vector_group, 0 if vectors is None else len(vectors), self.count)

    def columns(self, values: Array, b: int) -> Array:
        """Those of group b, of X (…, d) or of outputs (…, c)."""
        width = values.shape[-1] // self.count
        return values if self.count == 1 else values[..., b * width : (b + 1) * width]

    def neurons(self, b: int) -> tuple[Array, Array, Array | None]:
        """First and second layer, and gates, of the neurons of group b."""
        mine = self.group == b
        return self.first[mine], self.second[mine], None if self.gates is None else self.gates[mine]

    def judged(self, b: int) -> Array | None:
        """Every gate of the problem and of the network in group b, (P, p); None: no gates at all."""
        if self.gates is None and self.vectors is None:
            return None
        found = [np.zeros((0, self.first.shape[1]))]
        if self.vectors is not None:
            found.append(self.vectors[self.vector_group == b])
        if self.gates is not None and len(self.gates):
            found.append(self.gates[self.group == b])
        vectors = np.unique(np.vstack(found), axis=0)
        return vectors if len(vectors) else np.zeros((1, vectors.shape[1]))

    def check_sizes(self, p: int, each: int) -> None:
        """Raise where a neuron's weights are not p and each·c, those of the block."""
        N = len(self.first)
        for name, weights in (("first", self.first), ("gates", self.gates), ("gate_vectors", self.vectors)):
            if weights is not None and (weights.ndim != 2 or weights.shape[1] != p):
                raise ValueError(f"{name}: {p} numbers a row are needed on this X, got shape {weights.shape}.")
        second = self.second
        if second.ndim != 2 or len(second) != N or second.shape[1] == 0 or second.shape[1] % each:
            raise ValueError(f"second: {N} rows of {each}·c numbers are needed on this X, got {second.shape}.")
        if self.gates is not None and len(self.gates) not in (0, N):
            raise ValueError(f"gates: {N} neurons need as many, got {len(self.gates)}.")


def _floats(values: Any) -> Array:
    return np.asarray(values, dtype=np.float64)


def _members(name: str, group: Any, size: int, groups: int) -> NDArray[Any]:
    found = np.zeros(size, dtype=int) if group is None else np.asarray(group)
    if not np.isin(found, np.arange(groups)).all():
        raise ValueError(f"{name}: with {groups} groups its entries are 0 to {groups - 1}.")
    return found
