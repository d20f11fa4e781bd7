"""Token blocks with ReLU among all networks there are (AT Thm 3.3, 4.2, 4.5, 4.8): small tables are enumerated."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.proofs.independent import second_opinion

draw = np.random.default_rng(0)
SMALL = [("attention", (2, 2, 2), 2), ("mixer", (2, 2, 2), 2), ("fno", (3, 2, 1), 2), (pn.BFNO(groups=2), (3, 2, 2), 2)]


@pytest.mark.parametrize(("block", "shape", "outputs"), SMALL, ids=["attention", "mixer", "fno", "bfno"])
def test_all_arrangements_of_a_small_table(block: object, shape: tuple[int, ...], outputs: int) -> None:
    """Every pattern that a random u has is among them, and no trained network is below the bound."""
    X, Y = draw.standard_normal(shape), draw.standard_normal((shape[0], outputs))
    problem = pn.formulate(block, X, Y, activation="relu", gates="all", beta=0.05)  # type: ignore[arg-type]
    solution = pn.solve(problem, tol=1e-2)
    assert solution.certificate.scope == "all_arrangements"
    assert solution.certificate.relative_gap <= 1e-2
    known = {tuple(row) for row in problem.patterns.tolist()}
    for rows in problem.on_data.groups:
        some = rows.opened(torch.randn(200, rows.p, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
        assert {tuple(row) for row in some.tolist() if any(row)} <= known
    verdict = second_opinion(problem, solution.network(), theta=solution.certificate.theta)
    assert verdict.primal == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert verdict.dual <= solution.certificate.primal
    assert verdict.dual >= 0.9 * solution.certificate.dual  # of cones in many dimensions it has a relaxation of its own
    network = solution.network()
    assert _trained(network, X, Y, 0.05) >= solution.certificate.dual * (1 - 1e-9)


def _trained(network: torch.nn.Module, X: np.ndarray, Y: np.ndarray, beta: float) -> float:
    """The least objective on a descent that begins next to the network."""
    x, y = torch.tensor(X), torch.tensor(Y)
    torch.manual_seed(0)
    weights = [network.first, network.second]
    with torch.no_grad():
        for weight in weights:
            weight.add_(0.05 * torch.randn_like(weight))
    optimiser = torch.optim.Adam([weight.requires_grad_() for weight in weights], 0.01)  # type: ignore[operator]
    least = float("inf")
    for _ in range(200):
        optimiser.zero_grad()
        penalty = sum(weight.square().sum() for weight in weights)  # type: ignore[operator]
        value = 0.5 * (network(x) - y).square().sum() + beta / 2 * penalty
        least = min(least, float(value.detach()))
        value.backward()
        optimiser.step()
    return least
