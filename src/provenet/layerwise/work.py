"""One stage's training, by either engine, and its proof."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from provenet.certificates import Certificate
from provenet.layerwise.augment import Augmented
from provenet.layerwise.checkpoint import Checkpoint
from provenet.layerwise.exact import Solved, finished, is_small, posed, solved
from provenet.layerwise.inputs import Inputs
from provenet.layerwise.layer import Layer
from provenet.layerwise.minibatch import Minibatches
from provenet.layerwise.proof import stage_certificate
from provenet.layerwise.stage import UNASKED, TrainedStage
from provenet.nn import Stage
from provenet.ranks.context import total
from provenet.solvers import Limits, Record
from provenet.statement import Statement

if TYPE_CHECKING:
    from provenet.layerwise.grow import Growth


@dataclass(frozen=True)
class Trained:
    stage: Stage
    certificate: Any
    engine: str
    epochs: int
    reason: str = ""
    complete: bool = True
    seconds: float = 0.0  # of all runs that had a part in it, and of processors:
    cpu: float = 0.0


@dataclass(frozen=True)
class Work:
    """One stage's training, by either engine, and its proof.  frame: how its inputs are prepared."""

    growth: Growth
    number: int
    layer: Layer
    frame: Stage
    seen: Inputs
    below: tuple[Stage, ...]

    def trained(self, checkpoint: Checkpoint | None, report: Callable[..., None]) -> Trained:
        growth, engine = self.growth, self.layer.engine
        outputs = growth.training.targets.shape[-1]
        small = engine == "auto" and not growth.recipe.augment and is_small(self.layer, self.seen, outputs)
        small = small and not (self.seen.shards.spread and self.layer.activation == "relu")  # its cones are of all rows
        if engine != "solve" and not small:
            return self._in_batches(checkpoint, report)
        return self._solved(checkpoint, report)

    @property
    def seed(self) -> int:
        return self.growth.seed + 1000 * self.number

    def _solved(self, checkpoint: Checkpoint | None, report: Callable[..., None]) -> Trained:
        growth, layer = self.growth, self.layer
        began = time.perf_counter()
        problem = posed(partial(growth.statement, layer), layer, self.seen, growth.training.targets, self.seed)

        def tell(record: Record) -> None:
            report("solving", 0.0, time.perf_counter() - began, gap=record.relative_gap)

        assert layer.rank is not None
        left = None if growth.max_seconds is None else max(growth.max_seconds - (time.perf_counter() - began), 1e-3)
        found: Solved = solved(problem, layer.rank, Limits(growth.tol, max_seconds=left), tell)
        empty = len(found.network.first) == 0
        if empty and not found.complete:
            raise KeyboardInterrupt
        if (empty or not found.begun) and not found.certificate.holds(growth.tol):
            return replace(self, layer=replace(layer, beta=problem.beta))._instead(checkpoint, report)
        kept = found.kept if layer.passes == "features" else None
        reason = "" if found.complete else "solving it was interrupted"
        return Trained(self._with(found.network, kept), found.certificate, "solve", 0, reason, found.complete)

    def _instead(self, checkpoint: Checkpoint | None, report: Callable[..., None]) -> Trained:
        """In batches, and certified: for a stage that was cut by time before its first step."""
        trained = self._in_batches(checkpoint, report)
        if not trained.complete:
            return trained
        certificate, reason = self._certificate(trained.stage)
        return replace(trained, certificate=certificate, reason=reason)

    def _in_batches(self, checkpoint: Checkpoint | None, report: Callable[..., None]) -> Trained:
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
            return Trained(self._with(network, None), None, "minibatch", at.epoch, reason, False)
        stage = self._with(at.network, None)
        return Trained(stage, None, "minibatch", at.epoch, UNASKED, seconds=at.seconds, cpu=at.cpu)

    def finished(self, trained: Trained, steps: int) -> Trained:
        """Trained on as a whole behind its gates; what does not fit in memory is as it was."""
        network, layer = trained.stage.network, self.layer
        if network.gates is None:
            return trained
        assert layer.rank is not None
        limits = Limits(self.growth.tol, max_steps=steps)
        try:
            found = finished(network, self.statement, self.seen, self.growth.training.targets, layer.rank, limits)
        except MemoryError:
            if self.seen.shards.spread:  # another process may have gone on
                raise
            return trained
        kept = found.kept if layer.passes == "features" else None
        more = replace(trained, stage=self._with(found.network, kept), certificate=found.certificate)
        reason = "" if found.complete else "finishing it was interrupted"
        return replace(more, engine="minibatch, lbfgs", complete=found.complete, reason=reason)

    def proven(self, stage: TrainedStage, report: Callable[..., None]) -> TrainedStage:
        """With the certificate of a stage that was trained in batches, or why there is none."""
        began, cpu = time.perf_counter(), time.process_time()
        report("proving", 1.0, stage.seconds, stage.epochs, stage.epochs, score=stage.score)
        certificate, reason = self._certificate(stage.module)
        seconds, cpu = stage.seconds + time.perf_counter() - began, stage.cpu + total(time.process_time() - cpu)
        return replace(stage, certificate=certificate, reason=reason, seconds=seconds, cpu=cpu)

    def _certificate(self, stage: Stage) -> tuple[Certificate | None, str]:
        growth = self.growth
        return stage_certificate(
            stage.network, self.statement, self.seen, growth.training.targets, growth.tol, growth.sharpen
        )

    @property
    def statement(self) -> Statement:
        """What training in batches minimises, with β of the sum over samples."""
        return self.growth.statement(self.layer, self.layer.decay.summed(self.seen.total, _no_beta_max))

    def _with(self, network: Any, kept: Tensor | None) -> Stage:
        frame = self.frame
        return Stage(network, passes=frame.passes, downsample=frame.downsample, normalise=frame.normalise, kept=kept)


def _no_beta_max() -> float:
    raise ValueError("beta: a share of beta_max needs a stage that is posed as a whole; give '1e-4mean', say.")
