"""True certificates that someone changed: another weight, bound, tolerance, β, gate, target or dual point."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import provenet as pn
from provenet.certificates import Certificate
from provenet.cli.rejudged import rejudged
from provenet.io import SavedModel
from provenet.nn.standardised import core
from trust.figure import Figure, Seen, Try, pick
from trust.problems import Posed, posed, rival, solved

BANK = 120  # problems
TOL = 1e-6
VISIBLE = 2e-6  # relative: what is changed by less is within rounding of the truth


@dataclass(frozen=True)
class Known:
    """A solved problem with a certificate that holds, and the least objective that any method has found."""

    at: Posed
    model: SavedModel
    least: float


@contextmanager
def ready(_: Path) -> Iterator[Try]:
    known: dict[int, Known | None] = {}

    def attempt(case: int) -> Seen:
        number = case % BANK
        if number not in known:
            known[number] = _known(number)
        there = known[number]
        return Seen("no certificate to change") if there is None else judge(there, np.random.default_rng([case, 3]))

    yield attempt


def _known(number: int) -> Known | None:
    """None: the problem is not posed, or not certified in time."""
    try:
        at = posed(number * 7)  # blocks, losses and activations are all met: 7 divides none of their numbers
    except ValueError:
        return None
    found = solved(at.problem, seconds=2.0)
    if not found.certificate.holds(TOL):
        return None
    model = SavedModel.of(at.problem, found.network(), found.certificate)
    other = rival(at.problem, found.method)
    rivals = [] if other is None else [at.checked(other[1]).primal]
    return Known(at, model, min([at.checked(model.network).primal, *rivals]))


def judge(known: Known, rng: np.random.Generator) -> Seen:
    """A change, and whether what is then claimed is still accepted though it is not true."""
    word, model, problem, held = changed(known, rng)
    try:
        verdict = rejudged(model, problem, held)
    except ValueError as error:
        return Seen("refused", None if ":" in str(error) else f"{word}: no argument is named: {error}")
    said = verdict.certificate
    same_problem = problem is known.at.problem
    least = min(verdict.second.primal, known.least if same_problem else np.inf)
    if max(said.dual, verdict.second.dual) > least * (1 + 1e-9) + 1e-15:
        return Seen("FALSE", f"{known.at.words}, {word}: a bound of {said.dual!r}, but {least!r} is reached")
    if not verdict.holds:
        return Seen("found out")
    if verdict.differences:  # told of, and what is accepted is the certificate on these data
        return Seen("accepted as of other data, and true of them")
    truth = verdict.second.primal
    lie = false_claim(model.certificate, truth, known.least if same_problem else truth)
    return Seen("still true", None if lie is None else f"{known.at.words}, {word}: accepted, but {lie}")


def false_claim(said: Certificate, primal: float, least: float) -> str | None:
    """What a certificate claims against the objective and the least that is known to be reached; None: nothing."""
    size = max(abs(said.primal), abs(primal))
    if abs(said.primal - primal) > VISIBLE * size:
        return f"its objective is {primal!r}, not {said.primal!r}"
    if said.dual > least + VISIBLE * size:
        return f"{least!r} is reached, below its bound {said.dual!r}"
    if said.status == "certified" and primal - least > (said.tol + VISIBLE) * size:
        return f"{least!r} is reached, further than {said.tol} from {primal!r}"
    return None


Arrays = tuple[Any, ...]


def changed(known: Known, rng: np.random.Generator) -> tuple[str, SavedModel, pn.Problem, Arrays]:
    """A model of which something is no longer as it was, and the problem and arrays that it is held against."""
    model, problem, data = known.model, known.at.problem, known.at.data
    arrays: Arrays = (data.X, data.Y, data.sample_weight, data.mask)
    how = pick(rng, ["first", "second", "bound", "objective", "both", "tolerance", "point", "noise", "beta", "samples"])
    much = 10.0 ** rng.uniform(-5, 1)
    if how == "beta":
        other = problem.with_beta(problem.beta * pick(rng, [0.1, 0.5, 1 - 1e-3, 1 + 1e-3, 2.0, 10.0]))
        return how, model, other, arrays
    if how == "samples":
        arrays = (np.asarray(data.X) * (1 + much * rng.standard_normal(np.shape(data.X))), *arrays[1:])
        return how, model, model.problem(*arrays), arrays
    network, said = model.network, _claimed(known, how, much, rng)
    if how in ("first", "second"):
        network = _shaken(network, how, much, rng)
    elif how in ("tolerance", "point", "noise"):
        network = _shaken(network, "second", 0.1 * much, rng)
    return how, SavedModel.of(problem, network, said), problem, arrays


def _claimed(known: Known, how: str, much: float, rng: np.random.Generator) -> Certificate:
    """What is said of the model."""
    said, target = known.model.certificate, known.at.problem.loss.target
    if how == "bound":
        return replace(said, dual=said.dual + much * max(abs(said.primal), 1e-300))
    if how == "objective":
        return replace(said, primal=said.primal * (1 - min(much, 1.0)))
    if how == "both":
        return replace(said, primal=said.primal / (1 + much), dual=said.dual / (1 + much))
    if how == "tolerance":
        return replace(said, tol=said.tol * 10.0 ** rng.uniform(-3, 0))
    if how == "point":
        return replace(said, theta=(target if said.theta is None else said.theta) * (1 + much))
    if how == "noise":
        theta = rng.standard_normal(tuple(target.shape)) * 10.0 ** rng.uniform(-8, 8)
        return replace(said, theta=torch.from_numpy(theta))
    return said


def _shaken(network: Any, name: str, much: float, rng: np.random.Generator) -> Any:
    """The network with one of its weights, or all, changed by so much of their size."""
    shaken = copy.deepcopy(network)
    weights = core(shaken).get_parameter(name)
    noise = torch.from_numpy(rng.standard_normal(tuple(weights.shape)))
    if rng.random() < 0.5:
        noise = noise * torch.from_numpy((rng.random(tuple(weights.shape)) < 0.2).astype(float))
    with torch.no_grad():
        weights += (much * noise * (weights.abs().max() if weights.numel() else 1.0)).to(weights.dtype)
    return shaken


FIGURE = Figure(
    name="tampered",
    title="tampered certificates and weights",
    promise="none accepted that is not true",
    checked=(
        "Certificates that hold, of up to 120 random problems, in which weights, the objective, the bound, the "
        "tolerance, the dual point, β or the samples are changed, by 10⁻⁵ to ten times their size, are put before what "
        "`provenet certify` does: it computes the certificate anew, lets the checker do it too, and compares. What it "
        "accepts must still be true to 2·10⁻⁶ of the objective against the best that any method has reached, and no "
        "dual point, of whatever numbers, may prove more than that."
    ),
    count=10_000,
    chunk=200,
    small=40,
    ready=ready,
)
