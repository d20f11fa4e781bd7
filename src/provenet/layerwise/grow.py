"""Stage after stage: each trained by itself on what those below pass on, then frozen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from provenet.layerwise.checkpoint import Checkpoint
from provenet.layerwise.inputs import Inputs, Made, Store
from provenet.layerwise.layer import Layer
from provenet.layerwise.presets import Recipe
from provenet.layerwise.progress import Event, Watcher
from provenet.layerwise.scores import Score, scored
from provenet.layerwise.shapes import blank_network
from provenet.layerwise.stage import TrainedStage, digest_by_piece, digest_of
from provenet.layerwise.work import Trained, Work
from provenet.nn import Stage
from provenet.nn.normalise import Moments
from provenet.ranks.context import total
from provenet.statement import Statement

_LOOK = 10_000  # samples that moments and training scores are taken of


@dataclass(frozen=True)
class Samples:
    """Inputs, and what is to be said of them (n, …, c)."""

    inputs: Inputs
    targets: Tensor


@dataclass(frozen=True)
class Growth:
    """What a deep network is grown from.  layers: with nothing left open.

    statement: (layer, β) → what its stage minimises.  tol: the relative gap asked for; certify: whether gaps are
    computed.  patient: go on though a stage does not help on the samples set aside.  finish: so many steps of L-BFGS on
    all samples after batches, kept unless they hurt there.  sharpen: seconds a certificate, for better dual points.
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
    finish: int = 0
    sharpen: float = 0.0

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
        if known is not None and not self._to_prove(known):
            return known
        frame = self._frame(layer, rows) if known is None else known.module
        seen = self.store.kept(Made(rows, frame, passed=False), f"stage-{number}")
        try:
            work = Work(self, number, layer, frame, seen, tuple(stage.module for stage in below))
            report = partial(_report, tell, number, len(self.layers))
            stage = known or self._trained(work, rows, aside, checkpoint, report)
            if checkpoint is not None and known is None and stage.complete:
                checkpoint.keep_stage(number, stage)
            if not self._to_prove(stage):
                return stage
            try:
                stage = work.proven(stage, report)
            except KeyboardInterrupt:
                reason = "its proof was interrupted" if stage.certificate is None else ""
                return replace(stage, reason=reason, complete=False)
            if checkpoint is not None:
                checkpoint.keep_stage(number, stage)
            return stage
        finally:
            self.store.release(seen)

    def _to_prove(self, stage: TrainedStage) -> bool:
        """Whether a proof is to be tried, or one by the network's own gradient to be sharpened."""
        proof = stage.certificate
        blunt = proof is not None and proof.dual_of == "network" and not proof.holds(self.tol)
        sharpens = self.sharpen > 0 and stage.engine == "minibatch" and stage.complete and blunt
        return self.certify and (stage.unproven or sharpens)

    def _trained(
        self,
        work: Work,
        rows: Inputs,
        aside: Inputs | None,
        checkpoint: Checkpoint | None,
        report: Callable[..., None],
    ) -> TrainedStage:
        began, cpu = time.perf_counter(), time.process_time()
        trained = work.trained(checkpoint, report)
        stage = self._judged(trained, work, rows, aside)
        if self.finish and stage.complete and stage.engine == "minibatch":
            report("finishing", 1.0, trained.seconds, trained.epochs, trained.epochs, score=stage.score)
            more = self._judged(work.finished(trained, self.finish), work, rows, aside)
            stage = stage if _worse(more, stage) else more
        seconds, cpu = time.perf_counter() - began, total(time.process_time() - cpu)
        return replace(stage, seconds=max(stage.seconds, seconds), cpu=max(stage.cpu, cpu))

    def _judged(self, trained: Trained, work: Work, rows: Inputs, aside: Inputs | None) -> TrainedStage:
        """With its scores."""
        looked, network = work.seen.some(_LOOK), trained.stage.network
        held_out = None
        if self.validation is not None and aside is not None:
            held_out = scored(network, Made(aside, work.frame, passed=False), self.validation.targets, self.score)
        kept = trained.stage.kept_neurons
        return TrainedStage(
            module=trained.stage,
            certificate=trained.certificate,
            below=digest_of(work.below, work.frame),
            inputs=digest_by_piece(work.seen.by_piece(), work.seen.shards),
            engine=trained.engine,
            score=scored(network, looked, self._targets_of(looked), self.score),
            validation=held_out,
            filters=len(network.first) if kept is None else len(kept),
            shape=tuple(Made(rows, trained.stage, passed=True).shape),
            epochs=trained.epochs,
            seconds=trained.seconds,
            reason=trained.reason,
            complete=trained.complete,
            cpu=trained.cpu,
        )

    def _targets_of(self, looked: Inputs) -> Tensor:
        chosen = getattr(looked, "chosen", None)
        return self.training.targets if chosen is None else self.training.targets[torch.from_numpy(chosen)]

    def _frame(self, layer: Layer, rows: Inputs) -> Stage:
        """The stage without its network: how its inputs are prepared."""
        blank = blank_network(layer)
        stage = Stage(blank, passes=layer.passes, downsample=layer.downsample)
        if layer.normalise is not None:
            seen = Made(rows.some(_LOOK), stage, passed=False)
            sums = seen.shards.add(_moments(layer, parts) for parts in seen.by_piece())
            stage.normalise = Moments(layer.normalise, layer.neuron_axis, sums).normalise()
        return stage


def _moments(layer: Layer, parts: Iterable[Tensor]) -> Tensor:
    """Their sums over these samples."""
    assert layer.normalise is not None
    moments = Moments(layer.normalise, layer.neuron_axis)
    for part in parts:
        moments.add(part)
    assert moments.sums is not None
    return moments.sums


def _worse(stage: TrainedStage, before: TrainedStage) -> bool:
    return stage.validation is not None and before.validation is not None and stage.validation < before.validation


def _report(tell: Watcher | None, *said: Any, **more: Any) -> None:
    """The fields of an `Event`."""
    if tell is not None:
        tell(Event(*said, **more))
