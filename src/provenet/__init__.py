"""provenet: blocks of neural networks trained to a proven optimum.

Docstrings cite three papers of Sahiner, Ergen, Pauly, Pilanci and others by letters:

BM    Scaling convex neural networks with Burer–Monteiro factorization, ICLR 2024
CP    Vector-output ReLU neural network problems are copositive programs, ICLR 2021
AT    Unraveling attention via convex duality, ICML 2022

Names are imported when they are first asked for, so that ``import provenet`` and ``provenet --version`` are quick.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from provenet.embeddings import Embedding, embed, load_embedding
    from provenet.estimators import ProvenClassifier, ProvenClassifierCV, ProvenRegressor, ProvenRegressorCV
    from provenet.formulation.formulate import formulate
    from provenet.io import SavedModel, load, save
    from provenet.layerwise import Layer, LayerwiseClassifier, LayerwiseRegressor
    from provenet.problem import Problem
    from provenet.proofs.certify import certify
    from provenet.solvers import Solution, Status
    from provenet.solvers.path import path
    from provenet.solvers.snapshot import snapshots
    from provenet.solvers.solve import solve

__version__ = "0.1.0"

__all__ = [
    "BFNO",
    "CNN",
    "FNO",
    "MLP",
    "Certificate",
    "Embedding",
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
    "embed",
    "formulate",
    "load",
    "load_embedding",
    "path",
    "save",
    "snapshots",
    "solve",
]

_ROOMS = {
    "blocks": ("BFNO", "CNN", "FNO", "MLP", "FNet", "Mixer", "PoolFormer", "SelfAttention", "TokenMap"),
    "certificates": ("Certificate",),
    "embeddings": ("Embedding", "embed", "load_embedding"),
    "estimators": ("ProvenClassifier", "ProvenClassifierCV", "ProvenRegressor", "ProvenRegressorCV"),
    "formulation": ("formulate",),
    "io": ("SavedModel", "load", "save"),
    "layerwise": ("Layer", "LayerwiseClassifier", "LayerwiseRegressor"),
    "problem": ("Problem",),
    "proofs": ("certify",),
    "solvers": ("Solution", "Status", "snapshots", "solve"),
    "solvers.path": ("path",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}
_MODULES = (
    "heads",
    "nn",
    "ranks",
    "report",
    "testing",
    "verify",
)  # with names for users; others are found too, but not listed


if not TYPE_CHECKING:  # type checkers know the names from above, and no others

    def __getattr__(name: str) -> Any:
        if name in _ROOM_OF:
            found = getattr(import_module(f"provenet.{_ROOM_OF[name]}"), name)
        elif not name.startswith("_") and find_spec(f"provenet.{name}") is not None:
            found = import_module(f"provenet.{name}")
        else:
            raise AttributeError(f"module 'provenet' has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """What is public, and nothing else."""
    return sorted([*__all__, *_MODULES, "__version__"])
