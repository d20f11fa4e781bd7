from __future__ import annotations

import pytest
import torch

from provenet.blocks import MLP
from provenet.blocks.formulate import ACTIVATIONS
from provenet.testing import check_block


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("d", [1, 2, 9])
def test_mlp(activation: str, fit_intercept: bool, d: int) -> None:
    X = torch.randn(7, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    check_block(MLP(fit_intercept=fit_intercept), X, activation)
