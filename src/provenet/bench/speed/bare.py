"""The bare matmuls and FFTs of every block, by hand: what its operator is measured against.

Each does, for a batch of samples, what neurons need of A and A*: the hidden values and the outputs (`forward`); the
hidden values once more, for Gᵀu, and the two transposed products, for G v (`adjoint`).  No gates, no checks, no
bookkeeping; what depends on X alone (patches, pooled tokens, Fourier features, second moments) is there beforehand, in
the layout that is fastest; the products are those the operator itself chooses, with the same algebra (tokens averaged
before the weights where that is possible, and so on).  Without gates they compute exactly what the operator of the
linear block does, and that is checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]


class Bare(ABC):
    """U (N, p), V (N, q), R: the residual of the batch."""

    @abstractmethod
    def forward(self, rows: slice, U: Tensor, V: Tensor) -> Tensor:
        """The outputs of some samples."""

    @abstractmethod
    def adjoint(self, rows: slice, R: Tensor, U: Tensor, V: Tensor) -> Pair:
        """G v (N, p) and Gᵀu (N, q) of some samples."""


class Positions(Bare):
    """Hidden values (N, b, s), their mean or each of them times v."""

    mean: bool

    @abstractmethod
    def first(self, rows: slice, U: Tensor) -> Tensor:
        """Φ u, (N, b, s)."""

    @abstractmethod
    def first_back(self, rows: slice, back: Tensor) -> Tensor:
        """Σ Φᵀ back, (N, p), for back (N, b·s)."""

    def forward(self, rows: slice, U: Tensor, V: Tensor) -> Tensor:
        hidden = self.first(rows, U)
        if self.mean:
            return hidden.mean(2).T @ V
        return (hidden.flatten(1).T @ V).view(*hidden.shape[1:], -1)

    def adjoint(self, rows: slice, R: Tensor, U: Tensor, V: Tensor) -> Pair:
        hidden = self.first(rows, U)
        if self.mean:
            right = hidden.mean(2) @ R
            back = (V @ R.T).div_(hidden.shape[2]).unsqueeze(2).expand_as(hidden).reshape(len(V), -1)
        else:
            flat = R.flatten(0, 1)
            right, back = hidden.flatten(1) @ flat, V @ flat.T
        return self.first_back(rows, back), right


class Rows(Positions):
    """Φ (n, s, p) as it is: patches, pooled tokens, Fourier features; s = 1 for an MLP."""

    def __init__(self, phi: Tensor, mean: bool):
        self.phi, self.mean = phi, mean

    def first(self, rows: slice, U: Tensor) -> Tensor:
        phi = self.phi[rows]
        return (U @ phi.flatten(0, 1).T).view(len(U), *phi.shape[:2])

    def first_back(self, rows: slice, back: Tensor) -> Tensor:
        return back @ self.phi[rows].flatten(0, 1)


class Fourier(Positions):
    """h = X ⋆ u on a grid, X in frequencies (w, n, d): a small matmul for each, an FFT for each neuron and sample."""

    def __init__(self, X: Tensor, grid: tuple[int, int], mean: bool):
        self.grid, self.half, self.mean = grid, (grid[0], grid[1] // 2 + 1), mean
        spectrum = torch.fft.rfft2(X.unflatten(1, grid), dim=(1, 2)).flatten(1, 2)
        self.spectrum = spectrum.transpose(0, 1).contiguous()

    def first(self, rows: slice, U: Tensor) -> Tensor:
        weights = torch.fft.rfft2(U.view(len(U), *self.grid, -1), dim=(1, 2)).flatten(1, 2).conj()  # (N, w, d)
        product = torch.bmm(weights.transpose(0, 1), self.spectrum[:, rows].transpose(1, 2))  # (w, N, b)
        return torch.fft.irfft2(product.permute(1, 2, 0).unflatten(2, self.half), s=self.grid).flatten(2)

    def first_back(self, rows: slice, back: Tensor) -> Tensor:
        N, s = len(back), self.grid[0] * self.grid[1]
        signal = torch.fft.rfft2(back.view(N, -1, *self.grid)).flatten(2).conj()  # (N, b, w)
        product = torch.bmm(signal.permute(2, 0, 1), self.spectrum[:, rows])  # (w, N, d)
        weights = torch.fft.irfft2(product.permute(1, 2, 0).unflatten(2, self.half), s=self.grid)  # (N, d, grid)
        return weights.flatten(2).transpose(1, 2).reshape(N, s * self.spectrum.shape[2])


class Grouped(Bare):
    """Groups of neurons one after the other, each with its own outputs."""

    def __init__(self, parts: Sequence[Bare]):
        self.parts = parts

    def forward(self, rows: slice, U: Tensor, V: Tensor) -> Tensor:
        B = len(self.parts)
        outputs = [part.forward(rows, u, v) for part, u, v in zip(self.parts, U.chunk(B), V.chunk(B), strict=True)]
        return torch.cat(outputs, -1)

    def adjoint(self, rows: slice, R: Tensor, U: Tensor, V: Tensor) -> Pair:
        B = len(self.parts)
        groups = zip(self.parts, R.chunk(B, -1), U.chunk(B), V.chunk(B), strict=True)
        found = [part.adjoint(rows, r.contiguous(), u, v) for part, r, u, v in groups]
        return torch.cat([left for left, _ in found]), torch.cat([right for _, right in found])


class Pooled(Bare):
    """Features (n, a, p) shared by all neurons, all tokens or positions summed: V is (a, c)."""

    def __init__(self, features: Tensor):
        self.features = features

    def _hidden(self, rows: slice, U: Tensor) -> Tensor:
        features = self.features[rows]
        return (features.flatten(0, 1) @ U.T).view(len(features), -1)  # (b, a·N)

    def _second(self, V: Tensor) -> Tensor:
        a = self.features.shape[1]
        return V.view(len(V), a, -1).transpose(0, 1).reshape(a * len(V), -1)

    def forward(self, rows: slice, U: Tensor, V: Tensor) -> Tensor:
        return self._hidden(rows, U) @ self._second(V)

    def adjoint(self, rows: slice, R: Tensor, U: Tensor, V: Tensor) -> Pair:
        features = self.features[rows]
        right = (self._hidden(rows, U).T @ R).view(features.shape[1], len(V), -1).transpose(0, 1)
        back = (R @ self._second(V).T).view(-1, len(V))  # (b·a, N)
        return back.T @ features.flatten(0, 1), right.reshape(V.shape)


class Repeated(Bare):
    """Weights (copies, p') of which only the sum counts."""

    def __init__(self, inner: Bare, copies: int):
        self.inner, self.copies = inner, copies

    def _sum(self, U: Tensor) -> Tensor:
        return U.view(len(U), self.copies, -1).sum(1)

    def forward(self, rows: slice, U: Tensor, V: Tensor) -> Tensor:
        return self.inner.forward(rows, self._sum(U), V)

    def adjoint(self, rows: slice, R: Tensor, U: Tensor, V: Tensor) -> Pair:
        left, right = self.inner.adjoint(rows, R, self._sum(U), V)
        return left.repeat(1, self.copies), right


class GatedPooled(Bare):
    """Features (P, n, p) of every gate, one neuron a gate: V is (c,)."""

    def __init__(self, features: Tensor):
        self.features = features

    def forward(self, rows: slice, U: Tensor, V: Tensor) -> Tensor:
        return torch.bmm(self.features[:, rows], U.unsqueeze(2)).squeeze(2).T @ V

    def adjoint(self, rows: slice, R: Tensor, U: Tensor, V: Tensor) -> Pair:
        features = self.features[:, rows]
        hidden = torch.bmm(features, U.unsqueeze(2)).squeeze(2)
        back = (V @ R.T).unsqueeze(1)  # (P, 1, b)
        return torch.bmm(back, features).squeeze(1), hidden @ R


class Mixer(Bare):
    """H = W₁X, W₁ (s, s); X as (s, n, d)."""

    def __init__(self, X: Tensor, mean: bool):
        self.columns, self.mean = X.transpose(0, 1).contiguous(), mean

    def _hidden(self, rows: slice, U: Tensor) -> tuple[Tensor, Tensor]:
        x = self.columns[:, rows]
        s, b, d = x.shape
        return (U.view(-1, s) @ x.reshape(s, b * d)).view(-1, s, b, d), x.reshape(s, b * d)

    def forward(self, rows: slice, U: Tensor, V: Tensor) -> Tensor:
        hidden, _ = self._hidden(rows, U)
        N, s, b, d = hidden.shape
        if self.mean:
            return hidden.mean(1).transpose(0, 1).reshape(b, N * d) @ V.view(N * d, -1)
        return torch.bmm(hidden.view(N, s * b, d), V.view(N, d, -1)).sum(0).view(s, b, -1).transpose(0, 1)

    def adjoint(self, rows: slice, R: Tensor, U: Tensor, V: Tensor) -> Pair:
        hidden, x = self._hidden(rows, U)
        N, s, b, d = hidden.shape
        if self.mean:
            right = hidden.mean(1).transpose(0, 1).reshape(b, N * d).T @ R
            back = (R @ V.view(N, d, -1).transpose(1, 2)).div_(s).unsqueeze(1).expand_as(hidden)
        else:
            flat = R.transpose(0, 1).reshape(s * b, -1)
            right = hidden.view(N, s * b, d).transpose(1, 2) @ flat
            back = flat @ V.view(N, d, -1).transpose(1, 2)
        return (back.reshape(N * s, b * d) @ x.T).view(U.shape), right.reshape(V.shape)


class Attention(Bare):
    """Scores X W₁ Xᵀ (b, s, N, s) of every head, then the values X W₂."""

    def __init__(self, X: Tensor, mean: bool):
        self.X, self.mean = X, mean

    def _scores(self, x: Tensor, U: Tensor) -> Tensor:
        b, s, d = x.shape
        N = len(U)
        queries = x.reshape(b * s, d) @ U.view(N, d, d).transpose(0, 1).reshape(d, N * d)
        return torch.bmm(queries.view(b, s * N, d), x.transpose(1, 2)).view(b, s, N, s)

    def _values(self, x: Tensor, V: Tensor) -> Tensor:
        """(b, N·s, c)."""
        b, s, d = x.shape
        N = len(V)
        values = x.reshape(b * s, d) @ V.view(N, d, -1).transpose(0, 1).reshape(d, -1)
        return values.view(b, s, N, -1).transpose(1, 2).reshape(b, N * s, -1)

    def forward(self, rows: slice, U: Tensor, V: Tensor) -> Tensor:
        x = self.X[rows]
        scores = self._scores(x, U)
        b, s, d = x.shape
        if self.mean:
            return torch.bmm(scores.mean(1), x).view(b, -1) @ V.view(len(V) * d, -1)
        return torch.bmm(scores.view(b, s, -1), self._values(x, V))

    def adjoint(self, rows: slice, R: Tensor, U: Tensor, V: Tensor) -> Pair:
        x = self.X[rows]
        scores = self._scores(x, U)
        b, s, d = x.shape
        N = len(U)
        if self.mean:
            attended = torch.bmm(scores.mean(1), x).view(b, N * d)
            right = attended.T @ R
            towards = (R @ V.view(N * d, -1).T).view(b, N, d)
            back = torch.bmm(towards, x.transpose(1, 2)).div_(s).unsqueeze(1).expand_as(scores)
        else:
            values = self._values(x, V)
            back = torch.bmm(R, values.transpose(1, 2))
            back_values = torch.bmm(scores.view(b, s, N * s).transpose(1, 2), R)  # (b, N·s, c)
            by_token = back_values.view(b, N, s, -1).transpose(1, 2).reshape(b * s, -1)
            right = (x.reshape(b * s, d).T @ by_token).view(d, N, -1).transpose(0, 1)
        queries = torch.bmm(back.reshape(b, s * N, s), x).view(b * s, N * d)
        left = (x.reshape(b * s, d).T @ queries).view(d, N, d).transpose(0, 1)
        return left.reshape(U.shape), right.reshape(V.shape)


class LinearAttention(Bare):
    """Mean token times W₁ times the Gram matrix XᵀX times W₂."""

    def __init__(self, X: Tensor):
        self.query, self.gram = X.mean(1), X.transpose(1, 2) @ X

    def _first(self, U: Tensor) -> Tensor:
        d = self.query.shape[1]
        return U.view(-1, d, d).transpose(0, 1).reshape(d, -1)

    def _hidden(self, rows: slice, U: Tensor) -> Tensor:
        b, d = self.query[rows].shape
        return torch.bmm((self.query[rows] @ self._first(U)).view(b, -1, d), self.gram[rows]).view(b, -1)

    def forward(self, rows: slice, U: Tensor, V: Tensor) -> Tensor:
        hidden = self._hidden(rows, U)
        return hidden @ V.view(hidden.shape[1], -1)

    def adjoint(self, rows: slice, R: Tensor, U: Tensor, V: Tensor) -> Pair:
        hidden = self._hidden(rows, U)
        b, d = self.query[rows].shape
        back = torch.bmm((R @ V.view(hidden.shape[1], -1).T).view(b, -1, d), self.gram[rows]).view(b, -1)
        left = (self.query[rows].T @ back).view(d, -1, d).transpose(0, 1)
        return left.reshape(U.shape), (hidden.T @ R).view(V.shape)


class LinearTokenAttention(Bare):
    """The columns of W₂ times the Gram matrix XᵀX, times W₁, times the tokens."""

    def __init__(self, X: Tensor):
        self.X, self.gram = X, X.transpose(1, 2) @ X

    def _values(self, rows: slice, V: Tensor) -> Tensor:
        """(b·c, N·d)."""
        d = self.X.shape[2]
        columns = V.view(len(V), d, -1).permute(2, 0, 1)  # (c, N, d)
        gram = self.gram[rows]
        return torch.bmm(columns.reshape(1, -1, d).expand(len(gram), -1, -1), gram).view(-1, len(V) * d)

    def _first(self, U: Tensor) -> Tensor:
        d = self.X.shape[2]
        return U.view(-1, d, d).transpose(1, 2).reshape(-1, d)  # (N·d, d)

    def forward(self, rows: slice, U: Tensor, V: Tensor) -> Tensor:
        x = self.X[rows]
        mixed = self._values(rows, V) @ self._first(U)
        return torch.bmm(x, mixed.view(len(x), -1, x.shape[2]).transpose(1, 2))

    def adjoint(self, rows: slice, R: Tensor, U: Tensor, V: Tensor) -> Pair:
        x, N = self.X[rows], len(U)
        d = x.shape[2]
        back = torch.bmm(R.transpose(1, 2), x).view(-1, d)  # (b·c, d)
        left = (self._values(rows, V).T @ back).view(N, d, d).transpose(1, 2)
        wide = (back @ self._first(U).T).view(len(x), -1, d)  # (b, c·N, d)
        right = torch.bmm(wide, self.gram[rows]).sum(0).view(-1, N, d).permute(1, 2, 0)
        return left.reshape(U.shape), right.reshape(V.shape)
