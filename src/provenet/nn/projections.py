"""Heads as transformers write them, with queries, keys, values and an output projection (AT eq. 9, 10), and ours (11).

σ(X Q Kᵀ Xᵀ) X V O is σ(X W₁ Xᵀ) X W₂ with W₁ = Q Kᵀ and W₂ = V O: four matrices are two.  Our heads have no
rank in them, so bringing one in loses nothing, and the way back has as many columns as W₁ and W₂ have ranks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from provenet.nn.attention import SelfAttention

_ACTIVATIONS = ("linear", "relu")
_NOTHING = 1e-12  # a singular value of so small a share is rounding


class Projections(NamedTuple):
    """The matrices of h heads as transformers have them.

    Parameters
    ----------
    query, key : Tensor (h, d, k)
        Q and K.
    value : Tensor (h, d, v)
        V.
    output : Tensor (h, v, c)
        O.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor


def from_projections(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    *,
    activation: str = "linear",
    readout: str = "mean",
    scale: str | None = None,
) -> SelfAttention:
    """The head with W₁ = Q Kᵀ and W₂ = V O.

    Parameters
    ----------
    query, key, value, output : Tensors
        As in `Projections`.
    activation : str
        "linear" or "relu".
    readout : str
        As in `SelfAttention`.
    scale : None or "sqrt_d"
        As in `SelfAttention`.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation: of heads that are brought in 'linear' or 'relu', got {activation!r}.")
    shapes = [tuple(part.shape) for part in (query, key, value, output)]
    if any(len(shape) != 3 for shape in shapes):
        raise ValueError(f"query, key, value, output: each is (heads, rows, columns), got {shapes}.")
    (h, d, k), (_, _, v) = shapes[0], shapes[2]
    if shapes[1] != (h, d, k) or shapes[2] != (h, d, v) or shapes[3][:2] != (h, v):
        raise ValueError(
            f"query, key, value, output: (h, d, k) twice, (h, d, v) and (h, v, c) are needed, got {shapes}."
        )
    first, second = query @ key.transpose(1, 2), value @ output
    weights = first.detach().flatten(1), second.detach().flatten(1)
    return SelfAttention.from_weights(*weights, relu=activation == "relu", readout=readout, scale=scale)


def to_projections(head: SelfAttention) -> Projections:
    """Q, K, V, O with W₁ = Q Kᵀ and W₂ = V O, both sides as large as each other; as few columns as all heads need.

    Parameters
    ----------
    head : SelfAttention
        Whose weights they are.
    """
    d = head.d
    query, key = _factored(head.first.detach().view(-1, d, d))
    value, output = _factored(head.second.detach().view(len(head.second), d, -1))
    return Projections(query, key.transpose(1, 2), value, output)


def from_multihead(attention: nn.MultiheadAttention, last: nn.Linear | None = None, **settings: str) -> SelfAttention:
    """What torch's layer computes on (X, X, X), but for the softmax.

    Its scores are divided by √(width of a head); the division goes into W₁, so ``scale`` is None.  Biases but zero, and
    what is added to keys and values, are no part of the block.

    Parameters
    ----------
    attention : torch.nn.MultiheadAttention
        The layer.
    last : torch.nn.Linear, optional
        A layer behind it, merged into W₂.
    **settings
        ``activation``, "linear" or "relu" in the place of the softmax, and ``readout``.
    """
    if not attention._qkv_same_embed_dim or attention.bias_k is not None or attention.add_zero_attn:
        raise ValueError("attention: queries, keys and values must come from the same tokens, and nothing be added.")
    biases = (attention.in_proj_bias, attention.out_proj.bias, None if last is None else last.bias)
    if any(bias is not None and bool((bias != 0).any()) for bias in biases):
        raise ValueError("attention: biases must be absent or zero; they are no part of the block.")
    d, h = attention.embed_dim, attention.num_heads
    query, key, value = (part.view(h, d // h, d).transpose(1, 2) for part in attention.in_proj_weight.detach().split(d))
    output = attention.out_proj.weight.detach().T
    if last is not None:
        output = output @ last.weight.detach().T
    return from_projections(query / (d // h) ** 0.5, key, value, output.view(h, d // h, -1), **settings)


def _factored(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """(h, a, r) and (h, r, b) with these products (h, a, b)."""
    left, sizes, right = torch.linalg.svd(matrices.to(torch.float64), full_matrices=False)
    largest = sizes.amax(1, keepdim=True) if sizes.numel() else sizes
    rank = max(int((sizes > _NOTHING * largest).sum(1).amax()) if len(sizes) else 0, 1)
    root = sizes[:, :rank].sqrt()
    halves = left[:, :, :rank] * root.unsqueeze(1), right[:, :rank] * root.unsqueeze(2)
    return halves[0].to(matrices), halves[1].to(matrices)
