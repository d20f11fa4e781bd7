"""Deep networks: any number of processes trains and proves the same stages, and goes on where another was killed."""

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
import torch
from sklearn.datasets import load_digits

import provenet as pn
from provenet.layerwise.checkpoint import Checkpoint

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of what all processes said, run once for all tests."""
    found = tmp_path_factory.mktemp("deep")
    subprocess.run([sys.executable, str(HERE / "deep_driver.py"), str(found)], check=True, timeout=400)
    return found


@pytest.fixture(scope="module")
def driver() -> ModuleType:
    """Its data and cases."""
    sys.path.insert(0, str(HERE))
    try:
        spec = importlib.util.spec_from_file_location("deep_driver", HERE / "deep_driver.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(HERE))
    return module


def said(folder: Path, label: str) -> dict[str, Any]:
    errors = [path.read_text() for path in folder.glob(f"{label}.error-*")]
    assert not errors, errors[0]
    read: dict[str, Any] = json.loads((folder / f"{label}.json").read_text())
    return read


@pytest.mark.parametrize("label", ["one", "three"])
def test_any_number_of_processes_trains_and_proves_the_same(folder: Path, label: str) -> None:
    """To the last bit: weights, scores, certificates, digests of what stages saw."""
    two, other = said(folder, "two"), said(folder, label)
    assert {"deep", "table"} <= set(other) <= set(two)
    for name in set(other) - {"sharp"}:
        assert other[name] == two[name], name


def test_sharpened_proofs_are_of_the_same_network(folder: Path) -> None:
    one, two = (said(folder, label)["sharp"] for label in ("one", "two"))
    assert one["weights"] == two["weights"]
    for found in (one, two):
        (proof,) = (stage["certificate"] for stage in found["stages"])
        assert proof["dual_of"] == "solved network"
        assert proof["primal"] == two["stages"][0]["certificate"]["primal"]
        assert proof["dual"] == pytest.approx(two["stages"][0]["certificate"]["dual"], rel=1e-3)


def test_the_stages_are_trained(folder: Path) -> None:
    two = said(folder, "two")
    assert [stage["engine"] for stage in two["solved"]["stages"]] == ["solve", "minibatch"]
    assert two["solved"]["stages"][0]["certificate"]["status"] == "certified"
    assert two["solved"]["stages"][0]["score"] > 0.9
    assert two["finished"]["stages"][0]["engine"] == "minibatch, lbfgs"
    assert two["relu"]["stages"][0]["certificate"]["scope"] == "all_arrangements"
    assert two["table"]["stages"][-1]["score"] > 0.5
    assert two["deep"]["classes"] == list("abcdefghij")
    assert two["deep"]["stages"][0]["validation"] is not None


@pytest.mark.parametrize("name", ["solved", "table", "relu"])
def test_one_process_with_all_the_rows_proves_the_same(folder: Path, driver: ModuleType, name: str) -> None:
    """Of the saved network, on what each stage saw of the rows that were trained on, to the digits of its float32."""
    model, X, y = pn.load(folder / name), *driver.CASES[name][1:]
    rows = np.arange(len(X))
    if model.validation_fraction is not None:
        from provenet.layerwise.samples import set_aside

        rows, _ = set_aside(len(X), model.validation_fraction, y if hasattr(model, "classes_") else None, 0)
    targets = np.eye(10)[y[rows]] if hasattr(model, "classes_") else y[rows, None]
    seen = torch.from_numpy(X[rows])
    for number, stage in enumerate(model.stages_):
        with torch.no_grad():
            inputs = model.network_[number].prepared(model.network_.passed(seen, number))
        proof = pn.certify(stage.module.network, inputs, targets, loss=model.loss, beta=stage.certificate.beta)
        assert stage.certificate.primal == pytest.approx(proof.primal, rel=1e-5)
        assert proof.dual <= stage.certificate.dual * (1 + 1e-5)  # a solved stage has its run's dual point, too
        if stage.engine == "minibatch":
            assert stage.certificate.dual == pytest.approx(proof.dual, rel=1e-5)
        assert stage.certificate.scope == proof.scope


def test_a_killed_process_costs_the_epoch_and_nothing_else(folder: Path) -> None:
    """Two processes, one of which is killed in the second stage, then three, which would not live to train it all."""
    assert not (folder / "killed.json").exists()
    assert not list((folder / "run" / "cache").iterdir())  # those who were killed have left theirs
    assert said(folder, "resumed") == said(folder, "two")["deep"]


def test_ctrl_c_in_one_process_keeps_what_all_have(folder: Path) -> None:
    two, kept = said(folder, "two")["deep"], said(folder, "interrupted")
    first, second = kept["stages"]
    assert first == two["stages"][0]
    assert (second["complete"], second["epochs"]) == (False, 1)
    assert second["reason"] == "training was interrupted in epoch 2 of 3"


def test_what_is_wrong_in_one_process_is_told_by_all(folder: Path) -> None:
    told = said(folder, "refused")
    assert told["labels"].startswith("ValueError: y: ")
    assert told["labels"].endswith("labels are missing (not a number).")
    assert told["types"] == "ValueError: X: its type is float32 in process 0, and uint8 in process 1."
    assert told["shapes"] == "ValueError: X: a sample has shape (1, 8, 8) in process 0, and (1, 7, 8) in process 1."
    assert "targets was" in told["run"]
    assert told["again"].startswith("FileExistsError: ")
    assert "it holds a run; resume it" in told["again"]
    assert told["unreadable"].startswith("IsADirectoryError: ")  # as a PermissionError would be


def test_the_command_line_restarts_where_it_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun restarts both when one is killed; the run goes on by itself, and one process speaks."""
    X, y = load_digits(return_X_y=True)
    np.savez(
        tmp_path / "digits.npz",
        X=X[:200].reshape(-1, 1, 8, 8),
        y=y[:200],
        X_test=X[200:260].reshape(-1, 1, 8, 8),
        y_test=y[200:260],
    )
    (tmp_path / "killed.py").write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(HERE)!r})\n"
        "from deep_driver import at_step, signal\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        "    at_step(7, 1, signal.SIGKILL)\n"
        "from provenet.cli.commands import run\n"
        "run()\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [str(tmp_path / "killed.py"), "layerwise", str(tmp_path / "digits.npz"), "--out", str(tmp_path / "model")]
    settings = ["--stages", "2", "--epochs", "3", "--gates", "4", "--validation", "0", "--augment", "flip"]
    done = subprocess.run(
        [*torchrun, "--max-restarts", "1", *command, *settings],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    model = pn.load(tmp_path / "model")
    assert [(stage.engine, stage.epochs) for stage in model.stages_] == [("minibatch", 3)] * 2
    score = model.score(X[200:260].reshape(-1, 1, 8, 8), y[200:260])
    assert done.stdout.count(f"test accuracy {score:.4f}") == 1  # of one process, not of two
    assert done.stderr.count("stage 1/2  training  epoch 3/3") == 1  # the first stage is not trained again
    begun = json.loads((tmp_path / "model" / ".run" / "run.json").read_text())
    assert begun["asked"]["torchrun"] == "rows in 8 pieces"
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")  # of another start: its run is not this one's
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", begun["begun_by"].split(",")[0])
    with pytest.raises(FileExistsError, match="it holds a run; resume it"):
        Checkpoint.open(tmp_path / "model" / ".run", begun["asked"], resume=False)
