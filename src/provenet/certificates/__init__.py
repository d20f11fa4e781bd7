"""Proofs of optimality.  They know no solver."""

from provenet.certificates.certificate import Certificate, certify
from provenet.certificates.gap import Gap, duality_gap

__all__ = ["Certificate", "Gap", "certify", "duality_gap"]
