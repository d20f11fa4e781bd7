"""What others need for the same problem: seconds and the certified gap of the network they return."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

import provenet as pn
from benchmarks.progress import doing
from provenet.solvers.reference.cvx import CVX


@dataclass(frozen=True)
class Result:
    seconds: float
    relative_gap: float
    note: str = ""


def best_of(repeats: int, what: str, once: Callable[[], Result]) -> Result:
    """The fastest of a few runs: the machine's noise only ever adds."""
    doing(what)
    return min((once() for _ in range(repeats)), key=lambda result: result.seconds)


def provenet(problem: pn.Problem, tol: float, method: str = "auto") -> Result:
    began = time.perf_counter()
    solution = pn.solve(problem, method, tol=tol)
    seconds = time.perf_counter() - began
    return Result(seconds, solution.certificate.relative_gap, f"{solution.method}, {solution.steps} steps")


def clarabel(problem: pn.Problem) -> Result:
    """CVXPY with Clarabel, from the problem's arrays to its weights."""
    began = time.perf_counter()
    solution = pn.solve(problem, CVX(), tol=1e-8)
    return Result(time.perf_counter() - began, solution.certificate.relative_gap)


def pyscnn(problem: pn.Problem, tol: float) -> Result:
    """pyscnn's accelerated proximal gradient on the same gates, without its column scaling; its λ is β/n."""
    from scnn.metrics import Metrics
    from scnn.models import ConvexGatedReLU
    from scnn.optimize import optimize_model
    from scnn.regularizers import NeuronGL1
    from scnn.solvers import RFISTA

    X, y = problem.X.numpy(), problem.loss.target.numpy()
    gates = _gates(problem).T.copy()
    began = time.perf_counter()
    model = ConvexGatedReLU(gates)
    network, _ = optimize_model(
        model,
        RFISTA(model, tol=tol, max_iters=20_000),
        Metrics(),
        X,
        y,
        regularizer=NeuronGL1(problem.beta / len(X)),
        unitize_data=False,
        dtype="float64",
    )
    seconds = time.perf_counter() - began
    first, second = network.parameters[0], network.parameters[1].T
    return Result(seconds, _gap(problem, first, second, network.G.T))


def celer(problem: pn.Problem, tol: float) -> Result:
    """celer's group lasso on the matrix [D_1 X … D_P X], whose making is not counted."""
    from celer import GroupLasso

    X, y = problem.X.numpy(), problem.loss.target.numpy()[:, 0]
    patterns = problem.patterns.T.numpy()
    n, d = X.shape
    wide = np.asfortranarray((patterns[:, :, None] * X[:, None, :]).reshape(n, -1))
    began = time.perf_counter()
    model = GroupLasso(groups=d, alpha=problem.beta / n, fit_intercept=False, tol=tol, max_iter=100).fit(wide, y)
    seconds = time.perf_counter() - began
    weights = model.coef_.reshape(-1, d)
    size = np.sqrt(np.linalg.norm(weights, axis=1, keepdims=True))
    first = np.divide(weights, size, out=np.zeros_like(weights), where=size > 0)
    return Result(seconds, _gap(problem, first, size, _gates(problem)))


def _gates(problem: pn.Problem) -> np.ndarray:
    assert problem.gate_vectors is not None
    return problem.gate_vectors.numpy()


def _gap(problem: pn.Problem, first: np.ndarray, second: np.ndarray, gates: np.ndarray) -> float:
    """The peer's network under our certificate, in the cheapest scaling of its neurons."""
    keep = (np.linalg.norm(first, axis=1) > 0) & (np.linalg.norm(second, axis=1) > 0)
    u, v, g = first[keep], second[keep], gates[keep]
    balance = np.sqrt(np.linalg.norm(v, axis=1, keepdims=True) / np.linalg.norm(u, axis=1, keepdims=True))
    network = pn.nn.MLP.from_weights(*(torch.from_numpy(a).to(torch.float64) for a in (u * balance, v / balance, g)))
    return pn.certify(problem, network).relative_gap
