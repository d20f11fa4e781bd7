"""What a certificate is about, and whether two certificates of it can both be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

from provenet.certificates import Certificate
from provenet.cli.console import say
from provenet.formulation.data import read_data, standardised
from provenet.gauges.prox.mixed import in_words, read_penalty
from provenet.io import SavedModel
from provenet.problem import Problem

_SAME = 1e-6  # relative: the same number, computed twice
_OF_TOL = 0.1  # of the tolerance: by how much a bound found anew may be looser


def subject(problem: Problem, data: Mapping[str, Any]) -> dict[str, Any]:
    """What was certified, ready for JSON; ``data`` is the fingerprint of the fit."""
    return problem.statement.to_dict() | {
        "gates": None if problem.gate_vectors is None else len(problem.patterns),
        "scope": str(problem.scope),
        "standardized": problem.scaling is not None,
        "samples": list(problem.X.shape),
        "targets": list(problem.loss.target.shape),
        "fitted_on": {name: data[f"{name}_sha256"] for name in ("samples", "targets")},
    }


def print_subject(about: Mapping[str, Any]) -> None:
    samples, targets = (" × ".join(map(str, about[name])) for name in ("samples", "targets"))
    gates = "none" if about["gates"] is None else f"{about['gates']}, {about['sampler']}"
    loss = " ".join([about["loss"], *(f"{name}={value}" for name, value in about["loss_settings"].items())])
    norms = in_words(read_penalty(about["penalty"]))
    rows = [
        ("network", f"{about['block']}, {about['activation']}"),
        ("gates", gates),
        ("loss", f"{loss}, summed over samples"),
        ("beta", f"{about['beta']:.9g}"),
        ("penalty", f"of a neuron {norms}"),
        ("data", f"samples {samples}, targets {targets}" + (", standardised" if about["standardized"] else "")),
        ("fit's data", ", ".join(f"{name} {digest[:16]}…" for name, digest in about["fitted_on"].items())),
    ]
    say("\n".join(f"{name:<16}  {value}" for name, value in rows))


def other_moments(model: SavedModel, posed: Sequence[Any]) -> list[str]:
    """Where the data of the fit were standardised by means and scales that are not theirs, in words."""
    X, Y, weight, mask = posed
    _, own = standardised(model.statement, read_data(model.statement, X, Y, weight, mask), None)
    alike = model.scaling is not None and own.near(model.scaling)
    return [] if alike else ["it is of data standardised by other means and scales than their own"]


def contradicted(stored: Certificate, found: Certificate) -> list[str]:
    """In what the certificate of a folder claims what its own weights, gates and data do not show, in words."""
    wrong = []
    size = max(abs(stored.primal), abs(found.primal))
    if not isclose(stored.primal, found.primal, rel_tol=_SAME):
        wrong.append(f"it says that the objective is {stored.primal:.9g}, which is {found.primal:.9g}")
    if stored.dual - found.dual > max(_SAME, _OF_TOL * stored.tol) * size:
        wrong.append(f"it claims a lower bound of {stored.dual:.9g}, of which {found.dual:.9g} can be proven")
    if stored.status == "certified" and not found.holds(stored.tol):
        wrong.append(f"it claims a gap of at most {stored.tol:g}, and {found.relative_gap:.2e} can be proven")
    return wrong
