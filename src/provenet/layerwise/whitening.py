"""Coordinates in which a stage's patches are white: the first layer is started and stepped in them.

A neuron's hidden values are Φ(x)u, and the rows of Φ(x), patches of an image, say, vary a hundred times more along some
directions (slow changes) than along others (edges).  With u = Rũ, R = (Σ + ε·tr Σ/p·I)^−½ of the rows' second moments
Σ = E[φφᵀ], steps on ũ see all directions alike.  R is a preconditioner: weights, penalty and certificate stay those
of u.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.layerwise.layer import Layer
from provenet.layerwise.modules import module_of

_NOISE = 0.1  # of a start's length: rows that are alike become different neurons


@torch.no_grad()
def rows_of(layer: Layer, look: Tensor, outputs: int) -> Tensor:
    """(rows, p): what single weight vectors are multiplied with, of all groups, on these samples."""
    block = layer.made_block
    p, q = block.weights(look[:1].to(torch.float64), outputs)
    found = []
    for b in range(block.groups):
        group = torch.full((p,), b) if block.groups > 1 else None
        probe = module_of(block, torch.eye(p), torch.zeros(p, q), None, False, layer.readout, group)
        for part in look.split(16):  # few at a time: all p entries of every row are made
            features = probe.features(part)
            at = probe.neuron_axis % features.ndim
            found.append(features.unflatten(at, (p, -1)).movedim(at, -1).reshape(-1, p))
    return torch.cat(found)


@torch.no_grad()
def whitening_root(rows: Tensor, ridge: float) -> Tensor:
    """R (p, p), symmetric, in float32; ridge: ε."""
    p = rows.shape[1]
    moments = torch.zeros(p, p, dtype=torch.float64)
    for part in rows.split(4096):
        moments += part.T.to(torch.float64) @ part.to(torch.float64) / len(rows)
    values, vectors = torch.linalg.eigh(moments)
    mean = float(values.clamp_min(0).mean())
    if mean == 0:
        return torch.eye(p)
    return ((vectors * (values.clamp_min(0) + ridge * mean).rsqrt()) @ vectors.T).float()


@torch.no_grad()
def drawn(rows: Tensor, root: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """ũ (count, p): whitened rows, of about unit length, the more likely the longer; so that filters are patches that
    something is in."""
    white = rows @ root
    length = white.norm(dim=1)
    noise = torch.randn(count, rows.shape[1], generator=generator) / rows.shape[1] ** 0.5
    if not bool(length.any()):
        return noise
    some = torch.randperm(len(rows), generator=generator)[: 2**16]  # as many as multinomial takes
    enough = int((length[some] > 0).sum()) >= count
    chosen = some[torch.multinomial(length[some], count, replacement=not enough, generator=generator)]
    return white[chosen] / length[chosen, None] + _NOISE * noise
