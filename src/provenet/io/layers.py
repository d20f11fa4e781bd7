"""Fitted deep estimators ↔ model folders: the stages' tensors, and the certificate of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from provenet import layerwise
from provenet.blocks import make_block
from provenet.certificates import Certificate
from provenet.io.estimators import decode_labels, encode_labels
from provenet.io.folder import write_folder
from provenet.io.schema import SchemaError, as_shape, take
from provenet.io.settings import encode
from provenet.layerwise import Layer, Recipe
from provenet.layerwise.base import Layerwise
from provenet.layerwise.stage import StageTable, TrainedStage, digest_of
from provenet.nn import Layers
from provenet.nn.rebuild import describe_layers, rebuild_layers
from provenet.ranks.context import is_first

KINDS: dict[str, type[Layerwise]] = {
    kind.__name__: kind for kind in (layerwise.LayerwiseClassifier, layerwise.LayerwiseRegressor)
}
_OF_A_RUN = ("checkpoint", "resume")  # settings that mean nothing to who loads a model


def save_layers(model: Layerwise, folder: Path, source: dict[str, Any]) -> None:
    """The folder of a fitted deep estimator."""
    if not hasattr(model, "stages_"):
        raise ValueError(f"model: this {type(model).__name__} is not fitted; call fit first.")
    for number, stage in enumerate(model.stages_):
        if digest_of([stage.module]) != digest_of([model.network_[number]]):
            raise ValueError(f"network_: stage {number + 1} is not the one of stages_; its certificate would be void.")
    single = {"single_target": model._single_target} if hasattr(model, "_single_target") else {}
    header = {
        "deep": {
            "kind": type(model).__name__,
            "settings": {name: _encoded(name, value) for name, value in model.get_params(deep=False).items()},
            "layers": describe_layers(model.network_),
            "sample_shape": list(model.sample_shape_),
            "classes": encode_labels("classes_", model.classes_) if hasattr(model, "classes_") else None,
            **single,
        },
        "source": source,
    }
    tensors = {name: value.detach().contiguous() for name, value in model.network_.state_dict().items()}
    if is_first():
        write_folder(folder, header, safetensors.torch.save(tensors), {"stages": [s.to_dict() for s in model.stages_]})


def read_layers(header: dict[str, Any], tensors: dict[str, Tensor], certificate: dict[str, Any]) -> Layerwise:
    """The estimator as it was after its fit."""
    deep = take(header, "deep", dict)
    kind = take(deep, "kind", str)
    if kind not in KINDS:
        raise SchemaError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    settings = {name: _decoded(value) for name, value in take(deep, "settings", dict).items()}
    try:
        model = KINDS[kind](**{name: value for name, value in settings.items() if name not in _OF_A_RUN})
    except TypeError as error:
        raise SchemaError(f"settings: {error}") from None
    model.network_ = rebuild_layers(take(deep, "layers", list), tensors).eval()
    model.stages_ = _stages(model.network_, take(certificate, "stages", list))
    model.sample_shape_ = as_shape("sample_shape", take(deep, "sample_shape", list))
    model.n_features_in_ = model.sample_shape_[-1 if len(model.sample_shape_) < 3 else 0]
    if deep.get("classes") is not None:
        model.classes_ = decode_labels(deep["classes"])
    if "single_target" in deep:
        model._single_target = take(deep, "single_target", bool)
    return model


def _stages(network: Layers, told: list[Any]) -> StageTable:
    if len(told) != len(network):
        raise SchemaError(f"stages: {len(network)} in the network, {len(told)} in the certificate")
    stages = []
    for module, each in zip(network, told, strict=True):
        try:
            proof = None if each["certificate"] is None else Certificate.from_dict(each["certificate"])
            known = dict(each) | {"certificate": proof, "shape": tuple(each["shape"])}
            stages.append(TrainedStage(module=module, **known))
        except (KeyError, TypeError) as error:
            raise SchemaError(f"stages: what is known of one is not whole ({error})") from None
    for number, stage in enumerate(stages):
        if stage.below != digest_of([s.module for s in stages[:number]], stage.module):
            raise SchemaError(
                f"stages: the certificate of stage {number + 1} is conditional on other stages than these"
            )
    return StageTable(tuple(stages))


def _encoded(name: str, value: Any) -> Any:
    if isinstance(value, Layer):
        return {"layer": value.to_dict()}
    if isinstance(value, Recipe):
        return {"recipe": value.to_dict()}
    if isinstance(value, (list, tuple)):
        return {"list": [_encoded(name, each) for each in value]}
    return str(value) if isinstance(value, Path) else encode(name, value)


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "list" in value:
        return [_decoded(each) for each in take(value, "list", list)]
    if "layer" in value:
        said = dict(take(value, "layer", dict))
        block = take(said, "block", dict)
        return Layer(**said | {"block": make_block(take(block, "name", str), **take(block, "settings", dict))})
    if "recipe" in value:
        said = dict(take(value, "recipe", dict))
        return Recipe.from_dict(said)
    raise SchemaError(f"settings: {value!r} is not understood")
