"""A certificate in plain sentences, for the report and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN

from provenet.certificates import Certificate
from provenet.gauges import BoundKind
from provenet.gauges.prox.mixed import WEIGHT_DECAY, in_words
from provenet.problem import Problem
from provenet.report.nouns import any_number, has_tokens, nouns
from provenet.report.numerals import count, number, outward, percent, seconds
from provenet.solvers import Solution, Status
from provenet.statement import Scope

LOSSES = {
    "squared": "squared loss",
    "softmax": "softmax cross-entropy",
    "logistic": "logistic loss",
    "huber": "Huber loss",
}

_ROUNDING = 1e-14  # a gap below this is float64's, not the network's


@dataclass(frozen=True)
class Verdict:
    """What a certificate says: a headline, the sentence that is proven, and, where it falls short, what to do."""

    certified: bool
    headline: str
    sentence: str
    advice: str


def verdict(problem: Problem, certificate: Certificate, status: Status | None = None) -> Verdict:
    """``status`` is how the run ended, where there was one: its advice is given when the certificate falls short."""
    certified = certificate.status == "certified"
    headline = _headline(certificate, certified)
    advice = "" if certified or status is None else status.advice
    return Verdict(certified, headline, claim(problem, certificate), advice)


def _headline(certificate: Certificate, certified: bool) -> str:
    above = excess(certificate)
    if not certified:
        asked = f"a relative gap of {number(certificate.tol)} was asked for"
        return f"Not certified: the relative gap is {number(certificate.relative_gap)}, and {asked}"
    if above < _ROUNDING:
        return "Proven optimal, to the last digit"
    return f"Proven optimal to within {percent(above)}"


def claim(problem: Problem, certificate: Certificate) -> str:
    """The sentence that is proven, asked tolerance met or not; rounded outward, so that it stays true."""
    lower, upper = outward(min(certificate.dual, certificate.primal), certificate.primal)
    above = excess(certificate)
    if above == float("inf"):
        return (
            f"This network has an objective of {upper}. The lower bound found, {lower}, says nothing: "
            "no objective is negative anyway."
        )
    nobody = f"{nobody_else(problem, certificate.scope)} can have an objective lower than {lower} on this data"
    return f"{nobody}; this one has {upper}: {_above_the_best(above)}."


def excess(certificate: Certificate) -> float:
    """The most that primal can exceed the best p*, as a share of p*: gap/dual, as dual ≤ p*."""
    if certificate.gap <= 0:
        return 0.0
    return certificate.gap / certificate.dual if certificate.dual > 0 else float("inf")


def _above_the_best(above: float) -> str:
    if above < _ROUNDING:
        return "the best there is, to the last digit"
    if above < 1:
        return f"at most {percent(above)} above the best"
    return f"it may be as much as {number(1 + above, 2)} times the best"


def nobody_else(problem: Problem, scope: Scope) -> str:
    """The subject of the claim: exactly the networks that it speaks of."""
    full = nouns(problem).network
    noun = full.removeprefix("two-layer ")
    gates = problem.program.operator.n_gates
    if scope == Scope.LINEAR:
        return f"No linear {full} {any_number(problem)}"
    if scope == Scope.ALL_ARRANGEMENTS:
        return f"No {full.replace(noun, f'ReLU {noun}')} {any_number(problem)}"
    if problem.activation == "relu":
        return f"No ReLU {noun} whose neurons keep to {_these(gates, 'activation pattern')}"
    return f"No gated-ReLU {noun} with {_these(gates, 'gate')}"


def _these(n: int, noun: str) -> str:
    return f"this one {noun}" if n == 1 else f"these {count(n, noun)}"


def meaning(problem: Problem, certificate: Certificate) -> list[str]:
    """What the certificate means."""
    loss = LOSSES.get(problem.loss.name, problem.loss.name)
    points = [
        f"The objective is the {loss}, summed over {_summed_over(problem)}, "
        f"plus {_decay(problem)}, with β = {number(problem.beta)}."
        + (" The bias of the outputs costs nothing." if problem.statement.free_intercept else ""),
        "The lower bound holds for networks of any width, trained in any way and for any time. "
        "It comes from convex duality and supposes nothing of the solver: no convergence, no luck.",
        "Both numbers were recomputed from the weights of the network and the data, in double precision, "
        "after the solver had finished.",
    ]
    if problem.scaling is not None:
        points.insert(1, _standardised(problem))
    if has_tokens(problem) and problem.readout == "mean":
        there = "its tokens that are there" if problem.mask is not None else f"its {count(problem.X.shape[1], 'token')}"
        points.insert(1, f"What the network says of a sample is the mean of what it says of {there}.")
    if certificate.bound == BoundKind.PROBABILISTIC:
        points.append("One step of the bound is probabilistic: it fails with a probability of at most 10⁻¹².")
    return points


def _standardised(problem: Problem) -> str:
    assert problem.scaling is not None
    targets = problem.scaling.target_mean is not None
    return (
        f"Features were brought to mean zero and variance one first{', targets to units of their spread' * targets}; "
        "the objective is that of the standardised data, its penalty on weights of standardised features."
        + " Predictions are in the target's own units."
        * targets
    )


def _decay(problem: Problem) -> str:
    if problem.penalty == WEIGHT_DECAY:
        return "β/2 times the squared weights of both layers"
    return (
        f"β times {in_words(problem.penalty)} for every {nouns(problem).neuron} with first layer u and second layer v"
    )


def _summed_over(problem: Problem) -> str:
    samples = count(problem.X.shape[0], "sample")
    if problem.readout != "tokens":
        return samples
    if problem.mask is not None:
        return f"the {count(int(problem.mask.sum()), 'token')} of {samples}"
    return f"the {count(problem.X.shape[1], 'token')} of each of {samples}"


def limits(problem: Problem, certificate: Certificate) -> list[str]:
    """What the certificate does not mean: its scope."""
    points = []
    if certificate.scope == Scope.LINEAR:
        points.append("It speaks of linear networks. Networks with gates or ReLUs can fit this data better.")
    elif certificate.scope == Scope.FIXED_GATES:
        what = "activation patterns" if problem.activation == "relu" else "gates"
        points.append(
            f"It speaks of networks with these {what}. With other {what}, or more of them, a lower objective may be "
            "possible; so it is no proof about ReLU networks at large."
        )
    points += [
        "It is about this data. How well the network does on new samples is another question, "
        "to be answered with new samples.",
        "It is about this objective. Another loss, another β or other preprocessing is another problem, "
        "with another best.",
    ]
    return points


def journey(solution: Solution) -> str:
    """How the run went, in a sentence."""
    looks = len(solution.history)
    ran = f"The solver, {solution.method}, made {count(solution.steps, 'step')} in {seconds(solution.seconds)}"
    if looks == 0:
        return f"{ran} and ended before its first look at the gap."
    if looks == 1:
        return f"{ran}: it was done at its first look at the gap."
    return f"{ran} and looked at the gap {looks:,} times."


def inside(solution: Solution) -> str:
    """What the network is made of, and why more would not help."""
    problem, certificate = solution.problem, solution.certificate
    if solution.factors.n_neurons == 0:
        return _nothing(problem)
    harder = certificate.polar_max / certificate.beta - 1
    noun = nouns(problem)
    if problem.activation == "linear":
        gates = "A linear network has one gate, which is always open. "
    else:
        gates = f"A gate says for every {noun.side} whether a {noun.neuron} is on. "
    if harder <= 0:
        return f"{gates}No gate pulls harder than β, so no {noun.neuron}, old or new, can lower the objective."
    at_most = "" if certificate.bound == BoundKind.EXACT else "at most "
    how_much = f"{percent(harder)} harder than β" if harder < 1 else f"{number(1 + harder, 3)} times as hard as β"
    return (
        f"{gates}The strongest gate pulls {at_most}{how_much}; at an exact optimum none pulls harder. "
        "The lower bound takes this into account."
    )


def _nothing(problem: Problem) -> str:
    if problem.beta_max == 0:
        return f"Nothing: no {nouns(problem).neuron} can lower the loss on these data, whatever β is."
    if problem.beta >= problem.beta_max:
        return (
            f"Nothing: β = {number(problem.beta)} is no less than β_max = {number(problem.beta_max)}, and from there "
            f"on the best network is the zero network. A smaller β gives {nouns(problem).neuron}s."
        )
    noun = nouns(problem).neuron
    return f"Nothing: this network has no {noun}s, though β is below β_max. The run ended before it found any."


def summary(solution: Solution) -> str:
    """Two or three sentences, for a terminal."""
    said = verdict(solution.problem, solution.certificate, solution.status)
    return "\n".join(part for part in (f"{said.headline}.", said.sentence, said.advice) if part)


def share_right(right: int, total: int) -> str:
    """An accuracy, rounded as on the command line, but 100 % only when all are right."""
    if not total:
        return "no samples"
    usual = percent(right / total, 3, ROUND_HALF_EVEN)
    return percent(right / total, 3, ROUND_FLOOR) if usual == "100 %" else usual
