"""Comparisons that a user can repeat: `provenet bench`."""

from provenet.bench.accuracy import Setup, run
from provenet.bench.records import Record, Records
from provenet.bench.tables import Table, bundled, suite

__all__ = ["Record", "Records", "Setup", "Table", "bundled", "run", "suite"]
