"""σ_max of matrices that are only known by their products, bounded from above with a stated probability.

Lanczos on A = GᵀG from a random unit start b builds orthonormal q_1 = b, q_2, … and a tridiagonal T.  For the top
eigenpair (λ, w) of A the numbers y_j = ⟨q_j, w⟩ follow T's recurrence, y_{j+1} = p_j(λ)·y_1, and Σ y_j² ≤ 1.  So

    ⟨b, w⟩² · Σ_{j=0}^{k} p_j(λ)² ≤ 1,       p_k(x) = Π_i (x − θ_i)/β_i,   θ the Ritz values,

and the sum grows in x beyond the largest Ritz value.  Where ⟨b, w⟩² ≥ c it follows that λ ≤ U, the x at which the sum
is 1/c: a few steps after Lanczos has found λ, U meets it.  ⟨b, w⟩² has the Beta(1/2, (N−1)/2) distribution whatever A
is: so Kuczyński and Woźniakowski (1992) get the failure probability of the Ritz value.  To bound λ by the Lanczos
polynomials themselves is van Dorsselaer, Hochstenbach and van der Vorst's (2000).

Several independent starts make it sharper: if each fails with probability η, the largest of r bounds fails with η^r.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy.special import betaincinv
from torch import Tensor

from provenet import batches, deadline
from provenet.ranks.context import first_says
from provenet.vectors import unit

Products = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]  # (u, v, gate) ↦ (G v, Gᵀu), one row a vector

FAILURE = 1e-12  # of all gates of one polar together
PAIRS = 4  # starts a gate and side: with u on one side and v on the other, one product serves two;
LOOKS = 100  # polars of a run that share `FAILURE` where products are dear
FEW_PAIRS = 2  # where products are dear: half the work a step, and a few more steps.  With one, rounding could hide all
_BISECTIONS = 60
_LOOK_EVERY = 5  # steps between two looks at the bounds


@dataclass(frozen=True)
class Tridiagonals:
    """Batched Lanczos: basis (m, k, N), with the next vector (m, N), and T's entries (m, k).

    lost: (m,) the Frobenius norm of what A q_j, as computed, has outside the three-term recurrence.
    """

    basis: Tensor
    ahead: Tensor
    alpha: Tensor
    beta: Tensor
    lost: Tensor

    @staticmethod
    def start(m: int, size: int, generator: torch.Generator) -> Tridiagonals:
        b = torch.randn(m, size, generator=generator, dtype=torch.float64)
        empty = torch.zeros(m, 0, dtype=torch.float64)
        return Tridiagonals(empty[:, :, None].expand(m, 0, size), unit(b), empty, empty, torch.zeros(m).double())

    def after(self, image: Tensor) -> Tridiagonals:
        """One step, ``image`` = A·ahead; the new vector is orthogonal to all before."""
        basis = torch.cat([self.basis, self.ahead[:, None]], dim=1)
        coefficients = (basis @ image[:, :, None])[:, :, 0]
        rest = image - (coefficients[:, None] @ basis)[:, 0]
        again = (basis @ rest[:, :, None])[:, :, 0]
        rest = rest - (again[:, None] @ basis)[:, 0]
        coefficients = coefficients + again
        alpha = coefficients[:, -1]
        expected = torch.zeros_like(coefficients)
        expected[:, -1] = alpha
        if self.beta.shape[1]:
            expected[:, -2] = self.beta[:, -1]
        lost = torch.linalg.vector_norm(coefficients - expected, dim=1)
        beta = torch.linalg.vector_norm(rest, dim=1)
        # beyond an invariant subspace there is nothing but rounding
        noise = 1e-14 * torch.cat([self.alpha, alpha[:, None]], dim=1).amax(1)
        lost = torch.hypot(lost, torch.where(beta > noise, 0.0, beta))
        beta = torch.where(beta > noise, beta, 0.0)
        return Tridiagonals(
            basis,
            torch.where(beta[:, None] > 0, unit(rest), 0.0),
            torch.cat([self.alpha, alpha[:, None]], dim=1),
            torch.cat([self.beta, beta[:, None]], dim=1),
            torch.hypot(self.lost, lost),
        )

    def select(self, keep: Tensor) -> Tridiagonals:
        return Tridiagonals(self.basis[keep], self.ahead[keep], self.alpha[keep], self.beta[keep], self.lost[keep])

    def bounds(self, share: float, noise: float) -> tuple[Tensor, Tensor]:
        """(largest Ritz value, upper bound U of the largest eigenvalue), each (m,).

        share: √c, the least |⟨b, w⟩| to be reckoned with.  noise: what rounding may add to a product with G, relative
        to the vector; it enters the recurrence as a right-hand side f, and the bound as ‖f‖/(x − θ).
        """
        m, k = self.alpha.shape
        # in units of a number no smaller than the largest entry on the diagonal, so that no square over- or underflows
        unit = self.alpha.amax(1).clamp_min(max(noise**2, torch.finfo(torch.float64).tiny))
        alpha, beta = self.alpha / unit[:, None], self.beta / unit[:, None]
        lost, noises = self.lost / unit, noise / unit.sqrt()
        off = beta[:, :-1]
        theta, S = torch.linalg.eigh(torch.diag_embed(alpha) + torch.diag_embed(off, 1) + torch.diag_embed(off, -1))
        top, last = theta[:, -1].clamp_min(0), S[:, -1].square()
        log_beta = beta.log().sum(1)  # −inf where the recurrence ended: then p_k is infinite
        eps = torch.finfo(torch.float64).eps
        orthogonal = 1 + 4 * eps * k * self.basis.shape[2]

        def excluded(x: Tensor) -> Tensor:
            apart = x[:, None] - theta
            shrink = torch.exp(log_beta - apart.log().sum(1))  # 1/p_k(x)
            shrink = shrink / (1 + beta[:, -1].square() * (last / apart.square()).sum(1)).sqrt()
            each = 2 * x.sqrt() * noises + 16 * eps * x
            error = torch.hypot(k**0.5 * each, lost) / (x - top)
            return (orthogonal + error) * shrink + error < share

        low = torch.full((m,), -14.0, dtype=torch.float64)  # of log10(x − θ)
        high = torch.full((m,), 40.0, dtype=torch.float64)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            out = excluded(top + 10**middle)
            low, high = torch.where(out, low, middle), torch.where(out, middle, high)
        upper = top + 10**high
        return top * unit, torch.where(excluded(upper), upper * (1 + 4 * eps), float("inf")) * unit


def spectral_bounds(
    products: Products,
    gates: int,
    p: int,
    q: int,
    noise: float,
    steps: int,
    tol: float,
    seed: int | None,
    enough: float = 0.0,
    lost: float = math.inf,
    dear: bool = False,
) -> tuple[Tensor, Tensor]:
    """(lower, upper) bounds of σ_max(G_k), each (gates,); all upper ones hold with probability 1 − `FAILURE`.

    A gate is left alone once its bounds are within ``tol`` of each other, or its upper one below another's lower one
    or no more than ``enough``, or after ``steps`` steps, or at a deadline; and all are once a lower one is beyond
    ``lost``.  seed: of the starts; None takes them from the system's randomness, which no data know.  dear: whether
    products are most of the work: then there are fewer starts, bounds are looked at after every step, and those of all
    looks of a run hold together, as its certificate may meet the last ones again.
    """
    pairs, every = (FEW_PAIRS, 1) if dear else (PAIRS, _LOOK_EVERY)
    generator = torch.Generator()
    generator.manual_seed(first_says(generator.seed()) if seed is None else seed)
    lower = torch.zeros(gates, dtype=torch.float64)
    upper = torch.full((gates,), float("inf"), dtype=torch.float64)
    shares = [_least_share(size, gates * (LOOKS if dear else 1), pairs) for size in (p, q)]
    together = batches.count(pairs * steps * (p + q), batches.BASIS)
    for some in torch.arange(gates).split(together):
        gate = some.repeat_interleave(pairs)
        runs = [Tridiagonals.start(len(gate), size, generator) for size in (p, q)]
        unit = max(float(part.abs().max()) for part in products(runs[0].ahead, runs[1].ahead, gate)) or 1.0
        for step in range(1, steps + 1):
            halfway = [part / unit for part in products(runs[0].ahead, runs[1].ahead, gate)]  # (Gv, Gᵀu)
            images = [part / unit for part in products(halfway[0], halfway[1], gate)]  # (GGᵀu, GᵀGv)
            runs = [run.after(image) for run, image in zip(runs, images, strict=True)]
            if step % every and step < steps:
                continue
            found = [run.bounds(share, noise / unit) for run, share in zip(runs, shares, strict=True)]
            here = gate[::pairs]
            low, high = (torch.stack(side).view(2, -1, pairs).amax(dim=(0, 2)) for side in zip(*found, strict=True))
            lower[here] = torch.maximum(lower[here], unit * low.sqrt() - noise)
            upper[here] = torch.minimum(upper[here], unit * high.sqrt() * (1 + 1e-15))
            unsure = (upper > (1 + tol) * lower) & (upper > lower.max()) & (upper > enough)
            keep = unsure[gate]
            if float(lower.max()) > lost or not bool(keep.any()) or (step >= _LOOK_EVERY and deadline.over()):
                break
            gate, runs = gate[keep], [run.select(keep) for run in runs]
    return lower, upper


def _least_share(size: int, gates: int, pairs: int) -> float:
    """√c with P(|⟨b, w⟩| < √c) = η for a random unit b in R^size, η^(2·pairs) = `FAILURE`/gates."""
    if size == 1:
        return 1.0
    failure = (FAILURE / gates) ** (1 / (2 * pairs))
    return float(betaincinv(0.5, 0.5 * (size - 1), failure)) ** 0.5
