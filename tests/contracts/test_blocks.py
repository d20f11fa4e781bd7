"""Every block × activation × readout: network ↔ convex weights, and the block's operator."""

from __future__ import annotations

import pytest
import torch

from provenet.blocks import BLOCKS, Block
from provenet.testing import check_block, check_operator, check_rows
from provenet.testing.bank import example_case
from provenet.testing.examples import EXAMPLES, Example, examples

ACTIVATIONS = ("linear", "gated_relu")  # of convex programs; ReLU has tests of its own
EVERY = [(example, readout) for example in examples() for readout in example.readouts]
NAMES = [f"{example}-{readout}" for example, readout in EVERY]


def test_every_block_has_examples() -> None:
    assert set(EXAMPLES) == {*BLOCKS, "token_map"}
    assert all(example.block.name == name for name, some in EXAMPLES.items() for example in some)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("example", "readout"), EVERY, ids=NAMES)
def test_block(example: Example, readout: str, activation: str) -> None:
    check_block(example.block, example.samples(6), activation, example.outputs, readout=readout, mask=example.mask(6))


@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_block_in_cones(example: Example) -> None:
    check_block(example.block, example.samples(6), "relu", example.outputs, mask=example.mask(6))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("example", "readout"), EVERY, ids=NAMES)
def test_operator(example: Example, readout: str, activation: str) -> None:
    check_operator(example_case(example, activation=activation, readout=readout, n=5).problem.program.operator)


@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_rows(example: Example) -> None:
    for n in (1, 5):
        X, mask = example.samples(n), example.mask(n)
        check_rows(example.block, X if mask is None else X * mask[..., None], example.outputs)


# an MLP's sides are those of its table
@pytest.mark.parametrize("example", [each for each in examples() if each.block.name != "mlp"], ids=str)
def test_rows_of_a_block_that_writes_none_down(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    X = torch.as_tensor(example.samples(4), dtype=torch.float64)
    block, p = example.block, example.block.weights(X, example.outputs)[0]
    monkeypatch.setattr(type(block), "rows", lambda block, X: None)
    if block.groups > 1:
        with pytest.raises(TypeError, match="groups"):
            Block.some_rows(block, X, torch.zeros(1, dtype=torch.long))
        return
    phi = block.sides(X, torch.eye(p, dtype=torch.float64))
    index = torch.arange(phi.shape[0] * phi.shape[1]).flip(0)
    found = Block.some_rows(block, X, index.view(2, -1)).flatten(0, 1)
    torch.testing.assert_close(found, phi.flatten(0, 1)[index], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "example", [some[0] for some in EXAMPLES.values() if some[0].name in (*BLOCKS, "token_map")], ids=str
)
def test_one_sample_and_one_output(example: Example) -> None:
    outputs = example.block.groups
    for activation in ACTIVATIONS:
        check_block(example.block, example.samples(1), activation, outputs, mask=example.mask(1))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("d", [1, 2, 9])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_mlp(activation: str, fit_intercept: bool, d: int) -> None:
    example = Example("mlp", (d,), settings={"fit_intercept": fit_intercept})
    check_block(example.block, example.samples(7), activation)
