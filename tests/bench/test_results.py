"""Results: kept as they come, gone on from, and summed up."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

import provenet as pn
from provenet.bench import Record, Records, Setup, Table, run
from provenet.bench.page import each_table, overview, versus
from provenet.bench.picture import _name, draw
from provenet.bench.summary import Summary

X = np.random.default_rng(0).standard_normal((60, 3))
CORNERS = Table("corners", X, (X[:, 0] * X[:, 1] > 0).astype(int))
PLAIN = Table("plain", X, (X[:, 0] > 0).astype(int))
WHO = {
    "guess": lambda seed: DummyClassifier(),
    "line": lambda seed: LogisticRegression(),
    "ours": lambda seed: pn.ProvenClassifier(n_gates=5, tol=1e-2, beta="0.1max", random_state=seed),
}


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    told: list[Record] = []
    assert not run([CORNERS, PLAIN], Records(file, Record), Setup(2, 1e-9, who=WHO), told.append)
    assert not told
    assert run([CORNERS], Records(file, Record), Setup(1, who=WHO), told.append)
    assert [record.who for record in told] == list(WHO)
    with file.open("a") as out:
        out.write('{"table": "plain", "spl')  # cut off in the middle of a line
    assert run([CORNERS, PLAIN], Records(file, Record), Setup(2, who=WHO), told.append)
    assert len(told) == len({record.key for record in told}) == 12
    assert {record.key for record in Records(file, Record)} == {record.key for record in told}
    assert run([CORNERS, PLAIN], Records(file, Record), Setup(2, who=WHO), told.append)
    assert len(told) == 12
    gaps = {record.who: record.gap for record in told}
    assert gaps["guess"] is None
    assert 0 <= gaps["ours"] <= 1e-2


def test_random_states_are_of_the_same_splits_and_count_like_them(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    seeds: list[int] = []
    who = {"guess": lambda seed: (seeds.append(seed), DummyClassifier(strategy="uniform", random_state=seed))[1]}
    assert run([CORNERS], Records(file, Record), Setup(2, who=who))
    assert run([CORNERS], Records(file, Record), Setup(2, states=3, who=who))  # what is there is not done again
    assert len(seeds) == len(set(seeds)) == 6
    assert [(record.state, record.split) for record in Records(file, Record)] == list(product(range(3), range(2)))
    summary = Summary.of(Records(file, Record), ["corners"], ["guess"])
    assert summary.splits.tolist() == [6]
    assert summary.means[0, 0] == pytest.approx(np.mean([record.score for record in Records(file, Record)]))


def test_entrants_are_asked_for_by_name(tmp_path: Path) -> None:
    records = Records(tmp_path / "results.jsonl", Record)
    assert run([PLAIN], records, Setup(1, who=["LogisticRegressionCV", "RidgeCV"]))
    assert [record.who for record in records] == ["LogisticRegressionCV"]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"name": "value"}\n')
    with pytest.raises(ValueError, match=r"results\.jsonl: line 1 is not a result"):
        Records(file, Record)
    file.write_text("[]\n")
    with pytest.raises(ValueError, match="line 1"):
        Records(file, Record)


def test_a_fit_that_fails_is_a_result_too(tmp_path: Path) -> None:
    one_class = Table("one class", X, np.zeros(60, dtype=int))
    records = Records(tmp_path / "results.jsonl", Record)
    assert run([one_class], records, Setup(1, who=WHO))
    failed = {record.who: record for record in records}
    assert failed["ours"].score is None
    assert "one class only" in str(failed["ours"].error)
    assert failed["guess"].score == 1.0
    summary = Summary.of(records, ["one class"], list(WHO))
    assert summary.means.tolist() == [[1.0, 0.0, 0.0]]


def test_means_ranks_and_words(tmp_path: Path) -> None:
    scores = {("a", "one"): (0.5, 0.7), ("a", "two"): (0.9, 0.7), ("b", "one"): (0.8, 0.8), ("b", "two"): (0.8, 0.8)}
    records = [
        Record(table, split, who, score, 2.0 if who == "two" else 1.0, 1e-3 if who == "one" else None)
        for (table, who), found in scores.items()
        for split, score in enumerate(found)
    ]
    records.append(Record("a", 2, "one", 0.1, 1.0))  # the other has no third split: it does not count
    summary = Summary.of(records, ["a", "b", "c"], ["one", "two"])
    assert summary.tables == ("a", "b")
    assert summary.splits.tolist() == [2, 2]
    assert summary.means == pytest.approx(np.array([[0.6, 0.8], [0.8, 0.8]]))
    assert summary.spread[0] == pytest.approx([0.02**0.5, 0.02**0.5])
    assert summary.ranks.tolist() == [1.75, 1.25]
    assert summary.typical_seconds.tolist() == [1.0, 2.0]
    assert summary.worst_gaps[0] == 1e-3
    assert np.isnan(summary.worst_gaps[1])
    assert "| one | 70.0 | 1.75 | 1.00 | 1.0e-03 |" in overview(summary)
    assert "| a | 2 | 60.0 ± 14.1 | **80.0** ± 14.1 |" in each_table(summary).replace("\u00a0", " ")
    assert "-10.00 points on average, better on 0 of 2 tables, worse on 1; at worst -20.0 points, on a." in versus(
        summary, "one", "two"
    )
    draw(summary, [("one", "two")], tmp_path / "dots.png")
    assert (tmp_path / "dots.png").stat().st_size > 5_000


def test_names_in_a_picture_cover_neither_dots_nor_one_another() -> None:
    figure = Figure(figsize=(5, 5))
    canvas, axes = FigureCanvasAgg(figure), figure.subplots()
    axes.set(xlim=(0, 100), ylim=(0, 100))
    x, y = np.array([50.0, 51, 52, 49, 99]), np.array([40.0, 40.5, 41, 60, 2])
    canvas.draw()
    _name(canvas, axes, x, y, [(k, f"a long name {k}") for k in range(5)])
    places = [text.get_window_extent(canvas.get_renderer()) for text in axes.texts]
    dots = axes.transData.transform(np.column_stack([x, y]))
    assert len(places) == 5
    assert not any(one.overlaps(other) for one, other in combinations(places, 2))
    assert not any(place.contains(*dot) for place in places for dot in dots)
    assert all(place.x1 <= axes.get_window_extent().x1 for place in places)
