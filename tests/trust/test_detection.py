"""What `make trust` looks for is found where it is planted: a figure that cannot fail proves nothing."""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import provenet as pn
from trust import damage, hostile, interrupts, kills, limits, oracle, tampered
from trust.__main__ import run
from trust.code import digest, digest_of
from trust.figure import Figure, Seen
from trust.forgery import sealed
from trust.models import Small, meaning
from trust.page import page
from trust.problems import posed, solved
from trust.records import Changed, Records

pytestmark = [
    pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore"),
]
X = np.random.default_rng(0).standard_normal((12, 2))


def raised(solution: pn.Solution) -> pn.Solution:
    """The same with a bound that is not one."""
    said = solution.certificate
    return replace(solution, certificate=replace(said, dual=said.primal * 1.001), lower_bound=said.primal * 1.001)


@pytest.mark.parametrize("case", [0, 1, 2])
def test_a_false_certificate(monkeypatch: pytest.MonkeyPatch, case: int) -> None:
    assert oracle.attempt(case).wrong is None
    monkeypatch.setattr(oracle, "solved", lambda problem: raised(solved(problem)))
    wrong = oracle.attempt(case).wrong
    assert wrong is not None
    assert "a bound of" in wrong


def test_a_false_certificate_of_hostile_numbers() -> None:
    problem = pn.formulate("mlp", X, X[:, :1] + 5, gates=3, beta=0.1)
    assert hostile.judge("here", problem, solved(problem)).wrong is None
    assert "above" in str(hostile.judge("here", problem, raised(solved(problem))).wrong)


def test_a_judge_that_accepts_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("provenet.cli.rejudged.Rejudged.holds", True)
    with tampered.ready(tmp_path) as attempt:
        wrong = [attempt(2 + tampered.BANK * k).wrong for k in range(12)]
    assert any(each is not None and "accepted, but" in each for each in wrong)


@pytest.fixture
def model(tmp_path: Path) -> tuple[Path, Small]:
    fitted = pn.ProvenRegressor(beta=0.1, activation="linear").fit(X, X[:, 0])
    return pn.save(fitted, tmp_path / "model"), Small(fitted, X, X[:, 0])


def test_a_model_that_loads_as_another(model: tuple[Path, Small]) -> None:
    place, small = model
    meant = meaning(pn.load(place))
    assert damage.judge(place, small, meant, "nothing", False).wrong is None
    files = {name: (place / name).read_bytes() for name in damage.FILES}
    content = bytearray(files["model.safetensors"])
    content[-3] ^= 1  # of a number; digests are made to agree, as if none were looked at
    damage.write(place, sealed(files | {"model.safetensors": bytes(content)}))
    assert "silently" in str(damage.judge(place, small, meant, "a bit", False).wrong)


def test_a_save_that_is_not_atomic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def careless(model: object, folder: Path, **more: object) -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.2)
        return save(model, folder, **more)

    save = pn.save
    with kills.saving(tmp_path) as attempt:
        assert all(attempt(case).wrong is None for case in range(1, 6))
        if not (tmp_path / "model").exists():  # all were killed before they had saved
            shutil.copytree(tmp_path / "another", tmp_path / "model")
        monkeypatch.setattr(pn, "save", careless)
        assert any("there is no model" in str(attempt(case).wrong) for case in range(6, 40))  # by chance, soon


def test_a_message_that_is_not_true(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    said = "error: interrupted, and nothing was saved.\n"
    assert interrupts.judge_fit(1, said, X, X)[1] is None
    Path("out").mkdir()
    Path("out", "model.json").write_text("{}")
    assert interrupts.judge_fit(1, said, X, X)[1] == "there is a model"
    Path("out", "path.csv").write_text("beta\n1\n")
    assert interrupts.judge_path(1, said)[1] == "there is a path"
    assert interrupts.judge_path(1, "note: interrupted after 2 of 6 values")[1] == "1 rows are there"
    assert interrupts.judge_path(1, "Traceback (most recent call last)")[1] is not None


def test_a_limit_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> None:
        while time.process_time() < ends:
            pass

    monkeypatch.setattr(limits, "MORE", 0.0)
    monkeypatch.setattr(limits, "posed", lambda *_: ("slow", slow))
    shortest = min(range(100), key=lambda case: np.random.default_rng([case, 9]).uniform(-2, 0.6))
    ends = time.process_time() + 0.1
    assert "slow" in str(limits.attempt(shortest).wrong)


def test_records_go_on_where_they_ended(tmp_path: Path) -> None:
    figure = Figure("odd", "odd numbers", "none", "Whether it is odd.", 6, 2, 1, lambda _: None)  # type: ignore[arg-type, return-value]
    records = Records(tmp_path / "records.jsonl", digest())

    def attempt(case: int) -> Seen:
        if case == 5:
            raise RuntimeError("beyond all that was foreseen")
        return Seen("odd" if case % 2 else "even", measured={"case": float(case)})

    records.add(figure, 0, 2, attempt, "here")
    with records.path.open("a") as file:
        file.write('{"figure": "odd", "first": 2, "la')  # of a run that was killed
    assert records.told(figure).done == 2
    assert "2 of 6" in page({"odd": figure}, records)
    records.add(figure, 2, 6, attempt, "here")
    told = records.told(figure)
    assert (told.done, told.words["even"], told.worst["case"]) == (6, 3, 4.0)
    assert [failure["case"] for failure in told.failures] == [5]
    assert "beyond all that was foreseen" in page({"odd": figure}, records)


def odd(tmp_path: Path) -> Figure:
    return Figure("odd", "odd", "odd", "odd", 6, 2, 1, lambda folder: contextlib.nullcontext(lambda case: Seen("even")))


def test_records_of_other_code_count_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = odd(tmp_path)
    monkeypatch.setattr("trust.records.digest", lambda: "before")
    before = Records(tmp_path / "records.jsonl", "before")
    before.add(figure, 0, 4, lambda case: Seen("even"), "here")
    now = Records(before.path, "now")
    assert (before.told(figure).done, now.told(figure).done) == (4, 0)
    assert (before.others(), now.others()) == (0, 1)
    assert "4 of 6" not in page({"odd": figure}, now)
    with pytest.raises(Changed, match="has changed since"):  # the tree is another than when the run began
        now.add(figure, 0, 2, lambda case: Seen("even"), "here")
    assert now.told(figure).done == 0


def test_a_figure_has_one_process_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure, records = odd(tmp_path), Records(tmp_path / "records.jsonl", digest())
    with records.alone(figure) as mine:
        assert mine
        assert run(figure, records, 6)
    assert "another process works on it" in capsys.readouterr().out
    assert records.told(figure).done == 0
    assert run(figure, records, 6)
    assert records.told(figure).done == 6


def test_the_digest_of_code_is_of_every_file_and_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    (folder / "room").mkdir(parents=True)
    seen = set()
    for name, text in (("a.py", "1"), ("a.py", "2"), ("room/b.py", "1")):
        (folder / name).write_text(text)
        seen.add(digest_of([folder]))
    (folder / "room/b.py").rename(folder / "b.py")
    assert len(seen | {digest_of([folder])}) == 4


def test_a_case_is_the_same_each_time() -> None:
    first, again = posed(17), posed(17)
    assert first.words == again.words
    assert first.problem.beta == again.problem.beta
