"""Gauges γ on each block Z_k: value, prox, polar as two-sided bounds, atom."""

from provenet.gauges.base import NOTHING, Asked, BoundKind, Bounds, ConeGauge, Gauge, ProxGauge, RegionGauge
from provenet.gauges.cones.columns import ConeColumns
from provenet.gauges.cones.lines import ConeLines
from provenet.gauges.cones.nuclear import ConeNuclear
from provenet.gauges.cones.spike_free import SpikeFree
from provenet.gauges.prox.mixed import LineNorm, Mixed, SignNorm
from provenet.gauges.prox.nuclear import NuclearNorm

__all__ = [
    "NOTHING",
    "Asked",
    "BoundKind",
    "Bounds",
    "ConeColumns",
    "ConeGauge",
    "ConeLines",
    "ConeNuclear",
    "Gauge",
    "LineNorm",
    "Mixed",
    "NuclearNorm",
    "ProxGauge",
    "RegionGauge",
    "SignNorm",
    "SpikeFree",
]
