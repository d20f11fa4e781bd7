"""Proofs of optimality.  They know no solver."""

from provenet.certificates.certificate import Certificate, certificate_of, certify, check_same_map
from provenet.certificates.gap import Gap, duality_gap

__all__ = ["Certificate", "Gap", "certificate_of", "certify", "check_same_map", "duality_gap"]
