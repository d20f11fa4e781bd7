"""The fits of `provenet demo`, and what is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from sklearn.model_selection import train_test_split

from provenet.cli.console import FAILED, print_json, print_table, say
from provenet.cli.training import train
from provenet.data.demo import digits, spiral
from provenet.estimators import ProvenClassifier
from provenet.io import save
from provenet.report import report as write_report


def fit_all(out: Path, quiet: bool) -> None:
    cases = (
        ("spiral", spiral(300, noise=0.03), ProvenClassifier(beta=0.1, tol=1e-4)),
        ("digits", digits(), ProvenClassifier(beta=2.0, tol=1e-4)),
    )
    results = [_run(name, *data, estimator, out / name, quiet) for name, data, estimator in cases]
    if quiet:
        print_json({"results": results})
    else:
        _print(results)
    if not all(result["certificate"]["status"] == "certified" for result in results):
        raise typer.Exit(FAILED)


def _run(name: str, X: Any, y: Any, estimator: ProvenClassifier, out: Path, quiet: bool) -> dict[str, Any]:
    """Train on four fifths, judge on the rest."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    train(estimator, (X, y, None, None), name, quiet=quiet)
    save(estimator, out)
    page = write_report(
        estimator,
        out / "report.html",
        X_test,
        y_test,
        judged_on="test",
        title=f"The {name}, on samples it has not seen",
    )
    solution = estimator.solution_
    return {
        "data": name,
        "samples": list(X.shape),
        "classes": len(estimator.classes_),
        "accuracy": float(estimator.score(X_test, y_test)),
        "method": solution.method,
        "seconds": solution.seconds,
        "certificate": estimator.certificate_.to_dict(),
        "model": str(out),
        "report": str(page),
    }


def _print(results: list[dict[str, Any]]) -> None:
    rows = [
        [
            r["data"],
            "{} × {}".format(*r["samples"]),
            str(r["classes"]),
            f"{r['accuracy']:.1%}",
            f"{r['certificate']['relative_gap']:.1e}",
            r["certificate"]["status"],
            f"{r['seconds']:.2g} s ({r['method']})",
        ]
        for r in results
    ]
    print_table(["data", "samples", "classes", "test accuracy", "relative gap", "", "time"], rows)
    say("No network with the same gates has a training objective lower than these by more than the relative gap.")
    for r in results:
        say(f"report  {r['report']}")
