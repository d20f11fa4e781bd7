"""CP Fig. 4: from noise to images, the relaxation (20) against gradient descent and a certified network, over β."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from matplotlib.figure import Figure

from provenet.data.whitening import Whitening
from provenet.formulation import formulate
from provenet.reproduce.experiment import Experiment, Findings, Piece, Run, Table
from provenet.reproduce.images import Pictures, pictures
from provenet.reproduce.training import Recipe, descend, kaiming
from provenet.solvers.solve import solve

_SHARES = (0.5, 0.2, 0.05, 0.02, 0.005)  # of β_max
_FULL = (10, _SHARES, 1_000, 60_000, 5e-5, 120.0)  # images a class, β, neurons, epochs, rate, seconds for ours
_QUICK = (3, (0.5, 0.1), 100, 1_500, 1e-3, 8.0)
_NAMES = {"relaxation": "relaxation (20), a lower bound", "network": "provenet's network", "descent": "descent"}
_MARKS = {"relaxation": "+", "network": "x", "descent": "o"}


def run(run: Run) -> Findings:
    each, shares, width, epochs, rate, seconds = _QUICK if run.quick else _FULL
    images = pictures(run, each)
    said = f"{len(images.X)} of {images.name}, {epochs} epochs"
    found = [
        run.piece(f"{share:g} of beta_max, {said}", partial(_at, images, share, width, epochs, rate, seconds))
        for share in shares
    ]
    rows = tuple(
        (
            f"{piece['beta']:.3g}",
            f"{share:g}",
            *(f"{piece[name]:.2f}" for name in _NAMES),
            f"{piece['network'] / piece['relaxation'] - 1:.1e}",
            f"{piece['descent'] / piece['relaxation'] - 1:.1e}",
        )
        for share, piece in zip(shares, found, strict=True)
    )
    columns = ("β", "of β_max", *_NAMES.values(), "network above the bound", "descent above the bound")
    ours = max(piece["network"] / piece["relaxation"] - 1 for piece in found)
    words = (
        f"Y: {len(images.X)} images, {images.X.shape[1]} pixels each ({images.name}); X: Gaussian noise of that shape, "
        "whitened.",
        f"The network is at most {ours:.1e} above the relaxation's bound, so that is how tight (20) is here, at most.",
        "The bound is proven in float64 from its multipliers; the paper's, by Adam with hinges for walls, is not.",
        "The βs are ours: the paper only plots; so is the scale of the pixels, of mean zero and deviation one. Descent "
        "begins within the span of X, where it is the same as in all of R^d but for weights that only decay"
        + ("; fewer epochs than the paper's, with a larger rate." if run.quick else "."),
    )
    return Findings((Table("Objectives", columns, rows),), {"objectives": _picture(found)}, words, {"found": found})


def _at(images: Pictures, share: float, width: int, epochs: int, rate: float, seconds: float) -> Piece:
    noise = np.random.default_rng(0).standard_normal(images.X.shape)
    X = Whitening.fit(noise).apply(noise)
    n = len(images.X)
    problem = formulate("mlp", X, images.X, "relu", "all", loss="squared", beta=1.0, fit_intercept=False)
    problem = problem.with_beta(share * problem.beta_max)
    ours = solve(problem, "copositive_admm", tol=1e-4, max_seconds=seconds)
    Y = torch.tensor(images.X)
    Y = Y @ torch.linalg.qr(Y.T)[0]  # as many outputs as images: the others are zero in these coordinates
    draw = torch.Generator().manual_seed(0)
    first, second = kaiming((1, width, n), n, draw), kaiming((1, width, Y.shape[1]), width, draw)
    recipe = Recipe(epochs, rate=rate, momentum=0.95, decay=0.5, patience=200)
    made = descend(None, Y, None, first, second, torch.tensor([problem.beta], dtype=torch.float64), recipe)
    return {
        "beta": problem.beta,
        "relaxation": ours.lower_bound,
        "network": ours.certificate.primal,
        "gap": ours.certificate.relative_gap,
        "descent": float(made.curve[0, -1]),
        "seconds": ours.seconds,
    }


def _picture(found: list[Piece]) -> Figure:
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.subplots()
    betas = [piece["beta"] for piece in found]
    for name, said in _NAMES.items():
        axes.plot(betas, [piece[name] for piece in found], _MARKS[name], markersize=9, label=said, fillstyle="none")
    axes.set(xscale="log", yscale="log", xlabel="β", ylabel="objective")
    axes.grid(alpha=0.2)
    axes.legend(frameon=False)
    return figure


COPOSITIVE_IMAGES = Experiment(
    "copositive-images",
    "From noise to images: the copositive relaxation at its largest",
    "Vector-output ReLU neural network problems are copositive programs (ICLR 2021), Fig. 4, A.1.1",
    "relaxation and gradient descent are equal but at the lowest β.",
    run,
)
