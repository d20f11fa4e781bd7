"""Gates that grow until the bound over all u is β: a certificate among all ReLU networks."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import provenet as pn
from provenet.cli.subject import contradicted
from provenet.io import folder as format_
from provenet.proofs.independent import second_opinion
from provenet.report.words import nobody_else
from provenet.solvers.path import path
from provenet.solvers.widen import widened

RNG = np.random.default_rng(0)
X = RNG.standard_normal((14, 2))
y = np.sign(X[:, 0] * X[:, 1])
TOL = 1e-3


@pytest.fixture(scope="module")
def reached() -> pn.Solution:
    return pn.solve(pn.formulate("mlp", X, y, "relu", gates="grow", n_gates=28, beta=0.5), tol=TOL)


@pytest.fixture(scope="module")
def short() -> pn.Solution:
    """So few gates that others pull harder."""
    return pn.solve(pn.formulate("mlp", X, y, "relu", gates="grow", n_gates=5, beta=0.1), tol=TOL)


def test_reached(reached: pn.Solution) -> None:
    found = reached.certificate
    assert found.scope == reached.problem.scope == "all_arrangements"
    assert found.status == "certified"
    assert len(reached.problem.patterns) < 28
    every = pn.solve(pn.formulate("mlp", X, y, "relu", gates="all", beta=0.5), tol=1e-7).certificate
    assert found.dual <= every.primal
    assert every.dual <= found.primal
    assert reached.lower_bound <= every.primal
    assert "No two-layer ReLU network of any width" in nobody_else(reached.problem, found.scope)


def test_several_outputs_and_a_free_intercept() -> None:
    draw = np.random.default_rng(1)
    samples, labels = draw.standard_normal((25, 2)), draw.integers(0, 3, 25)
    more = {"loss": "softmax", "beta": 0.5, "fit_intercept": "free"}
    grown = pn.solve(pn.formulate("mlp", samples, labels, "relu", gates="grow", n_gates=60, **more), tol=1e-2)
    assert grown.certificate.scope == "all_arrangements"
    trained = pn.solve(pn.formulate("mlp", samples, labels, "relu", gates="trained", n_gates=40, **more), tol=1e-2)
    assert grown.certificate.dual <= trained.certificate.primal


def test_judged_among_all_is_the_network_with_its_intercept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is not looked for once more: what is certified is what is returned, to the last digit."""
    problem = pn.formulate("mlp", X, y, "relu", gates=20, beta=0.5, fit_intercept="free")
    solution = pn.solve(problem, tol=TOL)
    monkeypatch.setattr(pn.Problem, "with_best_bias", lambda self, network: pytest.fail("looked for"))
    assert widened(solution, TOL).solution.certificate.holds(TOL)


def test_not_reached(short: pn.Solution) -> None:
    assert short.certificate.scope == short.problem.scope == "fixed_gates"
    assert short.certificate.status == "certified"
    every = pn.solve(pn.formulate("mlp", X, y, "relu", gates="all", beta=0.1), tol=1e-6).certificate
    assert every.primal < short.certificate.dual, "a bound of these gates is none of all networks here"


def test_where_the_bound_over_all_u_is_loose() -> None:
    draw = np.random.default_rng(2)
    problem = pn.formulate(
        "mlp", draw.standard_normal((30, 8)), draw.standard_normal((30, 2)), "relu", gates="grow", n_gates=12, beta=1.0
    )
    assert pn.solve(problem, tol=1e-2).certificate.scope == "fixed_gates"


def test_saved_and_judged_anew(reached: pn.Solution, tmp_path: Path) -> None:
    saved = pn.load(pn.save(reached, tmp_path / "m"))
    again = saved.certify(X, y, tol=TOL)
    assert again.scope == saved.certificate.scope == "all_arrangements"
    assert again.holds(TOL)
    assert not contradicted(saved.certificate, again)
    problem = saved.problem(X, y)
    assert problem.scope == "all_arrangements"
    other = second_opinion(problem, saved.network, theta=again.theta)
    assert other.exact
    assert other.relative_gap <= 1.1 * TOL
    once_more = pn.solve(problem, tol=TOL)
    assert once_more.problem.scope == once_more.certificate.scope


def test_certificates_of_other_networks_are_of_all_too(reached: pn.Solution, short: pn.Solution) -> None:
    """What the listed gates prove is not taken for a bound of all networks, whoever asks."""
    few = replace(short.problem.statement, beyond_gates=True)
    claimed = replace(short.problem, statement=few)
    found = pn.certify(claimed, short.network(), tol=TOL)
    assert found.scope == "all_arrangements"
    assert found.dual < short.certificate.dual
    solved = pn.solve(claimed, tol=TOL)
    assert solved.certificate.scope == solved.problem.scope == "fixed_gates"
    every = pn.solve(pn.formulate("mlp", X, y, "relu", gates="all", beta=0.1), tol=1e-6).certificate
    assert found.dual <= every.primal


def test_along_a_path_each_says_what_it_proves() -> None:
    problem = pn.formulate("mlp", X, y, "relu", gates="grow", n_gates=28)
    solutions = path(problem, 3, tol=1e-2, beta_ratio=0.02)
    assert all(each.certificate.scope == each.problem.scope for each in solutions)


def forge(original: Path, place: Path, beyond: bool) -> Path:
    """A copy that claims all arrangements, in its certificate and, ``beyond``, in its problem, with right digests."""
    shutil.copytree(original, place)
    told, header = (json.loads((place / name).read_text()) for name in ("certificate.json", "model.json"))
    told["scope"] = "all_arrangements"
    header["problem"]["beyond_gates"] = beyond
    (place / "certificate.json").write_text(json.dumps(told))
    for name in header["files"]:
        header["files"][name] = format_._sha256((place / name).read_bytes())
    header["digest"] = format_._digest(header)
    (place / "model.json").write_text(json.dumps(header))
    return place


def test_a_scope_that_was_changed_by_hand(short: pn.Solution, tmp_path: Path) -> None:
    original = pn.save(short, tmp_path / "m")
    with pytest.raises(ValueError, match="scope: the model has"):
        pn.load(forge(original, tmp_path / "certificate", beyond=False))
    forged = pn.load(forge(original, tmp_path / "both", beyond=True))
    found = forged.certify(X, y, tol=TOL)
    assert not found.holds(TOL)
    assert any("lower bound" in sentence for sentence in contradicted(forged.certificate, found))


def test_it_is_for_relu_with_weight_decay(short: pn.Solution) -> None:
    gated = pn.formulate("mlp", X, y, gates=3).statement
    for wrong in (gated, replace(short.problem.statement, penalty=(2.0, 1.0))):
        with pytest.raises(ValueError, match="beyond_gates"):
            replace(wrong, beyond_gates=True)
