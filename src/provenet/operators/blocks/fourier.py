"""Fourier neural operators: h[t] = Σ_τf X[t+τ, f] u[τ, f], cyclic on a sequence or grid (AT eq. 23, Thm 4.4, C.3).

circ(X) is never built.  In the Fourier domain a correlation is a product, ĥ = Σ_f X̂[:, f] conj(û[:, f]): one small
matmul a frequency, for all samples and neurons, or gates and outputs, at once.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.operators.bases.samples import SampledOperator
from provenet.operators.blocks.waves import Grid
from provenet.variable import Factors, Stack

SHORT = 64  # tokens that are summed one by one sooner than in the Fourier domain
_OUTPUTS = 8  # gone through at a time by stacks: with more, batches become so short that products do not pay


class FourierOperator(SampledOperator):
    """What the two readouts share.  patterns (P, n, s); grid (height, width), (1, s) for a sequence.

    Weights are *columns* (s, d, m), one a neuron, or one an output and gate, and signals (b, m, s).
    """

    has_kernel = True
    by_token: bool  # whether all tokens are read out, not their mean

    def __init__(self, X: Tensor, patterns: Tensor | None, outputs: int, grid: Grid, scale: float = 1.0):
        self.grid = grid
        self.half = grid[0], grid[1] // 2 + 1  # the frequencies of real signals
        super().__init__(X, patterns, scale)
        self.s, self.d = X.shape[1:]
        self.p, self.q, self.outputs = self.s * self.d, outputs, outputs
        self.output_shape = (self.n, self.s, outputs) if self.by_token else (self.n, outputs)

    def prepare(self, x: Tensor) -> Tensor:
        """X̂, (b, w, d)."""
        return torch.fft.rfft2(x.unflatten(1, self.grid), dim=(1, 2)).flatten(1, 2)

    def _spectrum(self, columns: Tensor) -> Tensor:
        """conj(û) of columns (s, d, m): (w, d, m)."""
        return torch.fft.rfft2(columns.unflatten(0, self.grid), dim=(0, 1)).flatten(0, 1).conj_physical_()

    def _correlate(self, rows: slice, spectrum: Tensor) -> Tensor:
        """X ⋆ u for columns u by their spectrum (w, d, m): (b, m, s)."""
        product = torch.bmm(self.batch(rows).transpose(0, 1), spectrum)  # (w, b, m)
        by_signal = product.permute(1, 2, 0).contiguous().unflatten(2, self.half)  # FFTs like signals in one piece
        return torch.fft.irfft2(by_signal, s=self.grid).flatten(2)

    def _correlate_back(self, rows: slice, signals: Tensor) -> Tensor:
        """The transpose of X ⋆ u on signals (b, m, s), still in the Fourier domain, (w, d, m)."""
        spectrum = torch.fft.rfft2(signals.unflatten(2, self.grid)).flatten(2).conj_physical_()
        return torch.bmm(self.batch(rows).permute(1, 2, 0), spectrum.permute(2, 0, 1).contiguous())

    def _columns(self, spectrum: Tensor) -> Tensor:
        """(w, d, m) back to columns (s, d, m)."""
        return torch.fft.irfft2(spectrum.unflatten(0, self.half), s=self.grid, dim=(0, 1)).flatten(0, 1)

    def _shifts(self) -> Tensor:
        """t − t' as a token of the grid, (s, s)."""
        down, right = (self.space.arange(size)[:, None] - self.space.arange(size) for size in self.grid)
        height, width = self.grid
        table = (down % height)[:, None, :, None] * width + (right % width)[None, :, None, :]
        return table.reshape(height * width, height * width)

    def neuron_numbers(self) -> int:
        """Numbers a sample and neuron."""
        return 5 * self.s

    def numbers(self, factors: Factors) -> int:
        return factors.n_neurons * self.neuron_numbers()

    def stack_numbers(self) -> int:
        return 5 * self.s * self.n_gates * min(self.outputs, _OUTPUTS)

    @property
    def depth(self) -> int:
        # three transforms; even one by its definition errs by no more than (s + 20) √s eps of its output's length
        return int(3 * (self.s + 20) * self.s**0.5) + 20

    def _stack_spectrum(self, stack: Stack) -> Tensor:
        """That of a stack, m = (c, P)."""
        columns = stack.view(self.n_gates, self.s, self.d, self.outputs).permute(1, 2, 3, 0)
        return self._spectrum(columns.flatten(2))

    def forward(self, stack: Stack) -> Tensor:
        parts = self._stack_spectrum(stack).split(_OUTPUTS * self.n_gates, 2)  # once for all samples
        return self._gathered(
            self.stack_numbers(),
            lambda rows: torch.cat([self.sum_gates(rows, self._correlate(rows, part)) for part in parts], -1),
        )

    def adjoint(self, residual: Tensor) -> Stack:
        totals: list[Tensor | int] = [0] * -(-self.outputs // _OUTPUTS)
        for rows in deadline.paced(self.batches(self.stack_numbers())):
            for number, part in enumerate(residual[rows].split(_OUTPUTS, -1)):
                totals[number] = totals[number] + self._correlate_back(rows, self.spread_gates(rows, part))
        columns = self._columns(torch.cat([torch.as_tensor(total) for total in totals], 2))
        by_gate = columns.view(self.s, self.d, self.outputs, self.n_gates).permute(3, 0, 1, 2)
        return by_gate.reshape(self.stack_shape)

    def _by_neuron(self, left: Tensor) -> Tensor:
        return self._spectrum(left.view(-1, self.s, self.d).permute(1, 2, 0))

    @abstractmethod
    def sum_gates(self, rows: slice, signals: Tensor) -> Tensor:
        """The outputs of signals (b, (c, P), s), of some outputs: gated, summed over the gates, read out."""

    @abstractmethod
    def spread_gates(self, rows: slice, residual: Tensor) -> Tensor:
        """The transpose of `sum_gates`."""


class FNOTokensOperator(FourierOperator):
    """Readout ``tokens``: A(Z)_i = Σ_k D_k circ(X_i) Z_k."""

    by_token = True

    def sample_sizes(self) -> Tensor:
        return self.input_sizes() * self.s**0.5

    def kernel(self) -> Tensor:
        """K[(i, t), (j, t')] = c_ij[t − t'] Σ_k D_k[i, t] D_k[j, t'], c_ij[δ] = Σ_r X_i[r + δ]·X_j[r] by FFT."""
        total = self.space.empty(self.n, self.s, self.n, self.s)
        everyone = self.batch(slice(0, self.n)).permute(1, 2, 0).conj()  # (w, d, n)
        shifts = self._shifts()
        for rows in self.batches(self.n * self.s * self.s):
            gram = torch.bmm(self.batch(rows).transpose(0, 1), everyone).permute(1, 2, 0)  # (b, n, w)
            shared = torch.fft.irfft2(gram.unflatten(2, self.half), s=self.grid).flatten(2)
            total[rows] = shared[:, :, shifts].transpose(1, 2)
        flat = total.view(self.kernel_rows, self.kernel_rows)
        if self.patterns is not None:
            gates = self.patterns.flatten(1).to(self.dtype)  # (P, n·s)
            for rows in batches.slices(self.kernel_rows, self.kernel_rows, batches.BLOCK):
                flat[rows] *= gates[:, rows].T @ gates
        return flat

    def sum_gates(self, rows: slice, signals: Tensor) -> Tensor:
        by_gate = signals.view(len(signals), -1, self.n_gates, self.s)
        if self.patterns is None:
            return by_gate.squeeze(2).transpose(1, 2)
        return by_gate.mul_(self._opened(rows)).sum(2).transpose(1, 2)

    def spread_gates(self, rows: slice, residual: Tensor) -> Tensor:
        by_output = residual.transpose(1, 2).unsqueeze(2)  # (b, c, 1, s)
        if self.patterns is None:
            return by_output.squeeze(2)
        return (by_output * self._opened(rows)).flatten(1, 2)

    def _opened(self, rows: slice) -> Tensor:
        """(b, 1, P, s)."""
        assert self.patterns is not None
        return self.patterns[:, rows].transpose(0, 1).unsqueeze(1)

    def forward_factors(self, factors: Factors) -> Tensor:
        if factors.n_neurons == 0:
            return self.space.zeros(*self.output_shape)
        spectrum = self._by_neuron(factors.left)
        return self._gathered(self.numbers(factors), lambda rows: self._outputs(rows, spectrum, factors))

    def _outputs(self, rows: slice, spectrum: Tensor, factors: Factors) -> Tensor:
        hidden = self._gated(self._correlate(rows, spectrum), rows, factors)
        return torch.matmul(hidden.transpose(1, 2), factors.right)

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        right = torch.zeros_like(factors.right)
        if factors.n_neurons == 0:
            return torch.zeros_like(factors.left), right
        spectrum = self._by_neuron(factors.left)
        total = torch.zeros_like(spectrum)
        for rows in self.batches(self.numbers(factors)):
            hidden = self._gated(self._correlate(rows, spectrum), rows, factors)
            right += torch.bmm(hidden, residual[rows]).sum(0)
            back = torch.matmul(factors.right, residual[rows].transpose(1, 2))
            total += self._correlate_back(rows, self._gated(back, rows, factors))
        return self._columns(total).permute(2, 0, 1).reshape(factors.left.shape), right

    def _gated(self, signals: Tensor, rows: slice, factors: Factors) -> Tensor:
        """Of neurons, (b, N, s)."""
        opened = self.opened(rows, factors.gate)
        return signals if opened is None else signals.mul_(opened.transpose(0, 1))
