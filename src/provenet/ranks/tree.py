"""Sums along a binary tree over the shards: the same to the last bit, whoever adds which part of it.

Leaves are shards; a node is (its first leaf, how many leaves it has).  Who has leaves in a row adds up the largest
whole nodes among them (`climbed`); what all have added up is finished by each (`finished`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

Node = tuple[int, int]


def nodes(leaves: range) -> list[Node]:
    """The largest whole nodes among leaves in a row, in their order."""
    return [node for node, _ in _merged(((leaf, None) for leaf in leaves), leaves.start)]


def climbed(parts: Iterable[Tensor], first: int) -> list[Tensor]:
    """The sums of `nodes`, of parts of leaves in a row from ``first`` on.  Parts are changed in place."""
    return [total for _, total in _merged(enumerate(parts, first), first) if total is not None]


def finished(known: Mapping[Node, Tensor], node: Node) -> Tensor:
    """The sum of a node's leaves, from those of some nodes below it, or of itself."""
    if node in known:
        return known[node]
    first, size = node
    half = size // 2
    return finished(known, (first, half)) + finished(known, (first + half, half))


def _merged(leaves: Iterable[tuple[int, Tensor | None]], first: int) -> list[tuple[Node, Tensor | None]]:
    done: list[tuple[Node, Tensor | None]] = []
    for leaf, part in leaves:
        end, size, total = leaf + 1, 1, part
        for _ in range((end & -end).bit_length() - 1):  # nodes that end here
            if end - 2 * size < first:
                break
            (_, left), size = done.pop(), 2 * size
            total = None if left is None or total is None else left.add_(total)
        done.append(((end - size, size), total))
    return done
