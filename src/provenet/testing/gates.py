"""The contract of a sampler of gates."""

from __future__ import annotations

from typing import Any

import torch

from provenet.blocks import Block
from provenet.formulation import formulate
from provenet.gates.samplers import Sampler
from provenet.problem import Problem


def check_sampler(
    sampler: str | Sampler,
    block: Block,
    X: Any,
    Y: Any,
    activation: str = "gated_relu",
    count: int = 6,
    **settings: Any,
) -> Problem:
    """Seeded; one gate a pattern, as many as there may be; none that grazes a row, is zero, or closed everywhere;
    whatever the unit of X.

    Parameters
    ----------
    sampler : function or str
        Yours, or the name of one.
    block : Block
        On whose rows gates are.
    X, Y : arrays
        A few samples and targets.
    activation : str
        "gated_relu" or "relu".
    count : int, default 6
        Gates of X, and of 1,000·X.
    **settings
        As `provenet.formulate` takes them.
    """

    def posed(seed: int, scale: float = 1.0) -> Problem:
        at = torch.as_tensor(X, dtype=torch.float64) * scale
        return formulate(block, at, Y, activation, gates=sampler, n_gates=count, seed=seed, **settings)

    problem, again, other = posed(0), posed(0), posed(1)
    one, same, others = (found.gate_vectors for found in (problem, again, other))
    assert one is not None
    assert same is not None
    assert others is not None
    assert torch.equal(one, same), "the same seed must find the same gates"
    assert not torch.equal(one, others), "another seed must find others"
    for found in (problem, other, posed(0, 1000.0)):
        _check_found(found, count)
    assert not isinstance(sampler, str) or problem.statement.sampler == sampler
    return problem


def _check_found(problem: Problem, count: int) -> None:
    vectors, patterns = problem.gate_vectors, problem.patterns
    assert vectors is not None
    assert bool(torch.isfinite(vectors).all())
    assert bool(vectors.any(1).all())
    group = problem.gates.own
    for b, rows in enumerate(problem.on_data.groups):
        own = group == b
        assert 1 <= int(own.sum()) <= count
        found, torn = rows.patterns(vectors[own])
        assert not bool(torn.any()), "a gate grazes a row"
        assert torch.equal(found, patterns[own]), "patterns are those of the vectors"
        assert bool(found.any(1).all()), "a gate is closed everywhere"
        assert len(torch.unique(found, dim=0)) == len(found), "two gates have one pattern"
