"""How a module was trained, which its weights do not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from provenet.blocks import block_of
from provenet.losses import Loss
from provenet.nn import TwoLayer
from provenet.proofs.sharpen import check_seconds
from provenet.statement import Scope, Statement

BIASES = FREE, PENALISED = "free", "penalised"  # what the penalty on the last layer's bias is


@dataclass(frozen=True)
class Training:
    """What `certify` takes of a module by keyword, and how hard to look for a better bound."""

    loss: str | type[Loss] | None = None
    beta: float | None = None
    mean: bool = False
    sample_weight: Any = None
    loss_settings: dict[str, Any] | None = None
    sharpen: float = 0.0
    layers: Sequence[str] | None = None
    bias: str = FREE
    scope: str | None = None

    def __post_init__(self) -> None:
        if self.mean and self.sample_weight is not None:
            raise ValueError("mean: with sample_weight a mean has two meanings; give the beta of the weighted sum.")
        if self.bias not in BIASES:
            known = " or ".join(map(repr, BIASES))
            raise ValueError(f"bias: {self.bias!r} is unknown; of the last layer it is {known}.")
        check_seconds(self.sharpen)

    @property
    def pays_bias(self) -> bool:
        return self.bias == PENALISED

    def statement(self, network: TwoLayer) -> Statement:
        """What the network was trained for."""
        if self.loss is None or self.beta is None:
            raise ValueError("loss, beta: to certify a module both must be given, as they were in training.")
        self._check_scope(network)
        return Statement.of(
            block_of(network),
            self.loss,
            self.beta,
            activation=network.activation,
            readout=network.settings.get("readout", "mean"),
            loss_settings=self.loss_settings,
            free_intercept=network.bias is not None and not self.pays_bias,
            paid_intercept=network.bias is not None and self.pays_bias,
        )

    def _check_scope(self, network: TwoLayer) -> None:
        own = Scope.LINEAR if network.activation == "linear" else Scope.FIXED_GATES
        known = (Scope.ALL_ARRANGEMENTS, own) if network.relu else (own,)
        if self.scope is not None and self.scope not in known:
            raise ValueError(
                f"scope: a network of activation {network.activation!r} is judged among "
                f"{' or '.join(repr(str(each)) for each in known)}, not {self.scope!r}."
            )
