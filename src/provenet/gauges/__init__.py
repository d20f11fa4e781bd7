"""Gauges γ on each block Z_k: value, prox, polar as two-sided bounds, atom."""

from provenet.gauges.base import Bounds, Gauge
from provenet.gauges.cone import ConeNuclear
from provenet.gauges.cone_columns import ConeColumns
from provenet.gauges.group import GroupNorm
from provenet.gauges.mixed import LineNorm, Mixed, SignNorm
from provenet.gauges.nuclear import NuclearNorm
from provenet.gauges.spike_free import SpikeFree

__all__ = [
    "Bounds",
    "ConeColumns",
    "ConeNuclear",
    "Gauge",
    "GroupNorm",
    "LineNorm",
    "Mixed",
    "NuclearNorm",
    "SignNorm",
    "SpikeFree",
]
