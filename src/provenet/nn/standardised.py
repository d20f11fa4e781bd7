"""A network of standardised samples that takes raw ones."""

from __future__ import annotations

from torch import Tensor, nn

from provenet.nn.base import TwoLayer, along, in_precision_of


class Standardised(nn.Module):
    """x ↦ network((x − mean)·scale)·target_spread + target_mean.

    The numbers are buffers before and after the network, not folded into its weights: the weights, and ``penalty()``,
    stay those that a certificate speaks of, and zero padding and blocks without a bias have no weight for a mean to go
    into. With a ``mask``, tokens that are not there stay zero on both sides.

    Parameters
    ----------
    network : TwoLayer
        Of standardised samples and targets.
    mean, scale : Tensors (d,)
        Of every feature.
    axis : int
        Of the features: 1 for channels, or the last axis.
    target_mean, target_spread : Tensors (c,), optional
        Of every output; None: outputs as they are.
    """

    mean: Tensor
    scale: Tensor
    target_mean: Tensor | None
    target_spread: Tensor | None

    def __init__(
        self,
        network: TwoLayer,
        mean: Tensor,
        scale: Tensor,
        axis: int,
        target_mean: Tensor | None = None,
        target_spread: Tensor | None = None,
    ):
        super().__init__()
        if mean.ndim != 1 or mean.shape != scale.shape:
            raise ValueError(f"mean, scale: (d,) each, got {tuple(mean.shape)}, {tuple(scale.shape)}.")
        if (target_mean is None) != (target_spread is None):
            raise ValueError("target_mean, target_spread: give both, or neither.")
        self.network, self.axis = network, axis
        parts = {"mean": mean, "scale": scale, "target_mean": target_mean, "target_spread": target_spread}
        for name, value in parts.items():
            self.register_buffer(name, None if value is None else value.clone())

    def standardised(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """What the network inside gets."""
        x = in_precision_of(self.network.first, x)
        if x.ndim < 2 or x.shape[self.axis] != len(self.mean):
            raise ValueError(f"x: {len(self.mean)} features are needed on axis {self.axis}, got {tuple(x.shape)}.")
        x = (x - along(self.mean, x, self.axis)) * along(self.scale, x, self.axis)
        return x if mask is None else x.masked_fill(~mask.bool().unsqueeze(-1), 0)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.standardised(x, mask)
        outputs: Tensor = self.network(x) if mask is None else self.network(x, mask)
        if self.target_spread is None or self.target_mean is None:
            return outputs
        outputs = outputs * self.target_spread + self.target_mean
        if mask is None or outputs.ndim == 2:
            return outputs
        return outputs.masked_fill(~mask.bool().unsqueeze(-1), 0)

    def features(self, x: Tensor) -> Tensor:
        """The activated hidden values, as those of the network inside."""
        return self.network.features(self.standardised(x))

    @property
    def first(self) -> nn.Parameter:
        """(N, p), of standardised samples."""
        return self.network.first

    @property
    def second(self) -> nn.Parameter:
        """(N, q)."""
        return self.network.second

    @property
    def gates(self) -> Tensor | None:
        """(N, p), of standardised samples."""
        return self.network.gates

    @property
    def bias(self) -> nn.Parameter | None:
        """(c,), of the network inside."""
        return self.network.bias

    @property
    def relu(self) -> bool:
        return self.network.relu

    @property
    def activation(self) -> str:
        return self.network.activation

    def penalty(self) -> Tensor:
        """½(‖first‖² + ‖second‖²): of the weights on standardised samples."""
        return self.network.penalty()

    def extra_repr(self) -> str:
        return f"{len(self.mean)} features{'' if self.target_mean is None else ' and targets'} standardised"


def core(network: nn.Module) -> nn.Module:
    """The network inside, of one that standardises; any other is its own."""
    return network.network if isinstance(network, Standardised) else network
