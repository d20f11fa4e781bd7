"""Stage after stage: each trained by itself on what those below pass on, then frozen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from provenet.layerwise.augment import Augmented
from provenet.layerwise.checkpoint import Checkpoint
from provenet.layerwise.exact import Solved, is_small, posed, solved
from provenet.layerwise.inputs import Inputs, Made, Store
from provenet.layerwise.layer import Layer
from provenet.layerwise.minibatch import Minibatches, Score
from provenet.layerwise.presets import Recipe
from provenet.layerwise.progress import Event, Watcher
from provenet.layerwise.proof import stage_certificate
from provenet.layerwise.shapes import blank_network
from provenet.layerwise.stage import UNASKED, TrainedStage, digest_of, digest_of_samples
from provenet.nn import Stage
from provenet.nn.normalise import Moments
from provenet.solvers import Limits, Record
from provenet.statement import Statement

_LOOK = 10_000  # samples that moments and training scores are taken of


@dataclass(frozen=True)
class Samples:
    """Inputs, and what is to be said of them (n, …, c)."""

    inputs: Inputs
    targets: Tensor

    def score(self, stage: Stage, seen: Inputs, how: Score) -> float:
        """Of a stage's outputs on what its block sees."""
        with torch.no_grad():
            said = torch.cat([stage.network(part) for part in seen.parts()])
        return how(said, self.targets.to(said.dtype))


@dataclass(frozen=True)
class Growth:
    """What a deep network is grown from.  layers: with nothing left open.

    statement: (layer, β) → what its stage minimises.  tol: the relative gap asked for; certify: whether gaps are
    computed.  patient: go on though a stage does not help on the samples set aside.
    """

    layers: tuple[Layer, ...]
    recipe: Recipe
    statement: Callable[[Layer, float], Statement]
    score: Score
    training: Samples
    validation: Samples | None
    store: Store
    seed: int
    tol: float = 1e-3
    certify: bool = True
    patient: bool = False
    max_seconds: float | None = None

    def run(self, checkpoint: Checkpoint | None = None, tell: Watcher | None = None) -> list[TrainedStage]:
        """All stages; fewer where one does not help, or where Ctrl-C asks for what there is."""
        done: list[TrainedStage] = []
        rows, aside = self.training.inputs, None if self.validation is None else self.validation.inputs
        for number, layer in enumerate(self.layers, 1):
            try:
                stage = self._stage(number, layer, rows, aside, done, checkpoint, tell)
            except KeyboardInterrupt:
                if not done:
                    raise
                break
            if done and not self.patient and _worse(stage, done[-1]):
                break
            done.append(stage)
            nothing = stage.filters == 0 and stage.module.passes == "features"  # all its neurons are zero
            if nothing or not stage.complete:
                break
            rows = Made(rows, stage.module, passed=True)
            aside = None if aside is None else Made(aside, stage.module, passed=True)
        return done

    def _stage(
        self,
        number: int,
        layer: Layer,
        rows: Inputs,
        aside: Inputs | None,
        below: list[TrainedStage],
        checkpoint: Checkpoint | None,
        tell: Watcher | None,
    ) -> TrainedStage:
        """A stage trained, kept, then proven, and kept with its proof; of all this, what an earlier run has not."""
        known = None if checkpoint is None else checkpoint.stage(number)
        if known is not None and not (self.certify and known.unproven):
            return known
        frame = self._frame(layer, rows) if known is None else known.module
        seen = self.store.kept(Made(rows, frame, passed=False), f"stage-{number}")
        try:
            work = _Work(self, number, layer, frame, seen, tuple(stage.module for stage in below))
            report = partial(_report, tell, number, len(self.layers))
            stage = known or self._trained(work, rows, aside, checkpoint, report)
            if checkpoint is not None and known is None and stage.complete:
                checkpoint.keep_stage(number, stage)
            if not self.certify or not stage.unproven:
                return stage
            try:
                stage = work.proven(stage, report)
            except KeyboardInterrupt:
                return replace(stage, reason="its proof was interrupted", complete=False)
            if checkpoint is not None:
                checkpoint.keep_stage(number, stage)
            return stage
        finally:
            self.store.release(seen)

    def _trained(
        self,
        work: _Work,
        rows: Inputs,
        aside: Inputs | None,
        checkpoint: Checkpoint | None,
        report: Callable[..., None],
    ) -> TrainedStage:
        began, cpu = time.perf_counter(), time.process_time()
        trained, frame, seen = work.trained(checkpoint, report), work.frame, work.seen
        scored = seen.some(_LOOK)
        said = replace(self.training, targets=self._targets_of(scored))
        held_out = None
        if self.validation is not None and aside is not None:
            held_out = self.validation.score(trained.stage, Made(aside, frame, passed=False), self.score)
        network = trained.stage.network
        kept = trained.stage.kept_neurons
        return TrainedStage(
            module=trained.stage,
            certificate=trained.certificate,
            below=digest_of(work.below, frame),
            inputs=digest_of_samples(seen.parts()),
            engine=trained.engine,
            score=said.score(trained.stage, scored, self.score),
            validation=held_out,
            filters=len(network.first) if kept is None else len(kept),
            shape=tuple(Made(rows, trained.stage, passed=True).shape),
            epochs=trained.epochs,
            seconds=max(trained.seconds, time.perf_counter() - began),
            reason=trained.reason,
            complete=trained.complete,
            cpu=max(trained.cpu, time.process_time() - cpu),
        )

    def _targets_of(self, scored: Inputs) -> Tensor:
        chosen = getattr(scored, "chosen", None)
        return self.training.targets if chosen is None else self.training.targets[torch.from_numpy(chosen)]

    def _frame(self, layer: Layer, rows: Inputs) -> Stage:
        """The stage without its network: how its inputs are prepared."""
        blank = blank_network(layer)
        stage = Stage(blank, passes=layer.passes, downsample=layer.downsample)
        if layer.normalise is not None:
            moments = Moments(layer.normalise, layer.neuron_axis)
            for part in Made(rows.some(_LOOK), stage, passed=False).parts():
                moments.add(part)
            stage.normalise = moments.normalise()
        return stage


@dataclass(frozen=True)
class _Trained:
    stage: Stage
    certificate: Any
    engine: str
    epochs: int
    reason: str = ""
    complete: bool = True
    seconds: float = 0.0  # of all runs that had a part in it, and of processors:
    cpu: float = 0.0


@dataclass(frozen=True)
class _Work:
    """One stage's training, by either engine, and its proof.  frame: how its inputs are prepared."""

    growth: Growth
    number: int
    layer: Layer
    frame: Stage
    seen: Inputs
    below: tuple[Stage, ...]

    def trained(self, checkpoint: Checkpoint | None, report: Callable[..., None]) -> _Trained:
        growth, engine = self.growth, self.layer.engine
        outputs = growth.training.targets.shape[-1]
        small = engine == "auto" and not growth.recipe.augment and is_small(self.layer, self.seen, outputs)
        if engine != "solve" and not small:
            return self._in_batches(checkpoint, report)
        return self._solved(checkpoint, report)

    @property
    def seed(self) -> int:
        return self.growth.seed + 1000 * self.number

    def _solved(self, checkpoint: Checkpoint | None, report: Callable[..., None]) -> _Trained:
        growth, layer = self.growth, self.layer
        began = time.perf_counter()
        problem = posed(partial(growth.statement, layer), layer, self.seen, growth.training.targets, self.seed)

        def tell(record: Record) -> None:
            report("solving", 0.0, time.perf_counter() - began, gap=record.relative_gap)

        assert layer.rank is not None
        left = None if growth.max_seconds is None else max(growth.max_seconds - (time.perf_counter() - began), 1e-3)
        found: Solved = solved(problem, layer.rank, Limits(growth.tol, max_seconds=left), tell)
        if len(found.network.first) == 0 and not found.certificate.holds(growth.tol):
            return replace(self, layer=replace(layer, beta=problem.beta))._instead(checkpoint, report)
        kept = found.kept if layer.passes == "features" else None
        return _Trained(self._with(found.network, kept), found.certificate, "solve", 0)

    def _instead(self, checkpoint: Checkpoint | None, report: Callable[..., None]) -> _Trained:
        """In batches, and certified: for a stage that was cut by time before its first neuron."""
        trained = self._in_batches(checkpoint, report)
        if not trained.complete:
            return trained
        targets, network = self.growth.training.targets, trained.stage.network
        certificate, reason = stage_certificate(network, self.statement, self.seen, targets, self.growth.tol)
        return replace(trained, certificate=certificate, reason=reason)

    def _in_batches(self, checkpoint: Checkpoint | None, report: Callable[..., None]) -> _Trained:
        growth, layer = self.growth, self.layer
        images = None
        if growth.recipe.augment:
            images = Augmented(growth.training.inputs, growth.recipe.augment, self.below, self.frame)
        targets, ridge = growth.training.targets, growth.recipe.ridge(self.number - 1)
        minibatches = Minibatches(
            layer, growth.recipe, self.statement, self.seen, targets, growth.score, self.seed, images, ridge
        )
        before = None if checkpoint is None else checkpoint.training(self.number, self.frame)
        at = before or minibatches.start()
        try:
            for at in minibatches.run(at):  # noqa: B020 — where it stands is where it goes on
                if checkpoint is not None:
                    checkpoint.keep_training(self.number, self._with(at.network, None), at)
                done = at.epoch / minibatches.epochs
                report("training", done, at.seconds, at.epoch, minibatches.epochs, at.loss, at.score)
        except KeyboardInterrupt:
            if at.epoch == 0:
                raise
            reason = f"training was interrupted in epoch {at.epoch + 1} of {minibatches.epochs}"
            network = minibatches.gated(at.network)
            return _Trained(self._with(network, None), None, "minibatch", at.epoch, reason, False)
        stage = self._with(at.network, None)
        return _Trained(stage, None, "minibatch", at.epoch, UNASKED, seconds=at.seconds, cpu=at.cpu)

    def proven(self, stage: TrainedStage, report: Callable[..., None]) -> TrainedStage:
        """With the certificate of a stage that was trained in batches, or why there is none."""
        began, cpu = time.perf_counter(), time.process_time()
        report("proving", 1.0, stage.seconds, stage.epochs, stage.epochs, score=stage.score)
        targets = self.growth.training.targets
        network = stage.module.network
        certificate, reason = stage_certificate(network, self.statement, self.seen, targets, self.growth.tol)
        seconds, cpu = stage.seconds + time.perf_counter() - began, stage.cpu + time.process_time() - cpu
        return replace(stage, certificate=certificate, reason=reason, seconds=seconds, cpu=cpu)

    @property
    def statement(self) -> Statement:
        """What training in batches minimises, with β of the sum over samples."""
        return self.growth.statement(self.layer, self.layer.decay.summed(self.seen.n, _no_beta_max))

    def _with(self, network: Any, kept: Tensor | None) -> Stage:
        frame = self.frame
        return Stage(network, passes=frame.passes, downsample=frame.downsample, normalise=frame.normalise, kept=kept)


def _no_beta_max() -> float:
    raise ValueError("beta: a share of beta_max needs a stage that is posed as a whole; give '1e-4mean', say.")


def _worse(stage: TrainedStage, before: TrainedStage) -> bool:
    return stage.validation is not None and before.validation is not None and stage.validation < before.validation


def _report(tell: Watcher | None, *said: Any, **more: Any) -> None:
    """The fields of an `Event`."""
    if tell is not None:
        tell(Event(*said, **more))
