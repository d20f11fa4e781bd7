"""The certificate of a module without ReLUs: among all networks with its own gates, on data that come in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from provenet.blocks.outputs import outputs_in_batches
from provenet.certificates import Certificate, certificate_of, check_same_map
from provenet.data.validation import check_finite
from provenet.formulation.units import normalised
from provenet.gauges import NuclearNorm
from provenet.losses import Loss
from provenet.nn import TwoLayer
from provenet.operators import Operator
from provenet.operators.wrappers.ranked import RankedOperator
from provenet.problem import Program, Units
from provenet.proofs.stream import Stream
from provenet.proofs.streamed import OwnGates, StreamedOperator
from provenet.ranks import Spread
from provenet.ranks.context import each_alone
from provenet.statement import Statement
from provenet.variable import Factors
from provenet.vectors import power_of_four


def certify_among_own_gates(
    network: TwoLayer, stream: Stream, own: OwnGates, weight: Tensor | None, mean: bool, tol: float
) -> Certificate:
    """weight (n,): of the samples, None: one each.  mean: the statement's β is that of a mean over samples."""
    bias, network.bias = network.bias, None  # added to outputs, a large one would round what the neurons say
    seen = _first_pass(network, stream, own)
    statement = stream.statement.summed(mean, len(seen.target))
    loss, units = normalised(statement.make_loss(seen.target, weight, seen.mask), seen.size, statement.block.degree)
    kept, place = own.distinct()
    operator = StreamedOperator(stream, own, kept, tuple(seen.target.shape), units.x)
    return _certified(network, bias, statement, operator, loss, units, seen.prediction, place[own.of_neuron], tol)


def certify_spread(
    network: TwoLayer, pieces: Sequence[Stream], own: OwnGates, shards: Spread, tol: float
) -> Certificate:
    """The same over several processes, each of which has some ``pieces`` of the samples, in the shards' order."""
    seen = each_alone(lambda: [_first_pass(network, stream, own) for stream in pieces])
    statement = pieces[0].statement
    target = torch.cat([each.target for each in seen])
    size = shards.largest(max(each.size for each in seen))
    loss, units = normalised(statement.make_loss(target, None, None, shards), size, statement.block.degree)
    kept, place = own.distinct()
    parts = [
        StreamedOperator(stream, own, kept, tuple(each.target.shape), units.x)
        for stream, each in zip(pieces, seen, strict=True)
    ]
    operator = RankedOperator(parts, shards)
    prediction = torch.cat([each.prediction for each in seen])
    return _certified(network, None, statement, operator, loss, units, prediction, place[own.of_neuron], tol)


def _certified(
    network: TwoLayer,
    bias: Tensor | None,
    statement: Statement,
    operator: Operator,
    loss: Loss,
    units: Units,
    prediction: Tensor,
    gate: Tensor,
    tol: float,
) -> Certificate:
    program = Program(operator, loss, NuclearNorm(), units.normalised_beta(statement.beta))
    factors = Factors(network.first.detach(), network.second.detach(), gate).scaled(units.z**-0.5)
    intercept = None if bias is None else bias.detach() / units.y
    scale = statement.beta, units.value
    return certificate_of(program, prediction / units.y, factors, *scale, statement.scope, tol, intercept)


class _Seen(NamedTuple):
    """prediction and target (n, …, c), the size of the largest entry of X, and which tokens are there, None: all."""

    prediction: Tensor
    target: Tensor
    size: float
    mask: Tensor | None


def _first_pass(network: TwoLayer, stream: Stream, own: OwnGates) -> _Seen:
    """What is kept of the data.  Network and convex program must be the same function of them, gates be decided."""
    block = stream.statement.block
    neurons = Factors(network.first.detach(), network.second.detach(), own.of_neuron)
    predictions: list[Tensor] = []
    targets: list[Tensor] = []
    convex: list[Tensor] = []
    masks: list[Tensor] = []
    size = 0.0
    for batch in stream:
        prediction = outputs_in_batches(network, batch.X, batch.mask, len(batch.X))
        if prediction.shape != batch.Y.shape:
            raise ValueError(
                f"Y: the module's outputs are {tuple(prediction.shape)}, the targets {tuple(batch.Y.shape)}."
            )
        if targets and targets[0].shape[1:] != batch.Y.shape[1:]:
            raise ValueError("data: with readout='tokens' every batch needs the same number of tokens.")
        check_finite(prediction, "module: an output")
        data = block.on(batch.X, batch.Y.shape[-1], stream.statement.readout, batch.mask)
        gates = own.on(data)
        own.remember(gates)
        here = block.size(batch.X)
        unit = power_of_four(here)
        operator = data.operator(gates, unit).once()
        predictions.append(prediction)
        convex.append(operator.forward_factors(neurons) * unit**block.degree)
        targets.append(batch.Y)
        masks += [batch.mask] if batch.mask is not None and block.tokens and batch.Y.ndim == 3 else []
        size = max(size, here)
    prediction, target = torch.cat(predictions), torch.cat(targets)
    check_same_map(torch.cat(convex), prediction, float(target.abs().max()))
    mask = torch.cat(masks) if len(masks) == len(targets) else None
    return _Seen(prediction, target, size, mask)
