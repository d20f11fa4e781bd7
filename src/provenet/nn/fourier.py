"""Fourier neural operators, FNO and B-FNO, linear, gated ReLU or ReLU (AT eq. 22, 23, 27, 28)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot
from typing_extensions import Unpack

from provenet.nn.base import Neurons, OnTokens, TwoLayer, read_out, transformable
from provenet.nn.settings import Grid, InGroups, OnGrid


class FNO(OnTokens):
    """X (s, d) ↦ Σ_j (D_j h_j) v_jᵀ with h_j[t] = Σ_τf X[(t+τ) mod s, f] u_j[τ, f], then the readout.

    Rows of ``first`` and ``gates`` are (s, d), row-major.  Computed by FFT: ĥ = Σ_f X̂[:, f] conj(û[:, f]).

    Parameters
    ----------
    s : int
        Tokens of a sample.
    d : int
        Features of a token.
    c : int
        Outputs.
    readout : str, default "mean"
        The "mean" over tokens, or all "tokens".
    grid : (height, width), optional
        How tokens lie, row-major; the shift is cyclic in both directions.  None: a sequence.
    **neurons
        ``rank``, ``n_gates``, ``activation`` and ``seed`` of a fresh module, as in `TwoLayer`.
    """

    kind: type[OnGrid] = OnGrid

    def __init__(
        self,
        s: int,
        d: int,
        c: int,
        *,
        readout: str = "mean",
        grid: Grid | None = None,
        **neurons: Unpack[Neurons],
    ):
        super().__init__(s * d, c, **neurons)
        self._configure(readout, grid=grid)
        self.chosen.grid_of(s)

    def lift(self, x: Tensor) -> Tensor:
        """X̂, (b, frequencies, d)."""
        return spectrum(x, self.chosen.grid)

    def hidden(self, x: Tensor, weights: Tensor) -> Tensor:
        """(b, s, N)."""
        return correlate(x, weights, self.chosen.grid)

    def output(self, x: Tensor, hidden: Tensor) -> Tensor:
        return read_out(hidden, self.readout) @ self.second


class BFNO(FNO):
    """An FNO in ``groups``: features of group b, d/groups of them, into outputs of group b (AT eq. 28).

    ``group`` (N,): the group of each neuron.  Rows of ``first`` and ``gates`` are (s, d/groups), those of ``second``
    (c/groups,).  A fresh module has ``rank`` neurons behind each of ``n_gates`` gates in every group.

    Parameters
    ----------
    s, d, c, readout, grid, **neurons
        As in `FNO`.
    groups : int, default 1
        Into so many groups features and outputs are divided; it divides the number of both.
    """

    kind = InGroups
    group: Tensor

    def __init__(
        self,
        s: int,
        d: int,
        c: int,
        groups: int = 1,
        *,
        readout: str = "mean",
        grid: Grid | None = None,
        **neurons: Unpack[Neurons],
    ):
        chosen = InGroups(grid, groups)
        chosen.grid_of(s)
        chosen.check_groups(d, c)
        TwoLayer.__init__(self, s * d // groups, c // groups, groups=groups, **neurons)
        group = torch.arange(groups).repeat_interleave(len(self.first) // groups)
        self._configure(readout, group=group, **asdict(chosen))

    def _configure(self, readout: str = "mean", **settings: Any) -> None:
        group: Tensor | None = settings.pop("group", None)
        super()._configure(readout, **settings)
        groups = self.chosen.groups
        if group is None:
            if groups > 1:
                raise ValueError(f"group: with {groups} groups each neuron's is needed, shape ({len(self.first)},).")
            group = torch.zeros(len(self.first), dtype=torch.long)
        self.register_buffer("group", group.clone())

    def hidden(self, x: Tensor, weights: Tensor) -> Tensor:
        width = x.shape[2] // self.chosen.groups
        if torch.compiler.is_compiling() or self.group.is_meta:  # no shapes that hang on which neurons are whose
            return super().hidden(x, self._placed(weights.view(len(weights), weights.shape[1] // width, width)))
        order = torch.argsort(self.group, stable=True)
        sizes = torch.bincount(self.group, minlength=self.chosen.groups).tolist()
        each = zip(x.split(width, 2), weights[order].split(sizes), strict=True)
        return torch.cat([super(BFNO, self).hidden(part, own) for part, own in each], 2)[..., torch.argsort(order)]

    def output(self, x: Tensor, hidden: Tensor) -> Tensor:
        return read_out(hidden, self.readout) @ self._placed(self.second)

    def _placed(self, weights: Tensor) -> Tensor:
        """(N, …, width) with zeros for the other groups, (N, …·groups·width)."""
        own = one_hot(self.group, self.chosen.groups).to(weights.dtype)
        shape = (len(own), *([1] * (weights.ndim - 2)), self.chosen.groups, 1)
        return (weights.unsqueeze(-2) * own.view(shape)).flatten(1)


def spectrum(x: Tensor, grid: Grid | None) -> Tensor:
    """The Fourier transform over tokens, real input so half of it, (b, s, d) → (b, frequencies, d)."""
    sizes = grid or (1, x.shape[1])
    return torch.fft.rfft2(transformable(x).unflatten(1, sizes), dim=(1, 2)).flatten(1, 2)


def correlate(x: Tensor, weights: Tensor, grid: Grid | None) -> Tensor:
    """h[t] = Σ_τf X[t+τ, f] u[τ, f] for every u (s, d) in weights (m, s·d), X by its spectrum (b, w, d): (b, s, m)."""
    s = weights.shape[1] // x.shape[2]
    if len(weights) == 0:  # no FFT of nothing
        return weights.new_zeros(len(x), s, 0)
    height, width = grid or (1, s)
    conjugate = spectrum(weights.view(-1, s, x.shape[2]), grid).conj()  # (m, w, d)
    product = torch.matmul(x.transpose(0, 1), conjugate.permute(1, 2, 0))  # (w, b, m)
    by_row = product.permute(1, 2, 0).unflatten(2, (height, width // 2 + 1))
    return torch.fft.irfft2(by_row, s=(height, width)).flatten(2).transpose(1, 2).to(weights.dtype)
