"""The papers' experiments, each a file: run, compared with what was reported, drawn, written into a folder."""

from provenet.reproduce.copositive_spiral import COPOSITIVE_SPIRAL
from provenet.reproduce.experiment import Experiment, Findings, OutOfTime, Run
from provenet.reproduce.heads_cifar100 import HEADS_CIFAR100
from provenet.reproduce.norm_ball import NORM_BALL
from provenet.reproduce.sgd_global import SGD_GLOBAL
from provenet.reproduce.spiral_gap import SPIRAL_GAP

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (SPIRAL_GAP, SGD_GLOBAL, COPOSITIVE_SPIRAL, NORM_BALL, HEADS_CIFAR100)
}

__all__ = ["EXPERIMENTS", "Experiment", "Findings", "OutOfTime", "Run"]
