"""A run that was killed goes on to the same network, bit for bit."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layerwise_help import fitted, same_weights, small_layers, weights_of
from sklearn.base import clone

import provenet as pn
from provenet.layerwise import checkpoint as checkpoints
from provenet.layerwise import exact, work
from provenet.layerwise import inputs as inputs_
from provenet.layerwise.minibatch import Minibatches

EPOCHS, STAGES, STEPS = 3, 2, 2  # 200 samples in batches of 128
MOMENTS = np.random.default_rng(0).choice(EPOCHS * STAGES * STEPS, 9, replace=False).tolist()
WRITES = np.random.default_rng(1).choice(np.arange(1, 11), 7, replace=False).tolist()  # the first begins the run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a fork of itself")


@pytest.fixture(scope="module")
def slice_(digits: Any) -> Any:
    X, y = digits
    return X[:200], y[:200]


@pytest.fixture(scope="module")
def whole(slice_: Any) -> Any:
    """The run that nobody interrupts."""
    return fitted(estimator(), *slice_)


def estimator(**more: Any) -> pn.LayerwiseClassifier:
    layers = small_layers(epochs=EPOCHS)[:STAGES]
    return pn.LayerwiseClassifier(layers=layers, validation_fraction=None, early_stopping=False, **more)


def killed(model: Any, data: Any, arm: Callable[[], None]) -> None:
    """Fit in a process of its own that ``arm`` has killed."""
    child = os.fork()
    if child == 0:
        arm()
        try:
            fitted(model, *data)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it ended by itself"
    assert os.WTERMSIG(status) == signal.SIGKILL


def kill_at(moment: int, owner: Any, name: str) -> Callable[[], None]:
    """At so manieth a call of a function, from zero on."""

    def arm() -> None:
        before, calls = getattr(owner, name), iter(range(10**9))

        def counted(*args: Any, **kwargs: Any) -> Any:
            if next(calls) == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return before(*args, **kwargs)

        setattr(owner, name, counted)

    return arm


def resumed_equals(whole: Any, model: Any, data: Any) -> None:
    again = fitted(clone(model).set_params(resume=True), *data)
    assert same_weights(weights_of(again), weights_of(whole))
    for stage, expected in zip(again.stages_, whole.stages_, strict=True):
        assert stage.certificate == expected.certificate
        assert (stage.below, stage.inputs, stage.score) == (expected.below, expected.inputs, expected.score)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_in_the_middle_of_an_epoch(moment: int, whole: Any, slice_: Any, tmp_path: Path) -> None:
    model = estimator(checkpoint=tmp_path / "run")
    killed(model, slice_, kill_at(moment, Minibatches, "_seen"))
    resumed_equals(whole, model, slice_)


@pytest.mark.parametrize("moment", [1, STEPS, 2 * STEPS + 1])
def test_killed_before_and_after_gates_are_fixed(moment: int, slice_: Any, tmp_path: Path) -> None:
    """With two neurons a gate a stage is a ReLU network for two of three epochs only; white coordinates go on."""
    layers = small_layers(epochs=EPOCHS, rank=2)[:1]
    model = estimator(certify=False).set_params(layers=layers)
    whole = fitted(clone(model), *slice_)
    model.set_params(checkpoint=tmp_path / "run")
    killed(model, slice_, kill_at(moment, Minibatches, "_seen"))
    resumed_equals(whole, model, slice_)


@pytest.mark.parametrize("moment", WRITES)
def test_killed_while_a_checkpoint_is_written(moment: int, whole: Any, slice_: Any, tmp_path: Path) -> None:
    model = estimator(checkpoint=tmp_path / "run")
    killed(model, slice_, kill_at(moment, os, "replace"))
    resumed_equals(whole, model, slice_)


@pytest.mark.parametrize("moment", range(STAGES))
def test_killed_in_a_proof(moment: int, whole: Any, slice_: Any, tmp_path: Path) -> None:
    """The stage itself is kept: it is not trained again."""
    model = estimator(checkpoint=tmp_path / "run")
    killed(model, slice_, kill_at(moment, work, "stage_certificate"))
    assert (tmp_path / "run" / f"stage-{moment + 1}.safetensors").exists()
    resumed_equals(whole, model, slice_)


def test_what_was_trained_without_proofs_gets_them_later(whole: Any, slice_: Any, tmp_path: Path) -> None:
    model = fitted(estimator(checkpoint=tmp_path / "run", certify=False), *slice_)
    assert [stage.certificate for stage in model.stages_] == [None] * STAGES
    assert "none was asked for" in str(model.stages_)
    resumed_equals(whole, model.set_params(certify=True), slice_)


def test_proofs_are_sharpened_later(slice_: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """A run that is done gets better bounds of the same networks; what is sharp is left alone."""
    model = fitted(estimator(checkpoint=tmp_path / "run", resume=True, beta="3e-2mean"), *slice_)
    weights, blunt = weights_of(model), [stage.certificate for stage in model.stages_]
    fitted(model.set_params(sharpen=60.0), *slice_)
    sharp = [stage.certificate for stage in model.stages_]
    assert same_weights(weights_of(model), weights)
    assert all(after.primal == before.primal for before, after in zip(blunt, sharp, strict=True))
    assert all(after.dual > 1.2 * before.dual for before, after in zip(blunt, sharp, strict=True))
    monkeypatch.setattr(work, "stage_certificate", None)  # whoever calls it fails
    fitted(model, *slice_)
    assert [stage.certificate for stage in model.stages_] == sharp


def test_ctrl_c_in_a_proof_keeps_the_stage(whole: Any, slice_: Any, tmp_path: Path, monkeypatch: Any) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(work, "stage_certificate", interrupted)
    model = fitted(estimator(checkpoint=tmp_path / "run"), *slice_)
    assert len(model.stages_) == 1
    assert "its proof was interrupted" in str(model.stages_)
    monkeypatch.undo()
    resumed_equals(whole, model, slice_)


def test_ctrl_c_while_a_stage_is_solved(slice_: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """What was found by then is kept, the next stage is not begun, and a resumed run solves it to its end."""
    layers = small_layers(epochs=EPOCHS, engine="solve", gates="gaussian", beta="1e-2mean")[:STAGES]
    model = estimator(tol=1e-2).set_params(layers=layers)
    whole = fitted(clone(model), *slice_)
    solve = exact.solve_quietly

    def interrupted(problem: Any, method: Any, limits: Any, start: Any, callback: Any) -> Any:
        return solve(problem, method, limits, start, callback=lambda record: callback(record) or record.step > 5)

    monkeypatch.setattr(exact, "solve_quietly", interrupted)
    fitted(model.set_params(checkpoint=tmp_path / "run"), *slice_)
    assert [stage.complete for stage in model.stages_] == [False]
    assert model.stages_[0].certificate.relative_gap > 1e-2
    assert "stage 1: solving it was interrupted" in str(model.stages_)
    monkeypatch.undo()
    resumed_equals(whole, model, slice_)


def test_killed_again_and_again(whole: Any, slice_: Any, tmp_path: Path) -> None:
    model = estimator(checkpoint=tmp_path / "run", resume=True)
    for moment in (2, 3, 2):
        killed(model, slice_, kill_at(moment, Minibatches, "_seen"))
    resumed_equals(whole, model, slice_)


def test_a_checkpoint_changes_nothing_and_a_run_that_is_done_is_read(whole: Any, slice_: Any, tmp_path: Path) -> None:
    model = fitted(estimator(checkpoint=tmp_path / "run"), *slice_)
    assert same_weights(weights_of(model), weights_of(whole))
    killed_if_it_trains = kill_at(0, Minibatches, "_seen")
    child = os.fork()
    if child == 0:
        killed_if_it_trains()
        os._exit(0 if fitted(clone(model).set_params(resume=True), *slice_) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_run_with_other_settings_is_not_resumed(slice_: Any, tmp_path: Path) -> None:
    X, y = slice_
    model = fitted(estimator(checkpoint=tmp_path / "run", certify=False), X, y)
    with pytest.raises(FileExistsError, match="resume=True"):
        fitted(clone(model), X, y)
    other = clone(model).set_params(resume=True)
    with pytest.raises(ValueError, match=r"layers\[0\].n_gates was 6, now 7.*layers\[1\].n_gates"):
        fitted(clone(other).set_params(layers=small_layers(epochs=EPOCHS, n_gates=7)[:STAGES]), X, y)
    with pytest.raises(ValueError, match="seed was 0, now 1"):
        fitted(clone(other).set_params(random_state=1), X, y)
    with pytest.raises(ValueError, match=r"samples.digest was .*, now"):
        fitted(clone(other), X + 1, y)
    with pytest.raises(ValueError, match="checkpoint=folder"):
        fitted(estimator(resume=True), X, y)


def test_a_run_of_one_process_is_not_that_of_several(slice_: Any, tmp_path: Path) -> None:
    """Their batches and sums are others."""
    model = fitted(estimator(checkpoint=tmp_path / "run", certify=False), *slice_)
    with pn.ranks.joined(), pytest.raises(ValueError, match="torchrun was None, now 'rows in 8 pieces'"):
        fitted(clone(model).set_params(resume=True), *slice_)


def test_a_damaged_checkpoint_is_named(slice_: Any, tmp_path: Path) -> None:
    model = fitted(estimator(checkpoint=tmp_path / "run", certify=False), *slice_)
    path = tmp_path / "run" / "stage-2.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"stage-2.safetensors: it is damaged"):
        fitted(clone(model).set_params(resume=True), *slice_)


@pytest.mark.parametrize(
    ("moment", "complete"), [(STEPS, [False]), (EPOCHS * STEPS + 1, [True]), (EPOCHS * STEPS + STEPS, [True, False])]
)
def test_ctrl_c_keeps_what_there_is(
    moment: int, complete: list[bool], whole: Any, slice_: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Stages that are done, and what the last epoch left of the one in work; and the run can be resumed."""
    calls = iter(range(100))
    seen = Minibatches._seen

    def interrupted(*args: Any) -> Any:
        if next(calls) == moment:
            raise KeyboardInterrupt
        return seen(*args)

    monkeypatch.setattr(Minibatches, "_seen", interrupted)
    model = fitted(estimator(checkpoint=tmp_path / "run"), *slice_)
    assert [stage.complete for stage in model.stages_] == complete
    assert all(stage.module.network.gates is not None for stage in model.stages_)
    assert ("interrupted" in str(model.stages_)) is (not complete[-1])
    monkeypatch.undo()
    resumed_equals(whole, model, slice_)


def test_ctrl_c_before_there_is_anything(slice_: Any, monkeypatch: Any) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Minibatches, "_seen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted(estimator(), *slice_)


def test_a_full_disk_leaves_the_checkpoint_whole(whole: Any, slice_: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Features go into a file; at the second stage there is no room for it."""
    monkeypatch.setattr(inputs_, "_IN_MEMORY", 0)
    model = estimator(checkpoint=tmp_path / "run")
    write = inputs_.Store._in_file

    def full(self: Any, inputs: Any, path: Path) -> Any:
        if "stage-2" in path.name:
            monkeypatch.setattr(inputs_.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 100}))
        return write(self, inputs, path)

    monkeypatch.setattr(inputs_.Store, "_in_file", full)
    with pytest.raises(OSError, match="has no room for") as error:
        fitted(model, *slice_)
    assert error.value.errno == errno.ENOSPC
    assert not list((tmp_path / "run" / "cache").iterdir())
    monkeypatch.undo()
    monkeypatch.setattr(inputs_, "_IN_MEMORY", 0)
    resumed_equals(whole, model, slice_)
    assert not list((tmp_path / "run" / "cache").iterdir())


def test_features_made_anew_are_the_same(whole: Any, slice_: Any) -> None:
    assert same_weights(weights_of(fitted(estimator(cache=0), *slice_)), weights_of(whole))


def test_differences_are_named() -> None:
    before, now = {"a": 1, "b": [1, {"c": 2}]}, {"a": 1, "b": [1, {"c": 3}], "d": None}
    assert checkpoints.differences(before, now) == ["b[1].c was 2, now 3"]
