"""Weak duality from the other side: no wide ReLU network, however trained, gets below the certified bound."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import provenet as pn

PROBLEMS, SEEDS = 5, 10  # of each kind: 2 kinds, 100 runs
NEURONS, EPOCHS, BETA = 60, 400, 0.2


def posed(d: int) -> tuple[Tensor, Tensor, Tensor]:
    """X (problems, n, d), Y (problems, n, 2), and the lower bounds (problems,) over all arrangements."""
    random = np.random.default_rng(d)
    X, Y = random.standard_normal((PROBLEMS, 10, d)), random.standard_normal((PROBLEMS, 10, 2))
    lower = []
    for x, y in zip(X, Y, strict=True):
        certificate = pn.solve(pn.formulate("mlp", x, y, "relu", gates="all", beta=BETA), tol=1e-5).certificate
        assert certificate.scope == "all_arrangements"
        assert certificate.status == "certified"
        lower.append(certificate.dual)
    return torch.tensor(X), torch.tensor(Y), torch.tensor(lower, dtype=torch.float64)


def objectives(X: Tensor, Y: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Of a batch of networks, (runs,): first (runs, d, m), second (runs, m, c)."""
    error = torch.relu(X @ first) @ second - Y
    return 0.5 * error.square().sum((1, 2)) + BETA / 2 * (first.square().sum((1, 2)) + second.square().sum((1, 2)))


@pytest.mark.parametrize(("d", "way"), [(2, "adam"), (3, "sgd")])
def test_no_run_of_gradient_descent_beats_the_bound(d: int, way: str) -> None:
    """Fifty runs at once, each with its own start and, for SGD, its own batches; looked at after every epoch."""
    X, Y, lower = (one.repeat_interleave(SEEDS, 0) for one in posed(d))
    generator = torch.Generator().manual_seed(d)
    runs, n, c = Y.shape
    start = torch.rand(runs, 1, 1, generator=generator, dtype=torch.float64) * 0.5 + 0.05
    first, second = (
        (start * torch.randn(runs, *shape, generator=generator, dtype=torch.float64)).requires_grad_()
        for shape in ((d, NEURONS), (NEURONS, c))
    )
    adam = way == "adam"
    optimiser = torch.optim.Adam([first, second], 0.02) if adam else torch.optim.SGD([first, second], 0.01)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    best = torch.full((runs,), torch.inf, dtype=torch.float64)
    each = torch.arange(runs)[:, None]
    for _ in range(EPOCHS):
        order = torch.rand(runs, n, generator=generator).argsort(1)
        for batch in (order,) if adam else order.chunk(2, dim=1):
            optimiser.zero_grad()
            # half of the samples count twice
            error = torch.relu(X[each, batch] @ first) @ second - Y[each, batch]
            penalty = first.square().sum() + second.square().sum()
            (0.5 * n / batch.shape[1] * error.square().sum() + BETA / 2 * penalty).backward()
            optimiser.step()
        rates.step()
        value = objectives(X, Y, first.detach(), second.detach())
        assert (value >= lower).all()
        best = torch.minimum(best, value)
    assert float((best / lower).median()) < 1.2  # and they come near: a bound of nothing would prove nothing
