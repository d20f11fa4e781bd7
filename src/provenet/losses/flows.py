"""Flows between classes of which as much leaves each class as arrives there."""

from __future__ import annotations

from itertools import pairwise


def circulation(flow: list[list[int]]) -> list[list[int]]:
    """A flow no larger than this one, of which as much leaves each node as arrives.

    Any flow is a sum of cycles and of paths from nodes that send more than they get to nodes that get more: the paths
    are taken away, and each takes away an edge or a node's excess."""
    c = len(flow)
    flow = [list(row) for row in flow]
    excess = [sum(flow[a]) - sum(row[a] for row in flow) for a in range(c)]
    for _ in range(c * c + 2 * c):
        start = next((a for a in range(c) if excess[a] > 0), None)
        if start is None:
            return flow
        path = _path(flow, excess, start)
        edges = list(pairwise(path))
        amount = min(excess[start], -excess[path[-1]], *(flow[a][b] for a, b in edges))
        for a, b in edges:
            flow[a][b] -= amount
        excess[start] -= amount
        excess[path[-1]] += amount
    return flow


def _path(flow: list[list[int]], excess: list[int], start: int) -> list[int]:
    """A shortest path from ``start`` along positive flows to a node that gets more than it sends."""
    paths, seen = [[start]], {start}
    for path in paths:  # grows as it is gone through
        ahead = [b for b, amount in enumerate(flow[path[-1]]) if amount > 0 and b not in seen]
        for b in ahead:
            if excess[b] < 0:
                return [*path, b]
        seen.update(ahead)
        paths.extend([*path, b] for b in ahead)
    raise ArithmeticError("a flow without a path from its sources to its sinks")
