"""A better ReLU network than a given one, from a neuron that pulls harder than β (escape, CP Algorithm 1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from provenet.nn import TwoLayer
from provenet.problem import Problem
from provenet.variable import Factors

_SIZES = 4.0 ** torch.arange(6, -30, -1, dtype=torch.float64)  # of the new neuron, in units of the problem
_STEPS = 300


def objective(network: nn.Module, problem: Problem) -> float:
    """The network's objective, its weights taken in float64, in the user's units."""
    with torch.no_grad():
        return float(_objective(network, problem))


def improved(network: TwoLayer, problem: Problem, u: Tensor, v: Tensor) -> TwoLayer | None:
    """``network`` with its neurons balanced, a neuron (u, v) (p,), (q,) more, and all of them trained on.

    None where that does not lower the objective.  The objective changes by −s(σ − β) + O(s²) for the new neuron's size
    s, so that some size lowers it; L-BFGS on all weights goes on from the best of a few.
    """
    first, second = network.first.detach(), network.second.detach()
    alive = Factors(first, second, torch.arange(len(first))).balanced()
    group = network.get_buffer("group") if "group" in dict(network.named_buffers()) else None

    def with_neuron(size: float) -> TwoLayer:
        root = (size * problem.units.z) ** 0.5
        left, right = torch.cat([alive.left, root * u[None]]), torch.cat([alive.right, root * v[None]])
        neurons = Factors(left, right, torch.zeros(len(left), dtype=torch.long))
        more = None if group is None else torch.cat([group[alive.gate], group[:1]])
        return problem.block.network(neurons, None, problem.readout, more, True)

    tried = [with_neuron(float(size)) for size in _SIZES]
    best = min(tried, key=lambda one: objective(one, problem))
    _train(best, problem)
    problem.with_best_bias(best)
    return best if objective(best, problem) < objective(network, problem) * (1 - 1e-12) else None


def _objective(network: nn.Module, problem: Problem) -> Tensor:
    inputs = (problem.X.to(torch.float64),) if problem.mask is None else (problem.X.to(torch.float64), problem.mask)
    layers = (network.get_parameter(name).to(torch.float64) for name in ("first", "second"))
    penalty = 0.5 * torch.stack([weight.square().sum() for weight in layers]).sum()
    outputs, bias = network(*inputs), getattr(network, "bias", None)
    if bias is None:  # an intercept that is not there yet will be the best
        return problem.loss.value(outputs) + problem.beta * penalty
    paid = 0.5 * problem.loss.cost * bias.to(torch.float64).square().sum()
    return problem.loss.value_at(outputs, None) + paid + problem.beta * penalty


def _train(network: TwoLayer, problem: Problem) -> None:
    """L-BFGS, kept where it was before if it gets lost."""
    before = objective(network, problem)
    kept = {name: value.clone() for name, value in network.state_dict().items()}
    optimiser = torch.optim.LBFGS(
        network.parameters(), max_iter=_STEPS, history_size=20, tolerance_grad=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = _objective(network, problem) / max(before, torch.finfo(torch.float64).tiny)
        value.backward()
        return value

    optimiser.step(closure)
    if not objective(network, problem) < before:
        network.load_state_dict(kept)
