"""Fourier operators with a mean readout, gated: features F_k made in the cache, or hidden values wave by wave."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.operators.bases.base import Backward, Operator
from provenet.operators.bases.features import FeatureOperator
from provenet.operators.bases.pooled import PooledOperator
from provenet.operators.blocks.fourier import SHORT, FourierOperator
from provenet.operators.blocks.waves import Grid, Waves
from provenet.space import Space
from provenet.variable import ByGate, Factors, Stack

_FEW, _INPUTS = 4, 25  # neurons, or outputs, of a gate, and one more for so many inputs: so many pay for features
_ROWS = 128  # samples at a time, at least, where features of all frequencies together are too many


class FNOMeanOperator(FourierOperator, PooledOperator):
    """Readout ``mean``, gated: F_k[i, τ, :] = (1/s) Σ_t D_k[i, t] X_i[t+τ, :].

    Along waves of tokens, F̂_k = conj(D̂_k) X̂ entry by entry: so little work that features are made in the cache for
    every product, of one gate and some samples at a time; neurons, or outputs, of a gate meet them side by side.  Where
    there are too few of those, each goes its own way, frequency by frequency.
    """

    by_token = False
    patterns: Tensor

    def __init__(
        self,
        X: Tensor,
        patterns: Tensor,
        outputs: int,
        grid: Grid,
        scale: float = 1.0,
        share: int = 1,
    ):
        self.waves, self._share = Waves.of(grid, Space(X.device)), share
        super().__init__(X, patterns, outputs, grid, scale)

    def _gates(self, rows: slice) -> Tensor:
        """D/s, (b, P, s)."""
        return self.patterns[:, rows].transpose(0, 1).to(self.dtype).div_(self.s)

    def _gate_spectrum(self, rows: slice) -> Tensor:
        """(b, P, w)."""
        return torch.fft.rfft2(self._gates(rows).unflatten(2, self.grid)).flatten(2)

    def features(self, rows: slice) -> Tensor:
        if self.s <= SHORT:
            gates = self._gates(rows)[:, :, self._shifts().T]  # (b, P, τ, t): D[t − τ]
            shifted = torch.bmm(gates.flatten(1, 2), self._source[rows].to(self.dtype).div(self._scale))
        else:
            product = self._gate_spectrum(rows).conj().unsqueeze(3) * self.batch(rows).unsqueeze(1)  # (b, P, w, d)
            shifted = torch.fft.irfft2(product.unflatten(2, self.half), s=self.grid, dim=(2, 3))
        return shifted.reshape(-1, self.n_gates, 1, self.p)

    @property
    def _most_kept(self) -> int:
        """Features are gates times inputs, many times as large; ``share``: of so much, one part in so many."""
        return batches.KEPT // self._share

    def _tiles(self, rows: slice) -> list[slice]:
        """Of these samples, as many at a time as features of one gate go into the cache."""
        numbers = 4 * self.d * self._together
        return batches.slices(rows.stop, numbers, batches.CACHE, self.dtype.itemsize, rows.start)

    @property
    def _together(self) -> int:
        """Frequencies that are gone through at a time, of about as many parts of them all."""
        count = len(self.waves.frequency)
        return -(-count // -(-count // batches.count(4 * self.d * _ROWS, batches.CACHE, self.dtype.itemsize)))

    def _by_gate(self, rows: slice, names: Tensor) -> Iterator[tuple[int, slice, Tensor]]:
        """Along waves, gate by gate of these, from zero on: which of the p numbers, and features of these samples,
        (numbers, b), in memory that is used again."""
        x = torch.view_as_real(self.batch(rows).index_select(1, self.waves.frequency)).permute(3, 1, 2, 0).contiguous()
        made = x.new_empty(self._together, 2, self.d, x.shape[3])
        for k, gate in enumerate(self._opened(rows, names)):
            for start in range(0, x.shape[1], len(made)):
                at = slice(start, start + len(made))
                (real, imaginary), (own, other) = x[:, at], gate[:, at, None]
                some = made[: len(real)]
                torch.mul(real, own, out=some[:, 0]).addcmul_(imaginary, other)
                torch.mul(imaginary, own, out=some[:, 1]).addcmul_(real, other, value=-1)
                yield k, slice(2 * self.d * start, 2 * self.d * (start + len(real))), some.flatten(0, 2)

    def _opened(self, rows: slice, names: Tensor) -> Tensor:
        """D̂_k/s by frequency, scaled, real and imaginary parts apart, (K, 2, m, b)."""
        gates = self.patterns[:, rows].index_select(0, names).to(self.dtype)
        if self.s <= SHORT:
            return torch.matmul(self.waves.table.div(self.s), gates.mT).unflatten(1, (-1, 2)).transpose(1, 2)
        spectrum = torch.fft.rfft2(gates.unflatten(2, self.grid)).flatten(2).index_select(2, self.waves.frequency)
        return torch.view_as_real(spectrum.mul_(self.waves.scale / self.s)).permute(0, 3, 2, 1).contiguous()

    def _along(self, weights: Tensor) -> Tensor:
        """Weights (…, p) along waves."""
        return torch.matmul(self.waves.table, weights.unflatten(-1, (self.s, self.d))).flatten(-2)

    def _from_waves(self, weights: Tensor) -> Tensor:
        """The transpose of `_along`."""
        return torch.matmul(self.waves.table.T, weights.unflatten(-1, (-1, self.d))).flatten(-2)

    def _meet(self, count: float) -> bool:
        """Whether so many neurons, or outputs, of a gate pay for its features."""
        return count >= _FEW + self.d / _INPUTS

    @property
    def _everyone(self) -> tuple[slice, Tensor]:
        return slice(0, self.n), self.space.arange(self.n_gates)

    def forward(self, stack: Stack) -> Tensor:
        if self.kept is not None:
            return self.kept.forward(stack)
        if not self._meet(self.outputs):
            return FourierOperator.forward(self, stack)
        weights, out = self._along(stack.mT).mT.contiguous(), self.space.zeros(*self.output_shape)
        everyone, gates = self._everyone
        for rows in self._tiles(everyone):
            for k, numbers, features in self._by_gate(rows, gates):
                out[rows].addmm_(features.T, weights[k, numbers])
        return out

    def adjoint(self, residual: Tensor) -> Stack:
        if self.kept is not None:
            return self.kept.adjoint(residual)
        if not self._meet(self.outputs):
            return self._by_frequency(residual)
        total = self.space.zeros(self.n_gates, self.outputs, len(self.waves.table) * self.d)
        everyone, gates = self._everyone
        for rows in deadline.paced(self._tiles(everyone)):
            for k, numbers, features in self._by_gate(rows, gates):
                total[k, :, numbers].addmm_(residual[rows].T, features.T)
        return self._from_waves(total).mT.contiguous()

    def _by_frequency(self, residual: Tensor) -> Stack:
        """A*R by Ĝ_k[w] = Σ_i conj(D̂_k[i, w]) X̂_i[w] ⊗ R_i / s, gates times inputs entry by entry."""
        frequencies = self.half[0] * self.half[1]
        total = self.space.zeros(frequencies, self.outputs, 2 * self.n_gates * self.d)
        numbers = 2 * self.n_gates * self.d + 2 * frequencies * (self.n_gates + self.d)
        for rows in deadline.paced(batches.slices(self.n, numbers, batches.TILE, self.dtype.itemsize)):
            x, gates = self.batch(rows).unbind(1), self._gate_spectrum(rows).conj_physical_().unbind(2)
            turned = residual[rows].T
            for slope, own, opened in zip(total, x, gates, strict=True):
                product = torch.view_as_real(opened.unsqueeze(2) * own.unsqueeze(1))  # (b, P, d, 2)
                slope.addmm_(turned, product.flatten(1))
        spectrum = torch.view_as_complex(total.view(*self.half, self.outputs, self.n_gates, self.d, 2))
        columns = torch.fft.irfft2(spectrum, s=self.grid, dim=(0, 1)).flatten(0, 1)  # (s, c, P, d)
        return columns.permute(2, 0, 3, 1).reshape(self.stack_shape)

    def _hidden(self, left: Tensor, names: Tensor, some: slice) -> Tensor:
        """F_k u of first layers (K, w, p) behind these gates on some samples, (K, w, b)."""
        K, w, _ = left.shape
        if not self._meet(w):
            return self._hidden_alone(left.flatten(0, 1), names.repeat_interleave(w), some).T.unflatten(0, (K, w))
        first, hidden = self._along(left), self.space.zeros(K, w, some.stop - some.start)
        for rows in self._tiles(some):
            here = hidden[:, :, rows.start - some.start : rows.stop - some.start]
            for k, numbers, features in self._by_gate(rows, names):
                here[k].addmm_(first[k, :, numbers], features)
        return hidden

    def pooled(self, rows: slice, factors: Factors) -> Tensor:
        groups = ByGate.of(factors.gate)
        return groups.scatter(self._hidden(groups.gather(factors.left), groups.names, rows)).T.unsqueeze(2)

    def narrowed(self, gates: Tensor, basis: Tensor) -> Operator:
        if self.kept is not None:
            return self.kept.narrowed(gates, basis)
        hidden = self._hidden(basis, gates, slice(0, self.n))
        return FeatureOperator(hidden.permute(2, 0, 1).unsqueeze(2).contiguous(), self.outputs)

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        if self.kept is not None:
            return self.kept.both_ways(factors)
        if factors.n_neurons == 0:
            return self.space.zeros(*self.output_shape), lambda _: (torch.zeros_like(factors.left), factors.right)
        groups = ByGate.of(factors.gate)
        if not self._meet(factors.n_neurons / len(groups.names)):
            return self._each_alone(factors)
        second = groups.gather(factors.right)
        hidden = self._hidden(groups.gather(factors.left), groups.names, slice(0, self.n))

        def back(residual: Tensor) -> tuple[Tensor, Tensor]:
            left = self._first_layers(residual, second, groups.names)
            right = torch.mm(hidden.flatten(0, 1), residual).view(second.shape)
            return groups.scatter(left), groups.scatter(right)

        return torch.mm(hidden.flatten(0, 1).T, second.flatten(0, 1)), back

    def _first_layers(self, residual: Tensor, second: Tensor, names: Tensor) -> Tensor:
        """G v of second layers (K, w, c), (K, w, p)."""
        total = self.space.zeros(*second.shape[:2], len(self.waves.table) * self.d)
        for rows in self._tiles(slice(0, self.n)):
            slopes = torch.matmul(second, residual[rows].T)
            for k, numbers, features in self._by_gate(rows, names):
                total[k, :, numbers].addmm_(slopes[k], features.T)
        return self._from_waves(total)

    def _each_alone(self, factors: Factors) -> tuple[Tensor, Backward]:
        """`both_ways`, neuron by neuron."""
        hidden = self._hidden_alone(factors.left, factors.gate, slice(0, self.n))

        def back(residual: Tensor) -> tuple[Tensor, Tensor]:
            total = torch.zeros_like(self._by_neuron(factors.left))
            for rows in self.batches(self.numbers(factors)):
                signals = self._closing(rows, factors.gate).mul_(residual[rows] @ factors.right.T)
                total += torch.bmm(self.batch(rows).permute(1, 2, 0), signals)
            left = self._columns(total).permute(2, 0, 1).reshape(factors.left.shape)
            return left, hidden.T @ residual

        return hidden @ factors.right, back

    def _hidden_alone(self, left: Tensor, gate: Tensor, some: slice) -> Tensor:
        """Σ_t D[t] h[t] / s of neurons (N, p) on some samples, (b, N): by Parseval, h itself is not needed."""
        spectrum, hidden = self._by_neuron(left), self.space.empty(some.stop - some.start, len(gate))
        numbers = max(len(gate), 1) * self.neuron_numbers()
        for rows in batches.slices(some.stop, numbers, batches.BATCH, self.dtype.itemsize, some.start):
            product = torch.bmm(self.batch(rows).transpose(0, 1), spectrum)
            both = torch.view_as_real(product.mul_(self._closing(rows, gate))).select(3, 0)  # (w, b, N)
            there = hidden[rows.start - some.start : rows.stop - some.start]
            torch.div(torch.tensordot(self._mirrored, both, 1), self.s, out=there)
        return hidden

    def _closing(self, rows: slice, gate: Tensor) -> Tensor:
        """The conjugate spectrum of each neuron's gate, (w, b, N)."""
        return self._gate_spectrum(rows).permute(2, 0, 1).conj_physical().index_select(2, gate)

    def forward_factors(self, factors: Factors) -> Tensor:
        return self.both_ways(factors)[0]

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        return self.both_ways(factors)[1](residual)

    def sample_sizes(self) -> Tensor:
        return self.input_sizes()

    def kernel(self) -> Tensor:
        """Σ_k F_kF_kᵀ by Parseval: the Hadamard product of the Gram matrices of X̂ and of D̂, summed over frequencies."""
        everyone = slice(0, self.n)
        x, gates = self.batch(everyone).unbind(1), self._gate_spectrum(everyone).unbind(2)
        total = self.space.zeros(self.n, self.n)
        for weight, a, b in zip(self._mirrored, x, gates, strict=True):
            tokens, opened = torch.view_as_real(a @ a.mH), torch.view_as_real(b @ b.mH)
            total += weight * (tokens * opened).sum(2)
        return total.div_(self.s)

    @property
    def _mirrored(self) -> Tensor:
        """How often each frequency of `half` stands in the whole spectrum, (w,)."""
        weights = self.space.full(self.half, 2.0)
        weights[:, 0] = 1.0
        if self.grid[1] % 2 == 0:
            weights[:, -1] = 1.0
        return weights.flatten()

    def sum_gates(self, rows: slice, signals: Tensor) -> Tensor:
        by_output = signals.view(len(signals), -1, self.n_gates * self.s)  # (b, c, P·s)
        return torch.bmm(by_output, self._gates(rows).flatten(1).unsqueeze(2)).squeeze(2)

    def spread_gates(self, rows: slice, residual: Tensor) -> Tensor:
        return (residual[:, :, None, None] * self._gates(rows).unsqueeze(1)).flatten(1, 2)
