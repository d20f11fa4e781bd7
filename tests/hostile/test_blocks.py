"""Bad input to every block: the right answer, or an error with the argument, the shape found and the one needed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.blocks import BLOCKS, make_block
from provenet.testing.bank import example_case, make_targets
from provenet.testing.examples import EXAMPLES, Example, examples
from provenet.variable import Factors

Fit = Callable[..., pn.Solution]
TOL = 1e-6
FIRST = [EXAMPLES[name][0] for name in (*BLOCKS, "token_map")]
TOKENS = [example for example in FIRST if example.block.tokens]


def wrong_shapes() -> list[Any]:
    """(block, settings, shape of X, other arguments of formulate, what the message must hold)."""
    rows = [
        ("mlp", {}, (4, 3, 2), {}, ["X:", "(n, d)", "(4, 3, 2)"]),
        ("cnn", {}, (4, 9), {}, ["X:", "(n, channels", "(4, 9)"]),
        ("cnn", {}, (4, 1, 5, 5, 5), {}, ["X:", "(n, channels", "(4, 1, 5, 5, 5)"]),
        ("cnn", {"kernel": 5}, (4, 1, 4, 6), {}, ["kernel:", "5", "(4, 1, 4, 6)"]),
        ("cnn", {"kernel": 3, "dilation": 3}, (4, 1, 6, 9), {}, ["kernel:", "7", "(4, 1, 6, 9)"]),
        ("cnn", {"kernel": (2, 2)}, (4, 1, 6), {}, ["kernel:", "(2, 2)", "1 dimension"]),
        ("cnn", {"pool": 4}, (4, 1, 5, 5), {}, ["pool:", "4 × 4", "3 × 3"]),
        ("cnn", {"pool": ((1.0, 1.0),)}, (4, 1, 5, 5), {}, ["pool:", "2", "9"]),
        ("poolformer", {"grid": (2, 3)}, (4, 5, 2), {}, ["grid:", "6", "5"]),
        ("poolformer", {}, (4, 5, 2), {}, ["grid:", "5"]),
        ("poolformer", {"window": 9}, (4, 9, 2), {}, ["window:", "9", "3 × 3"]),
        ("fno", {"grid": (2, 3)}, (4, 5, 2), {}, ["grid:", "6", "5"]),
        ("bfno", {"groups": 2, "grid": (2, 3)}, (4, 5, 2), {}, ["grid:", "6", "5"]),
        ("bfno", {"groups": 2}, (4, 5, 3), {}, ["groups:", "2", "3"]),
        ("bfno", {"groups": 3}, (4, 5, 3), {}, ["groups:", "3", "2"]),
        ("attention", {}, (4, 3, 2), {"mask": np.ones((4, 2))}, ["mask:", "(4, 3)", "(4, 2)"]),
        ("attention", {}, (4, 3, 2), {"mask": np.zeros((4, 3))}, ["mask:", "no token"]),
        ("attention", {}, (4, 3, 2), {"mask": np.full((4, 3), 2)}, ["mask:", "ones and zeros"]),
        ("mixer", {}, (4, 3, 2), {"mask": np.ones((4, 3))}, ["mask:", "mixer", "attention"]),
        ("attention", {}, (4, 3, 2), {"gates": np.ones((5, 3))}, ["gates:", "(P, 4)", "(5, 3)"]),
        ("mixer", {}, (4, 3, 2), {"gates": np.ones((5, 4))}, ["gates:", "(P, 9)", "(5, 4)"]),
        ("mlp", {}, (4, 3), {"readout": "tokens"}, ["readout:", "mlp"]),
        ("cnn", {}, (4, 1, 5, 5), {"readout": "tokens"}, ["readout:", "cnn"]),
    ]
    for example in TOKENS:
        for shape in ((4, 3), (4, 3, 2, 2)):
            rows.append((example.name, example.settings, shape, {}, ["X:", "(n, s, d)", str(shape)]))
        shape = (4, *example.sample)
        wrong = {"readout": "tokens", "Y": np.ones((4, shape[1] + 1, example.outputs))}
        rows.append(
            (
                example.name,
                example.settings,
                shape,
                wrong,
                ["Y:", str((4, shape[1], example.outputs)), str(wrong["Y"].shape)],
            )
        )
        flat = {"readout": "mean", "Y": np.ones((4, shape[1], example.outputs))}
        rows.append((example.name, example.settings, shape, flat, ["Y:", str(flat["Y"].shape)]))
    return [pytest.param(*row, id="-".join([row[0], row[4][0].strip(":"), str(k)])) for k, row in enumerate(rows)]


@pytest.mark.parametrize(("name", "settings", "shape", "options", "words"), wrong_shapes())
def test_wrong_shapes(name: str, settings: dict, shape: tuple, options: dict, words: list[str]) -> None:
    block = pn.TokenMap(**settings) if name == "token_map" else make_block(name, **settings)
    asked = {"X": np.random.default_rng(0).standard_normal(shape), "Y": np.ones((shape[0], 2)), "gates": 3} | options
    with pytest.raises(ValueError) as caught:
        pn.formulate(block, **asked)
    message = str(caught.value)
    assert message.startswith(words[0]), message
    assert all(word in message for word in words), f"{message!r} lacks one of {words}"


@pytest.mark.parametrize(
    ("name", "settings", "argument"),
    [
        ("cnn", {"kernel": 0}, "kernel"),
        ("cnn", {"kernel": 2.5}, "kernel"),
        ("cnn", {"stride": 0}, "stride"),
        ("cnn", {"padding": -1}, "padding"),
        ("cnn", {"dilation": 0}, "dilation"),
        ("cnn", {"pool": 0}, "pool"),
        ("cnn", {"pool": ((1.0, float("nan")),)}, "pool"),
        ("attention", {"scale": "sqrt"}, "scale"),
        ("attention", {"scale": 2}, "scale"),
        ("fno", {"grid": (0, 3)}, "grid"),
        ("fno", {"grid": 9}, "grid"),
        ("bfno", {"groups": 0}, "groups"),
        ("bfno", {"groups": 1.5}, "groups"),
        ("poolformer", {"window": 2}, "window"),
        ("poolformer", {"window": 0}, "window"),
        ("poolformer", {"grid": (2, 2, 2)}, "grid"),
    ],
)
def test_wrong_settings(name: str, settings: dict, argument: str) -> None:
    with pytest.raises(ValueError, match=f"^{argument}: "):
        make_block(name, **settings)


@pytest.mark.parametrize("example", FIRST, ids=str)
def test_values_that_are_no_numbers(example: Example) -> None:
    X, Y = example.samples(4), np.ones((4, example.outputs))
    for bad, word in ((np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")):
        broken = X.copy()
        broken.reshape(-1)[7 % X.size] = bad
        with pytest.raises(ValueError, match=f"^X: .*{word}"):
            pn.formulate(example.block, broken, Y)
    for empty in (X[:0], X[..., :0], X[:, :0]):
        with pytest.raises(ValueError, match=r"^X: .*empty.*\(.*0"):
            pn.formulate(example.block, empty, Y[: len(empty)])
    with pytest.raises(ValueError, match=r"^X: "):
        pn.formulate(example.block, X.astype(complex), Y)


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
@pytest.mark.parametrize("example", FIRST, ids=str)
@pytest.mark.parametrize("scale", [1e150, 1e60, 1e-60, 1e-150])
def test_extreme_scales(example: Example, activation: str, scale: float, fit: Fit) -> None:
    """What stays within float64 is solved and proven; the cubes of attention do not at either end, and it says so."""
    X, Y = scale * example.samples(5), make_targets(np.random.default_rng(1), "squared", (5,), example.outputs)
    if example.name == "attention" and not 1e-100 < scale < 1e100:
        with pytest.raises(ValueError, match=r"^X, Y, sample_weight: .*rescale"):
            pn.formulate(example.block, X, Y, activation=activation, gates=3)
    else:
        assert fit(X, Y, block=example.block, activation=activation, gates=3).status is pn.Status.SOLVED


@pytest.mark.parametrize("scale", [1e101, 1e99, 1e97, 1e90, 1e-90, 1e-97, 1e-99, 1e-101])
def test_attention_at_the_edge_of_float64(scale: float, fit: Fit) -> None:
    """Solved and proven, or refused; nothing between."""
    X, Y = scale * EXAMPLES["attention"][0].samples(5), np.random.default_rng(1).standard_normal((5, 2))
    refused = False
    try:
        pn.formulate("attention", X, Y, gates=3)
    except ValueError as error:
        refused = str(error).startswith("X, Y, sample_weight: ")
    assert refused or fit(X, Y, block="attention", gates=3).status is pn.Status.SOLVED


def degenerate(example: Example) -> dict[str, np.ndarray]:
    """Samples at the edge of what a block can see."""
    X = example.samples(6)
    some, alike = X.copy(), np.broadcast_to(X[:, :1], X.shape).copy()
    some[::2] = 0
    rows = {
        "all zero": np.zeros_like(X),
        "some samples zero": some,
        "constant": np.ones_like(X),
        "constant samples": np.ones_like(X) * X.reshape(6, -1)[:, :1].reshape(6, *[1] * (X.ndim - 1)),
        "tokens, channels or features alike": alike,
        "one sample": X[:1],
        "duplicated samples": np.repeat(X[:2], 3, axis=0),
        "whole numbers": np.round(3 * X),
    }
    if X.ndim == 3 and example.block.tokens:
        empty = X.copy()
        empty[:, -1] = 0
        rows["a zero token"] = empty
    return rows


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
@pytest.mark.parametrize("example", FIRST, ids=str)
def test_degenerate_samples(example: Example, activation: str, fit: Fit) -> None:
    for what, X in degenerate(example).items():
        for readout in example.readouts:
            rows = X.shape[:2] if readout == "tokens" else X.shape[:1]
            Y = make_targets(np.random.default_rng(1), "squared", rows, example.outputs)
            solution = fit(X, Y, block=example.block, activation=activation, gates=3, readout=readout)
            assert solution.status is pn.Status.SOLVED, f"{what}, {readout}: {solution}"


@pytest.mark.parametrize("example", [e for e in TOKENS if e.name != "poolformer"], ids=str)
@pytest.mark.parametrize("readout", ["mean", "tokens"])
def test_one_token(example: Example, readout: str, fit: Fit) -> None:
    settings = {key: value for key, value in example.settings.items() if key != "grid"}
    block = Example(example.name, (1, 4), 2, settings).block
    X = np.random.default_rng(0).standard_normal((6, 1, 4))
    Y = make_targets(np.random.default_rng(1), "squared", (6, 1) if readout == "tokens" else (6,), 2)
    assert fit(X, Y, block=block, gates=3, readout=readout).status is pn.Status.SOLVED


def test_one_token_on_a_grid(fit: Fit) -> None:
    """The only neighbourhood of a single token is itself."""
    X, Y = np.random.default_rng(0).standard_normal((6, 1, 3)), np.random.default_rng(1).standard_normal((6, 2))
    assert fit(X, Y, block=pn.PoolFormer(window=1), gates=3).status is pn.Status.SOLVED
    with pytest.raises(ValueError, match=r"^window: .*3 × 3.*1 × 1"):
        pn.formulate(pn.PoolFormer(), X, Y)


@pytest.mark.parametrize("example", FIRST, ids=str)
def test_the_kind_of_numbers_does_not_matter(example: Example) -> None:
    """float32, whole numbers, lists and arrays in any order are the same samples."""
    X, Y = np.round(4 * example.samples(5)), np.ones((5, example.outputs))
    reference = pn.formulate(example.block, X, Y, gates=3).beta_max
    for same in (X.astype(np.float32), X.astype(np.int64), X.tolist(), np.asfortranarray(X), X[::-1][::-1]):
        assert pn.formulate(example.block, same, Y, gates=3).beta_max == reference


@pytest.mark.parametrize("example", FIRST, ids=str)
def test_the_order_of_samples_does_not_matter(example: Example) -> None:
    X = example.samples(5)
    Y = make_targets(np.random.default_rng(1), "squared", (5,), example.outputs)
    forth, back = (pn.formulate(example.block, *arrays, gates=3).beta_max for arrays in ((X, Y), (X[::-1], Y[::-1])))
    assert forth == pytest.approx(back, rel=1e-12)


@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_the_users_array_is_left_alone(example: Example) -> None:
    """And what happens to it later does not change the problem."""
    X, Y = example.samples(5), np.ones((5, example.outputs))
    kept = X.copy()
    problem = pn.formulate(example.block, X, Y, gates=3, mask=example.mask(5))
    before = problem.beta_max
    np.testing.assert_array_equal(X, kept)
    X[:] = 7.0
    network = problem.network(Factors.empty(*problem.program.operator.stack_shape[1:]))
    assert pn.certify(problem, network).polar_max == pytest.approx(before, rel=1e-9)


@pytest.fixture(scope="module", params=["linear", "gated_relu"])
def activation(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_an_edited_network_is_not_certified(example: Example, activation: str) -> None:
    """A weight, a sign, a neuron's output, or a layer's scale: the certificate and the checker both see it."""
    case = example_case(example, activation=activation, readout=example.readouts[-1])
    optimal: Any = pn.solve(case.problem, tol=TOL).network()
    assert pn.certify(case.problem, optimal, tol=TOL).holds(TOL)
    largest = int(optimal.first.detach().norm(dim=1).argmax())
    for which in range(5):
        network = copy.deepcopy(optimal)
        first, second = network.first.data, network.second.data
        edits = (
            lambda first=first: first[largest, 0].add_(0.1 * float(first.abs().max())),
            lambda first=first: first[largest].neg_(),
            lambda second=second: second[largest].zero_(),
            lambda second=second: second.mul_(1.05),
            lambda first=first, second=second: (first.mul_(2.0), second.mul_(0.5)),  # the same function, dearer
        )
        edits[which]()
        certificate, verdict = pn.certify(case.problem, network, tol=TOL), case.verify(network)
        assert not certificate.holds(TOL), which
        assert certificate.relative_gap == pytest.approx(verdict.relative_gap, rel=1e-6)


OTHERS = [
    ("attention", {}, {"scale": "sqrt_d"}),
    ("poolformer", {"window": 3}, {"window": 5}),
    ("fno", {}, {"grid": (3, 3)}),
    ("cnn", {"padding": 1, "pool": 2}, {"padding": 1, "pool": (4, 1)}),
    ("cnn", {"padding": 1}, {"padding": 2}),
]


@pytest.mark.parametrize(("name", "settings", "other"), OTHERS)
def test_a_network_with_other_settings_is_refused(name: str, settings: dict, other: dict) -> None:
    """Weights of the same shapes, another function: nothing is certified by mistake."""
    sample = (1, 5, 5) if name == "cnn" else (9, 2)
    X, Y = np.random.default_rng(0).standard_normal((4, *sample)), np.ones((4, 2))
    problem, changed = (pn.formulate(make_block(name, **s), X, Y, activation="linear") for s in (settings, other))
    network = changed.network(Factors.empty(*changed.program.operator.stack_shape[1:]))
    with pytest.raises(ValueError, match=f"^network: {next(iter({k for k in other if settings.get(k) != other[k]}))}"):
        pn.certify(problem, network)


@pytest.mark.parametrize("example", TOKENS, ids=str)
def test_a_network_with_another_readout_is_refused(example: Example) -> None:
    X, Y = example.samples(4), np.ones((4, example.outputs))
    mean = pn.formulate(example.block, X, Y, gates=3)
    tokens = pn.formulate(example.block, X, np.ones((4, example.sample[0], example.outputs)), gates=3, readout="tokens")
    network = tokens.network(Factors.empty(*tokens.program.operator.stack_shape[1:]))
    with pytest.raises(ValueError, match=r"^network: readout"):
        pn.certify(mean, network)


def test_a_neuron_of_another_group_is_another_neuron() -> None:
    """Weights move with their group: swapped, the certificate is gone; out of range, they are refused."""
    case = example_case(EXAMPLES["bfno"][0], activation="linear")
    network: Any = pn.solve(case.problem, tol=TOL).network()
    network.group.copy_(1 - network.group)
    assert not pn.certify(case.problem, network, tol=TOL).holds(TOL)
    assert case.verify(network).relative_gap > TOL
    network.group.fill_(2)
    with pytest.raises(ValueError, match=r"^network: "):
        pn.certify(case.problem, network)
