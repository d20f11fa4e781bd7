"""AT Fig. 2: the unit balls of the nuclear norm and of the cone-constrained one, K = I, on [[z₁, z₂], [0, z₄]]."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from provenet.reproduce.experiment import Experiment, Findings, Run, Table

Array = NDArray[np.float64]
_LOOKS = ((18, -58), (18, 32))  # elevation and azimuth


def nuclear(Z: Array) -> Array:
    """‖Z‖_* of matrices (…, 2, 2)."""
    return np.linalg.svd(Z, compute_uv=False).sum(-1)


def constrained(Z: Array) -> Array:
    """‖Z‖_{*,K} of matrices (…, 2, 2) with K = I: min Σ ‖u‖‖v‖ over Z = Σ uvᵀ, u ≥ 0 (AT eq. 4).

    Its dual is max ⟨Z, R⟩ over R with I − RRᵀ copositive.  Where the rows of Z are at an angle of at most 90° the best
    R has RRᵀ ⪯ I, which is the nuclear norm's; beyond, unit rows in the directions of Z's own are feasible, and nothing
    is larger than the sum of the rows' norms.
    """
    inner = (Z[..., 0, :] * Z[..., 1, :]).sum(-1)
    return np.where(inner >= 0, nuclear(Z), np.linalg.norm(Z, axis=-1).sum(-1))


def sphere(steps: int) -> tuple[Array, Array]:
    """Directions (z₁, z₂, z₄), (steps, 2·steps, 3), and the matrices that they are."""
    polar, around = np.meshgrid(np.linspace(0, np.pi, steps), np.linspace(0, 2 * np.pi, 2 * steps), indexing="ij")
    at = np.stack([np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)], axis=-1)
    Z = np.zeros((*at.shape[:2], 2, 2))
    Z[..., 0, 0], Z[..., 0, 1], Z[..., 1, 1] = np.moveaxis(at, -1, 0)
    return at, Z


def run(run: Run) -> Findings:
    at, Z = sphere(40 if run.quick else 120)
    figure = Figure(figsize=(9.6, 9), layout="constrained")
    balls = {"cone-constrained, u ≥ 0 (ReLU)": constrained(Z), "nuclear norm (linear)": nuclear(Z)}
    for row, (name, gauge) in enumerate(balls.items()):
        for column, (elevation, azimuth) in enumerate(_LOOKS):
            axes: Any = figure.add_subplot(2, 2, 2 * row + column + 1, projection="3d")
            ball = at / gauge[..., None]
            axes.plot_surface(
                *np.moveaxis(ball, -1, 0), color="#d9822b" if row == 0 else "#3b6fb6", linewidth=0, alpha=0.9
            )
            axes.view_init(elevation, azimuth)
            axes.set(xlabel="$z_1$", ylabel="$z_2$", zlabel="$z_4$", xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
            axes.set(xticks=(-1, 0, 1), yticks=(-1, 0, 1), zticks=(-1, 0, 1))
            axes.set_box_aspect((1, 1, 1))
            if column == 0:
                axes.set_title(name)
    area = np.sin(np.linspace(0, np.pi, len(at)))[:, None] * np.ones(at.shape[1])
    volumes = {name: float((area / gauge**3).sum() / area.sum()) for name, gauge in balls.items()}
    smaller = next(iter(volumes.values())) / list(volumes.values())[1]
    rows = tuple((name, f"{volume:.3f}") for name, volume in volumes.items())
    return Findings(
        (Table("Volumes, in parts of a ball of radius one", ("norm", "volume"), rows),),
        {"norm-balls": figure},
        (
            "As in the paper: the constraint breaks the symmetry. Where z₂z₄ ≥ 0 both balls are the same; where rows "
            "point away from each other a neuron with u ≥ 0 can serve only one of them, and the norm is the sum of "
            "the rows' norms.",
            f"The constrained ball has {smaller:.0%} of the other's volume.",
        ),
        {"volumes": volumes},
    )


NORM_BALL = Experiment(
    "norm-ball",
    "Unit balls of the nuclear norm and of the cone-constrained one",
    "Unraveling attention via convex duality (ICML 2022), Fig. 2 and C.1",
    "a picture of both; the ReLU constraint breaks the symmetry of the nuclear norm.",
    run,
)
