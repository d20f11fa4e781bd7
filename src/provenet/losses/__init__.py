"""Losses: sums over samples, convex and smooth in the prediction."""

from collections.abc import Mapping

from provenet import names
from provenet.losses.base import Loss, Shiftable
from provenet.losses.conjugate import Conjugate
from provenet.losses.free import Free
from provenet.losses.huber import Huber
from provenet.losses.logistic import Logistic
from provenet.losses.paid import Paid
from provenet.losses.softmax import Softmax
from provenet.losses.squared import Squared

LOSSES: Mapping[str, type[Loss]] = names.LOSSES

__all__ = ["LOSSES", "Conjugate", "Free", "Huber", "Logistic", "Loss", "Paid", "Shiftable", "Softmax", "Squared"]
