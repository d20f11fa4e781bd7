"""Cones {u : K_k u ≥ 0} of the ReLU's arrangements, K_k = (2D_k − I)Φ: projections and cone-constrained PCA."""

from provenet.cones.base import Region, Table
from provenet.cones.cones import Cones
from provenet.cones.implicit import ImplicitCones, ImplicitRows
from provenet.cones.pca import ConePCA, cone_pca
from provenet.cones.projection import Projection, project
from provenet.cones.signs import PickedSigns

__all__ = [
    "ConePCA",
    "Cones",
    "ImplicitCones",
    "ImplicitRows",
    "PickedSigns",
    "Projection",
    "Region",
    "Table",
    "cone_pca",
    "project",
]
