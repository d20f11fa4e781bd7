"""The first layer begins as whitened patches, and is stepped in coordinates in which they are white."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layerwise_help import small_layers
from torch.nn.functional import unfold

import provenet as pn
from provenet.layerwise import inputs as inputs_
from provenet.layerwise.inputs import Held
from provenet.layerwise.minibatch import Minibatches
from provenet.layerwise.modules import module_of
from provenet.layerwise.optimise import SGD, in_coordinates
from provenet.layerwise.presets import PRESETS
from provenet.layerwise.scores import Accuracy
from provenet.layerwise.start import fresh_start
from provenet.layerwise.whitening import drawn, rows_of, whitening_root
from provenet.statement import Statement


def test_rows_of_images_are_patches() -> None:
    x = torch.randn(20, 2, 6, 5)
    layer = pn.Layer(pn.CNN(kernel=3, stride=2, padding=1, pool=2, fit_intercept=True))
    patches = unfold(x, 3, padding=1, stride=2).transpose(1, 2).flatten(0, 1)
    rows = rows_of(layer, x, outputs=4)
    torch.testing.assert_close(rows[:, :-1], patches)
    assert bool((rows[:, -1] == 1).all())


@pytest.mark.parametrize("block", ["mixer", "poolformer", "fno", "attention", "fnet", pn.BFNO(groups=2)])
def test_rows_of_tokens_are_what_weights_multiply(block: Any) -> None:
    x, layer = torch.randn(20, 4, 4), pn.Layer(block)
    rows = rows_of(layer, x, outputs=2)
    made, w = layer.made_block, torch.randn(1, rows.shape[1])
    q = made.weights(x.double(), 2)[1]
    values = []
    for b in range(made.groups):
        group = torch.tensor([b]) if made.groups > 1 else None
        one = module_of(made, w, torch.zeros(1, q), None, False, "mean", group)
        values.append(one.features(x).detach().flatten())
    torch.testing.assert_close((rows @ w[0]).sort().values, torch.cat(values).sort().values, rtol=1e-4, atol=1e-4)


def test_the_root_makes_rows_white() -> None:
    rows = torch.randn(500, 6) @ torch.randn(6, 6)
    white = rows @ whitening_root(rows, ridge=1e-9)
    torch.testing.assert_close(white.T @ white / 500, torch.eye(6), rtol=1e-3, atol=1e-3)
    assert torch.equal(whitening_root(torch.zeros(5, 3), ridge=1e-2), torch.eye(3))


def test_blank_patches_are_no_filters() -> None:
    """Nine of ten are blank, as at the edge of a picture; no neuron begins so, even if there are more neurons than
    rows to take."""
    rows = torch.zeros(100, 5)
    rows[::10] = torch.randn(10, 5)
    for count in (4, 40):
        first = drawn(rows, torch.eye(5), count, torch.Generator().manual_seed(0))
        assert bool((first.norm(dim=1) > 0.5).all())
        assert len(first.unique(dim=0)) == count
    assert bool(drawn(0 * rows, torch.eye(5), 3, torch.Generator().manual_seed(0)).any(dim=1).all())


def test_a_step_in_white_coordinates() -> None:
    """W = W̃R with R symmetric, so a step on W̃ moves W along gR²."""
    weight, root = torch.randn(3, 4), whitening_root(torch.randn(50, 4), 1e-2)
    moved = weight.clone()
    optimiser = SGD([moved], in_coordinates(moved, root))
    moved.grad = torch.randn(3, 4)
    expected = weight - 0.1 * moved.grad @ root @ root
    optimiser.step(0.1)
    torch.testing.assert_close(moved, expected)


def trained(X: Any, y: Any, whiten: float | None, epochs: int = 4) -> Any:
    recipe = PRESETS["cpu"]
    layer = recipe.filled(small_layers(epochs=epochs)[0], 0, 1, len(X))
    statement = Statement.of(layer.made_block, "softmax", 1e-3 * len(X), activation="gated_relu", readout="mean")
    targets = torch.eye(10, dtype=torch.float64)[torch.from_numpy(y)]
    batches = Minibatches(layer, recipe, statement, Held(X), targets, Accuracy(), seed=0, ridge=whiten)
    *_, last = batches.run(batches.start())
    return last


def test_inputs_that_vary_little_along_some_directions(digits: Any) -> None:
    """Pixels plus ten times the mean of their row: what tells digits apart is a small part of what a filter sees."""
    X, y = digits
    X = (X + 10 * X.mean(3, keepdims=True)) / 50
    assert trained(X, y, 1e-2, epochs=40).loss < 0.8 * trained(X, y, None, epochs=40).loss


def test_where_whitening_costs_more_than_it_brings(digits: Any) -> None:
    """A table of many columns has a row a sample: the root's product would be most of the work."""
    X = torch.randn(300, 300).numpy()
    layer = PRESETS["cpu"].filled(pn.Layer(pn.MLP()), 0, 1, 300)
    assert fresh_start(layer, Held(X), 2, 0, ridge=1e-2, batch=64).root is None
    assert fresh_start(layer, Held(X[:, :100]), 2, 0, ridge=1e-2, batch=64).root is not None
    assert fresh_start(layer, Held(X[:, :100]), 2, 0, ridge=None, batch=64).root is None


def test_a_batch_in_parts_has_the_same_gradient(digits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = trained(*digits, 1e-2, epochs=1)
    monkeypatch.setattr(inputs_, "_IN_CACHE", 6 * 64 * 10)  # ten samples
    parts = trained(*digits, 1e-2, epochs=1)
    torch.testing.assert_close(parts.network.first, one.network.first, rtol=1e-3, atol=1e-4)
    assert parts.loss == pytest.approx(one.loss, rel=1e-4)
