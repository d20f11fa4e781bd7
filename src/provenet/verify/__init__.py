"""An independent checker of certificates: numpy, plain formulas, nothing else of the package.

For a two-layer block  f(X_i) = Σ_j B_i(D_j Φ_i u_j, v_j),  D_j = 1{Φ_i g_j ≥ 0} (without gates: D_j = 1),  it computes

    primal = Σ_i w_i ℓ(f(X_i), Y_i) + β/2 Σ_j (‖u_j‖² + ‖v_j‖²)
    Θ      = the gradient of the loss at the network's outputs
    polar  = max_k σ_max(A_k*Θ)  over every gate k of the problem, A_k(uvᵀ)_i = B_i(D_k Φ_i u, v)
    dual   = −L*(τΘ)  for a τ with τ·polar ≤ β

With other norms than weight decay's, ‖u_j‖_C² + ‖v_j‖_R², the polar is max uᵀ(A_k*Θ)v over ‖u‖_C ≤ 1 and ‖v‖_R ≤ 1.
For ReLU D_j = 1{Φ_i u_j ≥ 0}, a gate is an activation pattern, and the polar is max ‖(A_k*Θ)ᵀu‖ over unit u that have
it.

With a free intercept b, which costs nothing, f(X_i) has b added, and every column of Θ must sum to zero, exactly; Θ is
moved to where it does (`intercept`).

Of a standardised problem X and Y are the standardised ones, of raw ones (`Standard`), and so are the weights.

By weak duality no network with these gates has an objective below ``dual``, whatever Θ is.
"""

from provenet.verify.check import verify
from provenet.verify.standard import Standard
from provenet.verify.types import Data, Statement, Verdict, Weights

__all__ = ["Data", "Standard", "Statement", "Verdict", "Weights", "verify"]


def __dir__() -> list[str]:
    """What is public, and nothing else."""
    return __all__
