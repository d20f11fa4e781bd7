"""Model folders: safetensors and JSON, versioned, digests checked, nothing unpickled."""

from provenet.io.estimators import posed_data
from provenet.io.model import SavedModel
from provenet.io.onnx import export_onnx
from provenet.io.saving import load, load_model, save

__all__ = ["SavedModel", "export_onnx", "load", "load_model", "posed_data", "save"]
