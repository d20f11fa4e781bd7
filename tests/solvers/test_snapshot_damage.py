"""A damaged snapshot is refused: numbers in it decide what a run proves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import provenet as pn
from provenet.solvers import snapshot

RNG = np.random.default_rng(1)
X = RNG.standard_normal((40, 3))
PROBLEM = pn.formulate("mlp", X, np.sin(X[:, :2]), gates=8, beta=0.02)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The snapshot of a run that was cut short."""

    class Killed(BaseException):
        pass

    def cut(record: pn.solvers.Record) -> bool:
        if record.step >= 6:
            raise Killed
        return False

    with pytest.raises(Killed), pn.snapshots(tmp_path / "kept", every=1):
        pn.solve(PROBLEM, "lbfgs", tol=1e-12, max_steps=50, callback=cut)
    return tmp_path / "kept"


def go_on(kept: Path) -> pn.Solution:
    with pn.snapshots(kept, every=1):
        return pn.solve(PROBLEM, "lbfgs", tol=1e-3, max_steps=50)


def test_bounds_that_were_changed_are_not_believed(kept: Path) -> None:
    index = json.loads((kept / "snapshot.json").read_text())
    assert index["told"]["dual"]["proven"] is not None
    index["told"]["dual"]["proven"]["lower"] = 1e9
    (kept / "snapshot.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"snapshot\.json: it was changed after it was written"):
        go_on(kept)


@pytest.mark.filterwarnings("ignore:solve stopped")
def test_any_bit(kept: Path) -> None:
    whole = (kept / "snapshot.json").read_bytes()
    for position in RNG.integers(len(whole), size=60):
        edited = bytearray(whole)
        edited[position] ^= 1 << int(RNG.integers(8))
        try:
            same = json.loads(edited) == json.loads(whole)
        except ValueError:
            same = False
        (kept / "snapshot.json").write_bytes(bytes(edited))
        assert ("error" in (snapshot._read_index(kept / "snapshot.json") or {})) is not same
    (kept / "snapshot.json").write_bytes(whole)
    assert go_on(kept).certificate.dual <= go_on(kept).certificate.primal
