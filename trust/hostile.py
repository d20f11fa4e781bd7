"""Hostile numbers: what no one means to pass, and someone does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import provenet as pn
from provenet.proofs.independent import second_opinion
from trust.figure import Figure, Seen, Try, pick
from trust.problems import of_zero, solved

NAMED = (ValueError, MemoryError, TypeError)
POISON = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e-308, 5e-324, 1e-200, 1e16, 2.0**53, 0.0, -0.0]


@contextmanager
def ready(_: Path) -> Iterator[Try]:
    yield attempt


def attempt(case: int) -> Seen:
    rng = np.random.default_rng([case, 8])
    words, X, Y, settings = posed(rng)
    try:
        problem = pn.formulate("mlp", X, Y, **settings)
        found = solved(problem, seconds=0.5, tol=float(pick(rng, [1e-6, 1e-3, 1e-12])))
    except NAMED as error:
        named = ":" in str(error) and not isinstance(error, TypeError)
        return Seen("refused, and named", None if named else f"{words}: {type(error).__name__}: {error}")
    return judge(words, problem, found)


def judge(words: str, problem: pn.Problem, found: pn.Solution) -> Seen:
    """A certificate is finite, true of its network, and below what the zero network reaches."""
    said, network, zero = found.certificate, found.network(), of_zero(problem)
    try:
        verdict = second_opinion(problem, network, theta=said.theta)
    except ValueError as error:
        return Seen("beyond the checker, which says so", None if ":" in str(error) else f"{words}: {error}")
    with torch.no_grad():
        outputs = network(torch.as_tensor(np.asarray(problem.X), dtype=torch.float64))
    size = max(abs(verdict.primal), 1e-13 * zero)
    wrong = None
    if not all(map(math.isfinite, (said.primal, said.dual, said.gap, said.relative_gap, said.polar_max))):
        wrong = f"not finite: {said.to_dict()}"
    elif problem.scaling is None and not bool(torch.isfinite(outputs).all()):
        wrong = "outputs that are not finite"
    elif (
        abs(said.primal - verdict.primal) > (1e-6 if said.holds(1e-3) else 1e-3) * size
    ):  # cut short, neurons may cancel
        wrong = f"the objective is {said.primal!r}, or {verdict.primal!r} by the checker"
    elif max(said.dual, found.lower_bound, verdict.dual) > min(said.primal, verdict.primal, zero) + 1e-9 * size:
        wrong = f"bounds of {said.dual!r}, {found.lower_bound!r}, {verdict.dual!r} above {said.primal!r} or {zero!r}"
    elif said.primal > zero * (1 + 1e-9) and not problem.statement.free_intercept:  # which is a number, and rounds
        wrong = f"{said.primal!r} is worse than no network, {zero!r}"
    word = "right and certified" if said.holds(said.tol) else "right, and said not to be certified"
    return Seen(word, None if wrong is None else f"{words}: {wrong}")


def posed(rng: np.random.Generator) -> tuple[str, Any, Any, dict[str, Any]]:
    """Samples, targets and settings with something in them that does not belong there."""
    n, d, c = int(rng.integers(1, 12)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    loss = pick(rng, ["squared", "softmax", "logistic", "huber"])
    X: Any = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-12, 13)
    Y: Any = _targets(rng, loss, n, c)
    settings: dict[str, Any] = {"activation": pick(rng, ["linear", "gated_relu", "gated_relu", "relu"]), "loss": loss}
    settings |= {"gates": int(rng.integers(1, 5)), "beta": 10.0 ** rng.uniform(-12, 6)}
    if rng.random() < 0.4:
        settings["fit_intercept"] = "free"
    if rng.random() < 0.3:
        settings["standardize"] = True
    how = pick(rng, list(HOSTILE))
    X, Y = HOSTILE[how](rng, X, Y, settings)
    return f"{how}, n {n}, {settings['activation']}, {loss}", X, Y, settings


def _targets(rng: np.random.Generator, loss: str, n: int, c: int) -> np.ndarray:
    if loss == "softmax":
        return np.eye(c + 1)[rng.integers(0, c + 1, n)]
    if loss == "logistic":
        return rng.integers(0, 2, (n, c)).astype(float)
    return rng.standard_normal((n, c)) * 10.0 ** rng.integers(-12, 13)


def _poison(rng: np.random.Generator, array: np.ndarray, count: int = 1) -> np.ndarray:
    array = array.copy()
    array.reshape(-1)[rng.integers(array.size, size=count)] = [pick(rng, POISON) for _ in range(count)]
    return array


def _in_settings(**choices: list[Any]) -> Any:
    def change(rng: np.random.Generator, X: Any, Y: Any, settings: dict[str, Any]) -> tuple[Any, Any]:
        name = pick(rng, list(choices))
        settings[name] = pick(rng, choices[name])
        return X, Y

    return change


def _weights(rng: np.random.Generator, X: Any, Y: Any, settings: dict[str, Any]) -> tuple[Any, Any]:
    settings["sample_weight"] = _poison(rng, 10.0 ** rng.uniform(-10, 10, len(X)))
    return X, Y


HOSTILE: dict[str, Any] = {
    "a number of X": lambda rng, X, Y, _: (_poison(rng, X), Y),
    "numbers of X": lambda rng, X, Y, _: (_poison(rng, X, 3), Y),
    "a number of Y": lambda rng, X, Y, _: (X, _poison(rng, Y)),
    "weights": _weights,
    "beta": _in_settings(beta=[0.0, -1.0, np.nan, np.inf, 5e-324, 1e-300, 1e300, "1", None, True, 1 + 2j]),
    "settings": _in_settings(
        gates=[0, -1, 10**9, 2.5, "none", None, np.nan, [], np.full((1, 1), np.nan)],
        loss=["Squared", None, 3, ["squared"]],
        activation=["ReLU", None, 1],
        seed=[-1, None, 1.5, "x", 2**70],
        readout=["tokens", "", None],
    ),
    "X all the same": lambda rng, X, Y, _: (np.full_like(X, pick(rng, POISON[3:])), Y),
    "rows repeated": lambda rng, X, Y, _: (np.repeat(X[:1], len(X), 0), Y),
    "scales apart": lambda rng, X, Y, _: (X * 10.0 ** rng.integers(-100, 101, X.shape[1]), Y),
    "rows apart": lambda rng, X, Y, _: (X * 10.0 ** rng.integers(-80, 81, (len(X), 1)), Y),
    "Y far away": lambda rng, X, Y, _: (X, Y + 10.0 ** rng.integers(3, 15)),
    "huge or tiny X": lambda rng, X, Y, _: (X * 10.0 ** pick(rng, [-300, -150, 100, 140, 290]), Y),
    "huge or tiny Y": lambda rng, X, Y, _: (X, Y * 10.0 ** pick(rng, [-300, -150, 100, 140, 290])),
    "types": lambda rng, X, Y, _: (
        X.astype(pick(rng, ["float16", "float32", "int8", "int64", "bool", "complex64"])),
        Y,
    ),
    "objects": lambda rng, X, Y, _: (pick(rng, [X.astype(object), X.astype(str), X.tolist(), None, "X", [[]], 3.0]), Y),
    "shapes": lambda rng, X, Y, _: (pick(rng, [X[:, :0], X[:0], X[None], X.T, X[:, 0], X[0, 0]]), Y),
    "targets' shapes": lambda rng, X, Y, _: (X, pick(rng, [Y[:-1], Y[:, :0], Y[None], Y[0], Y.T, None, "y"])),
}

FIGURE = Figure(
    name="hostile",
    title="hostile numbers",
    promise="right or named",
    checked=(
        "NaN, infinities, denormals, 10³⁰⁸, columns and rows 10¹⁰⁰ apart, constant data, far-away targets, weights of "
        "any size, wrong types, shapes and settings, in `formulate` and `solve`: either an error that names the "
        "argument, or a finite certificate whose objective the checker finds too, whose bound is below it and below "
        "that of the zero network, and a network that is no worse than none."
    ),
    count=1000,
    chunk=25,
    small=30,
    ready=ready,
)
