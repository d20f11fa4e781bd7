"""The contracts every operator, loss, gauge, reduction, solver, block and sampler keeps, as functions to run on yours.

Each ``check_…`` raises AssertionError where the contract is broken; none needs pytest.
"""

from provenet.testing.bank import Case, problem_bank
from provenet.testing.blocks import check_block
from provenet.testing.gates import check_sampler
from provenet.testing.gauges import check_cone_gauge, check_gauge
from provenet.testing.losses import check_loss
from provenet.testing.operators import check_operator
from provenet.testing.reductions import check_reduction
from provenet.testing.rows import check_rows
from provenet.testing.solvers import check_solver, check_states

__all__ = [
    "Case",
    "check_block",
    "check_cone_gauge",
    "check_gauge",
    "check_loss",
    "check_operator",
    "check_reduction",
    "check_rows",
    "check_sampler",
    "check_solver",
    "check_states",
    "problem_bank",
]


def __dir__() -> list[str]:
    """What is public, and nothing else."""
    return __all__
