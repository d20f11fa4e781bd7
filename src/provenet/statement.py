"""What is minimised, data aside: said once, and the same to a problem, a saved model, an estimator and a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from provenet.beta import check_beta
from provenet.blocks import CNN, MLP, Block, with_intercept
from provenet.gauges.prox.mixed import WEIGHT_DECAY, Penalty, as_penalty, written
from provenet.losses import LOSSES, Free, Loss, Paid, Shiftable
from provenet.losses.ranked import RankedLoss
from provenet.nn.base import check_activation, check_readout
from provenet.ranks import Spread, Whole
from provenet.word import Word

ONE_OUTPUT_EACH: Penalty = (2.0, 1.0)


class Scope(Word):
    """Among which networks a certificate compares."""

    LINEAR = "linear"
    FIXED_GATES = "fixed_gates"
    ALL_ARRANGEMENTS = "all_arrangements"


@dataclass(frozen=True)
class Statement:
    """The objective Σ_i L(f(X_i), Y_i) + β/2 Σ_j (‖u_j‖_C² + ‖v_j‖_R²), and which networks f may be.

    ``loss`` is a class, to be given targets; ``penalty`` the norms (C, R); ``complete``: the gates are all arrangements
    the data have; ``beyond_gates``: they need not be, and yet networks of any arrangement are compared with, by the
    bound over all u (ReLU and weight decay); ``free_intercept``: f is a network plus a constant b (c,), the same for
    all samples and tokens, that costs nothing; ``paid_intercept``: likewise, and it costs β/2 ‖b‖².  Which gates these
    are is data: see `Problem.gates`; ``sampler`` records how they were found.  Every statement is one that can be
    posed: a wrong one raises ValueError, naming the setting.
    """

    block: Block
    loss: type[Loss]
    beta: float
    activation: str = "gated_relu"
    readout: str = "mean"
    loss_settings: Mapping[str, Any] = field(default_factory=dict)
    penalty: Penalty = WEIGHT_DECAY
    complete: bool = False
    sampler: str = field(default="given", compare=False)
    free_intercept: bool = False
    beyond_gates: bool = False
    paid_intercept: bool = False

    @classmethod
    def of(
        cls,
        block: str | Block,
        loss: str | type[Loss],
        beta: float,
        *,
        loss_settings: Mapping[str, Any] | None = None,
        penalty: Any = WEIGHT_DECAY,
        fit_intercept: Any = None,
        **rest: Any,
    ) -> Statement:
        """As a user says it: blocks and losses by name, norms as any pair.

        fit_intercept: None, the block's own setting; "free": an intercept without penalty; or True or False, for blocks
        named by a string."""
        check_beta(beta)
        settings, norms = dict(loss_settings or {}), as_penalty(penalty)
        kind = loss_kind(loss)
        rest = {"free_intercept": is_free(fit_intercept)} | rest
        made = with_intercept(block, fit_intercept)
        return cls(made, kind, float(beta), loss_settings=settings, penalty=norms, **rest)

    def __post_init__(self) -> None:
        check_activation(self.activation)
        if self.complete and self.activation != "relu":
            raise ValueError(f"gates: 'all' enumerates the arrangements of ReLU, not those of {self.activation!r}.")
        check_readout(self.readout)
        if self.beyond_gates and (self.complete or self.activation != "relu" or self.penalty != WEIGHT_DECAY):
            raise ValueError("beyond_gates: it is for ReLU with weight decay, where gates are not all arrangements.")
        if self.readout == "tokens" and not self.block.tokens:
            raise ValueError(f"readout: block {self.block.name!r} has one output a sample, no tokens; choose 'mean'.")
        check_penalty(self.penalty, self.block)
        check_beta(self.beta)
        if self.has_intercept and not issubclass(self.loss, Shiftable):
            raise ValueError(
                "fit_intercept: an intercept of the outputs needs a loss that says how to balance a dual point and "
                f"which constant is best (`provenet.losses.Shiftable`), which {self.loss.name!r} does not."
            )

    @property
    def has_intercept(self) -> bool:
        """Whether outputs have a constant of their own, free or paid."""
        return self.free_intercept or self.paid_intercept

    @property
    def biases(self) -> str:
        """What the penalty on biases is, in words."""
        hidden = "penalised, as weights are" if getattr(self.block, "fit_intercept", False) else "none"
        paid = "penalised, as weights are" if self.paid_intercept else "none"
        return f"hidden units: {hidden}; outputs: {'free: any, without penalty' if self.free_intercept else paid}"

    @property
    def scope(self) -> Scope:
        """What a certificate speaks of."""
        if self.activation == "linear":
            return Scope.LINEAR
        return Scope.ALL_ARRANGEMENTS if self.complete or self.beyond_gates else Scope.FIXED_GATES

    def with_beta(self, beta: float) -> Statement:
        check_beta(beta)
        return replace(self, beta=float(beta))

    def summed(self, mean: bool, n: int) -> Statement:
        """With β of a sum over n samples, where it was that of their ``mean``: β_mean = β/n."""
        return self.with_beta(self.beta * n) if mean else self

    def make_loss(
        self, target: Tensor, weight: Tensor | None, mask: Tensor | None = None, shards: Whole | None = None
    ) -> Loss:
        """The loss on targets (n, …, c), the samples with weights (n,), the tokens there that ``mask`` (n, s) says.

        shards: how the samples of all processes are cut, where they are spread over several."""
        try:
            loss = self.loss(target, weight, **self.loss_settings)
            if isinstance(shards, Spread):
                loss = RankedLoss.of(loss, shards)
            if self.has_intercept and isinstance(loss, Shiftable):
                there = mask if self.readout == "tokens" else None
                return Paid(loss, there, self.beta) if self.paid_intercept else Free(loss, there)
            return loss
        except TypeError as error:
            found = dict(self.loss_settings)
            raise ValueError(f"loss_settings: {found!r} do not fit loss {self.loss.name!r} ({error}).") from None

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        if self.paid_intercept:  # files have no word for it
            raise ValueError("bias: a problem whose last bias is penalised is only certified, not saved.")
        return {
            "block": self.block.name,
            "block_settings": dict(self.block.settings()),
            "activation": self.activation,
            "complete": self.complete,
            "beyond_gates": self.beyond_gates,
            "sampler": self.sampler,
            "readout": self.readout,
            "loss": self.loss.name,
            "loss_settings": dict(self.loss_settings),
            "beta": self.beta,
            "penalty": written(self.penalty),
            "free_intercept": self.free_intercept,
        }


def is_free(fit_intercept: Any) -> bool:
    """Whether an intercept without penalty is asked for; ValueError for words that mean nothing."""
    if isinstance(fit_intercept, str) and fit_intercept != "free":
        raise ValueError(f"fit_intercept: {fit_intercept!r} is unknown; choose True, False or 'free'.")
    return isinstance(fit_intercept, str)


def loss_kind(loss: str | type[Loss]) -> type[Loss]:
    """A loss by name, or the class itself."""
    if isinstance(loss, type) and issubclass(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ValueError(f"loss: {loss!r} is unknown; choose one of {', '.join(map(repr, LOSSES))} or a Loss class.")
    return LOSSES[loss]


def check_penalty(norms: Penalty, block: Block) -> None:
    """Whether networks of this block can be judged by the norms (C, R)."""
    if norms != WEIGHT_DECAY and not isinstance(block, (MLP, CNN)):
        raise ValueError(
            f"penalty: ({norms[0]:g}, {norms[1]:g}) goes with blocks 'mlp' and 'cnn', not with {block.name!r}; choose "
            "(2, 2), weight decay."
        )
