"""Fourier neural operators: h[t] = Σ_τf X[t+τ, f] u[τ, f], cyclic on a sequence or grid (AT eq. 23, Thm 4.4, C.3).

circ(X) is never built.  In the Fourier domain a correlation is a product, ĥ = Σ_f X̂[:, f] conj(û[:, f]): one small
matmul a frequency, for all samples and neurons, or gates and outputs, at once.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from provenet import batches
from provenet.operators.bases.pooled import PooledOperator
from provenet.operators.bases.samples import SampledOperator
from provenet.variable import Factors, Stack

Grid = tuple[int, int]


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

    def neuron_numbers(self) -> int:
        """Numbers a sample and neuron."""
        return 5 * self.s

    def numbers(self, factors: Factors) -> int:
        return factors.n_neurons * self.neuron_numbers()

    def stack_numbers(self) -> int:
        return 5 * self.s * self.n_gates * self.outputs

    @property
    def depth(self) -> int:
        # three transforms; even one by its definition errs by no more than (s + 20) √s eps of its output's length
        return int(3 * (self.s + 20) * self.s**0.5) + 20

    def _by_gate(self, stack: Stack) -> Tensor:
        """The spectrum of a stack, m = (c, P)."""
        columns = stack.view(self.n_gates, self.s, self.d, self.outputs).permute(1, 2, 3, 0)
        return self._spectrum(columns.flatten(2))

    def forward(self, stack: Stack) -> Tensor:
        spectrum = self._by_gate(stack)  # once for all samples
        return self._gathered(self.stack_numbers(), lambda rows: self.sum_gates(rows, self._correlate(rows, spectrum)))

    def adjoint(self, residual: Tensor) -> Stack:
        total: Tensor | int = 0
        for rows in self.batches(self.stack_numbers()):
            total = total + self._correlate_back(rows, self.spread_gates(rows, residual[rows]))
        columns = self._columns(torch.as_tensor(total)).view(self.s, self.d, self.outputs, self.n_gates)
        return columns.permute(3, 0, 1, 2).reshape(self.stack_shape)

    def _by_neuron(self, left: Tensor) -> Tensor:
        return self._spectrum(left.view(-1, self.s, self.d).permute(1, 2, 0))

    def _outputs(self, rows: slice, spectrum: Tensor, factors: Factors) -> Tensor:
        return self.read(self._gated(self._correlate(rows, spectrum), rows, factors), factors.right)

    def _gated(self, signals: Tensor, rows: slice, factors: Factors) -> Tensor:
        if self.patterns is None:
            return signals
        return signals.mul_(self.patterns[:, rows].index_select(0, factors.gate).transpose(0, 1))

    def forward_factors(self, factors: Factors) -> Tensor:
        if factors.n_neurons == 0:
            return self.space.zeros(*self.output_shape)
        spectrum = self._by_neuron(factors.left)
        return self._gathered(self.numbers(factors), lambda rows: self._outputs(rows, spectrum, factors))

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        right = torch.zeros_like(factors.right)
        if factors.n_neurons == 0:
            return torch.zeros_like(factors.left), right
        spectrum = self._by_neuron(factors.left)
        total = torch.zeros_like(spectrum)
        for rows in self.batches(self.numbers(factors)):
            hidden = self._gated(self._correlate(rows, spectrum), rows, factors)
            right += self.read_back(hidden, residual[rows])
            total += self._correlate_back(rows, self._gated(self.spread(residual[rows], factors.right), rows, factors))
        return self._columns(total).permute(2, 0, 1).reshape(factors.left.shape), right

    @abstractmethod
    def sum_gates(self, rows: slice, signals: Tensor) -> Tensor:
        """The outputs of signals (b, (c, P), s): gated, summed over the gates, read out."""

    @abstractmethod
    def spread_gates(self, rows: slice, residual: Tensor) -> Tensor:
        """The transpose of `sum_gates`."""

    @abstractmethod
    def read(self, hidden: Tensor, right: Tensor) -> Tensor:
        """The outputs of hidden values (b, N, s) and second layers (N, c)."""

    @abstractmethod
    def read_back(self, hidden: Tensor, residual: Tensor) -> Tensor:
        """The transpose of `read` in the second layers, (N, c)."""

    @abstractmethod
    def spread(self, residual: Tensor, right: Tensor) -> Tensor:
        """The transpose of `read` in the hidden values, (b, N, s)."""


class FNOMeanOperator(FourierOperator, PooledOperator):
    """Readout ``mean``, gated: F_k[i, τ, :] = (1/s) Σ_t D_k[i, t] X_i[t+τ, :]."""

    by_token = False
    patterns: Tensor

    def _gates(self, rows: slice) -> Tensor:
        """D/s, (b, P, s)."""
        return self.patterns[:, rows].transpose(0, 1).to(self.dtype).div_(self.s)

    def _gate_spectrum(self, rows: slice) -> Tensor:
        """(b, P, w)."""
        return torch.fft.rfft2(self._gates(rows).unflatten(2, self.grid)).flatten(2)

    def features(self, rows: slice) -> Tensor:
        product = self._gate_spectrum(rows).conj().unsqueeze(3) * self.batch(rows).unsqueeze(1)  # (b, P, w, d)
        shifted = torch.fft.irfft2(product.unflatten(2, self.half), s=self.grid, dim=(2, 3))
        return shifted.reshape(-1, self.n_gates, 1, self.p)

    def forward(self, stack: Stack) -> Tensor:
        return super().forward(stack) if self.kept is None else self.kept.forward(stack)

    def adjoint(self, residual: Tensor) -> Stack:
        return super().adjoint(residual) if self.kept is None else self.kept.adjoint(residual)

    def pooled(self, rows: slice, factors: Factors) -> Tensor:
        hidden = self._gated(self._correlate(rows, self._by_neuron(factors.left)), rows, factors)
        return hidden.mean(2, keepdim=True)

    def sample_sizes(self) -> Tensor:
        return self.input_sizes()

    def kernel(self) -> Tensor:
        """Σ_k F_kF_kᵀ by Parseval: the Hadamard product of the Gram matrices of X̂ and of D̂, summed over frequencies."""
        everyone = slice(0, self.n)
        x, gates = self.batch(everyone).unbind(1), self._gate_spectrum(everyone).unbind(2)
        height, width = self.grid
        once = {0, width // 2 if width % 2 == 0 else 0}  # columns of frequencies that have no mirror image
        weights = [1.0 if column in once else 2.0 for column in range(self.half[1])] * height
        total = self.space.zeros(self.n, self.n)
        for weight, a, b in zip(weights, x, gates, strict=True):
            tokens, opened = torch.view_as_real(a @ a.mH), torch.view_as_real(b @ b.mH)
            total += weight * (tokens * opened).sum(2)
        return total.div_(self.s)

    def sum_gates(self, rows: slice, signals: Tensor) -> Tensor:
        by_output = signals.view(len(signals), self.outputs, -1)  # (b, c, P·s)
        return torch.bmm(by_output, self._gates(rows).flatten(1).unsqueeze(2)).squeeze(2)

    def spread_gates(self, rows: slice, residual: Tensor) -> Tensor:
        return (residual[:, :, None, None] * self._gates(rows).unsqueeze(1)).flatten(1, 2)

    def read(self, hidden: Tensor, right: Tensor) -> Tensor:
        return hidden.mean(2) @ right

    def read_back(self, hidden: Tensor, residual: Tensor) -> Tensor:
        return hidden.mean(2).T @ residual

    def spread(self, residual: Tensor, right: Tensor) -> Tensor:
        return (residual @ right.T).div_(self.s).unsqueeze(2).repeat(1, 1, self.s)


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
        by_gate = signals.view(len(signals), self.outputs, self.n_gates, self.s)
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

    def read(self, hidden: Tensor, right: Tensor) -> Tensor:
        return torch.matmul(hidden.transpose(1, 2), right)

    def read_back(self, hidden: Tensor, residual: Tensor) -> Tensor:
        return torch.bmm(hidden, residual).sum(0)

    def spread(self, residual: Tensor, right: Tensor) -> Tensor:
        return torch.matmul(right, residual.transpose(1, 2))

    def _shifts(self) -> Tensor:
        """t − t' as a token of the grid, (s, s)."""
        down, right = (self.space.arange(size)[:, None] - self.space.arange(size) for size in self.grid)
        height, width = self.grid
        table = (down % height)[:, None, :, None] * width + (right % width)[None, :, None, :]
        return table.reshape(height * width, height * width)
