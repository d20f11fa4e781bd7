"""A stage's neurons trained in float32, some samples at a time, behind gates that stay as they are.

Where rows are spread over processes, a batch has as many of each piece of them, each process sends its own through the
network, and gradients are added along the pieces' tree: networks are the same in all, whatever their number.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from provenet.layerwise.augment import Augmented
from provenet.layerwise.inputs import Inputs, together
from provenet.layerwise.layer import Layer
from provenet.layerwise.optimise import OPTIMISERS, Optimiser, in_coordinates, root_of
from provenet.layerwise.presets import Recipe
from provenet.layerwise.scores import Score
from provenet.layerwise.start import balance, fresh_start, with_gates
from provenet.nn import TwoLayer
from provenet.ranks.context import interrupted, total
from provenet.statement import Statement

_LEAST_SHARE = 16  # samples of a batch that a piece has
_FEWEST_PIECES = 8


def pieces_for(batch: int) -> int:
    """Into how many pieces at most rows are cut that several processes share: each a useful part of a batch."""
    return max(_FEWEST_PIECES, batch // _LEAST_SHARE)


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
class _Share:
    """What a piece has of a batch of ``of`` samples: these rows of its process.  decay: β of the mean.  when: epoch and
    number of the batch."""

    piece: int
    rows: NDArray[np.int64]
    of: int
    decay: float
    when: tuple[int, int]


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
        network, began, cpu = at.network, time.perf_counter() - at.seconds, time.process_time()
        optimiser = self._optimiser(network, at.optimiser)
        for epoch in range(at.epoch, self.epochs):
            if epoch == self.switch:
                network = self.gated(network)
                optimiser = self._optimiser(network, _state(network, root_of(optimiser.state)))
            loss, score = self._epoch(network, optimiser, epoch)
            self.inputs.shards.check_same(network.first, network.second)
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
            spent = at.cpu + total(time.process_time() - cpu)
            yield Training(network, epoch + 1, state, time.perf_counter() - began, loss, score, spent)

    def gated(self, network: TwoLayer) -> TwoLayer:
        """The network with its gates fixed, as the layer has it."""
        to_fix = network.relu and self.layer.activation == "gated_relu"
        return with_gates(network, self.layer, self.seed) if to_fix else network

    def _epoch(self, network: TwoLayer, optimiser: Optimiser, epoch: int) -> tuple[float, float]:
        """One pass over all samples, in an order that seed and epoch decide: (mean loss, score)."""
        assert self.layer.rate is not None
        n, shards = self.inputs.total, self.inputs.shards
        share = -(-self.recipe.batch // shards.count)  # of a batch, that each piece has
        each = -(-max(shards.sizes) // share)
        orders = [
            rows.start + self._draw(epoch, piece=piece).permutation(rows.stop - rows.start)
            for piece, rows in zip(shards.own, shards.slices, strict=True)
        ]
        totals: list[Tensor] = []
        for number in range(each):
            at = slice(number * share, (number + 1) * share)
            size = sum(len(range(*at.indices(rows))) for rows in shards.sizes)
            rate = self.recipe.rate_at(self.layer.rate, epoch * each + number, each * self.epochs, each)
            batch = [
                _Share(piece, order[at], size, self.statement.beta / n, (epoch, number))
                for piece, order in zip(shards.own, orders, strict=True)
            ]
            made = [self._gradient(network, part) for part in batch]
            self._step(network, optimiser, rate, shards.add(gradient for gradient, _ in made))
            sums = [more for _, more in made]
            totals = sums if not totals else [a + b for a, b in zip(totals, sums, strict=True)]
        whole = shards.add(totals)
        return float(whole[0]) / n, self.score.of(whole[1:])

    def _step(self, network: TwoLayer, optimiser: Optimiser, rate: float, gradient: Tensor) -> None:
        """Along the gradient of all processes, unless one of them was interrupted."""
        if float(gradient[-1]) > 0:
            raise KeyboardInterrupt
        weights = [network.first, network.second]
        for weight, own in zip(weights, gradient[:-1].split([w.numel() for w in weights]), strict=True):
            weight.grad = own.view_as(weight)
        optimiser.step(rate)

    def _gradient(self, network: TwoLayer, part: _Share) -> tuple[Tensor, Tensor]:
        """(that of a batch's mean loss, as far as it is of this piece, and of the penalty in the first, flat, and at
        last whether this process was interrupted; sums of loss and score)."""
        weights = [network.first, network.second]
        if part.piece == 0:
            (part.decay * network.penalty()).backward()
        target = self.targets[torch.from_numpy(part.rows)].float()
        sums = torch.cat([torch.zeros(1, dtype=torch.float64), self.score.sums(target[:0], target[:0])])
        if len(target):  # of a last batch a piece may have none
            x, said = self._seen(part), []
            size = together(network, x)
            for inputs, wanted in zip(x.split(size), target.split(size), strict=True):
                outputs = network(inputs)
                value = self.statement.make_loss(wanted, None).value(outputs)
                (value / part.of).backward()
                sums[0] += float(value.detach())
                said.append(outputs.detach())
            sums[1:] = self.score.sums(torch.cat(said), target)
        flat = [torch.zeros(w.numel()) if w.grad is None else w.grad.flatten() for w in weights]
        for weight in weights:
            weight.grad = None
        return torch.cat([*flat, torch.tensor([float(interrupted())])]), sums

    def _seen(self, part: _Share) -> Tensor:
        if self.images is None:
            return self.inputs.rows(part.rows)
        return self.images.rows(part.rows, int(self._draw(*part.when, piece=part.piece).integers(2**31)))

    def _draw(self, *when: int, piece: int) -> np.random.Generator:
        """Of a piece at that time; where there is one alone, it has no number."""
        return np.random.default_rng((self.seed, *when, *((piece,) if self.inputs.shards.spread else ())))

    def _optimiser(self, network: TwoLayer, state: dict[str, Tensor]) -> Optimiser:
        return OPTIMISERS[self.recipe.optimiser]([network.first, network.second], state)


def _state(network: TwoLayer, root: Tensor | None) -> dict[str, Tensor]:
    """That of an optimiser before its first step."""
    return {} if root is None else in_coordinates(network.first.detach(), root)
