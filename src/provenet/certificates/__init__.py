"""Proofs of optimality.  They know no solver."""

from provenet.certificates.certificate import (
    Certificate,
    Standing,
    certificate_from,
    certificate_of,
    certify,
    check_same_map,
    predict,
    relu_point,
)
from provenet.certificates.gap import Gap, duality_gap, gap_at

__all__ = [
    "Certificate",
    "Gap",
    "Standing",
    "certificate_from",
    "certificate_of",
    "certify",
    "check_same_map",
    "duality_gap",
    "gap_at",
    "predict",
    "relu_point",
]
