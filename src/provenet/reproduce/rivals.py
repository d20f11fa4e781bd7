"""What a frozen backbone's head usually is: logistic regression, an MLP, small attention and mixer heads by AdamW."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from provenet.heads.samples import Samples, Split
from provenet.nn import Mixer
from provenet.reproduce.experiment import Piece

Array = NDArray[Any]


@dataclass(frozen=True)
class Grid:
    """What AdamW is tried with, and for how long; what the others' penalties are."""

    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3, 1e-2)
    decays: tuple[float, ...] = (1e-4, 1e-2, 1e-1)
    seeds: int = 3
    epochs: int = 10
    penalties: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
    batch: int = 100


@dataclass(frozen=True)
class Parts:
    """Tokens to train on, the ways to set some of them aside to choose by, and tokens to judge by; labels are numbers
    from zero on."""

    whole: Samples
    splits: tuple[Split, ...]
    test: Samples
    grid: tuple[int, int] | None
    classes: int


class AttentionHead(nn.Module):
    """Softmax attention of four heads, a residual, the mean over tokens, a linear map: as transformers have it."""

    def __init__(self, s: int, d: int, c: int):
        super().__init__()
        self.attention = nn.MultiheadAttention(d, 4 if d % 4 == 0 else 1, batch_first=True)
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, c)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        absent = None if mask is None else ~mask
        x = self.norm(x + self.attention(x, x, x, key_padding_mask=absent, need_weights=False)[0])
        if mask is None:
            return self.out(x.mean(1))
        return self.out((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp_min(1))


class MixerHead(nn.Module):
    """An MLP over tokens, one over features, both with residuals, the mean over tokens, a linear map."""

    def __init__(self, s: int, d: int, c: int):
        super().__init__()
        self.across = nn.Sequential(nn.Linear(s, 2 * s), nn.GELU(), nn.Linear(2 * s, s))
        self.within = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, c)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.across(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return self.out((x + self.within(x)).mean(1))


MODULES: dict[str, Callable[[int, int, int], nn.Module]] = {"attention": AttentionHead, "mixer": MixerHead}


def adamw(kind: str, parts: Parts, grid: Grid) -> Piece:
    """Every rate and decay with every seed, each on the next fold; the pair that was right most often on the mean then
    trains on all samples, as ours do."""
    cpu, tried = time.process_time(), []
    for rate, decay, seed in product(grid.rates, grid.decays, range(grid.seeds)):
        split = parts.splits[seed % len(parts.splits)]
        model = _trained(kind, parts.whole.rows(split.train), parts.classes, grid, rate, decay, seed)
        right = _right(model, parts.whole.rows(split.judge))
        tried.append({"rate": rate, "decay": decay, "seed": seed, "validation": right})
    means = {
        (rate, decay): np.mean([t["validation"] for t in tried if (t["rate"], t["decay"]) == (rate, decay)])
        for rate, decay in product(grid.rates, grid.decays)
    }
    best = max(means, key=lambda pair: means[pair])
    kept = [_trained(kind, parts.whole, parts.classes, grid, *best, seed) for seed in range(grid.seeds)]
    return {
        "test": [_right(model, parts.test) for model in kept],
        "validation": float(means[best]),
        "cpu": time.process_time() - cpu,
        "parameters": sum(p.numel() for p in kept[0].parameters()),
        "chosen": f"rate {best[0]:g}, decay {best[1]:g}",
        "runs": len(tried) + len(kept),
        "tried": tried,
    }


def _trained(kind: str, samples: Samples, classes: int, grid: Grid, rate: float, decay: float, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    s, d = samples.X.shape[1:]
    model = MODULES[kind](s, d, classes)
    X, y, mask = _tensors(samples)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    steps = grid.epochs * math.ceil(len(X) / grid.batch)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(grid.epochs):
        for rows in torch.randperm(len(X)).split(grid.batch):
            loss = cross_entropy(model(X[rows], None if mask is None else mask[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            plan.step()
    return model.eval()


def _right(model: nn.Module, samples: Samples) -> float:
    X, y, mask = _tensors(samples)
    with torch.no_grad():
        said = [
            model(X[rows], None if mask is None else mask[rows]).argmax(1) for rows in torch.arange(len(X)).split(1000)
        ]
    return float((torch.cat(said) == y).float().mean())


def _tensors(samples: Samples) -> tuple[Tensor, Tensor, Tensor | None]:
    mask = None if samples.mask is None else torch.as_tensor(np.array(samples.mask))  # of a map, which is read-only
    return torch.as_tensor(np.array(samples.X)), torch.as_tensor(samples.y), mask


def same_objective(parts: Parts, beta: float, grid: Grid, rank: int = 8) -> Piece:
    """What Adam reaches of the linear mixer's own objective, Σ ℓ + β/2 (‖W₁‖² + ‖W₂‖²), on all samples, rate by rate.

    As many neurons as ``rank``, a free bias, the weight decay in the loss, where the proof has it.
    """
    X, y, _ = _tensors(parts.whole)
    cpu, reached = time.process_time(), {}
    for rate in grid.rates:
        module = Mixer(X.shape[1], X.shape[2], parts.classes, rank=rank, activation="linear")
        module.bias = nn.Parameter(torch.zeros(parts.classes))
        optimizer = torch.optim.Adam(module.parameters(), rate)
        plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, grid.epochs * math.ceil(len(X) / grid.batch))
        for _ in range(grid.epochs):
            for rows in torch.randperm(len(X)).split(grid.batch):
                loss = cross_entropy(module(X[rows]), y[rows]) + beta / len(X) * module.penalty()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                plan.step()
        with torch.no_grad():
            losses = cross_entropy(module(X).double(), y, reduction="sum")
            reached[f"{rate:g}"] = float(losses + beta * module.double().penalty())
    return {"objectives": reached, "cpu": time.process_time() - cpu}


def logistic(parts: Parts, grid: Grid) -> Piece:
    """On the mean token, C by validation, then all samples."""
    return _by_penalty(parts, grid, 1, lambda C, _: LogisticRegression(C=C, max_iter=500), "C")


def mlp(parts: Parts, grid: Grid) -> Piece:
    """scikit-learn's, 100 units on the mean token, α by validation, then all samples; the seeds' spread."""
    return _by_penalty(
        parts,
        grid,
        grid.seeds,
        lambda C, seed: MLPClassifier(alpha=1 / (100 * C), max_iter=60, random_state=seed),
        "alpha",
    )


def _by_penalty(parts: Parts, grid: Grid, seeds: int, make: Callable[[float, int], Any], name: str) -> Piece:
    """``make``: for C and a seed; ``name``: of the setting that it takes C for."""
    cpu = time.process_time()
    whole, test = _mean_token(parts.whole), _mean_token(parts.test)
    scale = float(np.sqrt((whole**2).mean())) or 1.0
    tried = []
    for C in grid.penalties:
        scores = []
        for train, judge in parts.splits:
            model = _fitted(make(C, 0), whole[train] / scale, parts.whole.y[train])
            scores.append(float(model.score(whole[judge] / scale, parts.whole.y[judge])))
        tried.append((float(np.mean(scores)), C))
    validation, C = max(tried)
    tests = [
        float(_fitted(make(C, seed), whole / scale, parts.whole.y).score(test / scale, parts.test.y))
        for seed in range(seeds)
    ]
    chosen = f"{name} = {getattr(make(C, 0), name):g}"
    return {"test": tests, "validation": validation, "chosen": chosen, "cpu": time.process_time() - cpu}


def _fitted(model: Any, X: Array, y: Array) -> Any:
    """Their limits of steps are part of what they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def _mean_token(samples: Samples) -> Array:
    return np.asarray(samples.weighed, dtype=np.float64).mean(1)
