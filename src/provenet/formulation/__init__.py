"""From a block and data to a problem."""

from provenet.formulation.formulate import formulate, pose

__all__ = ["formulate", "pose"]
