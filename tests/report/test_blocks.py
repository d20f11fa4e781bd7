"""The page of every block: its words, and its weights as pictures."""

from __future__ import annotations

from html import unescape

import numpy as np
import pytest

import provenet as pn
from provenet.blocks import BLOCKS
from provenet.report import render_report, report, words
from provenet.report.fit import evaluate
from provenet.report.weights import Neuron, _colours, _filter, _kernel, _strongest
from provenet.solvers import Solution
from provenet.testing.examples import EXAMPLES, Example

WORDS = {
    "mlp": ["Gated-ReLU MLP on 24 × 3 data", "No gated-ReLU network with", "for every sample whether a neuron is on"],
    "cnn": [
        "Gated-ReLU CNN on 24 samples of 2 channels × 4 × 3",
        "No gated-ReLU CNN with",
        "The filters",
        "2 channels.",
    ],
    "attention": [
        "Gated-ReLU self-attention block on 24 samples of 3 tokens × 2 features",
        "for every pair of tokens whether a head is on",
        "What the heads look for",
        "the mean of what it says of its 3 tokens",
    ],
    "mixer": ["MLP-Mixer block", "for every token and feature", "How tokens are mixed"],
    "fno": ["FNO block", "The kernels", "A column is a shift along the sequence, a row a feature."],
    "bfno": ["B-FNO block", "The kernels"],
    "poolformer": ["PoolFormer block", "What the neurons look for", "2 × 3"],
    "fnet": ["FNet block", "What the neurons look for"],
    "token_map": ["block with this map of tokens", "What the neurons look for"],
}


def solved(example: Example, tol: float = 1e-2, **settings: object) -> Solution:
    X = example.samples(24)
    Y = X.reshape(24, -1)[:, :1] * np.linspace(1, -1, example.outputs)
    return pn.solve(pn.formulate(example.block, X, Y, gates=4, beta=0.5, **settings), tol=tol)


@pytest.mark.parametrize("name", [*BLOCKS, "token_map"])
def test_every_block_has_its_page(name: str) -> None:
    page = unescape(render_report(solution=solved(EXAMPLES[name][0])))
    for text in WORDS[name]:
        assert text in page
    assert ("orange is positive" in page) == (name != "mlp")
    assert "None" not in page
    assert len(page) < 600_000


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("mlp", "No linear two-layer network of any width"),
        ("cnn", "No linear two-layer CNN with any number of filters"),
        ("attention", "No linear self-attention block with any number of heads"),
        ("fnet", "No linear FNet block of any width"),
    ],
)
def test_the_claim_names_the_block(name: str, claim: str) -> None:
    linear = solved(EXAMPLES[name][0], activation="linear")
    assert words.nobody_else(linear.problem, "linear") == claim
    full = words.nobody_else(linear.problem, "all_arrangements")
    assert full == claim.replace("linear two-layer", "two-layer ReLU").replace("linear", "ReLU")


def test_tokens_are_what_is_counted() -> None:
    X = EXAMPLES["fnet"][0].samples(24)
    y = np.where(X[..., 0] > 0, "up", "down")
    model = pn.ProvenClassifier(block="fnet", readout="tokens", n_gates=4, beta=0.2, tol=1e-2).fit(X, y)
    page = render_report(solution=model.solution_, X=X, y=y, predict=model.predict, classes=model.classes_)
    assert "summed over the 3 tokens of each of 24 samples" in page
    assert f"{int((model.predict(X) == y).sum())} of 72 tokens right" in page
    assert "the mean of what it says" not in page


def test_tokens_that_are_not_there_are_not_judged(tmp_path) -> None:
    X = EXAMPLES["attention"][0].samples(24)
    mask = np.ones((24, 3), dtype=bool)
    mask[:10, 1] = False
    model = pn.ProvenRegressor(block="attention", readout="tokens", n_gates=4, beta=0.5, tol=1e-2).fit(X, X, mask=mask)
    fit = evaluate(model.solution_)
    assert fit.truth.shape == fit.predicted.shape == (62, 2)
    np.testing.assert_array_equal(fit.truth, X[mask])
    np.testing.assert_allclose(fit.predicted, model.predict(X, mask=mask)[mask], rtol=1e-9)
    page = report(model, tmp_path / "report.html", X, X, mask=mask).read_text(encoding="utf-8")
    assert "summed over the 62 tokens of 24 samples" in page
    assert "62 (86.1 %)" in page
    mean = pn.ProvenRegressor(block="attention", n_gates=4, beta=0.5, tol=1e-2).fit(X, X[:, 0], mask=mask)
    page = report(mean, tmp_path / "report.html", X, X[:, 0], mask=mask).read_text(encoding="utf-8")
    assert "the mean of what it says of its tokens that are there" in page


def test_the_strongest_come_first() -> None:
    solution = solved(EXAMPLES["attention"][0])
    network = solution.network().requires_grad_(False)
    size = (network.first.norm(dim=1) * network.second.norm(dim=1)).numpy()
    neurons = _strongest(solution, 3)
    assert [neuron.place for neuron in neurons] == np.argsort(-size)[:3].tolist()
    for neuron in neurons:
        np.testing.assert_array_equal(neuron.u, network.first[neuron.place].numpy())
        assert neuron.size == pytest.approx(size[neuron.place])


def test_colours_diverge_around_a_clear_zero() -> None:
    negative, clear, half, positive = _colours(np.array([[-2.0, 0.0, 1.0, 2.0]]), 2.0)[0]
    assert [negative[3], clear[3], half[3], positive[3]] == [1, 0, 0.5, 1]
    np.testing.assert_array_equal(half[:3], positive[:3])
    assert negative[2] > negative[0]  # blue
    assert positive[0] > positive[2]  # orange
    assert _colours(np.array([[[-1.0, 0.0, 1.0]]]), 1.0).tolist() == [[[0, 0.5, 1]]]


@pytest.mark.parametrize(
    ("sample", "shape", "text"),
    [((1, 4, 4), (2, 3), ""), ((3, 4, 4), (2, 3, 3), "red, green and blue"), ((8, 4, 4), (2, 23), "the first 6 of 8")],
)
def test_filters_by_channels(sample: tuple[int, ...], shape: tuple[int, ...], text: str) -> None:
    solution = solved(Example("cnn", sample, settings={"kernel": (2, 3)}))
    p = sample[0] * 6
    picture = _filter(Neuron(np.arange(p, dtype=float), 0, 1.0, None), solution.problem).values
    assert picture.shape == shape
    assert picture[1, 2].ravel()[0] == 5  # row-major within the first channel
    assert text in render_report(solution=solution)


def test_filters_of_sequences_are_rows() -> None:
    solution = solved(Example("cnn", (2, 5), settings={"kernel": 3}))
    picture = _filter(Neuron(np.arange(6.0), 0, 1.0, None), solution.problem).values
    assert picture.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_kernels_on_a_grid_show_their_strongest_feature() -> None:
    solution = solved(Example("bfno", (6, 4), settings={"groups": 2, "grid": (2, 3)}))
    u = np.zeros((6, 2))
    u[4, 1] = 3.0
    picture = _kernel(Neuron(u.ravel(), 0, 1.0, group=1), solution.problem)
    assert picture.note == "feature 3"
    assert picture.values.tolist() == [[0, 0, 0], [0, 3, 0]]
