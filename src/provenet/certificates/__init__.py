"""Proofs of optimality.  They know no solver."""

from provenet.certificates.certificate import (
    Certificate,
    Standing,
    certificate_from,
    certificate_of,
    check_same_map,
    network_certificate,
    relu_point,
)
from provenet.certificates.gap import Gap, duality_gap, gap_at

__all__ = [
    "Certificate",
    "Gap",
    "Standing",
    "certificate_from",
    "certificate_of",
    "check_same_map",
    "duality_gap",
    "gap_at",
    "network_certificate",
    "relu_point",
]
