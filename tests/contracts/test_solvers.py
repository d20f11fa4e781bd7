from __future__ import annotations

import pytest

from provenet.solvers import METHODS
from provenet.testing import Case, check_solver, problem_bank

# Clarabel's point is better than its gradient, from which the certificate's dual point is made
TOL = {"cvx": 1e-5}


@pytest.mark.parametrize("case", problem_bank(), ids=str)
@pytest.mark.parametrize("name", [name for name in METHODS if name != "auto"])
def test_solver(name: str, case: Case) -> None:
    reason = check_solver(METHODS[name](), case, TOL.get(name, 1e-6))
    if reason is not None:
        pytest.skip(f"{name}: {reason}")
