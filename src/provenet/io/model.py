"""What a model folder says: a network, the problem it solves, and the proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from provenet.blocks import Block, formulate, make_block
from provenet.certificates import Certificate, certify
from provenet.io.fingerprint import check_fingerprint, differences, digest, fingerprint
from provenet.io.schema import SchemaError, take
from provenet.problem import Problem
from provenet.variable import Factors


@dataclass(frozen=True)
class SavedModel:
    """A network with the settings of its problem, but not the data: `problem` and `certify` ask for them again.

    ``gate_vectors`` (P, p) are all gates of the problem, used by a neuron or not.  ``data`` is the fingerprint of the
    samples, targets and weights; ``weights`` is the digest of the network the certificate speaks of.  ``run`` says how
    the network was found, ``source`` where the data came from.
    """

    network: nn.Module
    certificate: Certificate
    block: Block
    activation: str
    readout: str
    loss: str
    loss_settings: Mapping[str, Any]
    beta: float
    gate_vectors: Tensor | None
    data: Mapping[str, Any]
    weights: str
    run: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(problem: Problem, network: nn.Module, certificate: Certificate, **more: Any) -> SavedModel:
        return SavedModel(
            network=network,
            certificate=certificate,
            block=make_block(problem.block),  # type: ignore[arg-type]
            activation=problem.activation,
            readout=problem.readout,
            loss=problem.loss.name,
            loss_settings={"delta": problem.loss.delta} if hasattr(problem.loss, "delta") else {},
            beta=problem.beta,
            gate_vectors=problem.gate_vectors,
            data=fingerprint(problem),
            weights=network_digest(network),
            **more,
        )

    def problem(self, X: Any, Y: Any, sample_weight: Any = None) -> Problem:
        """The saved problem on these data, with the saved gates; Y as `provenet.formulate` wants it."""
        return formulate(
            self.block,
            X,
            Y,
            activation=self.activation,
            gates=self.gate_vectors,
            loss=self.loss,
            beta=self.beta,
            readout=self.readout,
            sample_weight=sample_weight,
            loss_settings=dict(self.loss_settings),
        )

    def certify(self, X: Any, Y: Any, sample_weight: Any = None, tol: float = 1e-4) -> Certificate:
        """The certificate, computed anew from the weights and these data."""
        return certify(self.problem(X, Y, sample_weight), self.network, tol)

    def data_differences(self, problem: Problem) -> list[str]:
        """In what the data of ``problem`` differ from those of the fit, in words; empty if in nothing."""
        return differences(dict(self.data), fingerprint(problem))

    def header(self) -> dict[str, Any]:
        """All but the tensors and the certificate, ready for JSON."""
        return {
            "problem": {
                "block": self.block.name,
                "block_settings": dict(self.block.settings()),
                "activation": self.activation,
                "readout": self.readout,
                "loss": self.loss,
                "loss_settings": dict(self.loss_settings),
                "beta": self.beta,
            },
            "run": dict(self.run),
            "data": dict(self.data),
            "source": dict(self.source),
        }

    def tensors(self) -> dict[str, Tensor]:
        """The weights; refused where they changed after they were certified."""
        if network_digest(self.network) != self.weights:
            raise ValueError(
                "network: its weights changed after it was certified. Save it with problem=saved.problem(X, Y), "
                "which certifies it anew."
            )
        first, second, gates, _ = self.block.neurons(self.network, self.readout)
        named = {"first": first, "second": second, "gates": gates, "gate_vectors": self.gate_vectors}
        return {name: value.detach().contiguous() for name, value in named.items() if value is not None}

    @staticmethod
    def read(header: dict[str, Any], tensors: dict[str, Tensor], certificate: dict[str, Any]) -> SavedModel:
        problem = take(header, "problem", dict)
        try:
            block = make_block(take(problem, "block", str), **take(problem, "block_settings", dict))
        except TypeError as error:
            raise SchemaError(f"block_settings: {error}") from None
        activation = take(problem, "activation", str)
        network = _network(block, activation, take(problem, "readout", str), tensors)
        model = SavedModel(
            network=network,
            certificate=read_certificate(certificate),
            block=block,
            activation=activation,
            readout=take(problem, "readout", str),
            loss=take(problem, "loss", str),
            loss_settings=take(problem, "loss_settings", dict),
            beta=take(problem, "beta", float),
            gate_vectors=tensors.get("gate_vectors"),
            data=check_fingerprint(take(header, "data", dict)),
            weights=network_digest(network),
            run=take(header, "run", dict),
            source=take(header, "source", dict),
        )
        if model.certificate.beta != model.beta:
            raise SchemaError(f"beta: the model has {model.beta!r}, its certificate {model.certificate.beta!r}")
        if (model.certificate.scope == "linear") != (activation == "linear"):
            raise SchemaError(
                f"scope: {model.certificate.scope!r} is not that of a network with {activation} activation"
            )
        return model


def network_digest(network: nn.Module) -> str:
    return digest(*network.state_dict().values())


def _network(block: Block, activation: str, readout: str, tensors: dict[str, Tensor]) -> nn.Module:
    """The module of the saved weights, bit by bit."""
    needed = {"first", "second"} if activation == "linear" else {"first", "second", "gates", "gate_vectors"}
    missing = sorted(needed - set(tensors))
    if missing:
        raise SchemaError(f"tensors: {', '.join(missing)} missing")
    weights = {name: tensors[name] for name in sorted(needed)}
    for name, tensor in weights.items():
        if not tensor.is_floating_point() or not bool(torch.isfinite(tensor).all()):
            raise SchemaError(f"tensors: {name} holds values that are not finite numbers")
    first, second, gates = weights["first"], weights["second"], weights.get("gates")
    shapes_agree = first.ndim == 2 and second.ndim == 2 and first.shape[0] == second.shape[0]
    if gates is not None:
        shapes_agree &= gates.shape == first.shape and weights["gate_vectors"].shape[1:] == first.shape[1:]
    if not shapes_agree:
        sizes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        raise SchemaError(f"tensors: their shapes do not fit together, {sizes}")
    neurons = Factors(first, second, torch.arange(first.shape[0]))
    return block.network(neurons, gates, readout)


def read_certificate(saved: dict[str, Any]) -> Certificate:
    kinds: dict[str, type] = {"scope": str, "bound": str, "conditions": dict}
    values: dict[str, Any] = {f.name: take(saved, f.name, kinds.get(f.name, float)) for f in fields(Certificate)}
    certificate = Certificate(**values)
    if not all(isfinite(value) for value in values.values() if isinstance(value, float)) or certificate.beta <= 0:
        raise SchemaError("certificate: its numbers are not finite, or beta is not positive")
    if certificate.to_dict() != {name: saved.get(name) for name in certificate.to_dict()}:
        raise SchemaError("certificate: its numbers contradict each other")
    return certificate
