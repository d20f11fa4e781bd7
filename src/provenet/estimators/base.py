"""What classifiers and regressors share: data → problem → solution → network."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import torch
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_html_repr
from torch import Tensor

from provenet import batches, deadline
from provenet.beta import Beta, parse_beta
from provenet.certificates import Certificate
from provenet.data.sharded import as_shards
from provenet.data.shards import Shards
from provenet.data.whitening import Whitening
from provenet.deadline import Budget
from provenet.estimators.auto_beta import NEURONS, BetaChoice, choose_beta
from provenet.estimators.rough import rough
from provenet.estimators.samples import OnSamples, TrainingData, without_torch
from provenet.estimators.scales import standardizes, warn_of_scales
from provenet.estimators.settings import OneBeta, seed_of
from provenet.estimators.telling import print_gates, print_record, told_memory
from provenet.estimators.together import refuse_together
from provenet.formulation import Wanted, pose
from provenet.formulation.sharded import goes_in_shards
from provenet.gates.samplers import NEED_BETA
from provenet.gauges.prox.mixed import WEIGHT_DECAY
from provenet.memory import as_bytes
from provenet.problem import Problem
from provenet.solvers import Solution, Status
from provenet.solvers.loop import Callback, Limits
from provenet.solvers.solve import check_asked, solve_quietly
from provenet.statement import Statement
from provenet.variable import Factors

_FEW = 20  # gates whose β_max is near that of many
_CHOICE = 0.4  # of the time left: for the choice of β, which training, posing and solving follow


class ProvenEstimator(OnSamples):
    """Trains one block to a proven optimum.

    Settings are those of `provenet.formulate` and `provenet.solve`.  A kind of estimator says how targets are read
    (`_read`) and what its loss is; a search over β says how to train (`_train`).
    """

    loss: str  # which there are depends on the kind

    certificate_: Certificate
    solution_: Solution
    dual_gap_: float
    n_iter_: int

    beta_search_: BetaChoice  # where ``beta`` is "auto"

    _watcher: Callback | None = None  # all three set for a while by `watched`
    _speaker: Callable[[str], Any] | None = None
    _counter: Callable[[float, str], Any] | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, mask: Any = None) -> Any:
        """Train on X, samples (n, d), tokens (n, s, d) or images (n, channels, …) by block, and y.

        Or on data that are gone over in shards, some rows at a time: X the path of an NPY file, that of a Parquet file,
        with y its target column; or, without y, pairs (X_i, y_i) of arrays, memory maps or paths, a torch DataLoader or
        any iterable of pairs.  ``memory_limit`` says how much of them may be in memory.

        A ``sample_weight`` of two counts as the sample repeated, of zero as left out.  ``mask`` (n, s), for
        attention, says which tokens are there; what the others hold does not matter.
        """
        check_asked(self.solver, Limits(self.tol, self.max_steps, self.max_seconds))
        if not isinstance(self.verbose, Integral):
            raise ValueError(f"verbose: it must be a whole number, got {self.verbose!r}.")
        limit = as_bytes(self.memory_limit)
        if self._in_shards(X, limit):
            X, y = as_shards(X, y)
        given = {"X": X, "y": y, "sample_weight": sample_weight, "mask": mask}
        with batches.within(limit):
            data = self._read(*(without_torch(value, name) for name, value in given.items()))
            if not (self._standardizes() or self.whiten or isinstance(data.X, Shards)):
                warn_of_scales(data.X, self._make_block(), getattr(self, "feature_names_in_", None))
            self._keep(self._train(data))
        self._warn_if_short()
        return self

    def _in_shards(self, X: Any, limit: int | None) -> bool:
        """Whether X is gone over in shards."""
        asked = goes_in_shards(X, limit)
        if asked and self.whiten:
            raise ValueError("whiten: it needs all samples at once, not in shards; whiten them beforehand.")
        return asked

    @abstractmethod
    def _read(self, X: Any, y: Any, sample_weight: Any, mask: Any = None) -> TrainingData:
        """Validated data, with targets as the loss wants them."""

    @abstractmethod
    def _train(self, data: TrainingData) -> Solution: ...

    def _loss_settings(self) -> dict[str, Any]:
        return {}

    def _formulate(self, data: TrainingData, beta: Beta, seed: int) -> Problem:
        """The problem at this β.

        For a share, gates that depend on β are found at that share of β_max with Gaussian ones: β_max of their own,
        which β is a share of in the end, is not known before.  A β that is chosen, by networks with weight decay, is
        that share of β_max with Gaussian gates itself, or for other norms the share.
        """
        wanted = self._wanted()
        self._fit_whitening(data)
        if beta.chosen:
            beta = self._chosen_beta(data, wanted, seed)
        about = 1.0 if beta.relative else beta.value
        if beta.relative and wanted.name in NEED_BETA and self.activation != "linear":
            at_one = self._statement(1.0)
            with deadline.within(_CHOICE * deadline.left()):
                about = rough(data, lambda part: self._roughly(at_one, part, wanted, seed)).of(beta)
        problem = self._posed(self._statement(about), data, wanted, seed)
        if self.verbose:
            print_gates(problem)
        return problem.with_beta(beta.of(problem)) if beta.relative else problem

    def _chosen_beta(self, data: TrainingData, wanted: Wanted, seed: int) -> Beta:
        statement = self._statement(1.0)
        decaying = replace(statement, penalty=WEIGHT_DECAY)
        with deadline.within(_CHOICE * deadline.left()):
            tried = rough(data, lambda part: self._roughly(decaying, part, wanted, seed))
            told = is_classifier(self), seed, wanted.count or NEURONS, tried.share
            self.beta_search_ = choose_beta(tried.problem, *told)
        if self.verbose:
            print(self.beta_search_)
        found = Beta(self.beta_search_.share, "max")
        return Beta(tried.of(found)) if statement.penalty == WEIGHT_DECAY else found

    def _roughly(self, statement: Statement, data: TrainingData, wanted: Wanted, seed: int) -> Problem:
        """With a few Gaussian gates, whose β_max is near that of many."""
        if statement.activation != "linear":
            statement = replace(statement, activation="gated_relu", complete=False)
        return self._posed(statement, data, Wanted("gaussian", min(wanted.count or _FEW, _FEW)), seed)

    def _posed(self, statement: Statement, data: TrainingData, wanted: Wanted, seed: int) -> Problem:
        X, standardize = self._whitened(data.X), self._standardizes()
        more: dict[str, Any] = {"sample_weight": data.weight, "mask": data.mask, "memory_limit": self.memory_limit}
        return pose(statement, X, data.targets, wanted, seed=seed, standardize=standardize, **more)

    def _fit_whitening(self, data: TrainingData) -> None:
        if self.whiten:
            refuse_together("whiten", "Whiten them before.")
            self.whitening_ = Whitening.fit(data.X if data.weight is None else data.X[data.weight > 0])

    def _standardizes(self) -> bool:
        return standardizes(self.standardize, self._make_block(), self.whiten)

    def _wanted(self) -> Wanted:
        return Wanted.of(_plain_number(self.gates), _plain_number(self.n_gates))

    def _statement(self, beta: float) -> Statement:
        return Statement.of(
            self.block,
            self.loss,
            beta,
            activation=self.activation,
            readout=self.readout,
            loss_settings=self._loss_settings(),
            penalty=self.penalty,
            complete=self._wanted().all,
            fit_intercept=self.fit_intercept,
        )

    def _say_memory(self, problem: Problem) -> None:
        """What it will take, told before the work."""
        say = self._speaker or (print if self.verbose else None)
        if say is not None and (self.memory_limit is not None or problem.memory is not None):
            say(told_memory(problem, self.memory_limit))

    def _callback(self, from_verbose: int) -> Callback | None:
        """Who hears of each look at the gap."""
        return self._watcher or (print_record if self.verbose >= from_verbose else None)

    def _solve(self, problem: Problem, start: Factors | None = None, seconds: float | None = None) -> Solution:
        callback = self._callback(from_verbose=1)
        limits = Limits(self.tol, self.max_steps, seconds)
        return solve_quietly(problem, self.solver, limits, start, callback, self.memory_limit)

    def _seed(self) -> int:
        return seed_of(self.random_state)

    def _keep(self, solution: Solution) -> None:
        for name, value in self._told_of(solution).items():
            setattr(self, name, value)

    def _told_of(self, solution: Solution) -> dict[str, Any]:
        """The fitted attributes that speak of a solution."""
        return {
            "solution_": solution,
            "network_": solution.network(),
            "certificate_": solution.certificate,
            "dual_gap_": solution.certificate.gap,
            "n_iter_": solution.steps,
        }

    def _warn_if_short(self) -> None:
        self._warn_of_gates()
        status = self.solution_.status
        if status is not Status.SOLVED:
            warnings.warn(
                f"{type(self).__name__} stopped ({status.value}) with a certified relative gap of "
                f"{self.certificate_.relative_gap:.2e}, above tol={self.tol:g}. {status.advice}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _warn_of_gates(self) -> None:
        """A proof among fewer gates than asked for should not be taken for one among all."""
        if left_out := self.solution_.problem.gates.left_out:
            wanted = self._wanted()
            asked = wanted.count if wanted.sampler is None else wanted.sampler[1]  # of those that grow: to begin with
            warnings.warn(
                f"{type(self).__name__}: max_seconds={self.max_seconds:g} leaves time for {asked - left_out} of "
                f"{asked} gates, and the certificate is among these; allow more seconds for more gates.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _html_repr(self) -> str:
        """scikit-learn's diagram and, once fitted, the certificate."""
        proof = self.certificate_._repr_html_() if hasattr(self, "certificate_") else ""
        return estimator_html_repr(self) + proof


class SingleBeta(OneBeta):
    """Training at one ``beta``, from the last solution where ``warm_start`` asks for it and it fits."""

    beta_: float

    def _train(self: Any, data: TrainingData) -> Solution:
        budget = Budget(self.max_seconds)
        vars(self).pop("beta_search_", None)
        with budget.within():
            problem = self._formulate(data, parse_beta(self.beta, auto=True), self._seed())
        self._say_memory(problem)
        self.beta_ = problem.beta
        last = getattr(self, "solution_", None) if self.warm_start else None
        return self._solve(problem, None if last is None else carried_over(last, problem), budget.left())

    def _go_on(self: Any, beta: float) -> None:
        """The last fit, on the same samples and gates, at another β, from where it ended: nothing is posed anew."""
        self.set_params(beta=beta)
        problem = self.solution_.problem.with_beta(beta)
        self.beta_ = problem.beta
        with batches.within(as_bytes(self.memory_limit)):
            self._keep(self._solve(problem, self.solution_.factors, self.max_seconds))


def carried_over(last: Solution, problem: Problem) -> Factors | None:
    """The neurons of ``last`` in the units of ``problem``; None where sizes or gates differ."""
    old, new = last.problem, problem
    if old.block != new.block or old.program.operator.stack_shape != new.program.operator.stack_shape:
        return None
    if not (_equal(old.gate_vectors, new.gate_vectors) and _equal(old.gates.group, new.gates.group)):
        return None
    return last.factors.scaled((old.units.z / new.units.z) ** 0.5)


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


def _plain_number(value: Any) -> Any:
    """numpy's numbers as Python's; anything else as it is, for `pose` to judge."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)
