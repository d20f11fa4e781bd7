"""A β of rounding's size: weights so large that their outputs are what rounding makes them."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn


@pytest.mark.filterwarnings("ignore:solve stopped")
def test_outputs_of_rounding_alone_do_not_end_a_run() -> None:
    """Standardised copies of one sample, whose tokens have mean zero: nothing but rounding reaches the readout."""
    X = np.tile([[-3.192e-4], [-1.5531e-4], [2.6718e-4]], (6, 1, 1))
    Y = np.random.default_rng(0).standard_normal((6, 2)) * 1e3
    posed = pn.formulate("fno", X, Y, "linear", 1, "huber", 1.0, standardize=True, loss_settings={"delta": 0.2})
    assert posed.beta_max == 0  # what rounding makes is no pull
    found = pn.solve(posed.with_beta(1e-14), max_seconds=1)
    assert found.certificate.dual <= found.certificate.primal


@pytest.mark.filterwarnings("ignore:solve stopped")
def test_what_is_worse_than_no_network_is_not_returned() -> None:
    """Weights 22 orders apart: standardised, the heavy sample is zero, but not in the rounding of a reduced program."""
    X = np.array([[0.0007808, -0.01708017, 0.0128356], [0.00404943, 0.00892265, 0.00059551]])
    Y, weight = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1.899e-6, 1e16])
    problem = pn.formulate("mlp", X, Y, gates=2, loss="softmax", beta=75.6, sample_weight=weight, standardize=True)
    found = pn.solve(problem, tol=1e-12, max_steps=100)
    assert found.certificate.primal <= 1e16 * np.log(2) * (1 + 1e-6)
