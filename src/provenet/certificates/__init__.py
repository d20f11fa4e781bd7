"""Proofs of optimality.  They know no solver."""

from provenet.certificates.certificate import (
    Certificate,
    certificate_from,
    certificate_of,
    certify,
    check_same_map,
    predict,
    relu_point,
)
from provenet.certificates.gap import DualPoint, Gap, dual_point, duality_gap, gap_at, judged

__all__ = [
    "Certificate",
    "DualPoint",
    "Gap",
    "certificate_from",
    "certificate_of",
    "certify",
    "check_same_map",
    "dual_point",
    "duality_gap",
    "gap_at",
    "judged",
    "predict",
    "relu_point",
]
