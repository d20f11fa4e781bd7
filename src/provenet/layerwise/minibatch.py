"""A stage's neurons trained in float32, some samples at a time, behind gates that stay as they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from provenet.layerwise.augment import Augmented
from provenet.layerwise.inputs import Inputs, together
from provenet.layerwise.layer import Layer
from provenet.layerwise.optimise import OPTIMISERS, Optimiser, in_coordinates, root_of
from provenet.layerwise.presets import Recipe
from provenet.layerwise.start import balance, fresh_start, with_gates
from provenet.nn import TwoLayer
from provenet.statement import Statement

Score = Callable[[Tensor, Tensor], float]


@dataclass
class Training:
    """Where a training stands: after ``epoch`` epochs, with this network and the optimiser's numbers.

    ``seconds``, and ``cpu`` of processors: spent so far, earlier runs included.
    """

    network: TwoLayer
    epoch: int = 0
    optimiser: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    loss: float = float("nan")
    score: float = float("nan")
    cpu: float = 0.0


@dataclass(frozen=True)
class Minibatches:
    """statement: with β of the sum over samples.  inputs: what the block sees.  targets: (n, …, c).  images: those of
    the first stage, where they are changed anew each epoch, and go through all stages below; None: inputs as they are.
    ridge: of whitening; None: there is none.
    """

    layer: Layer
    recipe: Recipe
    statement: Statement
    inputs: Inputs
    targets: Tensor
    score: Score
    seed: int
    images: Augmented | None = None
    ridge: float | None = None

    @property
    def epochs(self) -> int:
        assert self.layer.epochs is not None
        return self.layer.epochs

    @property
    def switch(self) -> int | None:
        """The epoch before which a ReLU network's first layer becomes the gates; None: they are there already."""
        if self.layer.activation != "gated_relu" or self.layer.gates != "trained":
            return None
        assert self.layer.rank is not None
        return self.recipe.gate_epochs(self.layer.rank, self.epochs)

    def start(self) -> Training:
        outputs = self.targets.shape[-1]
        begun = fresh_start(self.layer, self.inputs, outputs, self.seed, self.ridge, self.recipe.batch)
        return Training(begun.network, optimiser=_state(begun.network, begun.root))

    def run(self, at: Training) -> Iterator[Training]:
        """Where the training stands after each epoch from there on; the same whether or not it was interrupted."""
        network, began, cpu = at.network, time.perf_counter() - at.seconds, time.process_time() - at.cpu
        optimiser = self._optimiser(network, at.optimiser)
        for epoch in range(at.epoch, self.epochs):
            if epoch == self.switch:
                network = self.gated(network)
                optimiser = self._optimiser(network, _state(network, root_of(optimiser.state)))
            loss, score = self._epoch(network, optimiser, epoch)
            if not np.isfinite(loss):
                raise ValueError(
                    f"rate: in epoch {epoch + 1} the loss is no longer finite; {self.layer.rate:g} is too large a "
                    "rate for this stage, or its inputs need normalise='standard'."
                )
            last = epoch + 1 == self.epochs
            if last:
                network = self.gated(network)  # where all epochs went into the gates
                balance(network)
            state = {} if last else optimiser.state
            spent = time.perf_counter() - began, time.process_time() - cpu
            yield Training(network, epoch + 1, state, spent[0], loss, score, spent[1])

    def gated(self, network: TwoLayer) -> TwoLayer:
        """The network with its gates fixed, as the layer has it."""
        to_fix = network.relu and self.layer.activation == "gated_relu"
        return with_gates(network, self.layer, self.seed) if to_fix else network

    def _epoch(self, network: TwoLayer, optimiser: Optimiser, epoch: int) -> tuple[float, float]:
        """One pass over all samples, in an order that seed and epoch decide: (mean loss, mean score)."""
        assert self.layer.rate is not None
        n, size = self.inputs.n, self.recipe.batch
        order = np.random.default_rng((self.seed, epoch)).permutation(n)
        each = -(-n // size)
        total = np.zeros(2)
        decay = self.statement.beta / n
        for number in range(each):
            rows = order[number * size : (number + 1) * size]
            rate = self.recipe.rate_at(self.layer.rate, epoch * each + number, each * self.epochs, each)
            target = self.targets[torch.from_numpy(rows)].float()
            loss, outputs = self._gradient(network, self._seen(rows, epoch, number), target, decay)
            optimiser.step(rate)
            total += np.array([loss, len(rows) * self.score(outputs, target)])
        return float(total[0]) / n, float(total[1]) / n

    def _gradient(self, network: TwoLayer, x: Tensor, target: Tensor, decay: float) -> tuple[float, Tensor]:
        """Adds up the gradient of a batch's mean loss, and of the penalty: (sum of losses, outputs)."""
        size, total, said = together(network, x), 0.0, []
        (decay * network.penalty()).backward()
        for part, wanted in zip(x.split(size), target.split(size), strict=True):
            outputs = network(part)
            loss = self.statement.make_loss(wanted, None).value(outputs)
            (loss / len(x)).backward()
            total += float(loss.detach())
            said.append(outputs.detach())
        return total, torch.cat(said)

    def _seen(self, rows: Any, epoch: int, number: int) -> Tensor:
        if self.images is None:
            return self.inputs.rows(rows)
        return self.images.rows(rows, int(np.random.default_rng((self.seed, epoch, number)).integers(2**31)))

    def _optimiser(self, network: TwoLayer, state: dict[str, Tensor]) -> Optimiser:
        return OPTIMISERS[self.recipe.optimiser]([network.first, network.second], state)


def _state(network: TwoLayer, root: Tensor | None) -> dict[str, Tensor]:
    """That of an optimiser before its first step."""
    return {} if root is None else in_coordinates(network.first.detach(), root)
