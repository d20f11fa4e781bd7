"""The interior point on a working set: it never takes more gates than it has room for."""

import numpy as np
import torch

import provenet as pn
from provenet.solvers.interior.active import ActiveIPM
from provenet.solvers.interior.ipm import IPM
from provenet.solvers.loop import Limits, run
from provenet.variable import Factors


def test_a_start_with_too_many_open_gates_comes_back_untouched() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    program = pn.formulate("mlp", X, X @ rng.standard_normal((5, 2)), gates=20, beta=1e-3).program
    small = ActiveIPM(inner=IPM(max_unknowns=60))  # four gates of 5·6/2 unknowns
    start = Factors(torch.full((20, 5), 1e-3).double(), torch.full((20, 2), 1e-3).double(), torch.arange(20))
    state = small.init(program, start)
    assert state.inner is None
    assert small.finished(state)
    assert torch.equal(small.point(program, state).factors().left, start.left)
    assert run(small, program, Limits(1e-8), start).steps == 0


def test_gates_join_only_while_there_is_room() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    program = pn.formulate("mlp", X, X @ rng.standard_normal((5, 2)), gates=20, beta=1e-3).program
    state = ActiveIPM(inner=IPM(max_unknowns=60)).init(program, None)
    assert state.inner is not None
    assert 1 <= state.gates.numel() <= 4
