"""Two and four processes find what one finds; one that is killed costs what came after its last snapshot."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.proofs.independent import second_opinion

DRIVER = Path(__file__).with_name("driver.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of what all processes said, run once for all tests."""
    found = tmp_path_factory.mktemp("ranks")
    subprocess.run([sys.executable, str(DRIVER), str(found)], check=True, timeout=300)
    return found


@pytest.fixture(scope="module")
def driver() -> ModuleType:
    """Its data and cases."""
    spec = importlib.util.spec_from_file_location("ranks_driver", DRIVER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def said(folder: Path, label: str) -> dict[str, Any]:
    errors = [path.read_text() for path in folder.glob(f"{label}.error-*")]
    assert not errors, errors[0]
    read: dict[str, Any] = json.loads((folder / f"{label}.json").read_text())
    return read


def test_two_processes_prove_what_one_with_all_the_data_does(folder: Path) -> None:
    alone, two = said(folder, "memory"), said(folder, "two")
    assert len(two) == 12
    for name, found in two.items():
        reference = alone[name]
        assert found["status"] == reference["status"] == "certified", name
        # each primal is above the optimum, each dual below it
        assert found["primal"] >= reference["dual"] * (1 - 1e-12), name
        assert reference["primal"] >= found["dual"] * (1 - 1e-12), name
        assert found["primal"] == pytest.approx(reference["primal"], rel=1e-2), name  # the gap that was asked for


@pytest.mark.parametrize("label", ["one", "four"])
def test_any_number_of_processes_finds_the_same_network(folder: Path, label: str) -> None:
    two = said(folder, "two")
    for name, found in said(folder, label).items():
        np.testing.assert_allclose(found["weights"], two[name]["weights"], rtol=0, atol=1e-10, err_msg=name)
        assert found["primal"] == pytest.approx(two[name]["primal"], rel=1e-10)
        assert found["dual"] == pytest.approx(two[name]["dual"], rel=1e-10)


def test_the_same_number_of_processes_repeats_to_the_last_bit(folder: Path) -> None:
    two, again = said(folder, "two"), said(folder, "again")
    assert {name: two[name] for name in again} == again


def test_one_process_with_the_saved_weights_and_all_data_proves_the_same(folder: Path, driver: ModuleType) -> None:
    found, saved = said(folder, "two")["mlp"], pn.load(folder / "model")
    problem = saved.problem(driver.X, driver.LABELS, driver.WEIGHT)
    assert saved.data_differences(problem) == []
    proof = saved.certify(driver.X, driver.LABELS, driver.WEIGHT, tol=driver.TOL)
    assert proof.status == "certified"
    assert proof.primal == pytest.approx(found["primal"], rel=1e-12)
    assert proof.dual == pytest.approx(found["dual"], rel=1e-9)
    verdict = second_opinion(problem, saved.network, theta=saved.certificate.theta)
    assert verdict.primal == pytest.approx(found["primal"], rel=1e-12)
    assert verdict.relative_gap <= driver.TOL


def test_a_killed_process_costs_the_steps_since_the_last_snapshot_and_nothing_else(folder: Path) -> None:
    assert not (folder / "killed.json").exists()  # both are gone
    plain, resumed = said(folder, "plain"), said(folder, "resumed")
    assert resumed["seen"][0] > 10  # by one process instead of two, from where the snapshot was
    assert resumed["steps"] == plain["steps"]
    np.testing.assert_allclose(resumed["weights"], plain["weights"], rtol=0, atol=1e-10)
    assert not (folder / "snapshots").exists()  # all went well


def test_data_that_do_not_fit_together_are_told_of_and_classes_are_those_of_all(folder: Path) -> None:
    told = said(folder, "refused")
    assert told["outputs"] == 4
    assert told["classes"] == ["a", "b", "c", "d"]
    assert told["widths"] == "X: a sample has shape (8,) in process 0, and (7,) in process 1."
    assert told["targets"] == "Y: a target has shape (1,) in process 0, and (2,) in process 1."


def test_the_command_line_runs_under_torchrun(tmp_path: Path, driver: ModuleType) -> None:
    table = np.column_stack([driver.X, driver.LABELS])
    np.savetxt(tmp_path / "data.csv", table, delimiter=",", header="a,b,c,d,e,f,g,h,y", comments="")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    fit = ["fit", str(tmp_path / "data.csv"), "--target", "y", "--no-report"]  # nothing of the network is said
    done = subprocess.run(
        [*torchrun, "-m", "provenet", *fit, "--json", "--out", str(tmp_path / "model")],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)  # of one process, not of two
    assert told["method"] == "lbfgs"
    assert told["samples"] == [203, 8]
    assert told["gates"]["found"] == "trained"
    assert told["beta_search"]["reason"] is None
    assert told["certificate"]["free_intercept"] is True
    saved = pn.load(tmp_path / "model")
    problem = saved.saved_.problem(*pn.io.posed_data(saved, driver.X, driver.LABELS.astype(float)))
    assert saved.saved_.data_differences(problem) == []
    assert pn.certify(problem, saved.network_, tol=1e-3).status == "certified"
    assert not (tmp_path / "model.snapshots").exists()
