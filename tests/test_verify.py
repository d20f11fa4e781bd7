"""The independent checker is right where the answer is known by hand."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from provenet.verify import Data, Statement, Verdict, Weights, samples, verify
from provenet.verify.blocks import BLOCKS, make_form


def judged(X: Any, Y: Any, first: Any, second: Any, gates: Any = None, **asked: Any) -> Verdict:
    """`verify` with keywords sorted into what they are part of; those of none are settings of the block."""
    asked |= {"X": X, "Y": Y, "first": first, "second": second, "gates": gates}
    own = [{f.name: asked.pop(f.name) for f in fields(kind) if f.name in asked} for kind in (Data, Weights, Statement)]
    return verify(Data(**own[0]), Weights(**own[1]), Statement(**own[2], settings=asked))


def test_one_neuron_by_hand() -> None:
    """x = 1, y = 3, one linear neuron u = v: ½(u² − 3)² + β u² is least at u² = 3 − β, where it is 3β − β²/2."""
    beta, u = 0.5, math.sqrt(2.5)
    verdict = judged([[1.0]], [3.0], [[u]], [[u]], loss="squared", beta=beta)
    assert verdict.primal == pytest.approx(3 * beta - beta**2 / 2, rel=1e-14)
    assert verdict.relative_gap == pytest.approx(0, abs=1e-14)
    assert verdict.polar_max == pytest.approx(beta, rel=1e-14)
    worse = judged([[1.0]], [3.0], [[1.0]], [[1.0]], loss="squared", beta=beta)
    assert worse.dual <= 3 * beta - beta**2 / 2 < worse.primal


@pytest.mark.parametrize(
    ("loss", "Y", "at_zero"),
    [
        ("squared", [[1.0, 2.0], [0.0, -1.0]], 3.0),
        ("softmax", [0, 1], 2 * math.log(2)),
        ("logistic", [[0.0, 1.0], [1.0, 1.0]], 4 * math.log(2)),
        ("huber", [[0.5, 3.0], [0.0, 0.0]], 0.125 + 2.5),
    ],
)
def test_the_zero_network_is_optimal_from_beta_max_on(loss: str, Y: list, at_zero: float) -> None:
    X = np.array([[1.0, 0.0], [0.5, -2.0]])
    none = np.zeros((0, 2))
    gates = np.array([[1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    small = judged(X, Y, none, none, none, loss=loss, beta=1e-3, gate_vectors=gates)
    assert small.primal == pytest.approx(at_zero, rel=1e-14)
    assert small.relative_gap > 0.1
    large = judged(X, Y, none, none, none, loss=loss, beta=small.polar_max, gate_vectors=gates)
    assert large.primal == pytest.approx(at_zero, rel=1e-14)
    assert large.relative_gap == pytest.approx(0, abs=1e-13)


def test_every_gate_of_the_problem_counts() -> None:
    """A gate the network does not use can be the one that would help."""
    X, Y = np.array([[1.0], [-1.0]]), np.array([[0.1], [2.0]])
    left, right, gates = np.zeros((1, 1)), np.zeros((1, 1)), np.array([[1.0], [-1.0]])
    alone = judged(X, Y, left, right, gates[:1], loss="squared", beta=0.1)
    assert alone.polar_max == pytest.approx(0.1, rel=1e-13)
    assert alone.relative_gap == pytest.approx(0, abs=1e-13)
    among_all = judged(X, Y, left, right, gates[:1], loss="squared", beta=0.1, gate_vectors=gates)
    assert among_all.polar_max == pytest.approx(2.0, rel=1e-13)
    assert among_all.relative_gap > 0.8


def test_weights_are_repetition_and_zero_leaves_out() -> None:
    rng = np.random.default_rng(0)
    X, Y, count = rng.standard_normal((6, 2)), rng.standard_normal((6, 2)), np.array([1, 0, 2, 3, 1, 1])
    network = rng.standard_normal((3, 3)), rng.standard_normal((3, 2)), rng.standard_normal((3, 3))
    weighted = judged(X, Y, *network, loss="huber", beta=0.3, sample_weight=count, fit_intercept=True)
    repeated = judged(X.repeat(count, 0), Y.repeat(count, 0), *network, loss="huber", beta=0.3, fit_intercept=True)
    assert weighted.primal == pytest.approx(repeated.primal, rel=1e-13)
    assert weighted.dual == pytest.approx(repeated.dual, rel=1e-13)


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match="Y"):
        judged(np.ones((3, 2)), np.ones((3, 1)), np.ones((1, 2)), np.ones((1, 2)), loss="squared", beta=1.0)


def test_nan_is_no_proof() -> None:
    with pytest.raises(ValueError, match="not finite"):
        judged([[1.0]], [3.0], [[math.nan]], [[1.0]], loss="squared", beta=1.0)


def test_a_good_softmax_fit_keeps_its_digits() -> None:
    """One sample, two classes, logits ±z: the loss and its conjugate are functions of s = 1/(1 + e^2z), here 1e-18."""
    z, beta = 20.0, 1e-12
    u = math.sqrt(z)
    verdict = judged([[1.0]], [0], [[u]], [[u, -u]], loss="softmax", beta=beta)
    s = math.exp(-2 * z)
    tau = min(1.0, beta / (s * math.sqrt(2)))
    assert verdict.primal == pytest.approx(s + beta / 2 * 3 * z, rel=1e-14)
    assert verdict.dual == pytest.approx(tau * s * (1 - math.log(tau * s)), rel=1e-10)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("loss", {"loss": "hinge"}),
        ("beta", {"beta": -1.0}),
        ("beta", {"beta": float("nan")}),
        ("delta", {"loss": "huber", "delta": -1.0}),
        ("sample_weight", {"sample_weight": [1.0, -1.0]}),
        ("Y", {"loss": "softmax", "Y": [0, -1]}),
        ("Y", {"loss": "softmax", "Y": [0.0, 0.5]}),
        ("Y", {"loss": "softmax", "Y": [[5.0, 5.0], [1.0, 0.0]]}),
        ("Y", {"loss": "logistic", "Y": [[0.3, 1.0], [0.0, 1.0]]}),
        ("Y", {"Y": [[float("nan"), 1.0], [0.0, 1.0]]}),
    ],
)
def test_what_no_verdict_can_be_about_is_refused(name: str, change: dict) -> None:
    none = np.zeros((0, 1))
    asked = {"X": [[1.0], [2.0]], "Y": np.ones((2, 2)), "loss": "squared", "beta": 1e5} | change
    with pytest.raises(ValueError, match=name):
        judged(first=none, second=np.zeros((0, 2)), **asked)


POOL = [[0.5, -1.0, 0.0, 0.25], [0.0, 2.0, 1.0, 1.0]]
FORMS = [  # block, the shape of a sample, settings, (p, q) for three outputs
    ("mlp", (4,), {}, (4, 3)),
    ("mlp", (4,), {"fit_intercept": True}, (5, 3)),
    ("cnn", (2, 5, 4), {"kernel": (2, 3), "padding": (1, 0), "pool": 2}, (12, 12)),
    ("cnn", (2, 5, 4), {"kernel": (2, 3), "padding": (1, 0), "pool": 2, "fit_intercept": True}, (13, 12)),
    ("cnn", (1, 7), {"stride": 2, "padding": 2, "dilation": 2, "pool": POOL}, (3, 6)),
    ("attention", (3, 2), {"scale": "sqrt_d"}, (4, 6)),
    ("mixer", (3, 2), {}, (9, 6)),
    ("fno", (3, 2), {}, (6, 3)),
    ("fno", (6, 2), {"grid": (2, 3)}, (12, 3)),
    ("bfno", (4, 2), {"grid": (2, 2)}, (8, 3)),
    ("poolformer", (6, 2), {"grid": (3, 2)}, (2, 3)),
    ("fnet", (3, 4), {}, (4, 3)),
    ("token_map", (3, 4), {}, (4, 3)),
]


def test_every_block_has_a_form() -> None:
    assert {block for block, *_ in FORMS} == set(BLOCKS)


@pytest.mark.parametrize(("block", "sample", "settings", "sizes"), FORMS)
def test_slopes_are_adjoint_to_outputs(block: str, sample: tuple, settings: dict, sizes: tuple) -> None:
    """⟨A_k*Θ, uvᵀ⟩ = ⟨Θ, B(D_k Φ u, v)⟩, and rounding stays within what is allowed for it, seen from long double."""
    rng = np.random.default_rng(0)
    form = make_form(block, (50, *sample), settings)
    X = rng.standard_normal((50, *sample))
    u, v, gate = (rng.standard_normal((1, size)) for size in (*sizes, sizes[0]))
    ready = form.prepare(X)
    opened = form.hidden(ready, gate) >= 0
    outputs = form.outputs(ready, form.hidden(ready, u) * opened, v)
    assert outputs.shape == (50, form.tokens(ready), 3)
    theta = rng.standard_normal(outputs.shape)
    slope = form.slope(ready, opened[:, :, 0], theta)
    assert slope.shape == sizes
    assert (slope * np.outer(u, v)).sum() == pytest.approx((outputs * theta).sum(), rel=1e-12)
    bound = form.absolute()
    allowed = bound.slope(bound.prepare(np.abs(X)), np.ones(opened.shape[:2], dtype=bool), np.abs(theta))
    finer = form.slope(form.prepare(X.astype(np.longdouble)), opened[:, :, 0], theta.astype(np.longdouble))
    assert (np.abs(slope - finer) <= 58 * np.finfo(float).eps * allowed).all()
    assert (np.abs(slope) <= allowed * (1 + 1e-12)).all()


@pytest.mark.parametrize("block", [block for block in BLOCKS if block not in ("mlp", "cnn")])
@pytest.mark.parametrize("readout", ["mean", "tokens"])
def test_one_token_of_one_feature_is_an_mlp(block: str, readout: str) -> None:
    """x = 1, y = 3 once more: every token block is Σ u v there."""
    beta, u = 0.5, math.sqrt(2.5)
    Y = [3.0] if readout == "mean" else [[3.0]]
    verdict = judged([[[1.0]]], Y, [[u]], [[u]], block=block, readout=readout, loss="squared", beta=beta)
    assert verdict.primal == pytest.approx(3 * beta - beta**2 / 2, rel=1e-14)
    assert verdict.relative_gap == pytest.approx(0, abs=2e-14)


def test_attention_by_hand() -> None:
    """Two tokens, 1 and 2, one feature, w₁ = w₂ = 1: hidden [[1, 2], [2, 4]], outputs 1·1 + 2·2 = 5 and 2 + 8 = 10."""
    X, one = [[[1.0], [2.0]]], [[1.0]]
    tokens = judged(X, [[5.0, 10.0]], one, one, block="attention", readout="tokens", loss="squared", beta=0.5)
    mean = judged(X, [7.5], one, one, block="attention", loss="squared", beta=0.5)
    assert tokens.primal == mean.primal == pytest.approx(0.5, rel=1e-15)
    masked = judged([[[1.0], [9.0]]], [1.0], one, one, block="attention", loss="squared", beta=0.5, mask=[[1, 0]])
    assert masked.primal == pytest.approx(0.5, rel=1e-15)
    wrong = judged(
        X, [[5.0, 0.0]], one, one, block="attention", readout="tokens", loss="squared", beta=0.5, mask=[[1, 0]]
    )
    assert wrong.primal == pytest.approx(0.5 + 16 / 2, rel=1e-15)  # alone, the first token gives 1, not 5


def test_groups_are_blocks_of_their_own() -> None:
    """Two groups are two problems whose primals and duals add up where both have τ = 1."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((5, 3, 4)), rng.standard_normal((5, 4))
    first, second, gates = (0.1 * rng.standard_normal((4, size)) for size in (6, 2, 6))
    group = np.array([0, 1, 1, 0])
    asked = {"loss": "huber", "beta": 1e3}
    both = judged(X, Y, first, second, gates, block="bfno", groups=2, group=group, gate_group=group, **asked)
    alone = [
        judged(X[..., 2 * b : 2 * b + 2], Y[:, 2 * b : 2 * b + 2], *(a[group == b] for a in (first, second, gates)),
               block="fno", **asked)
        for b in (0, 1)
    ]  # fmt: skip
    assert both.primal == pytest.approx(sum(v.primal for v in alone), rel=1e-13)
    assert both.dual == pytest.approx(sum(v.dual for v in alone), rel=1e-13)
    assert both.polar_max == pytest.approx(max(v.polar_max for v in alone), rel=1e-13)


@pytest.mark.parametrize("readout", ["mean", "tokens"])
def test_batches_change_nothing(readout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((50, 3, 2)), rng.standard_normal((50, 3, 2) if readout == "tokens" else (50, 2))
    mask = rng.random((50, 3)) < 0.7
    mask[:, 0] = True
    network = [rng.standard_normal((3, 4)) for _ in range(3)]
    asked = {"block": "attention", "loss": "squared", "beta": 0.1, "readout": readout, "mask": mask}
    asked["sample_weight"] = rng.integers(0, 3, 50)
    whole = judged(X, Y, *network, **asked)
    monkeypatch.setattr(samples, "_BATCH_NUMBERS", 1)
    parts = judged(X, Y, *network, **asked)
    assert whole.primal == pytest.approx(parts.primal, rel=1e-13)
    assert whole.dual == pytest.approx(parts.dual, rel=1e-12)
    assert whole.polar_max == pytest.approx(parts.polar_max, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("block", {"block": "transformer"}),
        ("X", {"X": np.ones((2, 4))}),
        ("X", {"block": "mlp"}),
        ("X", {"X": np.full((2, 4, 2), np.nan)}),
        ("readout", {"readout": "max"}),
        ("readout", {"block": "cnn", "X": np.ones((2, 1, 4, 4)), "readout": "tokens"}),
        ("grid", {"block": "fno", "grid": (2, 3)}),
        ("grid", {"block": "poolformer", "X": np.ones((2, 3, 2))}),
        ("scale", {"scale": "sqrt"}),
        ("settings", {"kernel": 3}),
        ("mask", {"mask": [[1, 1, 1, 1], [0, 0, 0, 0]]}),
        ("mask", {"mask": [[1, 1], [1, 1]]}),
        ("first", {"first": np.zeros((0, 3))}),
        ("second", {"second": np.zeros((0, 3))}),
        ("second", {"second": np.zeros((1, 4))}),
        ("gates", {"gates": np.zeros((0, 3))}),
        ("gates", {"gates": np.zeros((2, 4))}),
        ("gate_vectors", {"gate_vectors": np.zeros((2, 3))}),
        ("groups", {"block": "bfno", "groups": 2}),
        ("groups", {"block": "bfno", "groups": 3, "group": []}),
        ("group", {"block": "bfno", "groups": 2, "group": [2], "first": np.zeros((1, 4)), "second": np.zeros((1, 1))}),
        ("kernel", {"block": "cnn", "X": np.ones((2, 1, 2, 2))}),
        ("pool", {"block": "cnn", "X": np.ones((2, 1, 4, 4)), "pool": [[1.0, 1.0]]}),
        ("first, second", {"X": np.full((2, 4, 2), 1e120), "first": np.ones((1, 4)), "second": np.ones((1, 4))}),
        ("X, Y", {"X": np.full((2, 4, 2), 1e120)}),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_what_fits_no_block_is_refused(name: str, change: dict) -> None:
    asked = {"X": np.ones((2, 4, 2)), "Y": np.ones((2, 2)), "block": "attention", "loss": "squared", "beta": 1.0}
    asked |= {"first": np.zeros((0, 4)), "second": np.zeros((0, 4))} | change
    with pytest.raises(ValueError, match=f"^{name}: "):
        judged(**asked)
