"""The small print: settings, data, certificate, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from provenet.gauges.prox.mixed import WEIGHT_DECAY, in_words
from provenet.problem import Problem
from provenet.report.canvas import shortened
from provenet.report.fit import Fit
from provenet.report.nouns import has_tokens, nouns, sample_shape
from provenet.report.numerals import count, gap_number, number, outward, seconds
from provenet.report.words import LOSSES
from provenet.solvers import Solution
from provenet.statement import Scope

_ROWS_SHOWN = 20
_SCOPES = {
    Scope.LINEAR: "linear networks of any width",
    Scope.FIXED_GATES: "networks with these gates, of any width",
    Scope.ALL_ARRANGEMENTS: "ReLU networks of any width",
}
_FOUND = {
    "gaussian": "random directions",
    "between": "halfway between rows of different targets",
    "trained": "the units of a ReLU network trained for a moment",
    "grow": "grown by those that pull hardest",
    "all": "all arrangements",
}
_CONDITIONS = {
    "wide_enough": "at least p + q neurons at every gate (BM Thm 3.3)",
    "rank_deficient": "rank-deficient neurons at every gate (BM Thm 3.3)",
    "full_rank": "full rank at every gate (BM Thm 3.5)",
}


@dataclass(frozen=True)
class Table:
    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def all_tables(
    solution: Solution, fit: Fit, features: Sequence[str], versions: Mapping[str, str], source: str | None = None
) -> list[Table]:
    tables = [_certificate(solution), _run(solution), _settings(solution), _data(solution, fit, source)]
    if fit.points.ndim == 2:
        tables.append(_features(fit, features))
    return [*tables, Table("Versions", (), list(versions.items()))]


def network_name(solution: Solution) -> str:
    """Gated-ReLU MLP, linear self-attention block, …"""
    problem = solution.problem
    kind = {"gated_relu": "Gated-ReLU", "relu": "ReLU", "linear": "Linear"}[problem.activation]
    name = "MLP" if problem.block.name == "mlp" else nouns(problem).network.removeprefix("two-layer ")
    return f"{kind} {name}"


def _certificate(solution: Solution) -> Table:
    c = solution.certificate
    lower, upper = outward(min(c.dual, c.primal), c.primal)
    rows = [
        ("status", c.status.replace("_", " ")),
        ("objective (primal)", upper),
        ("lower bound (dual)", lower),
        ("gap", gap_number(c.gap, c.primal)),
        ("relative gap", f"{gap_number(c.relative_gap)} ({number(c.tol)} asked for)"),
        ("strongest pull ÷ β", number(c.polar_max / c.beta, 9)),
        ("how the pull was bounded", c.bound),
        ("scope", f"{c.scope}: {_scope(solution)}"),
        ("bound of BM Thm 3.4", number(c.theorem_bound)),
    ]
    rows += [(_CONDITIONS.get(name, name), "yes" if holds else "no") for name, holds in c.conditions.items()]
    note = (
        "The theorem's bound and the rank conditions suppose an exact stationary point. "
        "They are shown for interest; the certificate does not use them."
    )
    return Table("Certificate", (), rows, note)


def _scope(solution: Solution) -> str:
    scope = solution.certificate.scope
    if scope == Scope.FIXED_GATES and solution.problem.activation == "relu":
        return "ReLU networks with these activation patterns, of any width"
    return _SCOPES[scope]


def _run(solution: Solution) -> Table:
    rows = [
        ("method", solution.method),
        ("ended", solution.status.value.replace("_", " ")),
        ("advice", solution.status.advice),
        ("steps", count(solution.steps)),
        ("time", seconds(solution.seconds)),
    ]
    return Table("Run", (), rows)


def _settings(solution: Solution) -> Table:
    problem = solution.problem
    rows = [
        ("block", problem.block.name),
        *((name.replace("_", " "), _setting(value)) for name, value in problem.block.settings().items()),
        ("activation", problem.activation.replace("_", " ")),
        ("gates", _gates(problem)),
        ("loss", LOSSES.get(problem.loss.name, problem.loss.name)),
        *([("readout", problem.readout)] if has_tokens(problem) else []),
        *([("free intercept", "of the outputs, without penalty")] if problem.statement.free_intercept else []),
        *([] if problem.penalty == WEIGHT_DECAY else [("penalty of a neuron", in_words(problem.penalty))]),
        ("β", number(problem.beta, 6)),
        ("β_max", f"{number(problem.beta_max, 6)} (from here on the zero network is the best)"),
        ("β ÷ β_max", number(problem.beta / problem.beta_max if problem.beta_max else float("inf"))),
    ]
    return Table("Settings", (), rows)


def _gates(problem: Problem) -> str:
    """How many, and how they were found."""
    if problem.gate_vectors is None:
        return "none"
    words = _FOUND.get(problem.statement.sampler, problem.statement.sampler)
    return f"{count(problem.program.operator.n_gates)}, {words}, found in {seconds(problem.gates.seconds)}"


def _setting(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return f"a matrix, {len(value)} × {len(value[0])}"
    return " × ".join(map(str, value)) if isinstance(value, tuple) else shortened(value, 60)


def _data(solution: Solution, fit: Fit, source: str | None) -> Table:
    problem = solution.problem
    weight = problem.loss.sample_weight
    rows = [] if source is None else [("from", source)]
    rows += [
        ("trained on", count(problem.X.shape[0], "sample")),
        ("shape of a sample", sample_shape(problem)),
        ("outputs", count(problem.program.operator.output_shape[-1])),
        (
            "range of X" + ("" if problem.scaling is None else ", standardised"),
            f"{number(float(problem.X.min()))} to {number(float(problem.X.max()))}",
        ),
        ("judged on", count(len(fit.truth), fit.unit)),
    ]
    if float(weight.min()) != 1 or float(weight.max()) != 1:
        rows.append(("sample weights", f"{number(float(weight.min()))} to {number(float(weight.max()))}"))
    if problem.mask is not None:
        share = float(problem.mask.double().mean())
        rows.append(("tokens that are there", f"{count(int(problem.mask.sum()))} ({_share_of(share)})"))
    if fit.labels is None:
        rows.append(("range of y", f"{number(float(fit.truth.min()))} to {number(float(fit.truth.max()))}"))
    return Table("Data", (), rows)


def classes(fit: Fit) -> Table:
    assert fit.labels is not None
    table = fit.confusion()
    rows = []
    for k, label in enumerate(fit.labels[:_ROWS_SHOWN]):
        true, said, right = int(table[k].sum()), int(table[:, k].sum()), int(table[k, k])
        rows.append((shortened(label, 60), count(true), count(said), _share(right, true), _share(right, said)))
    return Table("Classes", ("class", f"{fit.unit}s", "predicted", "recall", "precision"), rows, _more(len(fit.labels)))


def _share(part: int, whole: int) -> str:
    return _share_of(part / whole) if whole else "–"


def _share_of(share: float) -> str:
    return f"{100 * share:.1f} %"


def _features(fit: Fit, names: Sequence[str]) -> Table:
    rows = []
    for name, column in zip(names[:_ROWS_SHOWN], fit.points.T, strict=False):
        summary = (column.min(), column.mean(), column.max(), column.std())
        rows.append((shortened(name, 60), *(number(float(np.float64(value))) for value in summary)))
    return Table("Features", ("feature", "min", "mean", "max", "deviation"), rows, _more(len(names)))


def _more(total: int) -> str:
    return f"The first {_ROWS_SHOWN} of {count(total)}." if total > _ROWS_SHOWN else ""
