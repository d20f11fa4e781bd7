"""`certify`: a network on a problem, or a module on any data, whoever trained it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor, nn

from provenet import certificates
from provenet.blocks import block_of
from provenet.certificates import Certificate, certificate_of, check_same_map
from provenet.data.validation import as_weights, check_finite
from provenet.formulation import pose
from provenet.formulation.units import normalised
from provenet.gauges import NuclearNorm
from provenet.losses import Loss
from provenet.losses.base import power_of_four
from provenet.nn import TwoLayer
from provenet.problem import Problem, Program
from provenet.proofs.foreign import Reading, read_module
from provenet.proofs.relu import certify_relu, with_better
from provenet.proofs.stream import Chunks, Stream, is_arrays
from provenet.proofs.streamed import OwnGates, StreamedOperator
from provenet.statement import Statement
from provenet.variable import Factors


@overload
def certify(problem: Problem, network: nn.Module, /, tol: float = 1e-4) -> Certificate: ...


@overload
def certify(
    module: nn.Module,
    data: Any,
    /,
    tol: float = 1e-4,
    *,
    loss: str | type[Loss],
    beta: float,
    mean: bool = False,
    sample_weight: Any = None,
    loss_settings: dict[str, Any] | None = None,
    sharpen: float = 0.0,
) -> Certificate: ...


@overload
def certify(
    module: nn.Module,
    X: Any,
    Y: Any,
    /,
    tol: float = 1e-4,
    *,
    loss: str | type[Loss],
    beta: float,
    mean: bool = False,
    sample_weight: Any = None,
    loss_settings: dict[str, Any] | None = None,
    sharpen: float = 0.0,
) -> Certificate: ...


@torch.inference_mode(False)  # type: ignore[misc]  # a third argument by position is Y, or tol
def certify(
    what: Problem | nn.Module,
    on: Any,
    third: Any = None,
    /,
    tol: float = 1e-4,
    *,
    loss: str | type[Loss] | None = None,
    beta: float | None = None,
    mean: bool = False,
    sample_weight: Any = None,
    loss_settings: dict[str, Any] | None = None,
    sharpen: float = 0.0,
) -> Certificate:
    """How far a network is from the best one, proven.

    ``certify(problem, network)``: of any network of the problem's block, however it was trained, in the scope of the
    problem.

    ``certify(module, X, Y, loss=, beta=)``, or ``certify(module, data, loss=, beta=)``: of a module of
    ``provenet.nn``, at whatever point your own loop left it, among all networks with its gates ("fixed_gates"; "linear"
    without gates), and for ReLU among all networks of its block, of any width ("all_arrangements").  Or of an ordinary
    two-layer ReLU network, ``nn.Sequential([Flatten,] Linear, ReLU, Linear)`` or ``nn.Sequential(Conv, ReLU, [average
    pooling,] Flatten, Linear)``. The penalty is β/2 times the squares of *all* weights of both layers. A bias of the
    first Linear counts among them: it is the weight of a column of ones, and the certificate speaks of networks that
    pay for it. A bias of the last layer, or of a convolution, is no part of the block: it must be absent, or zero.

    data: arrays ``(X, Y)`` or ``(X, Y, mask)``, or any re-iterable of such batches, like a torch DataLoader. It is gone
    over more than once, some samples at a time, in float64; only predictions and targets are kept. A loader may
    shuffle, but every pass must bring the same samples. Labels for ``"softmax"`` may be class indices.

    The objective is the *sum* of the samples' losses plus beta·module.penalty().  A loop that minimises the mean over
    the n samples plus β·penalty() minimises the same thing divided by n: with ``mean=True`` beta is that β, and the
    certificate speaks of the sum, with n·β.  (``mse_loss`` also divides by the c outputs and has no ½: its β is
    2/(n·c) of ours.  AdamW's decoupled ``weight_decay`` minimises no such objective: set it to zero and add the penalty
    to the loss.)

    sample_weight: (n,), with arrays; samples of weight zero are left out.

    A ReLU network's certificate goes over all arrangements where they can be enumerated; else the strongest pull of
    any neuron is bounded over all u at once (``certificate.method`` says how), and the gap may be large.  The dual
    point is the gradient of the loss at this network: far from the optimum it proves little.  ``sharpen`` allows so
    many seconds to look for a better one by solving the problem.  ``certificate.improve()`` gives a network with a
    lower objective, if a neuron that pulls harder than β was found.  A ReLU network's data are held in memory at once.
    Attention, mixer and Fourier blocks with ReLU are judged among networks with their own activation patterns.
    """
    if isinstance(third, Real):
        tol = float(third)
    if isinstance(what, Problem):
        if third is not None and not isinstance(third, Real):
            raise ValueError("Y: the problem has its own data; call certify(problem, network).")
        if mean or sharpen or any(given is not None for given in (loss, beta, sample_weight, loss_settings)):
            raise ValueError("loss, beta, mean, sample_weight, loss_settings, sharpen: the problem has its own.")
        certificate = certificates.certify(what, on, tol)
        return with_better(certificate, what, on) if what.activation == "relu" else certificate
    if loss is None or beta is None:
        raise ValueError("loss, beta: to certify a module both must be given, as they were in training.")
    if third is not None and not isinstance(third, Real):
        on = (on, third)
    module = _unwrapped(what)
    source, weight = _source(on, sample_weight)
    read = read_module(module, _sample_shape(source) if isinstance(module, nn.Sequential) else ())
    network, block = read.network, block_of(read.network)
    told = {"readout": network.settings.get("readout", "mean"), "loss_settings": loss_settings}
    activation = "relu" if network.relu else "linear" if network.gates is None else "gated_relu"
    statement = Statement.of(block, loss, beta, activation=activation, **told)
    if mean and sample_weight is not None:
        raise ValueError("mean: with sample_weight a mean has two meanings; give the beta of the weighted sum.")
    own = OwnGates(block, network)
    stream = Stream(
        block,
        network.first.shape[1],
        network.second.shape[1],
        statement.readout,
        statement.loss.name,
        _Flattened(source) if read.flatten else source,
        ordered=isinstance(source, Chunks),
        width=len(own) + network.first.shape[0],
    )
    if network.relu:
        data = _gathered(stream)
        _check_same(module, read, source, data)
        summed = statement.with_beta(statement.beta * (len(data.Y) if mean else 1))

        def posed(gates: Any) -> Problem:
            complete = isinstance(gates, str)
            said = replace(summed, complete=complete)
            return pose(said, data.X, data.Y, gates, sample_weight=weight, mask=data.mask)

        return certify_relu(network, read.back, posed, tol, sharpen)
    if sharpen:
        raise ValueError("sharpen: it goes with ReLU networks; solve the problem of this one instead, it is convex.")
    seen = _first_pass(network, stream, own)
    user_loss = statement.make_loss(seen.target, weight)
    if mean:
        statement = statement.with_beta(statement.beta * len(seen.target))
    scaled_loss, units = normalised(user_loss, seen.size, block.degree)
    kept, place = own.distinct()
    operator = StreamedOperator(stream, own, kept, tuple(seen.target.shape), units.x)
    program = Program(operator, scaled_loss, NuclearNorm(), units.normalised_beta(statement.beta))
    factors = Factors(network.first.detach(), network.second.detach(), place[own.of_neuron]).scaled(units.z**-0.5)
    prediction = seen.prediction / units.y
    return certificate_of(program, prediction, factors, statement.beta, units.value, statement.scope, tol)


def _unwrapped(module: Any) -> nn.Module:
    """The module itself, without what torch.compile or DistributedDataParallel put around it."""
    inner = module
    while not isinstance(inner, (TwoLayer, nn.Sequential)):
        wrapped = inner
        inner = getattr(wrapped, "_orig_mod", None) or getattr(wrapped, "module", None)
        if not isinstance(inner, nn.Module):
            raise ValueError(
                f"module: a Problem or one of provenet.nn's modules is needed, got {type(module).__name__}; or an "
                "nn.Sequential of two layers with a ReLU between them. "
                "Of a deeper network certify such a head on the features it gets."
            )
    return inner


def _source(data: Any, sample_weight: Any) -> tuple[Iterable[Any], Tensor | None]:
    """Raw batches, as often as asked, and the weights of their samples."""
    if is_arrays(data):
        weight = as_weights(sample_weight, len(data[0]))
        if weight is None or bool((weight > 0).all()):
            return Chunks.of(tuple(data)), weight
        return Chunks.of(tuple(data), weight > 0), weight[weight > 0]
    if sample_weight is not None:
        raise ValueError("sample_weight: it goes with arrays (X, Y), not with a loader.")
    if isinstance(data, Iterator):
        raise ValueError(
            "data: an iterator or generator can be gone over once, and more than one pass is needed; give the loader "
            "itself, a list of batches, or arrays (X, Y)."
        )
    if isinstance(data, (Tensor, np.ndarray, str, dict)) or not isinstance(data, Iterable):
        raise ValueError(f"data: arrays (X, Y) or batches of them are needed, got {type(data).__name__}.")
    return data, None


def _sample_shape(source: Iterable[Any]) -> tuple[int, ...]:
    """The shape of a sample, as far as the first batch tells; what is wrong with it is told later."""
    batch = next(iter(source), None)
    X = batch[0] if isinstance(batch, (tuple, list)) and batch else None
    return tuple(getattr(X, "shape", ()))[1:]


class _Flattened:
    """Batches (X, …) with X (b, …) as (b, d)."""

    def __init__(self, source: Iterable[Any]):
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        for raw in self.source:
            X = raw[0] if isinstance(raw, (tuple, list)) and raw else None
            yield raw if X is None or len(np.shape(X)) < 2 else (X.reshape(len(X), -1), *raw[1:])


class _Data(NamedTuple):
    X: Tensor
    Y: Tensor
    mask: Tensor | None


def _gathered(stream: Stream) -> _Data:
    """All samples at once."""
    batches = list(stream)
    if len({batch.X.shape[1:] for batch in batches}) > 1:
        raise ValueError("data: a ReLU network is judged on all samples at once; they need one shape, tokens included.")
    masks = [torch.ones(batch.X.shape[:2], dtype=torch.bool) if batch.mask is None else batch.mask for batch in batches]
    masked = any(batch.mask is not None for batch in batches)
    X, Y = torch.cat([batch.X for batch in batches]), torch.cat([batch.Y for batch in batches])
    return _Data(X, Y, torch.cat(masks) if masked else None)


def _check_same(module: nn.Module, read: Reading, source: Iterable[Any], data: _Data) -> None:
    """The user's module must compute what was read of it, or the certificate is of another network."""
    double = copy.deepcopy(module).to(device="cpu", dtype=torch.float64).eval()
    inputs = data.X if not read.flatten else data.X.reshape(len(data.X), *_sample_shape(source))
    more = () if data.mask is None else (data.mask,)
    with torch.no_grad():
        said, known = double(inputs, *more), read.network(data.X, *more)
    check_finite(said, "module: an output")
    if said.shape != data.Y.shape:
        raise ValueError(f"Y: the module's outputs are {tuple(said.shape)}, the targets {tuple(data.Y.shape)}.")
    check_same_map(known, said, float(data.Y.abs().max()))


class _Seen(NamedTuple):
    """prediction and target (n, …, c), and the size of the largest entry of X."""

    prediction: Tensor
    target: Tensor
    size: float


def _first_pass(network: TwoLayer, stream: Stream, own: OwnGates) -> _Seen:
    """What is kept of the data.  Network and convex program must be the same function of them, gates be decided."""
    block = stream.block
    neurons = Factors(network.first.detach(), network.second.detach(), own.of_neuron)
    predictions: list[Tensor] = []
    targets: list[Tensor] = []
    convex: list[Tensor] = []
    size = 0.0
    for batch in stream:
        with torch.no_grad():
            prediction = network(batch.X) if batch.mask is None else network(batch.X, batch.mask)
        if prediction.shape != batch.Y.shape:
            raise ValueError(
                f"Y: the module's outputs are {tuple(prediction.shape)}, the targets {tuple(batch.Y.shape)}."
            )
        if targets and targets[0].shape[1:] != batch.Y.shape[1:]:
            raise ValueError("data: with readout='tokens' every batch needs the same number of tokens.")
        check_finite(prediction, "module: an output")
        data = block.on(batch.X, batch.Y.shape[-1], stream.readout, batch.mask)
        gates = own.on(data)
        own.remember(gates)
        here = block.size(batch.X)
        unit = power_of_four(here)
        operator = data.operator(gates, unit)
        predictions.append(prediction)
        convex.append(operator.forward_factors(neurons) * unit**block.degree)
        targets.append(batch.Y)
        size = max(size, here)
    prediction, target = torch.cat(predictions), torch.cat(targets)
    check_same_map(torch.cat(convex), prediction, float(target.abs().max()))
    return _Seen(prediction, target, size)
