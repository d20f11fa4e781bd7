"""Proofs of optimality.  They know no solver."""

from provenet.certificates.certificate import Certificate, Standing, certificate_from, certificate_of
from provenet.certificates.conditions import WidthCondition, width_condition
from provenet.certificates.ellipsoids import better_dual
from provenet.certificates.everyone import Everyone
from provenet.certificates.gap import (
    DualPoint,
    Gap,
    dual_point,
    duality_gap,
    gap_at,
    judged,
    known_at_zero,
    with_intercept,
)
from provenet.certificates.mixture import Mixture
from provenet.certificates.network import check_same_data, network_certificate
from provenet.certificates.points import AnotherMap, check_same_map, relu_point, without_bias
from provenet.certificates.screen import Screen

__all__ = [
    "AnotherMap",
    "Certificate",
    "DualPoint",
    "Everyone",
    "Gap",
    "Mixture",
    "Screen",
    "Standing",
    "WidthCondition",
    "better_dual",
    "certificate_from",
    "certificate_of",
    "check_same_data",
    "check_same_map",
    "dual_point",
    "duality_gap",
    "gap_at",
    "judged",
    "known_at_zero",
    "network_certificate",
    "relu_point",
    "width_condition",
    "with_intercept",
    "without_bias",
]
