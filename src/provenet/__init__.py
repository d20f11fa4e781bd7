"""provenet: blocks of neural networks trained to a proven optimum."""

from provenet.blocks import (
    BFNO,
    CNN,
    FNO,
    MLP,
    FNet,
    Mixer,
    PoolFormer,
    SelfAttention,
    TokenMap,
)
from provenet.certificates import Certificate
from provenet.estimators import ProvenClassifier, ProvenClassifierCV, ProvenRegressor, ProvenRegressorCV
from provenet.formulation import formulate
from provenet.io import SavedModel, load, save
from provenet.layerwise import Layer, LayerwiseClassifier, LayerwiseRegressor
from provenet.problem import Problem
from provenet.proofs import certify
from provenet.solvers import Solution, Status, solve

__version__ = "0.1.0"

__all__ = [
    "BFNO",
    "CNN",
    "FNO",
    "MLP",
    "Certificate",
    "FNet",
    "Layer",
    "LayerwiseClassifier",
    "LayerwiseRegressor",
    "Mixer",
    "PoolFormer",
    "Problem",
    "ProvenClassifier",
    "ProvenClassifierCV",
    "ProvenRegressor",
    "ProvenRegressorCV",
    "SavedModel",
    "SelfAttention",
    "Solution",
    "Status",
    "TokenMap",
    "certify",
    "formulate",
    "load",
    "save",
    "solve",
]
