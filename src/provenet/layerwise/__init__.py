"""Deep networks by convex stages: two-layer blocks, each trained to its own certificate on what those below pass on."""

from provenet.layerwise.estimators import LayerwiseClassifier, LayerwiseRegressor
from provenet.layerwise.layer import Layer
from provenet.layerwise.presets import Recipe

__all__ = ["Layer", "LayerwiseClassifier", "LayerwiseRegressor", "Recipe"]
