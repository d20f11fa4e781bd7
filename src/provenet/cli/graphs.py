"""The work of `provenet export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provenet.cli.console import print_json, say, warn
from provenet.cli.models import shape_of
from provenet.data.loading import Source
from provenet.io import export_onnx, load, load_model
from provenet.layerwise.base import Layerwise
from provenet.nn import Standardised

_FAR = 1e4  # spreads: float32 keeps a thousandth of one


def write_graph(folder: Path, target: Path, precision: str, json: bool) -> None:
    whole = load(folder)
    if isinstance(whole, Layerwise):
        _tell(export_onnx(whole.network_, target, precision, whole.sample_shape_), precision, whole, json)
        return
    model, estimator = load_model(folder)
    if getattr(estimator, "whiten", False):
        raise ValueError(f"{folder}: the model whitens its inputs, which the graph does not; use provenet predict.")
    path = export_onnx(model.network, target, precision, shape_of(model))
    source = Source.from_dict(model.source) if "features" in model.source else None
    if precision == "float32" and (far := _too_far_off(model.network)) is not None:
        names = () if source is None else source.names
        which = names[far] if far < len(names) else far
        warn(
            f"feature {which!r} varies so little for its size that float32 loses what it says; use --precision float64."
        )
    _tell(path, precision, estimator, json, source)


def _too_far_off(network: Any) -> int | None:
    """The feature farthest from zero in units of its own spread, where rounding in float32 would be seen in it."""
    if not isinstance(network, Standardised):
        return None
    distance = (network.mean * network.scale).abs()
    return int(distance.argmax()) if float(distance.max()) > _FAR else None


def _tell(path: Path, precision: str, estimator: Any, json: bool, source: Source | None = None) -> None:
    classes = getattr(estimator, "classes_", None)
    columns = None if source is None else source.names
    if json:
        told = {"out": str(path), "precision": precision, "columns": columns}
        print_json(told | {"classes": None if classes is None else classes.tolist()})
        return
    say(f"graph   {path} ({precision})")
    if source is not None and source.prepared is not None:
        fills = "" if source.prepared.fills is None else ", gaps filled"
        warn(f"the graph takes numbers, as predict makes them of the file{fills}: {', '.join(source.names)}.")
