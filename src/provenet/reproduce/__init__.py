"""The papers' experiments, each a file: run, compared with what was reported, drawn, written into a folder."""

from provenet.reproduce.copositive_images import COPOSITIVE_IMAGES
from provenet.reproduce.copositive_spiral import COPOSITIVE_SPIRAL
from provenet.reproduce.experiment import Experiment, Findings, OutOfTime, Run
from provenet.reproduce.heads_cifar100 import HEADS_CIFAR100
from provenet.reproduce.layerwise_cifar10 import LAYERWISE_CIFAR10
from provenet.reproduce.layerwise_cost import LAYERWISE_COST
from provenet.reproduce.layerwise_curve import LAYERWISE_CURVE
from provenet.reproduce.layerwise_fashion_mnist import LAYERWISE_FASHION_MNIST
from provenet.reproduce.norm_ball import NORM_BALL
from provenet.reproduce.relu_vs_linear import RELU_VS_LINEAR
from provenet.reproduce.sgd_global import SGD_GLOBAL
from provenet.reproduce.spiral_gap import SPIRAL_GAP
from provenet.reproduce.whitened_svd import WHITENED_SVD

_ALL = (
    SPIRAL_GAP,
    SGD_GLOBAL,
    WHITENED_SVD,
    COPOSITIVE_SPIRAL,
    COPOSITIVE_IMAGES,
    RELU_VS_LINEAR,
    NORM_BALL,
    HEADS_CIFAR100,
    LAYERWISE_FASHION_MNIST,
    LAYERWISE_CIFAR10,
    LAYERWISE_COST,
    LAYERWISE_CURVE,
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}

__all__ = ["EXPERIMENTS", "Experiment", "Findings", "OutOfTime", "Run"]
