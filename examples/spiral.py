"""The picture of the README: a proven classifier of three spiral arms, and its certificate closing.

Run: python examples/spiral.py docs/spiral.png
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import provenet as pn
from provenet.data.demo import spiral

COLOURS = ("#3b6fb6", "#d9822b", "#4b9b5f")


def main(target: str) -> None:
    X, label = spiral(300, noise=0.02)
    block = pn.MLP(fit_intercept=True)
    problem = pn.formulate(block, X, label, gates=300, loss="softmax", beta=0.02)
    solution = pn.solve(problem, "bm", tol=1e-6)
    figure = Figure(figsize=(10, 4.2), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    _draw_map(left, solution.network(), X, label)
    _draw_gap(right, solution)
    figure.savefig(target)
    print(solution)


def _draw_map(axes, network, X, label) -> None:
    side = np.linspace(-1.15, 1.15, 300)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    with torch.no_grad():
        region = network(torch.from_numpy(grid)).argmax(1).view(300, 300).numpy()
    extent = (side[0], side[-1], side[0], side[-1])
    axes.imshow(region, origin="lower", extent=extent, cmap=ListedColormap(COLOURS), alpha=0.3, interpolation="nearest")
    axes.scatter(*X.T, c=[COLOURS[k] for k in label], s=9)
    axes.set(title="the network", xticks=[], yticks=[])


def _draw_gap(axes, solution) -> None:
    seconds = np.array([record.seconds for record in solution.history])
    primal = np.array([record.primal for record in solution.history])
    dual = np.maximum.accumulate([record.dual for record in solution.history])
    axes.plot(seconds, primal, color="#222222", label="objective of the network")
    axes.plot(seconds, dual, color="#3b6fb6", label="proven lower bound of every network")
    axes.fill_between(seconds, dual, primal, color="#3b6fb6", alpha=0.12)
    axes.set(title="the proof", xlabel="seconds", ylim=(0, 3 * primal[-1]))
    axes.legend(frameon=False)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "spiral.png")
