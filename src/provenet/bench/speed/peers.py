"""Others' solvers on the same program: each returns a network, which the same judge certifies as ours.

What a solver is installed from is the extra ``bench``; one that is not there is left out.  One whose program is another
(a logistic regression, a ReLU network with biases) returns nothing to be judged, and only its time is told.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from torch import nn

from provenet.nn import MLP
from provenet.problem import Problem
from provenet.solvers import Limits
from provenet.solvers.reference.cvx import CVX
from provenet.solvers.solve import solve_quietly
from provenet.variable import Factors

_WIDE_BYTES = 1 << 30  # of the matrix [D_1 X … D_P X]
_CONIC_ENTRIES = 3e6  # of the same: more, and an interior point takes many minutes
_RATES = (1e-3, 1e-2, 1e-1)
_PER_GATE = 2  # neurons that AdamW begins with
_BEGIN = 0.1  # how large they are


@dataclass(frozen=True)
class Peer:
    """``module``: what must be installed; takes(problem): whether its program is one that it solves."""

    name: str
    module: str
    efforts: tuple[float, ...]
    takes: Callable[[Problem], bool]
    train: Callable[[Problem, float, float], nn.Module | None]

    def refuses(self, problem: Problem) -> str | None:
        if find_spec(self.module) is None:
            return f"{self.module} is not installed"
        return None if self.takes(problem) else "another program"


def _conic(solver: str, *options: str) -> Callable[[Problem, float, float], nn.Module]:
    """Through CVXPY, from the problem's arrays to its weights."""

    def train(problem: Problem, tol: float, seconds: float) -> nn.Module:
        method = CVX(solver, dict.fromkeys(options, tol))
        return solve_quietly(problem, method, Limits(1e-9)).network()

    return train


def _pyscnn(problem: Problem, tol: float, seconds: float) -> nn.Module:
    """Its accelerated proximal gradient on the same gates, without its column scaling; its λ is β/n."""
    from scnn.metrics import Metrics
    from scnn.models import ConvexGatedReLU
    from scnn.optimize import optimize_model
    from scnn.regularizers import NeuronGL1
    from scnn.solvers import RFISTA

    X, y = problem.X.numpy(), problem.loss.target.numpy()
    model = ConvexGatedReLU(_gates(problem).T.copy())
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
    return _network(network.parameters[0], network.parameters[1].T, network.G.T)


def _group_lasso(make: Callable[[int, float, float], Any]) -> Callable[[Problem, float, float], nn.Module]:
    """On the matrix [D_1 X … D_P X], a group a gate."""

    def train(problem: Problem, tol: float, seconds: float) -> nn.Module:
        X, y = problem.X.numpy(), problem.loss.target.numpy()[:, 0]
        n, d = X.shape
        wide = np.asfortranarray((problem.patterns.T.numpy()[:, :, None] * X[:, None, :]).reshape(n, -1))
        weights = make(d, problem.beta / n, tol).fit(wide, y).coef_.reshape(-1, d)
        size = np.sqrt(np.linalg.norm(weights, axis=1, keepdims=True))
        first = np.divide(weights, size, out=np.zeros_like(weights), where=size > 0)
        return _network(first, size, _gates(problem))

    return train


def _celer(d: int, alpha: float, tol: float) -> Any:
    from celer import GroupLasso

    return GroupLasso(groups=d, alpha=alpha, fit_intercept=False, tol=tol, max_iter=100)


def _skglm(d: int, alpha: float, tol: float) -> Any:
    from skglm import GroupLasso

    return GroupLasso(groups=d, alpha=alpha, fit_intercept=False, tol=tol, max_iter=200)


def _adamw(problem: Problem, steps: float, seconds: float) -> nn.Module:
    """Full batches of the same objective in float32, the penalty in it; the best of a grid of rates, all of whose time
    is counted, as one who has no certificate has to try them."""
    began, runs = time.process_time(), []
    for rate in _RATES:
        network, value = _descended(problem, rate, int(steps), began + seconds)
        runs.append((value, network))
    return min(runs, key=lambda run: run[0])[1]


def _descended(problem: Problem, rate: float, steps: int, until: float) -> tuple[nn.Module, float]:
    op, generator = problem.program.operator, torch.Generator().manual_seed(0)
    gate = torch.arange(op.n_gates).repeat_interleave(_PER_GATE)
    left, right = (_BEGIN * torch.randn(len(gate), size, generator=generator) / size**0.5 for size in (op.p, op.q))
    network: Any = problem.network(Factors(left.double(), right.double(), gate)).float()
    X, beta = problem.X.float(), problem.beta
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.0)
    for _ in range(steps):
        optimiser.zero_grad()
        value = problem.loss.value(network(X).double()) + beta * network.penalty()
        value.backward()
        optimiser.step()
        if time.process_time() > until:
            break
    network = network.double()
    with torch.no_grad():
        balance = (network.second.norm(dim=1, keepdim=True) / network.first.norm(dim=1, keepdim=True)).sqrt()
        balance = torch.where(balance.isfinite() & (balance > 0), balance, 1.0)
        network.first.mul_(balance)
        network.second.div_(balance)
        last = float(problem.loss.value(network(problem.X)) + beta * network.penalty())
    return network, last


def _fits(make: Callable[[], Any]) -> Callable[[Problem, float, float], None]:
    """One fit of an estimator of another program."""

    def train(problem: Problem, effort: float, seconds: float) -> None:
        target = problem.loss.target.numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make().fit(problem.X.numpy(), target.argmax(1) if target.shape[1] > 1 else target[:, 0] > 0)

    return train


def _gates(problem: Problem) -> NDArray[np.float64]:
    assert problem.gate_vectors is not None
    return problem.gate_vectors.numpy()


def _network(u: NDArray[Any], v: NDArray[Any], g: NDArray[Any]) -> nn.Module:
    """In the cheapest scaling of its neurons; those that do nothing are left out."""
    keep = (np.linalg.norm(u, axis=1) > 0) & (np.linalg.norm(v, axis=1) > 0)
    u, v, g = u[keep], v[keep], g[keep]
    balance = np.sqrt(np.linalg.norm(v, axis=1, keepdims=True) / np.linalg.norm(u, axis=1, keepdims=True))
    first, second, gates = (torch.from_numpy(part).to(torch.float64) for part in (u * balance, v / balance, g))
    return MLP.from_weights(first, second, gates)


def _is_group_lasso(problem: Problem) -> bool:
    """One output, gated, squared: every Z_k is a vector."""
    gated = problem.activation == "gated_relu" and problem.block.name == "mlp"
    return gated and problem.loss.name == "squared" and problem.loss.target.shape[1:] == (1,)


def _entries(problem: Problem) -> float:
    return float(np.prod(problem.program.operator.output_shape) * np.prod(problem.program.operator.stack_shape))


def _fits_wide(problem: Problem) -> bool:
    return _is_group_lasso(problem) and 8 * _entries(problem) <= _WIDE_BYTES


def _is_conic(problem: Problem) -> bool:
    return _entries(problem) <= _CONIC_ENTRIES and CVX().refuses(problem.program) is None


def _has_fixed_gates(problem: Problem) -> bool:
    return problem.activation != "relu" and problem.loss.name != "huber"


def _has_classes(problem: Problem) -> bool:
    return problem.block.name == "mlp" and problem.loss.name in ("softmax", "logistic")


PEERS = (
    Peer("Clarabel", "cvxpy", (1e-8,), _is_conic, _conic("CLARABEL", "tol_gap_abs", "tol_gap_rel", "tol_feas")),
    Peer("SCS", "scs", (1e-4, 1e-6), _is_conic, _conic("SCS", "eps_abs", "eps_rel")),
    Peer("pyscnn", "scnn", (1e-5, 1e-7, 1e-9, 1e-11), _is_group_lasso, _pyscnn),
    Peer("celer", "celer", (1e-4, 1e-6, 1e-8, 1e-10, 1e-13), _fits_wide, _group_lasso(_celer)),
    Peer("skglm", "skglm", (1e-3, 1e-5, 1e-7, 1e-9), _fits_wide, _group_lasso(_skglm)),
    Peer("AdamW", "torch", (100, 1000, 10_000), _has_fixed_gates, _adamw),
    Peer("MLPClassifier", "sklearn", (500,), _has_classes, _fits(lambda: MLPClassifier(max_iter=500, random_state=0))),
    Peer("LogisticRegression", "sklearn", (1000,), _has_classes, _fits(lambda: LogisticRegression(max_iter=1000))),
)
