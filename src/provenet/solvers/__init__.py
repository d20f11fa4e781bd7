"""Solvers: one loop, several methods."""

from provenet.solvers.cones.decomposition import to_relu
from provenet.solvers.loop import Limits, Method, Point, Record
from provenet.solvers.snapshot import snapshots
from provenet.solvers.solution import Solution
from provenet.solvers.solve import METHODS, solve
from provenet.solvers.status import Status

__all__ = ["METHODS", "Limits", "Method", "Point", "Record", "Solution", "Status", "snapshots", "solve", "to_relu"]
