"""What every block's module is: two layers of neurons, and what lies between."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from provenet.nn.settings import NoSettings

ACTIVATIONS = ("linear", "gated_relu", "relu")
READOUTS = ("mean", "tokens")


def check_activation(activation: str) -> None:
    if activation not in ACTIVATIONS:
        known = ", ".join(map(repr, ACTIVATIONS))
        raise ValueError(f"activation: {activation!r} is unknown; choose one of {known}.")


def check_readout(readout: str) -> None:
    if readout not in READOUTS:
        raise ValueError(f"readout: {readout!r} is unknown; choose 'mean' or 'tokens'.")


class Neurons(TypedDict, total=False):
    """What every fresh module can be asked for, by keyword; `TwoLayer` has the defaults."""

    rank: int
    n_gates: int
    activation: str
    seed: int


class TwoLayer(nn.Module):
    """Σ_j B(D_j Φ(x) u_j, v_j): with gates D_j = 1{Φ(x) g_j ≥ 0}, with ``relu`` D_j = 1{Φ(x) u_j ≥ 0}, else D_j = 1.

    first: (N, p), second: (N, q), gates: (N, p) or None; bias: (c,) or None, added to every output and no part of the
    penalty.  A block says what Φ is (`hidden`) and what is made of the hidden values (`output`).  Inputs are cast to
    the weights' precision.

    A fresh module is at a scale that makes outputs of order one of inputs of order one.  Any loop can train it, with
    ``penalty()`` times β added to the sum of the losses.  Leave an optimizer's own ``weight_decay`` at zero: AdamW's is
    decoupled from the loss, another problem with another solution, and no certificate is of it.

    Parameters
    ----------
    p, q : int
        How long a neuron's two layers are.
    fan : int, default 1
        How many terms of a neuron's hidden values, each of order one, add up to an output.
    groups : int, default 1
        How many times there are all these neurons, each with gates of its own.
    rank : int, default 1
        Neurons behind each gate; in all, if linear.
    n_gates : int, default 32
        Random gates; if ReLU, where a neuron is its own gate, there are as many neurons as if gated.
    activation : str, default "gated_relu"
        Or "relu", or "linear".
    seed : int, default 0
        Of gates and weights.
    """

    first: nn.Parameter
    second: nn.Parameter
    gates: Tensor | None
    bias: nn.Parameter | None

    def __init__(
        self,
        p: int,
        q: int,
        fan: int = 1,
        groups: int = 1,
        *,
        rank: int = 1,
        n_gates: int = 32,
        activation: str = "gated_relu",
        seed: int = 0,
    ):
        super().__init__()
        check_activation(activation)
        sizes = (("rank", rank), ("n_gates", n_gates), ("first layer", p), ("second layer", q))
        for name, value in sizes:
            if value < 1:
                raise ValueError(f"{name}: at least one is needed, got {value}.")
        generator = torch.Generator().manual_seed(seed)
        gated = activation == "gated_relu"
        N = groups * rank * (1 if activation == "linear" else n_gates)
        first = torch.randn(N, p, generator=generator) / p**0.5
        second = torch.randn(N, q, generator=generator) / (N * fan) ** 0.5
        gates = torch.randn(groups * n_gates, p, generator=generator).repeat_interleave(rank, 0) if gated else None
        self._set(first, second, gates, activation == "relu")

    def _set(self, first: Tensor, second: Tensor, gates: Tensor | None, relu: bool, bias: Tensor | None = None) -> None:
        self.relu = relu
        self.first = nn.Parameter(first.clone())
        self.second = nn.Parameter(second.clone())
        self.register_buffer("gates", None if gates is None else gates.clone())
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias.clone()))

    @classmethod
    def from_weights(
        cls,
        first: Tensor,
        second: Tensor,
        gates: Tensor | None = None,
        relu: bool = False,
        bias: Tensor | None = None,
        **settings: Any,
    ) -> Any:
        """A module with these weights (N, p), (N, q), gates (N, p) and bias (c,), and the block's settings."""
        if relu and gates is not None:
            raise ValueError("relu, gates: a ReLU neuron is its own gate; give one of the two.")
        module = cls.__new__(cls)
        nn.Module.__init__(module)
        module._set(first, second, gates, relu, bias)
        module._configure(**settings)
        return module

    _configure: Callable[..., None] = lambda self: None  # keeps the block's settings, where it has any

    @property
    def settings(self) -> dict[str, Any]:
        """The block's settings, as `from_weights` takes them."""
        return {}

    @abstractmethod
    def hidden(self, x: Tensor, weights: Tensor) -> Tensor:
        """Φ(x) w for every row w of ``weights`` (N, p), in a shape of the block's own."""

    @abstractmethod
    def output(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Σ_j B(h_j, v_j) of the hidden values."""

    def predicted(self, x: Tensor, hidden: Tensor) -> Tensor:
        """What the network says, but for its bias, for activated hidden values: `output`, read out."""
        return self.output(x, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = self.lift(in_precision_of(self.first, x))
        return self.biased(self.output(x, self.activated(x, self.hidden(x, self.first))))

    def biased(self, output: Tensor) -> Tensor:
        """Outputs (…, c) with the bias."""
        return output if self.bias is None else output + self.bias

    def features(self, x: Tensor) -> Tensor:
        """The activated hidden values, as a next block takes them: (b, N) of samples in a table; (b, N, …) of images
        and sequences, neurons as channels; (b, s, N) of tokens, neurons last, or (b, s, N·r) where a neuron has r
        values a token, one neuron after the other."""
        x = self.lift(in_precision_of(self.first, x))
        return self.laid_out(self.activated(x, self.hidden(x, self.first)))

    neuron_axis: int = -1  # of `features`

    def laid_out(self, hidden: Tensor) -> Tensor:
        """Hidden values in the order of `features`."""
        return hidden

    def activated(self, x: Tensor, hidden: Tensor) -> Tensor:
        """The hidden values where a neuron is open, zero elsewhere."""
        if self.relu:
            return hidden.relu()
        return hidden if self.gates is None else hidden * (self.hidden(x, self.gates) >= 0)

    @property
    def activation(self) -> str:
        return "relu" if self.relu else "linear" if self.gates is None else "gated_relu"

    def lift(self, x: Tensor) -> Tensor:
        """What the block makes of its input before any weight."""
        return x

    def penalty(self) -> Tensor:
        """½(‖first‖² + ‖second‖²)."""
        return 0.5 * (self.first.square().sum() + self.second.square().sum())

    def extra_repr(self) -> str:
        n, p = self.first.shape
        rest = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        bias = "" if self.bias is None else ", bias"
        return f"{p} → {n} neurons → {self.second.shape[1]}{bias}, {self.activation}{rest}"


class OnTokens(TwoLayer):
    """A module of tokens (b, s, d), whose outputs are read out: ``mean`` over tokens, or all ``tokens``.

    ``chosen``: the other settings, of the kind that the block has, too.
    """

    kind: type[Any] = NoSettings
    readout: str

    def _configure(self, readout: str = "mean", **settings: Any) -> None:
        check_readout(readout)
        self.readout, self.chosen = readout, self.kind(**settings)

    @property
    def settings(self) -> dict[str, Any]:
        return {"readout": self.readout} | asdict(self.chosen)


def read_out(tokens: Tensor, readout: str) -> Tensor:
    """(b, s, c) → (b, c) for ``mean``, as it is for ``tokens``."""
    return tokens.mean(1) if readout == "mean" else tokens


def in_precision_of(weights: Tensor, x: Tensor) -> Tensor:
    """x as numbers of the weights' kind; a warning where that rounds them."""
    if x.dtype == torch.float64 and weights.dtype != torch.float64:
        kind = str(weights.dtype).removeprefix("torch.")
        warnings.warn(
            f"x: its float64 numbers are rounded to {kind}, the precision of the module; use module.double(), or "
            f"x.to({weights.dtype}).",
            stacklevel=6,
        )
    return x.to(weights.dtype)


def transformable(x: Tensor) -> Tensor:
    """x in a precision that has Fourier transforms: half precision becomes single."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def along(values: Tensor, x: Tensor, axis: int) -> Tensor:
    """(d,) in a shape that multiplies x along the axis."""
    shape = [1] * x.ndim
    shape[axis] = -1
    return values.view(shape)
