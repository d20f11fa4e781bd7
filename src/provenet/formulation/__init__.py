"""From a block and data to a problem."""

from provenet.formulation.formulate import formulate, pose
from provenet.formulation.wanted import Wanted

__all__ = ["Wanted", "formulate", "pose"]
