"""Suites of programs: every solver asked for more and more, judged alike, gone on from, and told in tables."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import provenet as pn
from provenet.bench.records import Records
from provenet.bench.speed import SUITES, Case, Mark, Setup, Trial, run
from provenet.bench.speed import problems as of
from provenet.bench.speed.operators import Row, Size, rows
from provenet.bench.speed.page import marks, page, regrets, times
from provenet.bench.speed.peers import PEERS
from provenet.bench.speed.plot import in_seconds
from provenet.bench.speed.standings import Standing
from provenet.blocks import BLOCKS

ROOT = Path(__file__).parent.parent.parent

TINY = Case("tiny", lambda _: of.teacher(40, 3, 6, 0.1), (Mark(1e-6, seconds=50), Mark(1e-6, peers=("pyscnn",))))
AWAY = Case("away", lambda folder: of.posed("mlp", of.images(folder, 9), "softmax", gates=4))


def test_a_suite_is_run_judged_and_gone_on_from(tmp_path: Path) -> None:
    told: list[Trial] = []
    skipped: dict[str, str] = {}
    records = Records(tmp_path / "tiny.jsonl", Trial)
    setup = Setup(limit=5.0, who=frozenset({"auto", "admm", "apg", "AdamW"}))
    assert run([TINY, AWAY], records, setup, told.append, skipped.__setitem__)
    assert "Fashion-MNIST is needed" in skipped["away"]
    assert "no folder was named" in skipped["away"]
    assert [(one.effort, one.ours) for one in told if one.who == "auto"] == [(tol, True) for tol in TINY.tols]
    assert all(one.gap is not None and one.gap <= one.effort for one in told if one.who == "auto")
    adamw = [one for one in told if one.who == "AdamW"]
    assert adamw[0].gap is not None
    assert adamw[0].gap > 0
    assert not adamw[0].ours
    before = len(told)
    assert run([TINY], Records(tmp_path / "tiny.jsonl", Trial), setup, told.append)
    assert len(told) == before


def test_a_run_out_of_time_says_so(tmp_path: Path) -> None:
    records = Records(tmp_path / "tiny.jsonl", Trial)
    assert not run([TINY], records, Setup(max_seconds=1e-9))
    assert not list(records)


def test_networks_of_peers_are_of_the_problem() -> None:
    """What any peer hands back, whichever are installed, is judged by the certificate and near the optimum."""
    problem = TINY.make(None)
    found = {}
    for peer in PEERS:
        if peer.refuses(problem) is None:
            network = peer.train(problem, peer.efforts[-1] if peer.name != "AdamW" else 300, 20.0)
            assert network is not None
            found[peer.name] = pn.certify(problem, network).relative_gap
    assert "AdamW" in found
    assert all(0 <= gap < (1.0 if name == "AdamW" else 1e-3) for name, gap in found.items()), found


def test_solvers_of_other_programs_have_no_gap(tmp_path: Path) -> None:
    case = Case("classes", lambda _: of.posed("mlp", of.labelled((30, 3), 3), "softmax", 0.1, gates=4))
    records = Records(tmp_path / "x.jsonl", Trial)
    assert run([case], records, Setup(who=frozenset({"LogisticRegression"})))
    assert [(one.who, one.gap, one.error) for one in records] == [("LogisticRegression", None, None)]


def trial(who: str, effort: float, seconds: float, gap: float, ours: bool) -> Trial:
    return Trial("tiny", who, effort, seconds, gap, ours)


STANDING = Standing.of(
    TINY,
    [
        trial("auto", 1e-2, 1.0, 1e-3, True),
        trial("auto", 1e-6, 4.0, 1e-7, True),
        trial("admm", 1e-2, 0.5, 1e-3, True),
        trial("apg", 1e-2, 3.0, 1e-1, True),
        trial("pyscnn", 1e-9, 10.0, 1e-4, False),
    ],
)


def test_standings() -> None:
    assert STANDING.seconds("auto", 1e-4) == 4.0
    assert STANDING.seconds("pyscnn", 1e-6) == math.inf
    assert STANDING.regret(1e-2) == ("admm", 2.0)
    assert STANDING.regret(1e-6) is None
    clock, peer = TINY.marks
    assert STANDING.answer(clock) == (12.5, False)
    assert STANDING.answer(peer) == (2.5, True)  # it did not get there in ten seconds
    assert Standing.of(TINY, []).answer(clock) is None


def test_tables() -> None:
    assert "| tiny | auto | 1.00 | 4.00 | 4.00 |  | 1e-07 after 4.00 s |" in times([STANDING])
    assert "apg" not in times([STANDING])
    assert "met, ≥ 2.50" in marks([STANDING])
    assert "| tiny | 2.00 (admm) | none sooner | none sooner |  |" in regrets([STANDING])
    whole = page("small", "provenet bench", [STANDING], {"away": "no folder."}, "small.png")
    assert "- away: no folder." in whole
    assert "(small.png)" in whole
    assert "## Regret" in whole
    assert whole.index("Seconds until a relative gap") < whole.index("| program |")
    alone = Standing.of(TINY, [trial("auto", 1e-2, 1.0, 1e-3, True)])
    assert "## Regret" not in page("small", "provenet bench", [alone], {}, "small.png")


@pytest.mark.parametrize("suite", SUITES)
def test_names_of_programs_are_their_own(suite: str) -> None:
    names = [case.name for case in SUITES[suite]]
    assert len(set(names)) == len(names)


def test_images_are_read(tmp_path: Path) -> None:
    head = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28])
    (tmp_path / "train-images-idx3-ubyte").write_bytes(head + b"\xff" * 1568)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 3, 4]))
    X, y = of.images(tmp_path, 2)
    assert X.shape == (2, 784)
    assert np.all(X == 1.0)
    assert y.tolist() == [3, 4]
    assert of.image_tokens(tmp_path, 1)[0].shape == (1, 49, 16)


def test_operators_and_bare_products_agree() -> None:
    """Every block is there; one row of the cheapest kind is measured, and its outcomes compared on the way."""
    assert {row.block for row in rows()} == set(BLOCKS)
    (cost,) = Row("mlp", "linear", "mean").costs(Size(n=40, d=3, c=2, gates=2))
    assert cost.ratio > 0
    assert Row("mlp", "linear", "mean").is_in([cost])


def test_seconds_on_an_axis_are_said_as_one_says_them() -> None:
    ticks = [k * 10.0**n for n in (-1, 0, 1) for k in range(1, 10)]
    assert [said for tick in ticks if (said := in_seconds(tick, 0))] == [
        "0.1",
        "0.2",
        "0.5",
        "1",
        "2",
        "5",
        "10",
        "20",
        "50",
    ]


def test_make_bench_runs_every_suite() -> None:
    """Commas within a function of make separate its arguments."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed here")
    said = subprocess.run(["make", "-n", "compared"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"--only {','.join([*SUITES, 'operators'])} " in said
