"""What a model folder says: a network, the problem it solves, and the proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from provenet.certificates import Certificate, network_certificate
from provenet.formulation import pose
from provenet.io.fingerprint import differences, digest, fingerprint
from provenet.io.folder import VERSIONS
from provenet.io.settings import decode
from provenet.nn.standardised import core
from provenet.problem import Problem
from provenet.scaling import Scaling
from provenet.statement import Statement

SCALING = "scaling."  # before the names of its tensors


@dataclass(frozen=True, repr=False)
class SavedModel:
    """A network with the settings of its problem, but not the data: `problem` and `certify` ask for them again.

    Parameters
    ----------
    network : module
        As it was saved; of raw samples.
    certificate : Certificate
        As it was saved.
    statement : Statement
        What was minimised.
    gate_vectors : Tensor (P, p), optional
        All gates of the problem, used by a neuron or not; all arrangements are found anew on data given anew.
    gate_group : Tensor (P,), optional
        Their groups, where the block has groups.
    data : mapping
        The fingerprint of samples, targets, weights and mask.
    weights : str
        The digest of the network that the certificate speaks of.
    run : mapping
        How the network was found.
    source : mapping
        Where the data came from.
    scaling : Scaling, optional
        The problem is of data that were standardised by it; data given anew are raw, and standardised by the same means
        and scales.
    """

    network: nn.Module
    certificate: Certificate
    statement: Statement
    gate_vectors: Tensor | None
    gate_group: Tensor | None
    data: Mapping[str, Any]
    weights: str
    run: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    scaling: Scaling | None = None

    @staticmethod
    def of(problem: Problem, network: nn.Module, certificate: Certificate, **more: Any) -> SavedModel:
        return SavedModel(
            network=network,
            certificate=certificate,
            statement=problem.statement,
            gate_vectors=problem.gates.vectors,
            gate_group=problem.gates.group,
            data=fingerprint(problem),
            weights=network_digest(network),
            scaling=problem.scaling,
            **more,
        )

    def __repr__(self) -> str:
        samples = " × ".join(map(str, self.data["samples"]))
        return (
            f"SavedModel({self.statement.block.name!r}, {self.statement.activation}, fitted on {samples}: "
            f"{len(self.network.get_parameter('first'))} neurons, {self.certificate.status})"
        )

    @property
    def asked(self) -> Any:
        """The method that a saved solution was asked of, with its settings; None where the folder does not say."""
        return decode(self.run.get("asked"))

    def problem(self, X: Any, Y: Any, sample_weight: Any = None, mask: Any = None) -> Problem:
        """The saved problem on these data, with the saved gates; Y as `provenet.formulate` wants it."""
        group = None if self.gate_vectors is None else self.gate_group
        more = {"sample_weight": sample_weight, "mask": mask, "gate_group": group}
        return pose(self.statement, X, Y, self.gate_vectors, **more, standardize=self.scaling or False)

    def certify(self, X: Any, Y: Any, sample_weight: Any = None, tol: float = 1e-4, mask: Any = None) -> Certificate:
        """The certificate, computed anew from the weights and these data."""
        problem = self.problem(X, Y, sample_weight, mask)
        return network_certificate(problem, self.network, tol, self.certificate.theta)

    def data_differences(self, problem: Problem) -> list[str]:
        """In what the data of ``problem`` differ from those of the fit, in words; empty if in nothing."""
        return differences(dict(self.data), fingerprint(problem))

    def header(self) -> dict[str, Any]:
        """All but the tensors and the certificate, ready for JSON."""
        return {
            "version": VERSIONS[self.statement.free_intercept if self.scaling is None else -1],
            "problem": self.statement.to_dict(),
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
        inner = core(self.network)
        first, second, gates, group, _ = self.statement.block.neurons(inner, self.statement.readout)
        named = {"first": first, "second": second, "gates": gates, "group": group}
        named["bias"] = getattr(inner, "bias", None)
        named |= {"gate_vectors": self.gate_vectors, "gate_group": self.gate_group, "dual": self.certificate.theta}
        if self.scaling is not None:
            named |= {f"{SCALING}{name}": value for name, value in self.scaling.tensors().items()}
        return {name: value.detach().contiguous() for name, value in named.items() if value is not None}


def network_digest(network: nn.Module) -> str:
    return digest(*network.state_dict().values())
