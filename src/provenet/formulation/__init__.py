"""From a block and data to a problem."""

from provenet.formulation.formulate import are_all, formulate, pose

__all__ = ["are_all", "formulate", "pose"]
