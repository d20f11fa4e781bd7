"""The certificate of a module on data, at whatever point a training loop left it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from provenet import deadline, memory
from provenet.blocks import block_of
from provenet.blocks.outputs import batch_size, outputs_in_batches
from provenet.certificates import AnotherMap, Certificate, check_same_map
from provenet.data.validation import check_finite
from provenet.formulation import pose
from provenet.nn import Standardised, TwoLayer
from provenet.nn.foreign import Reading, read_module
from provenet.nn.standardised import core
from provenet.problem import Problem
from provenet.proofs.fixed_gates import certify_among_own_gates
from provenet.proofs.relu import certify_relu
from provenet.proofs.sharpen import sharpened
from provenet.proofs.source import Chunks, Flattened, as_source, sample_shape
from provenet.proofs.stream import Batch, Stream
from provenet.proofs.streamed import OwnGates
from provenet.proofs.training import Training
from provenet.ranks import current
from provenet.scaling import Scaling
from provenet.statement import Scope

_COPIES = 4  # of the samples, where their problem is posed and solved


def certify_module(module: Any, data: Any, training: Training, tol: float) -> Certificate:
    """That of a module of ours, or of an ordinary two-layer network, on data as `certify` has them."""
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"module: expected a torch module or a problem, got {type(module).__name__}; an estimator has its "
            "certificate in certificate_, and its module in network_."
        )
    if current() is not None:
        raise ValueError(
            "module: by itself it is judged on the rows of one process, outside of provenet.ranks.joined(); on those "
            "of all pose the problem, and certify(problem, module)."
        )
    outer = _unwrapped(module, training.layers is not None)
    inner, (source, weight) = core(outer), as_source(data, training.sample_weight)
    shape = () if isinstance(inner, TwoLayer) else sample_shape(source)
    other: AnotherMap | None = None
    for relu in _between(training):
        read = read_module(inner, shape, training.layers, training.pays_bias, relu)
        try:
            return _certify_read(outer, read, source, weight, training, tol)
        except AnotherMap as error:
            other = other or error
    raise ValueError(
        f"module: it computes something else than its two layers, with what was read between them ({other})."
    )


def _between(training: Training) -> tuple[bool, ...]:
    """Whether a ReLU is between layers that are only named: what the module computes on the data says so."""
    if training.layers is None:
        return (True,)
    return (False,) if training.scope == Scope.LINEAR else (True, False)


def _certify_read(
    outer: nn.Module, read: Reading, source: Iterable[Any], weight: Any, training: Training, tol: float
) -> Certificate:
    scaling, inner = (Scaling.of(outer) if isinstance(outer, Standardised) else None), core(outer)
    ours = isinstance(inner, TwoLayer)
    network, statement = read.network, training.statement(read.network)
    if scaling is not None and scaling.target_mean is not None and not statement.loss.measures:
        raise ValueError(
            f"loss: the module's outputs are measurements in units of their own, no {training.loss!r} is of those."
        )
    own = OwnGates(statement.block, network)
    stream = Stream(
        statement,
        network.first.shape[1],
        network.second.shape[1],
        Flattened(source) if read.flatten else source,
        ordered=isinstance(source, Chunks),
        width=len(own) + len(network.first),
        scaling=scaling,
    )

    def posed(samples: Batch, gates: Any, group: Any = None) -> Problem:
        said = replace(statement.summed(training.mean, len(samples.Y)), complete=isinstance(gates, str))
        more = {"sample_weight": weight, "mask": samples.mask, "gate_group": group}
        return pose(said, samples.X, samples.Y, gates, **more)

    if network.relu or not ours:
        samples = _gathered(stream)
        _check_same(inner, read, source, samples)
    if network.relu:
        certificate = certify_relu(read, partial(posed, samples), tol, training.sharpen, training.scope)
    else:
        certificate = certify_among_own_gates(network, stream, own, weight, training.mean, tol)
        if training.sharpen > 0 and not certificate.holds(tol):
            certificate = sharpened(certificate, network, lambda: posed(_gathered(stream), *own.used), training.sharpen)
    certificate = replace(certificate, biases=statement.biases)
    if scaling is None:
        return certificate
    better: Any = certificate.better
    return replace(certificate, standardized=True, better=None if better is None else scaling.around(better))


def _unwrapped(module: Any, named: bool) -> nn.Module:
    """The module itself, without what torch.compile or DistributedDataParallel put around it; with layers that are
    named a module of any class will do."""
    inner = module
    while not isinstance(inner, (TwoLayer, Standardised, nn.Sequential)):
        if named and isinstance(inner, nn.Module) and not hasattr(inner, "_orig_mod"):
            return inner
        wrapped = inner
        inner = getattr(wrapped, "_orig_mod", None) or getattr(wrapped, "module", None)
        if not isinstance(inner, nn.Module):
            raise ValueError(
                f"module: a Problem or one of provenet.nn's modules is needed, got {type(module).__name__}; or an "
                "nn.Sequential of two layers with a ReLU between them; of a module of your own name the two layers, "
                "layers=('fc1', 'fc2'). Of a deeper network certify such a head on the features it gets."
            )
    return inner


def _gathered(stream: Stream) -> Batch:
    """All samples at once, in the order of the first pass."""
    batches: list[Batch] = []
    for batch in stream:
        if stream.n is not None and not batches:  # told before it is allocated, where their number is known
            memory.check_fits(_COPIES * stream.n * batch.X[0].nbytes, "sharpen: it", "Judge fewer samples, or without.")
        if deadline.over():
            raise deadline.TooLong
        batches.append(batch)
    if len({batch.X.shape[1:] for batch in batches}) > 1:
        raise ValueError("data: a ReLU network is judged on all samples at once; they need one shape, tokens included.")
    masks = [torch.ones(batch.X.shape[:2], dtype=torch.bool) if batch.mask is None else batch.mask for batch in batches]
    masked = any(batch.mask is not None for batch in batches)
    X, Y, rows = (torch.cat(parts) for parts in zip(*((b.X, b.Y, b.rows) for b in batches), strict=True))
    order = torch.argsort(rows)
    return Batch(X[order], Y[order], torch.cat(masks)[order] if masked else None, rows[order])


def _check_same(module: nn.Module, read: Reading, source: Iterable[Any], data: Batch) -> None:
    """The user's module must compute what was read of it, or the certificate is of another network."""
    double = copy.deepcopy(module).to(device="cpu", dtype=torch.float64).eval()
    inputs = data.X if not read.flatten else data.X.reshape(len(data.X), *sample_shape(source))
    size = batch_size(block_of(read.network), read.network, data.X)
    said = outputs_in_batches(double, inputs, data.mask, size)
    known = outputs_in_batches(read.network, data.X, data.mask, size)
    check_finite(said, "module: an output")
    if said.shape != data.Y.shape:
        raise ValueError(f"Y: the module's outputs are {tuple(said.shape)}, the targets {tuple(data.Y.shape)}.")
    check_same_map(known, said, float(data.Y.abs().max()))
