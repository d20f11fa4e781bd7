"""Whether what a model folder claims holds on data: computed anew, and by the independent checker, and compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isclose
from typing import Any

from provenet.certificates import Certificate, network_certificate
from provenet.cli.subject import contradicted, other_moments
from provenet.io import SavedModel
from provenet.problem import Problem
from provenet.proofs.independent import second_opinion
from provenet.verify import Data, Verdict


@dataclass(frozen=True)
class Rejudged:
    """``differences``: in what the data are not those of the fit; ``contradictions``: what the stored certificate says
    that is not so.  Where there is one of these, or the two computations disagree, the certificate does not hold."""

    certificate: Certificate
    second: Verdict
    differences: list[str]
    contradictions: list[str]

    @property
    def holds(self) -> bool:
        same = isclose(self.second.primal, self.certificate.primal, rel_tol=1e-6)
        agrees = same and (self.second.relative_gap <= self.certificate.tol or not self.second.exact)
        return self.certificate.holds(self.certificate.tol) and agrees and not self.contradictions


def rejudged(model: SavedModel, problem: Problem, posed: Any, tol: float | None = None) -> Rejudged:
    """``posed``: (X, Y, weight, mask) that the problem was posed with, before they are standardised.

    tol: the relative gap asked for, by default that of the stored certificate."""
    asked, theta = model.certificate.tol if tol is None else tol, model.certificate.theta
    claimed = min(asked, model.certificate.relative_gap)  # bounds are as tight as what is asked for needs
    certificate = replace(network_certificate(problem, model.network, claimed, theta), tol=float(asked))
    raw = None if model.scaling is None else Data(*posed)
    second = second_opinion(problem, model.network, raw, certificate.theta)
    differences = model.data_differences(problem)
    contradictions = [] if differences else contradicted(model.certificate, certificate)
    if model.scaling is not None and not differences:
        contradictions += other_moments(model, posed)
    return Rejudged(certificate, second, differences, contradictions)
