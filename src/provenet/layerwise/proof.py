"""The certificate of a stage that was trained in batches: streamed, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from torch import Tensor

from provenet.certificates import Certificate
from provenet.layerwise.inputs import Held, Inputs
from provenet.nn import TwoLayer
from provenet.proofs import certify
from provenet.statement import Statement

_RELU_NUMBERS = 2e7  # of the rows a ReLU network's bound goes over


@dataclass(frozen=True)
class Batches:
    """(X, Y) of a stage, in order, as often as asked."""

    inputs: Inputs
    targets: Tensor

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        start = 0
        for part in self.inputs.parts():
            yield part, self.targets[start : start + len(part)]
            start += len(part)


def stage_certificate(
    network: TwoLayer, statement: Statement, inputs: Inputs, targets: Tensor, tol: float, sharpen: float = 0.0
) -> tuple[Certificate | None, str]:
    """The certificate, sharpened for so many seconds; or why there is none: the stage is kept all the same."""
    if network.relu and inputs.n * prod(inputs.shape) * len(network.first) > _RELU_NUMBERS:
        return None, "bounding all ReLU neurons on so many samples takes too long; gated_relu is certified"
    data = (inputs.array, targets.numpy()) if isinstance(inputs, Held) else Batches(inputs, targets)
    try:
        return certify(
            network,
            data,
            loss=statement.loss,
            beta=statement.beta,
            tol=tol,
            loss_settings=dict(statement.loss_settings),
            sharpen=sharpen,
        ), ""
    except (ValueError, MemoryError) as error:  # a gate within rounding of a row; numbers beyond float64's range
        return None, str(error)
