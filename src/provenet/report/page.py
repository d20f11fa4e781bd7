"""The report: a solution, and what is known of its data, as one self-contained page."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from provenet.files import write_atomically
from provenet.report import figures, tables, words
from provenet.report.anatomy import Anatomy, dissect
from provenet.report.betapath import beta_path
from provenet.report.canvas import Drawing, plain
from provenet.report.fit import Fit, Predict, evaluate, training_score
from provenet.report.maps import network_map
from provenet.report.nouns import sample_shape
from provenet.report.numerals import count, gap_number, number, outward, seconds
from provenet.report.quality import quality
from provenet.report.tables import Table
from provenet.report.weights import weight_pictures
from provenet.solvers import Solution


def write_report(target: str | os.PathLike[str], **content: Any) -> Path:
    """Render the report (arguments as `render_report`) into ``target``: whole, or not at all."""
    target = Path(target)
    write_atomically(target, render_report(**content).encode())
    return target


def report(
    estimator: Any, target: str | os.PathLike[str], X: Any = None, y: Any = None, mask: Any = None, **content: Any
) -> Path:
    """The report of a fitted estimator on (X, y), or on the data it was fitted to; more as in `render_report`."""
    path = getattr(estimator, "path_", None)
    if path is not None and len(path) < len(estimator.betas_):
        path = None  # folds were looked at, not all the data at each β
    own = {
        "solution": estimator.solution_,
        "predict": None if X is None else partial(estimator.predict, mask=mask),
        "classes": getattr(estimator, "classes_", None),
        "feature_names": getattr(estimator, "feature_names_in_", None),
        "path": path,
        "scores": None if path is None else _mean_scores(estimator.cv_scores_),
    }
    return write_report(target, **(own | {"X": X, "y": y, "mask": mask} | content))


def _mean_scores(scores: np.ndarray) -> np.ndarray | None:
    """Of each β, by the folds that scored it; None where none did."""
    there = ~np.isnan(scores)
    if not there.any():
        return None
    sums = np.where(there, scores, 0.0).sum(axis=0)
    return np.divide(sums, there.sum(axis=0), out=np.full(len(sums), np.nan), where=there.any(axis=0))


def render_report(
    *,
    solution: Solution,
    X: Any = None,
    y: Any = None,
    predict: Predict | None = None,
    classes: Sequence[Any] | None = None,
    path: Sequence[Solution] | None = None,
    scores: Sequence[float] | None = None,
    title: str | None = None,
    feature_names: Sequence[str] | None = None,
    mask: Any = None,
    source: str | None = None,
    judged_on: str | None = None,
) -> str:
    """The page as a string; the same arguments give the same page.

    X, y: samples and labels or values to judge the network on, with their ``mask`` if tokens are missing; its training
    data if left out.  ``predict`` maps X to
    labels or values and ``classes`` names the outputs; without them the network's outputs are read.  ``path``:
    solutions along β, and ``scores`` of validation, one number for each (training accuracy or R² if left out); a path
    without them leads the page.  ``source``: where the data came from, file and target.  ``judged_on``: "training" or
    "test", what X and y are.
    """
    if scores is not None and (path is None or len(scores) != len(path)):
        raise ValueError("scores: give one score for each solution of path.")
    fit = evaluate(solution, X, y, predict, classes, mask)
    anatomy = dissect(solution)
    features = _feature_names(fit, feature_names)
    kind = "training" if X is None else judged_on or ""
    verdict, of_path = words.verdict(solution.problem, solution.certificate, solution.status), path and scores is None
    if of_path:  # the page is of all of it, the proof of one network
        last = f"The last network of the path, at β = {number(solution.problem.beta)}."
        verdict = replace(verdict, sentence=f"{last} {verdict.sentence}")
    if title is None:
        title = f"A path in β: {_title(solution, source)}" if of_path else _title(solution, source)
    context = {
        "title": plain(title),
        "verdict": verdict,
        "tiles": _tiles(solution, fit, anatomy, kind),
        "meaning": words.meaning(solution.problem, solution.certificate),
        "limits": words.limits(solution.problem, solution.certificate),
        "sections": _sections(solution, fit, anatomy, features, path, scores),
        "tables": tables.all_tables(solution, fit, features, _versions(), source),
    }
    return _environment().get_template("report.html.j2").render(context)


@cache
def _environment() -> Environment:
    loader = PackageLoader("provenet", "report/templates")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _title(solution: Solution, source: str | None = None) -> str:
    name, X = tables.network_name(solution), solution.problem.X
    if source is not None:
        return f"{name} on {source}"
    if X.ndim == 2:
        return f"{name} on {count(X.shape[0])} × {X.shape[1]} data"
    return f"{name} on {count(X.shape[0], 'sample')} of {sample_shape(solution.problem)}"


def _tiles(solution: Solution, fit: Fit, anatomy: Anatomy, kind: str) -> list[tuple[str, str, str]]:
    """(name, number, remark) of what matters most; ``kind`` of data: training, test, or not known."""
    certificate = solution.certificate
    lower, upper = outward(min(certificate.dual, certificate.primal), certificate.primal)
    if fit.labels is not None:
        right, total = fit.n_right, fit.truth.size
        score = ("accuracy", words.share_right(right, total), f"{count(right)} of {count(total)} right")
    else:
        score = ("R²", number(fit.score), "of the variance, explained")
    named = f"{kind} {score[0]}".strip()
    return [
        ("Objective", upper, "of this network"),
        ("Lower bound", lower, "for every network in scope"),
        ("Relative gap", gap_number(certificate.relative_gap, digits=2), f"{number(certificate.tol)} asked for"),
        (named[0].upper() + named[1:], *score[1:]),
        (
            f"{anatomy.noun.capitalize()}s",
            count(solution.factors.n_neurons),
            (f"{count(anatomy.n_neurons)} of some size, " if anatomy.negligible else "")
            + f"behind {anatomy.n_active} of {count(anatomy.n_gates, 'gate')}",
        ),
        ("Time", seconds(solution.seconds), f"{count(solution.steps, 'step')} of {solution.method}"),
    ]


def _sections(
    solution: Solution,
    fit: Fit,
    anatomy: Anatomy,
    features: Sequence[str],
    path: Sequence[Solution] | None,
    scores: Sequence[float] | None,
) -> list[tuple[str, str, Sequence[Drawing | Table]]]:
    """(heading, text, cards)."""
    does: list[Drawing | Table] = [*network_map(fit, solution, anatomy, features), *quality(fit)]
    if fit.labels is not None:
        does.append(tables.classes(fit))
    sections: list[tuple[str, str, Sequence[Drawing | Table]]] = [("What the network does", "", does)]
    history, tol = solution.history, solution.certificate.tol
    curves = [figures.objective(history), figures.gap(history, tol)] if len(history) > 1 else []
    sections.append(("How it got there", words.journey(solution), curves))
    pull = figures.pull(anatomy, solution.certificate.status == "certified")
    inside = [pull]
    if anatomy.n_neurons and solution.problem.activation != "linear":
        inside.append(figures.gates(anatomy))
    if anatomy.n_neurons:
        inside.append(figures.spectrum(anatomy))
    inside += weight_pictures(solution)
    sections.append(("What is inside", words.inside(solution), inside))
    if path and solution.problem.beta_max > 0:
        classify = fit.labels is not None
        name = "Validation score" if scores is not None else "Training accuracy" if classify else "Training R²"
        values = scores if scores is not None else [training_score(s, classify) for s in path]
        text = (
            "At β_max the zero network is the best; below it neurons come in, and the fit gets closer. "
            + ("The dotted line marks the β that validation chose." if scores is not None else "")
            + ("The dotted line marks the last β, of which the rest of this page speaks." if scores is None else "")
        )
        drawn = ("The path in β", text, beta_path(solution, path, values, name, chosen=scores is not None))
        sections.insert(len(sections) if scores is not None else 0, drawn)
    return sections


def _feature_names(fit: Fit, names: Sequence[str] | None) -> list[str]:
    width = fit.points.shape[-1]
    if names is None:
        return [f"feature {i}" for i in range(width)]
    if len(names) != width:
        raise ValueError(f"feature_names: {width} features need {width} names, got {len(names)}.")
    return [plain(name) for name in names]


def _versions() -> dict[str, str]:
    import provenet  # late: the package's own front door may import this module

    packages = ("torch", "numpy", "scipy", "scikit-learn")
    return {"provenet": provenet.__version__, "Python": platform.python_version()} | {p: version(p) for p in packages}
