"""Rows that fall into parts: where no row has entries in two of them, a cone is a product, and so is its projection.

The mixer's rows are those of X_iᵀ ⊗ I_s: s copies of one table, each with s of the s² columns.  Instead of a search in
s² dimensions there are s small ones, all at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_LEAST = 12  # columns from which it is worth while
_FIRST = 64  # rows looked at before all are: if one of them has no zeros, there is one part
_SPARSE = 0.5  # of the entries: more than these are not zero only where there is one part


class Part(NamedTuple):
    """Copies of one table (N', p'): the rows (K, N') and the columns (K, p') of each copy."""

    table: Tensor
    rows: Tensor
    columns: Tensor


_known: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def parts_of(rows: Tensor) -> list[Part] | None:
    """Of a table (N, p); None where it is one.  It is found once, and kept as long as the table is."""
    if rows not in _known:
        _known[rows] = _found(rows)
    found: list[Part] | None = _known[rows]
    return found


def _found(rows: Tensor) -> list[Part] | None:
    N, p = rows.shape
    if p < _LEAST or N == 0 or bool((rows[:_FIRST] != 0).all(1).any()):
        return None
    entry = (rows != 0).cpu()
    if int(entry.sum()) > _SPARSE * entry.numel():
        return None
    row, column = torch.nonzero(entry, as_tuple=True)
    edges = csr_array((np.ones(len(row)), (row.numpy(), N + column.numpy())), shape=(N + p, N + p))
    labels = torch.from_numpy(connected_components(edges, directed=False)[1])
    sides = labels[N:].unique()
    if len(sides) == 1:
        return None
    copies: list[tuple[Tensor, list[Tensor], list[Tensor]]] = []
    for side in sides:
        own, across = (torch.nonzero(part == side).flatten() for part in (labels[:N], labels[N:]))
        if len(own) == 0:  # a column that no row has: nothing bounds it
            continue
        table = rows[own][:, across]
        for other, some, columns in copies:
            if torch.equal(table, other):
                some.append(own)
                columns.append(across)
                break
        else:
            copies.append((table, [own], [across]))
    return [Part(table, torch.stack(some), torch.stack(columns)) for table, some, columns in copies]
