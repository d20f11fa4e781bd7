"""Which kinds of networks a search tries: activations and gates."""

from __future__ import annotations

from typing import Any

from provenet.blocks import MLP
from provenet.estimators.samples import TrainingData
from provenet.gauges.prox.mixed import WEIGHT_DECAY

AUTO = "auto"
_OUTPUTS = 6  # of ReLU networks that are proven in seconds, and of others that are solved on all folds


def kinds_to_try(model: Any, data: TrainingData) -> list[tuple[str, Any]]:
    """(activation, gates) of each; a linear network has no gates to choose."""
    activations = _usual(model, data) if _is_auto(model.activation) else _several(model.activation)
    gates = _several(model.gates)
    return [(each, own) for each in activations for own in (gates[:1] if each == "linear" else gates)]


def _usual(model: Any, data: TrainingData) -> list[str]:
    """On a table linear networks, and ReLU, where outputs are few enough for a proof in seconds, or gated ReLU.  On
    other samples, and with gates, norms or a method of one's own, gated ReLU alone."""
    own = not _is_auto(model.gates) or model._wanted().name != AUTO or tuple(model.penalty) != WEIGHT_DECAY
    if own or not _is_auto(model.solver) or not _is_table(model, data):
        return ["gated_relu"]
    return ["linear", "relu" if data.targets.shape[-1] <= _OUTPUTS else "gated_relu"]


def many_outputs(model: Any, data: TrainingData) -> bool:
    """Whether networks of the folds have so many outputs, on a table, that they are trained; gated ones only where
    gates are to be units of trained networks."""
    trained = model.activation == "linear" or model._wanted().name in (AUTO, "trained")
    return trained and _is_table(model, data) and data.targets.shape[-1] > _OUTPUTS


def _is_table(model: Any, data: TrainingData) -> bool:
    return isinstance(model._make_block(), MLP) and data.X.ndim == 2


def _is_auto(setting: Any) -> bool:
    return isinstance(setting, str) and setting == AUTO


def _several(setting: Any) -> list[Any]:
    """The names in a list of names; anything else is one choice."""
    named = isinstance(setting, (list, tuple)) and len(setting) > 0 and all(isinstance(each, str) for each in setting)
    return list(setting) if named else [setting]
