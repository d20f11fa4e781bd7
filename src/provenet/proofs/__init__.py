"""Proofs about networks that others trained: any module, foreign ones, streams of data; and better networks."""

from provenet.proofs.certify import certify

__all__ = ["certify"]
