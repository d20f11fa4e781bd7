"""The contract of a block bound to its data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from provenet.blocks import Block, OnData, Rows
from provenet.testing.close import assert_close, normal
from provenet.variable import Factors

TOL = 1e-12


def check_rows(block: Block, X: Any, outputs: int = 2, seed: int = 0) -> None:
    """Φ is one matrix, whoever is asked: the network's hidden layer, the rows applied, picked or written down, their
    patterns; and what rounding does to it in float32 stays within what the block says of it.

    Parameters
    ----------
    block : Block
        Yours.
    X : array
        A few samples.
    outputs : int, default 2
        c.
    seed : int, default 0
        Of the numbers that are drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    on = block.on(torch.as_tensor(X, dtype=torch.float64), outputs)
    for group, rows in enumerate(on.groups):
        phi = _hidden_layer(on, group)
        vectors = normal(generator, 4, on.p)
        assert (len(rows), on.p) == phi.shape, f"group {group}: {len(rows)} rows of {on.p}, the network has {phi.shape}"
        assert_close(rows.sides(vectors), vectors @ phi.T, TOL, "Φh")
        index = torch.arange(len(rows)).flip(0)
        assert_close(rows.some(index.view(-1, rows.rho)).flatten(0, 1), phi[index], TOL, "some rows")
        assert_close(rows.lengths(), torch.linalg.vector_norm(phi, dim=1), TOL, "lengths of rows")
        if rows.table is not None:
            assert_close(rows.table.in_units_of(1.0), phi, TOL, "the table")
            assert bool((rows.table.rows.abs() <= 1).all()), "the table's rows are not scaled"
        patterns, torn = rows.patterns(vectors)
        assert torch.equal(patterns, vectors @ phi.T >= 0), "patterns are not the sides' signs"
        assert not bool(torn.any()), "rounding decides of gates in general position"
        _check_noise(rows, vectors)


def _hidden_layer(on: OnData, group: int) -> Tensor:
    """Φ (n·ρ, p) of a group: what neurons with the unit vectors for first layers make of the samples."""
    unit = torch.eye(on.p, dtype=torch.float64)
    neurons = Factors(unit, torch.zeros(on.p, on.q, dtype=torch.float64), torch.zeros(on.p, dtype=torch.long))

    def hidden(some: Tensor) -> Tensor:
        members = torch.full((len(some),), group)
        module: Any = on.block.network(neurons.select(some), None, on.readout, members)
        return module.hidden(module.lift(on.X), module.first).detach()

    all_neurons, two = torch.arange(on.p), torch.arange(2) % on.p
    one = hidden(two[:1])
    axis = next(k for k, (a, b) in enumerate(zip(one.shape, hidden(two).shape, strict=True)) if a != b)
    return hidden(all_neurons).movedim(axis, -1).reshape(-1, on.p)


def _check_noise(rows: Rows, vectors: Tensor) -> None:
    """In float32 the sides of the same numbers differ from those in float64 by no more than `Block.noise`."""
    block, X, h = rows.block, rows.X.float(), vectors.float()
    error = (block.sides(X, h).double() - block.sides(X.double(), h.double())).abs()
    allowed = block.noise(X, h).double()
    larger = block.noise(X, 2 * h.abs().amax(0, keepdim=True)).double()
    assert bool((allowed <= larger).all()), "noise of a vector that is larger everywhere is less"
    assert bool((error <= allowed).all()), f"rounding of {float((error - allowed).max()):.1e} beyond what is allowed"
