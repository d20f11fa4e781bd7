"""Queries, keys, values and output projections as heads of ours, and back (AT eq. 9 to 11)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import provenet as pn


def parts(h: int = 3, d: int = 4, k: int = 2, v: int = 3, c: int = 5) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape, generator=draw, dtype=torch.float64)
        for shape in ((h, d, k), (h, d, k), (h, d, v), (h, v, c))
    ]


@pytest.mark.parametrize("activation", ["linear", "relu"])
@pytest.mark.parametrize("scale", [None, "sqrt_d"])
def test_a_head_computes_what_its_projections_do(activation: str, scale: str | None) -> None:
    query, key, value, output = parts()
    x = torch.randn(7, 6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    head = pn.nn.from_projections(query, key, value, output, activation=activation, readout="tokens", scale=scale)
    scores = (x.unsqueeze(1) @ query) @ (x.unsqueeze(1) @ key).transpose(2, 3) / (2 if scale else 1)
    made = (torch.relu(scores) if activation == "relu" else scores) @ (x.unsqueeze(1) @ value) @ output
    torch.testing.assert_close(head(x).detach(), made.sum(1))


def test_there_and_back() -> None:
    head = pn.nn.from_projections(*parts())
    found = pn.nn.to_projections(head)
    assert found.query.shape == (3, 4, 2)  # no wider than it was
    assert found.output.shape == (3, 3, 5)
    again = pn.nn.from_projections(*found)
    torch.testing.assert_close(again.first, head.first)
    torch.testing.assert_close(again.second, head.second)
    torch.testing.assert_close(found.query.norm(dim=1), found.key.norm(dim=1))  # the cheapest way to write it


@pytest.mark.parametrize("with_last", [False, True])
def test_torchs_layer_without_its_softmax(with_last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(6, 2, bias=False, batch_first=True, dtype=torch.float64)
    last = nn.Linear(6, 3, bias=False, dtype=torch.float64) if with_last else None
    x = torch.randn(5, 4, 6, dtype=torch.float64)
    monkeypatch.setattr(torch.nn.functional, "softmax", lambda scores, dim=None, **_: scores)
    said = layer(x, x, x, need_weights=True)[0]
    said = said if last is None else last(said)
    head = pn.nn.from_multihead(layer, last, readout="tokens")
    torch.testing.assert_close(head(x), said)


def test_what_is_brought_in_can_be_certified() -> None:
    x = torch.randn(8, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.randn(8, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    head = pn.nn.from_projections(*parts())
    found = pn.certify(head, (x, y), loss="squared", beta=1.0)
    assert found.scope == "linear"
    best = pn.solve(pn.formulate("attention", x, y, "linear", beta=1.0), tol=1e-6)
    assert found.dual <= best.certificate.primal <= found.primal


def test_what_is_no_head_is_named() -> None:
    query, key, value, output = parts()
    with pytest.raises(ValueError, match=r"\(h, d, k\) twice"):
        pn.nn.from_projections(query, key[:, :3], value, output)
    with pytest.raises(ValueError, match="each is"):
        pn.nn.from_projections(query[0], key, value, output)
    with pytest.raises(ValueError, match="'linear' or 'relu'"):
        pn.nn.from_projections(query, key, value, output, activation="gated_relu")
    layer = nn.MultiheadAttention(6, 2)
    nn.init.ones_(layer.in_proj_bias)
    with pytest.raises(ValueError, match="biases"):
        pn.nn.from_multihead(layer)
    with pytest.raises(ValueError, match="same tokens"):
        pn.nn.from_multihead(nn.MultiheadAttention(6, 2, bias=False, kdim=3))
