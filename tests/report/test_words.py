"""The certificate in sentences says what was proven: no more, and no less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.report import summary, verdict, words
from provenet.solvers import Solution

Change = Callable[..., Solution]


def said(solution: Solution) -> words.Verdict:
    return verdict(solution.problem, solution.certificate, solution.status)


def test_the_certified_sentence(classified: Solution, with_numbers: Change) -> None:
    solution = with_numbers(classified, primal=31.899, dual=31.8989746, tol=1e-6)
    spoken = said(solution)
    assert spoken.certified
    assert spoken.headline == "Proven optimal to within 0.00008 %"
    assert spoken.sentence == (
        "No gated-ReLU network with these 20 gates can have an objective lower than 31.89897 on this data; "
        "this one has 31.89900: at most 0.00008 % above the best."
    )
    assert spoken.advice == ""
    assert summary(solution) == f"{spoken.headline}.\n{spoken.sentence}"


def test_a_starved_run_says_so_and_what_to_do(starved: Solution) -> None:
    spoken = said(starved)
    assert not spoken.certified
    assert spoken.headline.startswith("Not certified: the relative gap is ")
    assert spoken.advice == starved.status.advice
    assert "optimal" not in spoken.headline + spoken.sentence
    assert spoken.advice in summary(starved)


def test_a_useless_bound_is_called_useless(classified: Solution, with_numbers: Change) -> None:
    spoken = said(with_numbers(classified, primal=2.0, dual=-7.0))
    assert not spoken.certified
    assert "says nothing" in spoken.sentence
    assert "above the best" not in spoken.sentence


def test_a_wide_bracket_is_told_as_a_factor(classified: Solution, with_numbers: Change) -> None:
    assert "as much as 4 times the best" in said(with_numbers(classified, primal=2.0, dual=0.5)).sentence


def test_nan_is_never_certified(classified: Solution, with_numbers: Change) -> None:
    spoken = said(with_numbers(classified, primal=float("nan")))
    assert not spoken.certified
    assert "not a number" in spoken.headline


def test_no_neuron_where_none_could_help() -> None:
    """All rows equal, with a free intercept: no smaller β gives neurons."""
    problem = pn.formulate("mlp", np.ones((6, 3)), np.eye(2)[[0, 1] * 3], gates=4, loss="softmax", fit_intercept="free")
    assert problem.beta_max == 0
    assert words.inside(pn.solve(problem)) == ("Nothing: no neuron can lower the loss on these data, whatever β is.")


def test_no_gap_left(classified: Solution, with_numbers: Change) -> None:
    spoken = said(with_numbers(classified, primal=5.0, dual=5.0 + 1e-15))
    assert spoken.headline == "Proven optimal, to the last digit"


@pytest.mark.parametrize(
    ("activation", "scope", "subject"),
    [
        ("linear", "linear", "No linear two-layer network of any width"),
        ("gated_relu", "fixed_gates", "No gated-ReLU network with these 20 gates"),
        ("relu", "fixed_gates", "No ReLU network whose neurons keep to these 20 activation patterns"),
        ("relu", "all_arrangements", "No two-layer ReLU network of any width"),
    ],
)
def test_the_subject_is_the_scope(classified: Solution, activation: str, scope: str, subject: str) -> None:
    statement = replace(classified.problem.statement, activation=activation)
    problem = replace(classified.problem, statement=statement)
    assert words.nobody_else(problem, scope) == subject


def test_limits_name_the_scope(classified: Solution, linear: Solution) -> None:
    gated = " ".join(words.limits(classified.problem, classified.certificate))
    assert "these gates" in gated
    assert "new samples" in gated
    assert "linear networks" in words.limits(linear.problem, linear.certificate)[0]


def test_a_probabilistic_bound_is_named(classified: Solution) -> None:
    certificate = replace(classified.certificate, bound="probabilistic")
    assert "probabilistic" in " ".join(words.meaning(classified.problem, certificate))
    assert "probabilistic" not in " ".join(words.meaning(classified.problem, classified.certificate))


def test_one_gate_is_singular(one_gate: Solution) -> None:
    assert "with this one gate can" in said(one_gate).sentence


def test_the_zero_network_is_explained(zero_network: Solution, starved: Solution) -> None:
    assert "zero network" in words.inside(zero_network)
    assert said(zero_network).certified


def test_accuracy_is_rounded_down() -> None:
    assert words.share_right(1999, 2000) == "99.9 %"
    assert words.share_right(2000, 2000) == "100 %"
    assert words.share_right(29, 30) == "96.7 %"
    assert words.share_right(1, 10**6) == "0.0001 %"
