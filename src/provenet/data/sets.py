"""Where well-known sets of images are to be had."""

from __future__ import annotations

WHERE = (
    "Fashion-MNIST, four idx files: github.com/zalandoresearch/fashion-mnist; MNIST: "
    "ossci-datasets.s3.amazonaws.com/mnist; "
    "CIFAR-10 and CIFAR-100: www.cs.toronto.edu/~kriz/cifar.html, the binary version"
)
