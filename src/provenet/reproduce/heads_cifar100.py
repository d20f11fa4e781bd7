"""AT Tables 1–4, on a backbone that can be had: heads on frozen grids, against what is usually trained there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from provenet.embeddings import load_embedding
from provenet.embeddings.embedding import ABOUT
from provenet.heads.fitting import Asked, fit_head
from provenet.heads.kinds import HEADS
from provenet.heads.samples import Samples, usual_splits
from provenet.reproduce.experiment import Experiment, Findings, Piece, Run, Table
from provenet.reproduce.rivals import Grid, Parts, adamw, logistic, mlp, same_objective

_HOW = (
    "it needs an embedding. CIFAR-100's binary version is at www.cs.toronto.edu/~kriz/cifar.html; then: pip install "
    "'provenet[vision]'; provenet embed cifar-100-binary --backbone efficientnet-lite2 --size 160 --pca 100 --out "
    "grids; provenet reproduce heads-cifar100 --data grids"
)
# AT Table 1: top-1 on gMLP-S tokens, linear and gated
_PAPER = {
    "linear": "66.42",
    "mlp-gated": "73.05",
    "attention-linear": "73.81",
    "attention-gated": "74.74",
    "mixer-linear": "78.11",
    "mixer-gated": "80.22",
    "fno-linear": "72.29",
    "fno-gated": "72.93",
    "bfno-linear": "68.68",
    "bfno-gated": "77.65",
}
_SECONDS = 300.0  # for each head
_QUICK = ("linear", "mixer-linear", "attention-linear", "mlp-gated")


def run(run: Run) -> Findings:
    parts, named = _made_up() if run.quick else _embedded(run.data)
    grid = Grid(rates=(3e-3, 1e-2), decays=(1e-2,), seeds=2, epochs=5, penalties=(0.1, 10.0)) if run.quick else Grid()
    asked = Asked(
        betas=3 if run.quick else 6, n_gates=5 if run.quick else 20, max_seconds=10 if run.quick else _SECONDS
    )
    folds = f"{len(parts.splits)} folds"
    found: dict[str, Piece] = {}
    for name in _QUICK if run.quick else HEADS:
        ours = partial(_ours, name, parts, asked)
        found[name] = run.piece(f"{named}: {name}, {asked.betas} betas, {folds}", ours)
    usual = {
        "logistic regression": lambda: logistic(parts, grid),
        "MLPClassifier": lambda: mlp(parts, grid),
        "attention, AdamW": lambda: adamw("attention", parts, grid),
        "mixer, AdamW": lambda: adamw("mixer", parts, grid),
    }
    for name, make in usual.items():
        found[name] = run.piece(f"{named}: {name}, {grid.epochs} epochs, {folds}", make)
    table = Table(
        f"Heads on {named}",
        (
            "head",
            "test top-1, %",
            "± over seeds",
            "top-5, %",
            "validation, %",
            "certified gap",
            "parameters",
            "CPU s",
            "AT Table 1",
        ),
        tuple(_cells(name, piece) for name, piece in found.items()),
    )
    tables = (table, *_objectives(run, named, found["mixer-linear"], parts, grid))
    return Findings(tables, {"accuracy-and-time": _picture(found)}, _words(found, parts, grid), {"heads": found})


def _ours(name: str, parts: Parts, asked: Asked) -> Piece:
    try:
        row, _ = fit_head(name, parts.splits, parts.whole, parts.test, parts.grid, asked)
    except (ValueError, MemoryError) as error:
        return {"why": str(error)}
    return {
        "test": [row.top1],
        "top5": row.top5,
        "validation": row.validation,
        "gap": row.relative_gap,
        "primal": row.primal,
        "beta": row.beta_sum,
        "parameters": row.parameters,
        "cpu": row.cpu,
        "chosen": f"β = {row.beta:.2g} β_max",
        "path": row.path,
    }


def _objectives(run: Run, named: str, ours: Piece, parts: Parts, grid: Grid) -> list[Table]:
    """Adam on the very objective that is proven, of the linear mixer."""
    key = f"{named}: the objective of mixer-linear by Adam, {grid.epochs} epochs"
    beta, primal, dual = ours["beta"], ours["primal"], ours["primal"] * (1 - ours["gap"])
    theirs = run.piece(key, lambda: same_objective(parts, beta, grid))
    rows = [("ours", f"{primal:.2f}", f"{primal / dual - 1:.1e}")]
    rows += [(f"Adam, rate {rate}", f"{at:.2f}", f"{at / dual - 1:.1e}") for rate, at in theirs["objectives"].items()]
    title = f"The linear mixer's objective at β = {beta:.3g}: no network of the block is below {dual:.2f}"
    return [Table(title, ("", "objective", "above the proven bound"), tuple(rows))]


def _embedded(folder: Path | None) -> tuple[Parts, str]:
    """The parts of an embedding, its test part within, and what they are called."""
    if folder is None:
        raise FileNotFoundError(f"heads-cifar100: {_HOW}")
    if not (folder / "test" / ABOUT).exists():
        raise FileNotFoundError(f"{folder / 'test'}: there is no test part; {_HOW}")
    embedding, other = load_embedding(folder), load_embedding(folder / "test")
    embedding.check_like(other)
    whole, test = Samples.of(embedding), Samples.of(other)
    classes, code = np.unique(whole.y, return_inverse=True)
    whole = Samples(whole.X, code, whole.mask)
    test = Samples(test.X, np.searchsorted(classes, test.y), test.mask)
    n, s, d = whole.X.shape
    return Parts(whole, usual_splits(whole.y, 0), test, embedding.grid, len(classes)), f"{folder.name}, {n} × {s} × {d}"


def _made_up() -> tuple[Parts, str]:
    """Tokens one of which, its place by the class, has a direction of the class added: means see some of it."""
    rng = np.random.default_rng(0)
    n, s, d, c = 400, 9, 8, 3
    X = rng.standard_normal((n, s, d)).astype(np.float32)
    y = rng.integers(0, c, n)
    X[np.arange(n), 2 * y + 1] += 0.8 * rng.standard_normal((c, d))[y]
    whole = Samples(X[:300], y[:300], None)
    test = Samples(X[300:], y[300:], None)
    return Parts(whole, usual_splits(whole.y, 0), test, (3, 3), c), f"made-up tokens, 300 × {s} × {d}"


def _cells(name: str, piece: Piece) -> tuple[str, ...]:
    if "why" in piece:
        return name, piece["why"], *[""] * 7
    tests = 100 * np.array(piece["test"])
    spread = f"{tests.std():.2f}" if len(tests) > 1 else "–"
    top5 = "–" if piece.get("top5") is None else f"{100 * piece['top5']:.2f}"
    gap = f"{piece['gap']:.1e}" if "gap" in piece else "none"
    size = f"{piece['parameters']:,}" if "parameters" in piece else "–"
    said = (f"{tests.mean():.2f}", spread, top5, f"{100 * piece['validation']:.2f}", gap, size, f"{piece['cpu']:.1f}")
    return name, *said, _PAPER.get(name, "–")


def _words(found: dict[str, Piece], parts: Parts, grid: Grid) -> tuple[str, ...]:
    ours = {name: piece for name, piece in found.items() if "gap" in piece}
    theirs = {name: piece for name, piece in found.items() if "runs" in piece}
    best, rival = (max(each, key=lambda name: each[name]["validation"]) for each in (ours, theirs))
    a, b = (100 * float(np.mean(found[name]["test"])) for name in (best, rival))
    spent, theirs_spent = sum(piece["cpu"] for piece in ours.values()), sum(piece["cpu"] for piece in theirs.values())
    ahead = "ahead of" if a >= b else "behind"
    proven = sum(piece["gap"] <= 1e-2 for piece in ours.values())
    return (
        f"By validation the best of ours is {best}, {a:.2f} %, {ahead} the best of AdamW's, {rival}, {b:.2f} %, by "
        f"{abs(a - b):.2f} points. A path and a fit of it took {found[best]['cpu']:.0f} s of CPU time, all of ours "
        f"{spent:.0f} s, AdamW's {theirs[rival]['runs']} runs of each of its heads {theirs_spent:.0f} s.",
        f"{proven} of {len(ours)} of ours are proven within 1e-2 of their optimum in the time they had; no gap is "
        "known of the others.",
        f"AdamW: {grid.epochs} epochs, cosine, batches of {grid.batch}; rates {grid.rates}, decays {grid.decays}, "
        f"{grid.seeds} seeds. {len(parts.whole.y)} samples to train on, "
        f"{_chosen_by(parts)}, {len(parts.test.y)} to judge by. No augmentation anywhere.",
        "Different from the paper: its backbones (gMLP-S, ViT) are not to be had without the network, and have 196 "
        "tokens; it trains with augmentation for 70 epochs, on all 50,000 images.",
    )


def _chosen_by(parts: Parts) -> str:
    if len(parts.splits) > 1:
        return f"{len(parts.splits)} folds of which choose, AdamW's seeds each on the next of them"
    return f"{len(parts.whole.y[parts.splits[0].judge])} of which choose before that"


def _picture(found: dict[str, Piece]) -> Figure:
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    kinds = {True: ("o", "#3b6fb6", "proven", (6, 4)), False: ("s", "#d9822b", "usual", (6, -11))}
    said: set[bool] = set()
    for name, piece in found.items():
        if "why" in piece:
            continue
        ours = "gap" in piece
        mark, colour, kind, beside = kinds[ours]
        tests = 100 * np.array(piece["test"])
        at = (max(piece["cpu"], 0.01), float(tests.mean()))
        axes.errorbar(
            *at,
            yerr=tests.std() if len(tests) > 1 else None,
            fmt=mark,
            color=colour,
            label=None if ours in said else kind,
        )
        axes.annotate(name, at, xytext=beside, textcoords="offset points", size=8, color=colour)
        said.add(ours)
    axes.set(xscale="log", xlabel="CPU seconds, with all that was tried", ylabel="test accuracy, %")
    axes.margins(x=0.25, y=0.12)
    axes.legend(frameon=False, loc="lower right")
    axes.grid(alpha=0.2)
    return figure


HEADS_CIFAR100 = Experiment(
    "heads-cifar100",
    "Heads on a frozen backbone's tokens, proven and usual",
    "Unraveling attention via convex duality (ICML 2022), Tables 1 to 4",
    "on CIFAR-100 with frozen gMLP-S: mixer 80.22 % gated, B-FNO 77.65, attention 74.74, MLP 73.05, FNO 72.93, linear "
    "66.42; convex heads are about as good as the same trained with ReLU.",
    run,
)
