"""The parts of a model folder → a model, checked to fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from math import isfinite, prod
from typing import Any

import torch
from torch import Tensor

from provenet.blocks import make_block
from provenet.certificates import Certificate
from provenet.certificates.certificate import TENSORS
from provenet.gauges import BoundKind
from provenet.gauges.prox.mixed import WEIGHT_DECAY, Penalty, read_penalty, written
from provenet.io.fingerprint import check_fingerprint
from provenet.io.model import SCALING, SavedModel, network_digest
from provenet.io.schema import SchemaError, take
from provenet.nn import TwoLayer
from provenet.scaling import Scaling, axis_of
from provenet.statement import Scope, Statement
from provenet.variable import Factors

_LARGEST_SAMPLE = 2**28  # numbers


def read_model(header: dict[str, Any], tensors: dict[str, Tensor], certificate: dict[str, Any]) -> SavedModel:
    """What a folder holds, checked to be of one piece."""
    statement = _statement(take(header, "problem", dict))
    inner = _network(statement, tensors)
    data = check_fingerprint(take(header, "data", dict))
    scaling = _scaling(statement, tensors, data)
    network = inner if scaling is None else scaling.around(inner)
    told = {"free_intercept": statement.free_intercept} | certificate  # others were written before it was said
    model = SavedModel(
        network=network,
        certificate=read_certificate(told, tensors.get("dual")),
        statement=statement,
        gate_vectors=tensors.get("gate_vectors"),
        gate_group=tensors.get("gate_group"),
        data=data,
        weights=network_digest(network),
        run=take(header, "run", dict),
        source=take(header, "source", dict),
        scaling=scaling,
    )
    _check_sizes(model)
    _check_same_statement(model)
    _check_dual(model)
    return model


def _statement(record: dict[str, Any]) -> Statement:
    try:
        block = make_block(take(record, "block", str), **take(record, "block_settings", dict))
    except TypeError as error:
        raise SchemaError(f"block_settings: {error}") from None
    return Statement.of(
        block,
        take(record, "loss", str),
        take(record, "beta", float),
        activation=take(record, "activation", str),
        readout=take(record, "readout", str),
        loss_settings=take(record, "loss_settings", dict),
        penalty=_penalty(record),
        complete=take({"complete": False} | record, "complete", bool),
        beyond_gates=take({"beyond_gates": False} | record, "beyond_gates", bool),
        free_intercept=take({"free_intercept": False} | record, "free_intercept", bool),
        sampler=take({"sampler": "given"} | record, "sampler", str),
    )


def _scaling(statement: Statement, tensors: dict[str, Tensor], data: Mapping[str, Any]) -> Scaling | None:
    """By what the data were standardised; None: by nothing."""
    parts = {name.removeprefix(SCALING): t for name, t in tensors.items() if name.startswith(SCALING)}
    if not parts:
        return None
    axis = axis_of(statement.block.tokens)
    if len(data["samples"]) < 2:
        raise SchemaError("data: samples without features")
    scaling = Scaling.from_tensors(parts, axis, data["samples"][axis], data["targets"][-1])
    if (scaling.target_mean is not None) != bool(statement.loss.measures):
        raise SchemaError(f"tensors: means of targets do not go with loss {statement.loss.name!r}, or lack")
    return scaling


def _check_same_statement(model: SavedModel) -> None:
    """What the certificate speaks of must be what the problem is about."""
    certificate, statement = model.certificate, model.statement
    if certificate.standardized != (model.scaling is not None):
        raise SchemaError("standardized: the model says one thing, its certificate another")
    for name in ("beta", "penalty", "scope", "free_intercept"):
        told, found = getattr(statement, name), getattr(certificate, name)
        if told != found:
            raise SchemaError(f"{name}: the model has {told!r}, its certificate {found!r}")


def _penalty(record: dict[str, Any]) -> Penalty:
    """Folders from before there were others have weight decay."""
    return read_penalty(take({"penalty": written(WEIGHT_DECAY)} | record, "penalty", list))


def _network(statement: Statement, tensors: dict[str, Tensor]) -> TwoLayer:
    """The module of the saved weights, bit by bit."""
    block, activation = statement.block, statement.activation
    gated = {"linear": [], "gated_relu": ["gates", "gate_vectors"], "relu": ["gate_vectors"]}[activation]
    if "bias" in tensors and not statement.free_intercept:
        raise SchemaError("tensors: bias, but the problem has no free intercept")
    biased = ["bias"] if "bias" in tensors else []
    needed = ["first", "second", *gated, *biased]
    groups = ["group", "gate_group"] if block.groups > 1 else []
    missing = sorted({*needed, *groups} - set(tensors))
    if missing:
        raise SchemaError(f"tensors: {', '.join(missing)} missing")
    for name in needed:
        if not tensors[name].is_floating_point() or not bool(torch.isfinite(tensors[name]).all()):
            raise SchemaError(f"tensors: {name} holds values that are not finite numbers")
    for name in groups:
        if tensors[name].is_complex() or not bool(((tensors[name] >= 0) & (tensors[name] < block.groups)).all()):
            raise SchemaError(f"tensors: {name} names groups that the block does not have")
    found = {name: tuple(tensors[name].shape) for name in (*needed, *groups)}
    if not _fit_together(found, block.groups):
        raise SchemaError(f"tensors: their shapes do not fit together, {found}")
    first, second = tensors["first"], tensors["second"]
    gates = tensors["gates"] if activation == "gated_relu" else None
    group = tensors["group"].long() if groups else None
    neurons = Factors(first, second, torch.arange(first.shape[0]))
    return block.network(neurons, gates, statement.readout, group, activation == "relu", tensors.get("bias"))


def _check_dual(model: SavedModel) -> None:
    """A bound of the run's dual point needs that point, one number for each of the targets."""
    theta = model.certificate.theta
    if theta is None and model.certificate.dual_of == "run":
        raise SchemaError("tensors: dual missing, the run's dual point, on which the certificate rests")
    if theta is not None and ([*theta.shape] != list(model.data["targets"]) or not bool(torch.isfinite(theta).all())):
        raise SchemaError(f"tensors: dual, of shape {tuple(theta.shape)}, is no dual point of these targets")


def _check_sizes(model: SavedModel) -> None:
    """The weights must be those of the block on samples and targets of the shapes that the fingerprint tells."""
    sample, outputs = model.data["samples"][1:], model.data["targets"][-1]
    if prod(sample) > _LARGEST_SAMPLE:
        raise SchemaError(f"data: samples of {prod(sample)} numbers each are beyond all memory")
    one = torch.zeros(1, *sample, dtype=torch.float64)
    block = model.statement.block
    block.check(one, outputs)
    needed = block.weights(one, outputs)
    found = tuple(model.network.get_parameter(name).shape[1] for name in ("first", "second"))
    if found != needed:
        raise SchemaError(
            f"tensors: a neuron has {found[0]} and {found[1]} weights, but {needed[0]} and {needed[1]} are needed for "
            f"samples of shape {tuple(sample)} and {outputs} outputs"
        )
    bias = getattr(model.network, "bias", None)
    if bias is not None and bias.shape != (outputs,):
        raise SchemaError(f"tensors: bias has shape {tuple(bias.shape)}, but there are {outputs} outputs")


def _fit_together(shapes: dict[str, tuple[int, ...]], groups: int) -> bool:
    """first (N, p), second (N, q), gates (N, p), group (N,), gate_vectors (P, p), gate_group (P,)."""
    first, second = shapes["first"], shapes["second"]
    if len(first) != 2 or len(second) != 2 or first[0] != second[0]:
        return False
    vectors = shapes.get("gate_vectors", (groups, first[1]))  # linear: one gate a group, without a vector
    wanted = {"gates": first, "group": first[:1], "gate_group": vectors[:1]}
    return (
        len(vectors) == 2
        and vectors[1] == first[1]
        and all(shapes[name] == shape for name, shape in wanted.items() if name in shapes)
    )


def read_certificate(saved: dict[str, Any], theta: Tensor | None = None) -> Certificate:
    # folders from before there were others
    saved = {
        "method": "gates",
        "penalty": written(WEIGHT_DECAY),
        "dual_of": "network",
        "standardized": False,
        "biases": "",
    } | saved
    kinds: dict[str, type] = {
        "scope": Scope,
        "bound": BoundKind,
        "conditions": dict,
        "method": str,
        "dual_of": str,
        "biases": str,
    }
    kinds |= {"penalty": list, "standardized": bool, "free_intercept": bool}
    names = [f.name for f in fields(Certificate) if f.name not in TENSORS]
    values: dict[str, Any] = {name: take(saved, name, kinds.get(name, float)) for name in names}
    certificate = replace(Certificate.from_dict(values), theta=theta)
    if not all(isfinite(value) for value in values.values() if isinstance(value, float)) or certificate.beta <= 0:
        raise SchemaError("certificate: its numbers are not finite, or beta is not positive")
    if certificate.to_dict() != {name: saved.get(name) for name in certificate.to_dict()}:
        raise SchemaError("certificate: its numbers contradict each other")
    return certificate
