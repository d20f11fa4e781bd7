"""CP Fig. 5: labels of a planted ReLU network on whitened images, learnt by linear and by ReLU networks, over β."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from provenet.formulation import formulate
from provenet.reproduce.experiment import Experiment, Findings, Piece, Run, Table
from provenet.reproduce.images import pictures, whitened
from provenet.reproduce.training import Recipe, descend, kaiming
from provenet.solvers.solve import solve

_OUTPUTS = 10
_BETAS = (1e-2, 3e-2, 1e-1, 3e-1, 1.0)
_FULL = (3_000, 4_000, 400, _BETAS)  # images, neurons of teacher and student, epochs, β
_QUICK = (50, 200, 400, (1e-2, 1e-1, 1.0))
_CLEARLY = 1e-3  # lower by less counts as the same
_SERIES = {
    "train linear": ("#3b6fb6", "--"),
    "test linear": ("#3b6fb6", "-"),
    "train ReLU": ("#d9822b", "--"),
    "test ReLU": ("#d9822b", "-"),
}


def run(run: Run) -> Findings:
    count, width, epochs, betas = _QUICK if run.quick else _FULL
    ten = pictures(run, 1)
    images = pictures(run, count // len(ten.X))
    if len(images.X_test) == 0:
        raise ValueError("data: there are no test images in it, and test losses are what this is about.")
    made: list[_Planted] = []

    def at(beta: float) -> Piece:
        if not made:  # only where something is left to do
            made.append(_Planted.on(*whitened(images), width))
        return _at(made[0], beta, epochs)

    said = f"{len(images.X)} of {images.name}, {width} neurons, {epochs} epochs"
    found = [run.piece(f"beta = {beta:g}, {said}", partial(at, beta)) for beta in betas]
    columns = ("β", *_SERIES, "linear, proven gap", "ReLU above a proven bound", "zero network, test")
    rows = tuple(
        (
            f"{beta:g}",
            *(f"{piece[name]:.4g}" for name in _SERIES),
            f"{piece['gap']:.1e}",
            f"{piece['above']:.1e}",
            f"{piece['zero']:.4g}",
        )
        for beta, piece in zip(betas, found, strict=True)
    )
    pairs = zip(betas, found, strict=True)
    better = [beta for beta, piece in pairs if piece["test ReLU"] < (1 - _CLEARLY) * piece["test linear"]]
    words = (
        f"{len(images.X)} whitened images ({images.name}), {len(images.X_test)} for the test; labels of a ReLU teacher "
        f"of {width} neurons, begun as torch's layers are. Losses are sums of ½ squares.",
        "The ReLU student has the clearly lower test loss at "
        + (f"β = {', '.join(f'{beta:g}' for beta in better)}." if better else "no β here."),
        "The linear network is the proven optimum. The ReLU one is gradient descent's, in the coordinates w = Xu; the "
        "linear optimum is a proven bound below it, since XXᵀ = I.",
        "The teacher's scale is not in the paper, nor are its βs: its losses (63,038 for ReLU at β = 0.01, 125,383 for "
        "zero) are on another scale; the shares of zero's loss can be compared.",
    )
    return Findings((Table("Losses", columns, rows),), {"losses": _picture(betas, found)}, words, {"found": found})


class _Planted(NamedTuple):
    """Whitened X (n, d), labels of a ReLU teacher, both for the test, too, and where students begin: first (1, N, n),
    in the coordinates w = Xu, and second (1, N, c)."""

    X: Tensor
    X_test: Tensor
    Y: Tensor
    Y_test: Tensor
    first: Tensor
    second: Tensor

    @staticmethod
    def on(X: Tensor, X_test: Tensor, width: int) -> _Planted:
        (n, d), draw = X.shape, torch.Generator().manual_seed(0)
        inner, outer = kaiming((width, d), d, draw), kaiming((width, _OUTPUTS), width, draw)
        Y, Y_test = ((part @ inner.T).clamp_min(0) @ outer for part in (X, X_test))
        first, second = kaiming((1, width, n), n, draw), kaiming((1, width, _OUTPUTS), width, draw)
        return _Planted(X, X_test, Y, Y_test, first, second)


def _at(planted: _Planted, beta: float, epochs: int) -> Piece:
    X, X_test, Y, Y_test, first, second = planted
    linear = formulate("mlp", X, Y, "linear", loss="squared", beta=beta, fit_intercept=False)
    solved = solve(linear, tol=1e-6)
    weights = solved.network().state_dict()
    flat = weights["first"].double().T @ weights["second"].double()
    recipe = Recipe(epochs, rate=1e-2, momentum=0.95, decay=0.5, patience=20)
    made = descend(None, Y, None, first, second, torch.tensor([beta], dtype=torch.float64), recipe)
    u, v = made.first[0] @ X, made.second[0]

    def loss(prediction: Tensor, target: Tensor) -> float:
        return 0.5 * float((prediction - target).square().sum())

    return {
        "train linear": loss(X @ flat, Y),
        "test linear": loss(X_test @ flat, Y_test),
        "train ReLU": loss((X @ u.T).clamp_min(0) @ v, Y),
        "test ReLU": loss((X_test @ u.T).clamp_min(0) @ v, Y_test),
        "gap": solved.certificate.relative_gap,
        "above": float(made.curve[0, -1]) / solved.certificate.dual - 1,
        "zero": loss(torch.zeros_like(Y_test), Y_test),
    }


def _picture(betas: tuple[float, ...], found: list[Piece]) -> Figure:
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.subplots()
    for name, (colour, line) in _SERIES.items():
        axes.plot(betas, [max(piece[name], 1e-12) for piece in found], line, marker="o", color=colour, label=name)
    axes.axhline(found[0]["zero"], color="0.5", linewidth=0.8, label="zero network, test")
    axes.set(xscale="log", yscale="log", xlabel="β", ylabel="loss (sum over samples)")
    axes.grid(alpha=0.2)
    axes.legend(frameon=False)
    return figure


RELU_VS_LINEAR = Experiment(
    "relu-vs-linear",
    "Labels of a planted ReLU network, learnt by linear and ReLU networks",
    "Vector-output ReLU neural network problems are copositive programs (ICLR 2021), Fig. 5, A.1.2",
    "test loss 63,038 for ReLU at β = 0.01 against 125,383 for the zero network, which is best from β = 1 on.",
    run,
)
