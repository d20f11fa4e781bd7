"""What a user says of one stage."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from provenet.beta import Beta, parse_beta
from provenet.blocks import Block, make_block
from provenet.nn.base import check_activation, check_readout
from provenet.nn.layers import PASSES
from provenet.nn.normalise import KINDS

GATES = ("gaussian", "trained")
ENGINES = ("auto", "solve", "minibatch")
UNITS = ("mean", "max")  # of β, besides the sum's


@dataclass(frozen=True)
class Layer:
    """A stage of a deep network: a block, trained by itself on what the stages below pass on.  What is None is the
    preset's.

    Parameters
    ----------
    block : str or Block
        A name or a block with its settings, "cnn" by default.
    activation : str
        "gated_relu", "relu" or "linear".
    gates : str, optional
        "gaussian", or "trained": the stage begins as a ReLU network, whose first layer then becomes its gates.
    n_gates : int, optional
        How many gates.
    rank : int, optional
        How many neurons behind each gate are passed on at most (m).
    beta : float or str, optional
        Weight decay of the sum over samples; "5e-4mean" that of the mean; "0.01max" a share of the β from which on the
        stage is zero.
    readout : str
        "mean" over tokens, or one output a token ("tokens").
    passes : str
        What the next stage reads: "features", "outputs", or "residual" (inputs + outputs).
    downsample : int
        Space to depth before the block, so many neighbours a dimension.
    normalise : str, optional
        "standard" or "whiten", of the block's inputs, as part of the model.
    epochs : int, optional
        Passes over the samples, where it is trained in batches.
    rate : float, optional
        The highest learning rate, where it is trained in batches.
    engine : str, optional
        "solve" by `provenet.solve`, "minibatch", or "auto": the first where the stage is small.
    """

    block: str | Block = "cnn"
    activation: str = "gated_relu"
    gates: str | None = None
    n_gates: int | None = None
    rank: int | None = None
    beta: float | str | None = None
    readout: str = "mean"
    passes: str = "features"
    downsample: int = 1
    normalise: str | None = None
    epochs: int | None = None
    rate: float | None = None
    engine: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", make_block(self.block))
        check_activation(self.activation)
        check_readout(self.readout)
        for name, words in (("gates", GATES), ("passes", PASSES), ("normalise", KINDS), ("engine", ENGINES)):
            value = getattr(self, name)
            if value is not None and value not in words:
                raise ValueError(f"{name}: {value!r} is unknown; choose one of {', '.join(map(repr, words))}.")
        for name in ("n_gates", "rank", "downsample", "epochs"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 1):
                raise ValueError(f"{name}: a whole number from one on is needed, got {value!r}.")
        if self.rate is not None and not (isinstance(self.rate, Real) and 0 < self.rate < float("inf")):
            raise ValueError(f"rate: a positive, finite number is needed, got {self.rate!r}.")
        if self.readout == "tokens" and not self.made_block.tokens:
            raise ValueError(f"readout: block {self.made_block.name!r} has no tokens; choose 'mean'.")
        if self.beta is not None:
            parse_beta(self.beta, UNITS)

    @property
    def made_block(self) -> Block:
        assert isinstance(self.block, Block)
        return self.block

    @property
    def decay(self) -> Beta:
        """Its β, with all that was left open filled in."""
        assert self.beta is not None
        return parse_beta(self.beta, UNITS)

    @property
    def neuron_axis(self) -> int:
        """The axis of features, of the block's inputs and of what it passes on."""
        return self.made_block.module.neuron_axis

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        block = {"name": self.made_block.name, "settings": dict(self.made_block.settings())}
        return {name: value for name, value in vars(self).items() if name != "block"} | {"block": block}
