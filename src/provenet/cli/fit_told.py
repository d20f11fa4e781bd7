"""What `provenet fit` says when it is done."""

from __future__ import annotations

import warnings
from math import isfinite
from pathlib import Path
from typing import Any

from sklearn.exceptions import UndefinedMetricWarning

from provenet.cli.console import counted, print_certificate, print_json, say
from provenet.cli.fitting import Fitting
from provenet.estimators.base import ProvenEstimator
from provenet.estimators.choice import Candidate


def _score(estimator: ProvenEstimator, on: Fitting) -> float:
    data = on.data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # `_scored` says it
        return float(estimator.score(data.X, on.y, sample_weight=data.weight, mask=data.mask))


def _scored(name: str, score: float, weighed: bool) -> str:
    if score != score:
        return f"{name} not defined, of one row"
    return f"{name} {score:.4g}" + (", rows by their weight" if weighed else "")


def _by_folds(candidates: list[Candidate], name: str) -> str:
    """What a search tried, and how each kind did at its best β."""
    told = (f"{each.activation} {each.score:.4g}" for each in candidates)
    return f"beta chosen on {counted(len(candidates[0].scores), 'fold')}, best mean {name} of {', '.join(told)}"


def _as_json(each: Candidate) -> dict[str, Any]:
    return {"activation": each.activation, "score": each.score if isfinite(each.score) else None}


def tell(
    estimator: ProvenEstimator, fitting: Fitting, kept_out: Fitting | None, out: Path, page: Path | None, json: bool
) -> None:
    """What came of a fit: how right it is, how it was found, and the certificate."""
    name = "accuracy" if fitting.task == "classification" else "R²"
    data, score = fitting.data, _score(estimator, fitting)
    test = None if kept_out is None else _score(estimator, kept_out)
    solution, search = estimator.solution_, getattr(estimator, "beta_search_", None)
    candidates: list[Candidate] = getattr(estimator, "candidates_", [])  # of a search by folds
    if json:
        print_json(
            {
                "folder": str(out),
                "report": None if page is None else str(page),
                "task": fitting.task,
                "block": solution.problem.block.name,
                "samples": list(data.X.shape),
                "read": data.read or None,
                "method": solution.method,
                "status": solution.status.value,
                "steps": solution.steps,
                "seconds": solution.seconds,
                "neurons": solution.factors.n_neurons,
                "gates": None
                if solution.problem.gate_vectors is None
                else {
                    "found": solution.problem.statement.sampler,
                    "count": len(solution.problem.patterns),
                    "seconds": solution.problem.gates.seconds,
                },
                "beta": solution.problem.beta,
                "beta_max": solution.problem.beta_max,
                "beta_search": None if search is None else search.to_dict(),
                "candidates": [_as_json(each) for each in candidates] or None,
                "training_score": {"name": name, "value": score if score == score else None},
                "test_score": None if test is None else {"name": name, "value": test if test == test else None},
                "certificate": estimator.certificate_.to_dict(),
            }
        )
        return
    beta, beta_max, weighed = solution.problem.beta, solution.problem.beta_max, data.weight is not None
    if data.read:
        say(f"{fitting.path.name}: {data.read}")
    say(f"{fitting.task} on {' × '.join(map(str, data.X.shape))} data, training {_scored(name, score, weighed)}")
    if test is not None and kept_out is not None:
        say(f"on {counted(len(kept_out.data.X), 'row')} kept from training, test {_scored(name, test, weighed)}")
    neurons, steps = counted(solution.factors.n_neurons, "neuron"), counted(solution.steps, "step")
    say(f"{neurons} by {solution.method} in {steps}, {solution.seconds:.2g} s")
    if solution.problem.gate_vectors is not None:
        gates, sampler = solution.problem.gates, solution.problem.statement.sampler
        say(f"{counted(len(gates.patterns), 'gate')}, {sampler}, found in {gates.seconds:.2g} s")
    say(f"beta {beta:.3g}" + (f" = {beta / beta_max:.2g} beta_max" if beta_max > 0 else ""))
    if search is not None:
        say(str(search))
    if candidates:
        say(_by_folds(candidates, name))
    print_certificate(estimator.certificate_)
    say(f"model   {out}")
    if page is not None:
        say(f"report  {page}")
