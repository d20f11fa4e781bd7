"""The certificate of a stage that was trained in batches: streamed, in float64, on the samples of all processes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from provenet import memory
from provenet.certificates import Certificate
from provenet.formulation import pose
from provenet.layerwise.inputs import Held, Inputs
from provenet.nn import TwoLayer
from provenet.problem import Problem
from provenet.proofs import certify
from provenet.proofs.fixed_gates import certify_spread
from provenet.proofs.sharpen import sharpened
from provenet.proofs.stream import Stream
from provenet.proofs.streamed import OwnGates
from provenet.ranks import Spread, current
from provenet.ranks.context import by_first, least
from provenet.statement import Statement

_RELU_NUMBERS = 2e7  # of the rows a ReLU network's bound goes over
_COPIES = 4  # of the samples, where their problem is posed and solved


@dataclass(frozen=True)
class Batches:
    """(X, Y) of a stage, in order, as often as asked; or those of a piece."""

    inputs: Inputs
    targets: Tensor
    piece: slice | None = None

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        piece = self.piece or slice(0, self.inputs.n)
        start = piece.start
        for part in self.inputs.parts_of(piece):
            yield part, self.targets[start : start + len(part)]
            start += len(part)


def stage_certificate(
    network: TwoLayer, statement: Statement, inputs: Inputs, targets: Tensor, tol: float, sharpen: float = 0.0
) -> tuple[Certificate | None, str]:
    """The certificate, sharpened for so many seconds; or why there is none: the stage is kept all the same."""
    if network.relu and inputs.total * prod(inputs.shape) * len(network.first) > _RELU_NUMBERS:
        return None, "bounding all ReLU neurons on so many samples takes too long; gated_relu is certified"
    prove = _in_one_process if not inputs.shards.spread else _by_first if network.relu else _together
    try:
        return prove(network, statement, inputs, targets, tol, sharpen), ""
    except (ValueError, MemoryError) as error:  # a gate within rounding of a row; numbers beyond float64's range
        return None, str(error)


def _in_one_process(
    network: TwoLayer, statement: Statement, inputs: Inputs, targets: Tensor, tol: float, sharpen: float
) -> Certificate:
    data = (inputs.array, targets.numpy()) if isinstance(inputs, Held) else Batches(inputs, targets)
    return certify(
        network,
        data,
        loss=statement.loss,
        beta=statement.beta,
        tol=tol,
        loss_settings=dict(statement.loss_settings),
        sharpen=sharpen,
    )


def _by_first(
    network: TwoLayer, statement: Statement, inputs: Inputs, targets: Tensor, tol: float, sharpen: float
) -> Certificate:
    """All samples in the first process, which tells the others: a bound over all neurons looks at all rows at once, and
    they are few."""
    group = current()
    assert group is not None
    X, Y = group.whole(torch.cat(list(inputs.parts()))), group.whole(targets)

    def proven() -> dict[str, object]:
        assert X is not None
        assert Y is not None
        return _in_one_process(network, statement, Held(X.numpy()), Y, tol, sharpen).to_dict()

    return Certificate.from_dict(by_first(proven))


def _together(
    network: TwoLayer, statement: Statement, inputs: Inputs, targets: Tensor, tol: float, sharpen: float
) -> Certificate:
    """Every process goes over its own rows."""
    assert isinstance(inputs.shards, Spread)
    double = copy.deepcopy(network).to(torch.float64).eval()
    own = OwnGates(statement.block, double)
    p, q, width = double.first.shape[1], double.second.shape[1], len(own) + len(double.first)
    pieces = [
        Stream(statement, p, q, Batches(inputs, targets, piece), ordered=True, width=width) for piece in inputs.pieces
    ]
    certificate = replace(certify_spread(double, pieces, own, inputs.shards, tol), biases=statement.biases)

    def posed() -> Problem:
        needed = _COPIES * 8 * inputs.n * prod(inputs.shape)
        if not least(float(memory.fits(needed))):
            raise MemoryError(f"sharpen: it needs {memory.gibibytes(needed)} in each process; prove without.")
        samples = torch.cat(list(inputs.parts())).to(torch.float64)
        vectors, group = own.used
        return pose(statement, samples, targets, vectors, gate_group=group)

    if sharpen > 0 and not certificate.holds(tol):
        certificate = sharpened(certificate, double, posed, sharpen)
    return certificate
