"""The page as a document: complete, self-contained, escaped."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch

import provenet as pn
from provenet.report import figures, render_report, report, write_report
from provenet.report.anatomy import dissect
from provenet.report.fit import evaluate
from provenet.report.maps import _borders
from provenet.report.numerals import count, gap_number
from provenet.solvers import Solution, Status
from provenet.variable import Factors


class Outline(HTMLParser):
    """Tags opened, ids, descriptions of the figures, and all text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        if "id" in values:
            self.ids.append(values["id"] or "")
        if tag == "svg" and values.get("role") == "img":
            self.labels.append(values["aria-label"] or "")

    def handle_data(self, data: str) -> None:
        self.text += data


EVERYTHING = {
    "classified": ["The decision map", "Confusion matrix", "Classes", "The gap falls", "Active gates and their ranks"],
    "regressed": ["Predicted against true", "Residuals", "The gap falls", "Spectrum of the weights"],
    "surface": ["The function it learnt", "Predicted against true", "Why nothing better exists"],
    "starved": ["Not certified", "What to do", "What is still to be gained"],
    "zero_network": ["the best network is the zero network", "first look at the gap"],
    "one_gate": ["The decision map", "1 of 1 gate in use"],
    "linear": ["one gate, which is always open", "Spectrum of the weights"],
}


@pytest.mark.parametrize("kind", EVERYTHING)
def test_every_kind_of_solution_has_its_page(kind: str, request: pytest.FixtureRequest) -> None:
    page = render_report(solution=request.getfixturevalue(kind))
    outline = Outline(page)
    text = " ".join(outline.text.split())
    for words in EVERYTHING[kind]:
        assert words in text
    assert outline.tags.count("h1") == 1
    assert all(len(label) > 20 for label in outline.labels)
    assert len(outline.ids) == len(set(outline.ids))
    assert len(page) < 1_000_000


def test_regression_has_no_confusion_and_many_features_no_map(regressed: Solution) -> None:
    page = render_report(solution=regressed)
    assert "Confusion matrix" not in page
    assert "The function it learnt" not in page


def test_nothing_is_loaded_from_elsewhere(classified: Solution, beta_path: list[Solution]) -> None:
    page = render_report(solution=classified, path=beta_path)
    links = re.findall(r'(?:href|src)="([^"]*)"', page) + re.findall(r"url\(([^)]*)\)", page)
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "@import" not in page
    assert "<script" not in page


def test_references_inside_figures_resolve(classified: Solution) -> None:
    page = render_report(solution=classified)
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page))
    assert used
    assert {name for pair in used for name in pair if name} <= set(Outline(page).ids)


def test_what_it_is_of_is_named(classified: Solution, beta_path: list[Solution]) -> None:
    page = render_report(solution=classified, source="flowers.csv, target kind")
    assert "on flowers.csv, target kind · provenet</title>" in page
    assert "Training accuracy" in page
    X, y = classified.problem.X.numpy(), classified.problem.loss.target.numpy().argmax(1)
    assert "Test accuracy" in render_report(solution=classified, X=X, y=y, judged_on="test")


def test_a_path_leads_and_a_choice_is_marked(classified: Solution, beta_path: list[Solution]) -> None:
    page = render_report(solution=classified, path=beta_path)
    assert page.index("The path in β") < page.index("What the network does")
    assert "<title>A path in β: " in page
    assert "The last network of the path, at β = " in page
    chosen = render_report(solution=beta_path[1], path=beta_path, scores=[0.1, 0.9, 0.5, 0.4])
    assert chosen.index("The path in β") > chosen.index("What the network does")
    assert "Validation chose β = " in chosen


def test_a_gap_of_rounding_is_zero() -> None:
    assert [gap_number(-4.6e-16), gap_number(3.26e-17), gap_number(2e-16, 1e3)] == ["0", "0", "0"]
    assert gap_number(2e-5) == "2 × 10⁻⁵"


def test_the_path(classified: Solution, beta_path: list[Solution]) -> None:
    page = render_report(solution=classified, path=beta_path)
    assert "Training accuracy" in page
    assert "4 of 4 points certified" in page
    scored = render_report(solution=classified, path=beta_path, scores=[0.1, 0.9, 0.5, 0.4])
    assert "Highest at β = 0.3 β_max: 0.9." in scored
    assert "Validation score" in scored
    assert "Validation score" not in page
    assert "The path in β" not in render_report(solution=classified)


def test_hostile_names_are_escaped(classified: Solution) -> None:
    hostile = ["<script>alert(1)</script>", "$\\frac{\"' & \x00\ud800", "</svg><img src=x onerror=alert(1)>"]
    page = render_report(
        solution=classified, classes=hostile, title="<b>&", feature_names=["<i>one", "${{ 7 * 7 }}#000001"]
    )
    page.encode()  # no lone surrogates are left
    tags = Outline(page).tags
    assert not {"script", "img", "b", "i"} & set(tags)
    assert "&lt;script&gt;alert(1)" in page
    assert "${{ 7 * 7 }}#000001" in page  # neither a template nor a colour


def test_labels_of_any_script_draw_without_warnings(classified: Solution, recwarn: pytest.WarningsRecorder) -> None:
    page = render_report(solution=classified, classes=["猫", "🐕", "طائر"])
    assert "猫" in page
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


def test_the_same_solution_gives_the_same_page(classified: Solution) -> None:
    assert render_report(solution=classified) == render_report(solution=classified)


def test_drawing_leaves_matplotlib_as_it_was(classified: Solution) -> None:
    before = dict(matplotlib.rcParams)
    render_report(solution=classified)
    assert dict(matplotlib.rcParams) == before


def test_a_run_that_never_looked_has_a_page(classified: Solution) -> None:
    page = render_report(solution=replace(classified, history=[], status=Status.NONFINITE))
    assert "before its first look" in page


def test_given_labels_are_judged(classified: Solution) -> None:
    names = np.array(["a", "b", "c"])
    X, y = classified.problem.X.numpy(), names[classified.problem.loss.target.argmax(1).numpy()]
    fit = evaluate(classified, X, y, lambda samples: np.full(len(samples), "b"), names)
    assert fit.labels == ("a", "b", "c")
    assert fit.n_right == 30
    assert fit.confusion().tolist() == [[0, 30, 0], [0, 30, 0], [0, 30, 0]]
    own = evaluate(classified, X, y, classes=names)
    assert own.score == evaluate(classified).score


def test_labels_unseen_at_fit_are_shown_as_wrong(classified: Solution) -> None:
    fit = evaluate(classified, np.zeros((2, 2)), ["a", "new"], lambda X: ["a"] * len(X), classes=["a", "b", "c"])
    assert fit.labels == ("a", "b", "c", "new")
    assert fit.n_right == 1


def test_one_logit_is_cut_at_zero() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(float)
    solution = pn.solve(pn.formulate("mlp", X, y, loss="logistic", gates=10, beta=0.1), "admm", tol=1e-3)
    fit = evaluate(solution)
    logit = solution.network()(solution.problem.X).detach().numpy()[:, 0]
    assert fit.truth.tolist() == y.astype(int).tolist()
    assert fit.predicted.tolist() == (logit > 0).astype(int).tolist()


def test_several_labels_at_once_are_probabilities() -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    solution = pn.solve(pn.formulate("mlp", X, (X > 0).astype(float), loss="logistic", beta=0.5, gates=10), "admm")
    fit = evaluate(solution)
    assert fit.labels is None
    assert fit.truth.tolist() == (X > 0).tolist()
    assert ((fit.predicted > 0) & (fit.predicted < 1)).all()
    assert fit.score > 0.5


def test_the_anatomy_is_the_networks(regressed: Solution) -> None:
    anatomy = dissect(regressed)
    network = regressed.network().requires_grad_(False)
    assert sum(s.sum() for s in anatomy.spectrum.values()) == pytest.approx(float(network.penalty()), rel=1e-6)
    assert anatomy.n_neurons == network.first.shape[0]
    assert anatomy.pull.max() == pytest.approx(regressed.certificate.polar_max / regressed.problem.beta, rel=1e-6)
    assert sum(rank * times for rank, times in anatomy.ranks.items()) == anatomy.n_neurons


def test_relu_neurons_are_counted_not_mixed(tmp_path: Path) -> None:
    """More neurons behind a gate than its rank: in cones they cannot be mixed into fewer."""
    draw = np.random.default_rng(0)
    X, Y = draw.normal(size=(20, 2)), draw.normal(size=(20, 2))
    solution = pn.solve(pn.formulate("mlp", X, Y, "relu", gates="all", beta=0.1), tol=1e-6)
    dust = Factors(*(part[:1] * 1e-5 for part in (solution.factors.left, solution.factors.right)), torch.tensor([0]))
    many = replace(solution, factors=Factors.join(*[solution.factors.scaled(0.5)] * 4, dust))
    before, anatomy = dissect(solution), dissect(many)
    assert before.n_neurons + before.negligible == solution.factors.n_neurons
    assert (anatomy.n_neurons, anatomy.negligible) == (4 * before.n_neurons, 4 * before.negligible + 1)
    assert max(anatomy.ranks) >= 4
    network = solution.network().requires_grad_(False)
    assert anatomy.sizes.sum() == pytest.approx(float(network.penalty()), rel=1e-4)
    page = write_report(tmp_path / "report.html", solution=many).read_text(encoding="utf-8")
    assert f"<dd>{many.factors.n_neurons}<small>" in page  # the number that the command line tells
    for words in ("Active gates and their neurons", f"{count(anatomy.negligible, 'value')} under a millionth"):
        assert words in page
    for words in ("their ranks", "of rank"):
        assert words not in page


def test_a_relu_network_opens_where_its_neurons_do() -> None:
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(15, 2)), draw.normal(size=15)
    solution = pn.solve(pn.formulate(pn.MLP(fit_intercept=True), X, y, "relu", gates="all", beta=0.5), tol=1e-6)
    lines = _borders(solution, dissect(solution))
    network = solution.network().requires_grad_(False)
    assert len(lines) == len(network.first)
    place = torch.linalg.vector_norm(network.first, dim=1) * torch.linalg.vector_norm(network.second, dim=1)
    for line, u in zip(lines, network.first[place.argsort(descending=True)].numpy(), strict=True):
        np.testing.assert_allclose(line / np.linalg.norm(line), u / np.linalg.norm(u), rtol=1e-9)


def test_pulls_that_are_bounds_are_said_to_be() -> None:
    draw = np.random.default_rng(0)
    X, Y = draw.normal(size=(30, 5)), draw.normal(size=(30, 2))
    solution = pn.solve(pn.formulate("mlp", X, Y, "relu", gates=6, beta=1.0), "bm", tol=1e-9, max_steps=1)
    anatomy = dissect(solution)
    assert anatomy.at_most
    assert not dissect(pn.solve(pn.formulate("mlp", X, Y, gates=6, beta=1.0))).at_most
    for certified in (True, False):
        assert "at most" in figures.pull(anatomy, certified).caption


def test_many_points_become_pixels_of_a_visible_colour() -> None:
    X = np.random.default_rng(0).normal(size=(2000, 3))
    solution = pn.solve(pn.formulate("mlp", X, X[:, 0], gates=5, beta=100.0), "admm", tol=1e-2)
    page = render_report(solution=solution)
    assert len(page) < 600_000
    assert page.count("<use") < 500
    [picture] = re.findall(r"data:image/png;base64,([^\"]+)", page)
    pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(picture)))
    painted = pixels[pixels[:, :, 3] > 0.3][:, :3]
    assert painted.max(axis=1).min() > 0.4, "near-black dots would be lost on a dark page"


def test_bad_arguments_are_named(classified: Solution, beta_path: list[Solution]) -> None:
    with pytest.raises(ValueError, match="scores:"):
        render_report(solution=classified, path=beta_path, scores=[1.0])
    with pytest.raises(ValueError, match="feature_names:"):
        render_report(solution=classified, feature_names=["only one"])
    with pytest.raises(ValueError, match="X, y:"):
        render_report(solution=classified, X=np.zeros((3, 2)))


def test_written_whole_or_not_at_all(classified: Solution, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert write_report(target, solution=classified) == target
    before = target.read_text(encoding="utf-8")
    assert before.startswith("<!DOCTYPE html>")
    with pytest.raises(ValueError, match="feature_names"):
        write_report(target, solution=classified, feature_names=[])
    assert target.read_text(encoding="utf-8") == before
    assert list(tmp_path.iterdir()) == [target]


def test_an_estimator_with_a_path(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    X = pandas.DataFrame(generator.normal(size=(60, 2)), columns=["length", "width"])
    y = np.where(X["length"] > 0, "long", "short")
    model = pn.ProvenClassifierCV(betas=4, cv=2, n_gates=10, solver="admm", tol=1e-2, beta_ratio=0.05).fit(X, y)
    page = report(model, tmp_path / "report.html", X, y).read_text(encoding="utf-8")
    assert "The path in β" in page
    assert "short" in page
    assert "width" in page
