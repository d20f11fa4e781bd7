"""A head trained by AdamW, certified, and finished: how far from the best did the usual loop stop?

A linear self-attention head reads scikit-learn's digits, the rows of an image as its tokens.  AdamW trains it as anyone
would; `certify` says what that is worth; the Burer–Monteiro method with escape goes on from there to a proof.

Run: python examples/finish_adamw.py docs/finish_adamw.png
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import provenet as pn


@dataclass(frozen=True)
class Settings:
    """beta: of the sum of the losses; a loop that takes means divides it by the number of samples."""

    samples: int = 1200
    heads: int = 12
    epochs: int = 100
    beta: float = 20.0
    tol: float = 1e-4
    looks: int = 10


@dataclass(frozen=True)
class Moment:
    """A point on the way: seconds of training, and the certificate there."""

    seconds: float
    primal: float
    dual: float


@dataclass(frozen=True)
class Outcome:
    adamw: list[Moment]
    bm: list[Moment]
    before: pn.Certificate
    after: pn.Certificate
    accuracy: tuple[float, float]


def finish_adamw(settings: Settings) -> Outcome:
    train, test = digits(settings.samples)
    head = pn.nn.SelfAttention(d=train[0].shape[2], c=10, rank=settings.heads, activation="linear")
    adamw = list(train_by_adamw(head, train, settings))
    before = pn.certify(head, train, tol=settings.tol, loss="softmax", beta=settings.beta)

    problem = pn.formulate("attention", *train, activation="linear", loss="softmax", beta=settings.beta)
    solution = pn.solve(problem, "bm", tol=settings.tol, start=head)
    began = adamw[-1].seconds
    bm = [Moment(began + record.seconds, record.primal, record.dual) for record in solution.history]
    accuracy = accuracy_of(head, test), accuracy_of(solution.network(), test)
    return Outcome(adamw, bm, before, solution.certificate, accuracy)


def digits(samples: int) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """(X, label) to train on, and the others to test on.  Tokens: a row's eight pixels, and four numbers that say which
    row it is, for attention itself knows no order."""
    images, labels = load_digits(return_X_y=True)
    angle = np.arange(8) * np.pi / 8
    place = np.stack([np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle)], axis=1)
    rows = images.reshape(-1, 8, 8) / 16
    tokens = np.concatenate([rows, np.broadcast_to(place, (len(rows), 8, 4))], axis=2)
    order = np.random.default_rng(0).permutation(len(tokens))
    X, label = torch.tensor(tokens[order], dtype=torch.float32), torch.tensor(labels[order])
    return (X[:samples], label[:samples]), (X[samples:], label[samples:])


def train_by_adamw(head: pn.nn.TwoLayer, data: tuple[torch.Tensor, ...], settings: Settings) -> Iterator[Moment]:
    """An ordinary loop.  The penalty is part of the loss, since AdamW's own weight decay would be another problem; a
    look at the certificate now and then does not count as training."""
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*data), batch_size=100, shuffle=True)
    optimizer = torch.optim.AdamW(head.parameters(), lr=0.01, weight_decay=0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs)
    seconds = 0.0
    for epoch in range(1, settings.epochs + 1):
        began = time.perf_counter()
        for x, label in loader:
            loss = cross_entropy(head(x), label) + settings.beta / len(data[0]) * head.penalty()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        seconds += time.perf_counter() - began
        if epoch % max(settings.epochs // settings.looks, 1) == 0 or epoch == settings.epochs:
            certificate = pn.certify(head, loader, loss="softmax", beta=settings.beta)
            yield Moment(seconds, certificate.primal, certificate.dual)


def accuracy_of(head: torch.nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> float:
    X, label = data
    with torch.no_grad():
        return float((head(X).argmax(1) == label).double().mean())


def draw(outcome: Outcome, settings: Settings, target: str) -> None:
    """The gap to the best bound proven so far: every bound holds for good."""
    figure = Figure(figsize=(8, 4.6), dpi=110, layout="constrained")
    axes = figure.subplots()
    best = 0.0
    for moments, style, name in (
        (outcome.adamw, {"color": "#d9822b", "marker": "o"}, "AdamW, certified now and then"),
        (outcome.bm, {"color": "#3b6fb6", "marker": ".", "markersize": 9}, "bm with escape, from there"),
    ):
        bounds = np.maximum.accumulate([best, *(m.dual for m in moments)])[1:]
        gaps = [1 - bound / m.primal for m, bound in zip(moments, bounds, strict=True)]
        best = bounds[-1]
        axes.plot([m.seconds for m in moments], gaps, label=name, **style)
    axes.axhline(settings.tol, color="#222222", linewidth=1, linestyle="--", label="tolerance")
    axes.set(
        yscale="log",
        xlabel="seconds",
        ylabel="proven relative gap",
        title="A self-attention head on the digits: what AdamW left, and the rest of the way",
    )
    axes.grid(alpha=0.25)
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    figure.savefig(target)


def main(target: str) -> None:
    settings = Settings()
    outcome = finish_adamw(settings)
    before, after = outcome.before, outcome.after
    print(
        f"AdamW, {settings.epochs} epochs, {outcome.adamw[-1].seconds:.1f} s, {outcome.accuracy[0]:.1%} on the test set"
    )
    print(before)
    print(f"\nbm from there, {outcome.bm[-1].seconds - outcome.adamw[-1].seconds:.1f} s, {outcome.accuracy[1]:.1%}")
    print(after)
    print(f"\nAdamW stopped {before.primal / after.dual - 1:.2%} above the best, at most.")
    draw(outcome, settings, target)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "finish_adamw.png")
