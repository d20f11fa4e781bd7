"""What a limit of memory does: it is told, kept, and refused where it cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import batches, memory
from provenet.io import posed_data
from provenet.io.fingerprint import fingerprint
from provenet.memory.plan import MemoryPlan, Sizes
from provenet.operators.wrappers.shards import ShardedOperator
from provenet.solvers.neurons.lbfgs.method import LBFGS

rng = np.random.default_rng(0)
X = rng.standard_normal((3000, 20))
LABELS = np.array(list("abc"))[(X @ rng.standard_normal((20, 3))).argmax(1)]
SETTINGS: dict[str, Any] = {"beta": "0.2max", "n_gates": 6, "tol": 1e-2}


@pytest.mark.parametrize(
    ("said", "size"),
    [("4GB", 4 * 10**9), ("512 MiB", 2**29), (".5kb", 500), (10**6, 10**6), (1e6, 10**6), (None, None)],
)
def test_sizes_as_they_are_said(said: Any, size: int | None) -> None:
    assert memory.as_bytes(said) == size


@pytest.mark.parametrize("said", ["4", "many", "-1GB", "1.2.3GB", "", 0, -1, True, float("nan"), [1]])
def test_what_is_no_size_is_refused(said: Any) -> None:
    with pytest.raises(ValueError, match="memory_limit: it must be a size such as '4GB'"):
        pn.formulate("mlp", X, X[:, 0], memory_limit=said)


def test_sizes_are_shown_as_they_are_said() -> None:
    assert [memory.shown(size) for size in (500, 1234567, 4e9)] == ["0.5 kB", "1.23 MB", "4 GB"]


def test_a_batch_takes_a_small_part_of_the_limit() -> None:
    assert batches.count(1, 1000, 1) == 1000
    with batches.within(3200):
        assert batches.count(1, 1000, 1) == 100
        with batches.within(10**9):  # no more than whoever called has
            assert batches.count(1, 1000, 1) == 100
        assert batches.share(4) == 800
    assert batches.count(1, 1000, 1) == 1000


def sizes(**changed: int) -> Sizes:
    return Sizes(
        **{"n": 60_000, "numbers": 784, "rho": 1, "p": 785, "q": 10, "outputs": 600_000, "gates": 64} | changed
    )


def test_a_plan_keeps_to_its_limit_and_says_so() -> None:
    for limit in (sizes().least, 4 * 10**8, 10**9, 4 * 10**9):
        plan = MemoryPlan.of(sizes(), limit)
        assert 1 <= plan.rows <= 60_000
        assert 0 <= plan.kept(8) <= plan.kept(4) <= 60_000
        assert plan.used <= limit
        assert f"of the {memory.shown(limit)} allowed" in str(plan)
        assert f"{plan.rows:,} rows at a time" in str(plan)
    assert "all 60,000 rows stay in memory" in str(plan)


def test_the_least_is_the_least() -> None:
    least = sizes().least
    assert MemoryPlan.of(sizes(), least).rows >= 16
    with pytest.raises(ValueError, match=r"memory_limit: .* is less than the least that works here, (.*): ") as error:
        MemoryPlan.of(sizes(), least - 1)
    assert memory.shown(least) in str(error.value)


def test_a_limit_below_the_least_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.full((300, 20), np.nan))  # which would be found, were it read
    for limit in ("1MB", 5_000_000):
        with pytest.raises(ValueError, match="is less than the least that works here"):
            pn.formulate("mlp", tmp_path / "X.npy", np.zeros(300), memory_limit=limit)
    with pytest.raises(ValueError, match="is less than the least that works here"):
        pn.ProvenClassifier(memory_limit="1MB").fit(X, LABELS)


def test_arrays_that_fit_stay_in_memory() -> None:
    assert pn.formulate("mlp", X, X[:, 0], memory_limit="1GB").memory is None
    assert pn.formulate("mlp", X, X[:, 0], memory_limit="3GB").memory is None


def test_a_problem_in_memory_is_solved_within_a_limit() -> None:
    """By a method that keeps to it, or in shards; a method asked for by name says that it cannot."""
    problem = pn.formulate("mlp", X, X[:, 0], gates=20, beta=30.0)
    reference = pn.solve(problem, tol=1e-3)
    roomy, tight = (pn.solve(problem, tol=1e-3, memory_limit=limit) for limit in ("3GB", "14MB"))
    assert roomy.problem.memory is None
    for found in (roomy, tight):
        assert found.certificate.primal == pytest.approx(reference.certificate.primal, rel=1.1e-3)
        assert pn.certify(problem, found.network()).holds(1e-3)
    with pytest.raises(MemoryError, match=r"memory_limit: 'admm' needs about .* beyond the problem itself"):
        pn.solve(problem, "admm", memory_limit="14MB")


def test_in_shards_where_no_method_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pn.formulate("mlp", X, X[:, 0], gates=20, beta=30.0)
    monkeypatch.setattr(LBFGS, "memory", lambda self, program: 0 if program.operator.in_shards else 10**9)
    found = pn.solve(problem, "lbfgs", tol=1e-2, memory_limit="14MB")
    assert found.problem.memory is not None
    assert isinstance(found.problem.program.operator, ShardedOperator)
    assert pn.certify(problem, found.network()).primal == pytest.approx(found.certificate.primal)


def test_another_limit_for_a_problem_in_shards() -> None:
    problem = pn.formulate("mlp", [(X, X[:, 0])], gates=6, beta=30.0, memory_limit="20MB")
    found = pn.solve(problem, tol=1e-2, memory_limit="13MB")
    assert found.problem.memory is not None
    assert found.problem.memory.limit == 13 * 10**6
    assert torch.equal(found.problem.patterns, problem.patterns)
    with pytest.raises(ValueError, match="less than the least"):
        pn.solve(problem, memory_limit="1MB")


def test_fewer_steps_are_remembered_where_memory_is_short() -> None:
    problem = pn.formulate("mlp", [(X, X[:, 0])], gates=6, beta=30.0)
    program, method = problem.program, LBFGS()
    state = method.init(program, None)
    assert method._nothing(state.here, 10).most == 80
    with batches.within(4 * 20 * 10 * 2 * 21 * 4):
        assert method._nothing(state.here, 10).most == 20
    with batches.within(1):
        assert method._nothing(state.here, 10).most == 5


def test_estimators_say_what_they_will_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "X.npy", X)
    reference = pn.ProvenClassifier(gates="gaussian", **SETTINGS).fit(X, LABELS)  # as shards have them
    assert "memory" not in capsys.readouterr().out
    found = pn.ProvenClassifier(memory_limit="14MB", verbose=1, **SETTINGS).fit(tmp_path / "X.npy", LABELS)
    assert "memory: up to " in capsys.readouterr().out
    assert found.solution_.problem.memory is not None
    assert found.classes_.tolist() == ["a", "b", "c"]
    assert found.n_features_in_ == 20
    assert found.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=1.1e-2)
    assert found.score(X, LABELS) == pytest.approx(reference.score(X, LABELS), abs=0.02)
    pn.ProvenClassifier(memory_limit="1GB", verbose=1, **SETTINGS).fit(X, LABELS)
    assert "memory: samples are worked on in memory, which takes 960 kB of the 1 GB allowed" in capsys.readouterr().out


def test_classes_are_those_of_all_shards() -> None:
    order = np.argsort(LABELS, kind="stable")  # each shard lacks a class
    shards = [(X[some], LABELS[some]) for some in np.array_split(order, 4)]
    found = pn.ProvenClassifier(memory_limit="14MB", **SETTINGS).fit(shards)
    assert found.classes_.tolist() == ["a", "b", "c"]
    assert found.network_.second.shape[1] == 3


def test_a_regressor_and_saving_it(tmp_path: Path) -> None:
    shards = [(X[:1000], X[:1000, :2]), (X[1000:], X[1000:, :2])]
    found = pn.ProvenRegressor(memory_limit="14MB", **SETTINGS).fit(shards)
    pn.save(found, tmp_path / "model")
    again = pn.load(tmp_path / "model")
    assert np.array_equal(again.predict(X), found.predict(X))
    whole = again.saved_.problem(*posed_data(again, X, X[:, :2]))  # standardised by the fit's own means and scales
    assert fingerprint(whole) == again.saved_.data
    assert pn.certify(whole, again.network_).primal == pytest.approx(found.certificate_.primal)
    assert again.memory_limit == "14MB"


def test_what_goes_over_all_samples_refuses_shards() -> None:
    with pytest.raises(ValueError, match="folds are taken of arrays"):
        pn.ProvenClassifierCV(memory_limit="14MB").fit([(X, LABELS)])
    with pytest.raises(ValueError, match="whiten: "):
        pn.ProvenClassifier(whiten=True).fit([(X, LABELS)])
    with pytest.raises(ValueError, match="requires y"):
        pn.ProvenClassifier().fit(X)


PEAK = """
import resource, sys, warnings
import numpy as np
import provenet as pn

warnings.simplefilter("ignore")
def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

rng = np.random.default_rng(0)
warm = pn.formulate("mlp", [(rng.standard_normal((60, 4)), rng.standard_normal(60))], gates=3, beta=1.0)
pn.solve(warm, tol=1e-2)
y = np.load(sys.argv[2])
before = peak()  # what the libraries take
problem = pn.formulate("mlp", sys.argv[1], y, gates=4, memory_limit=int(sys.argv[3]))
found = pn.solve(problem.with_beta(0.8 * problem.beta_max), tol=3e-2, max_steps=1)
print(peak() - before, found.certificate.relative_gap)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
def test_the_limit_holds_for_data_that_are_several_times_larger(tmp_path: Path) -> None:
    """Beyond what the process has once its libraries are loaded and have worked once."""
    n, d, limit = 30_000, 400, 32 * 10**6
    map_ = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, (n, d))
    targets = []
    for i in range(0, n, 1000):
        map_[i : i + 1000] = rng.standard_normal((1000, d))
        targets.append(np.maximum(map_[i : i + 1000, :3].sum(1), 0))
    np.save(tmp_path / "y.npy", np.concatenate(targets))
    assert (tmp_path / "X.npy").stat().st_size >= 3 * limit
    command = [sys.executable, "-c", PEAK, str(tmp_path / "X.npy"), str(tmp_path / "y.npy"), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    used, gap = map(float, done.stdout.split())
    assert used <= limit
    assert 0 <= gap < 1


def test_moments_of_shards_are_those_of_all_samples() -> None:
    values = X * np.logspace(-3, 3, 20) + np.arange(20)
    values[:, 4] = 7.0
    weight = np.linspace(0.5, 2, 3000)
    settings: dict[str, Any] = {"standardize": True, "sample_weight": weight, "gates": 4}
    for loss in ("squared", "huber"):
        whole = pn.formulate("mlp", values, X[:, :2], loss=loss, **settings)
        parts = pn.formulate("mlp", [(values[:100], X[:100, :2]), (values[100:], X[100:, :2])], loss=loss, **settings)
        assert whole.scaling is not None
        assert parts.scaling is not None
        assert parts.scaling.near(whole.scaling)
        assert parts.scaling.scale[4] == 0
        assert torch.allclose(parts.X[0:50], whole.X[:50], rtol=1e-9, atol=1e-9)


def test_shards_have_gaussian_gates_and_no_search_for_beta_unless_told() -> None:
    found = pn.ProvenClassifier(memory_limit="14MB", n_gates=6, tol=0.1).fit([(X, LABELS)])
    assert found.solution_.problem.statement.sampler == "gaussian"
    assert "shards" in str(found.beta_search_)
