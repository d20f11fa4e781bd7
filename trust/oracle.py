"""Random problems: what is certified against CVXPY's optimum, and against the independent checker."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from provenet.certificates import Certificate
from provenet.verify import Verdict
from trust.figure import Figure, Seen, Try
from trust.problems import of_zero, posed, rival, solved

TOL = 1e-6  # what is asked for
SAME = 1e-9  # relative: one number, computed twice
ROUNDING = 1e-9  # of the objective, and 1e-13 of that of the zero network: a bound may be above by so much


@contextmanager
def ready(_: Path) -> Iterator[Try]:
    yield attempt


def attempt(case: int) -> Seen:
    try:
        at = posed(case)
    except ValueError as error:
        return Seen("not posed, with the reason", None if ":" in str(error) else f"no argument is named: {error}")
    solution = solved(at.problem)
    certificate, network = solution.certificate, solution.network()
    verdict = at.checked(network, certificate.theta)
    other = rival(at.problem, solution.method)
    rivals = {"zero": of_zero(at.problem)}
    if other is not None:
        rivals[other[0]] = at.checked(other[1]).primal
    wrong = contradiction(certificate, max(certificate.dual, solution.lower_bound), verdict, rivals)
    holds = "certified" if certificate.holds(TOL) else "not certified in a second"
    beside = "CVXPY" if "cvx" in rivals else "another method" if len(rivals) > 1 else "the zero network"
    excess = max(certificate.dual, verdict.dual) - min(verdict.primal, *rivals.values())
    measured = {"bound above a rival, relative": excess / max(abs(verdict.primal), 1e-300)}
    return Seen(f"{holds}, against {beside}", None if wrong is None else f"{at.words}: {wrong}", measured)


def contradiction(certificate: Certificate, lower: float, verdict: Verdict, rivals: dict[str, float]) -> str | None:
    """What shows that a certificate, or the checker, says what is not so; None: nothing does."""
    size, zero = abs(verdict.primal), rivals["zero"]
    slack = ROUNDING * size + 1e-13 * zero
    if not all(map(math.isfinite, (certificate.primal, certificate.dual, verdict.primal, verdict.dual))):
        return f"not finite: {certificate.primal}, {certificate.dual}; {verdict.primal}, {verdict.dual}"
    if abs(certificate.primal - verdict.primal) > SAME * size + 1e-13 * zero:
        return f"the objective is {certificate.primal!r}, or {verdict.primal!r} by the checker"
    for name, primal in (rivals | {"its own network": verdict.primal}).items():
        if lower > primal + slack:
            return f"a bound of {lower!r}, but {name} reaches {primal!r}"
        if verdict.dual > primal + slack:
            return f"the checker's bound is {verdict.dual!r}, but {name} reaches {primal!r}"
    if certificate.holds(TOL) and verdict.exact and verdict.relative_gap > 2 * TOL:
        return f"a gap of {certificate.relative_gap:.2e}, of which the checker proves {verdict.relative_gap:.2e}"
    return None


FIGURE = Figure(
    name="oracle",
    title="random problems against CVXPY and the independent checker",
    promise="no false certificate",
    checked=(
        "Every block, activation and loss in turn, with 1 to 6 samples, units from 10⁻³ to 10³, weights, masks, free "
        "intercepts and standardised data at random, and β from 0.003 to 1.3 of β_max. CVXPY with Clarabel solves the "
        "same problem (ReLU programs that it cannot take: another method of the library), and the objective of its "
        "network, computed by `provenet.verify` in numpy, must not be below what the certificate, the run and the "
        "checker say is a lower bound; certificate and checker must agree on the objective to nine digits, and the "
        "checker must prove the gap that is certified where its own bound is exact."
    ),
    count=10_000,
    chunk=50,
    small=13,
    ready=ready,
)
