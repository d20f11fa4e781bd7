"""β chosen by short trainings."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.blocks import BLOCKS
from provenet.estimators import auto_beta
from provenet.estimators.auto_beta import OTHERWISE, SHARES, folds_of, shares_for
from provenet.testing.examples import EXAMPLES

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 4))
CURVED = (X[:, 0] * X[:, 1] > 0).astype(int)
NOISE = RNG.integers(0, 2, len(X))
RARE = (RNG.random(len(X)) < 0.25).astype(int)  # noise too, whose best guess is zero
AUTO: dict[str, Any] = {"beta": "auto", "gates": "gaussian", "n_gates": 8, "tol": 1e-2}


def test_noise_wants_more_decay_than_a_rule() -> None:
    """Chosen where held-out samples say so, not by one share for all."""
    rule, noise = (pn.ProvenClassifier(**AUTO | {"n_gates": 30}).fit(X, y) for y in (CURVED, RARE))
    assert noise.beta_search_.share > 3 * rule.beta_search_.share
    assert noise.beta_search_.share == SHARES[0]


def test_what_was_chosen_is_recorded_and_the_same_again() -> None:
    one, two = (pn.ProvenClassifier(random_state=3, **AUTO).fit(X, CURVED) for _ in range(2))
    found = one.beta_search_
    assert found.losses.shape == (6, len(SHARES))
    assert np.array_equal(found.losses, two.beta_search_.losses)
    assert found.share == SHARES[int(found.scores.argmin())]
    assert one.beta_ == two.beta_ == one.solution_.problem.beta
    assert "6 folds" in str(found)
    assert found.seconds > 0
    other = pn.ProvenClassifier(random_state=4, **AUTO).fit(X, CURVED)
    assert not np.array_equal(found.losses, other.beta_search_.losses)
    again = one.set_params(beta=0.5).fit(X, CURVED)
    assert not hasattr(again, "beta_search_")


def test_losses_are_those_of_samples_left_out() -> None:
    """At a β near β_max networks say next to nothing: a sample costs the entropy of the classes."""
    found = pn.ProvenClassifier(**AUTO | {"fit_intercept": "free"}).fit(X, NOISE).beta_search_
    assert found.losses.mean(0)[0] == pytest.approx(math.log(2), rel=0.1)
    assert found.losses.mean(0)[-1] == pytest.approx(math.log(2), rel=0.1)  # once they are no surer than they should be
    assert found.wrong.mean() == pytest.approx(0.5, abs=0.2)


def test_a_regression_has_no_labels_and_its_losses_as_they_are() -> None:
    found = pn.ProvenRegressor(**AUTO).fit(X, NOISE).beta_search_
    assert not found.wrong.any()
    assert found.losses.mean(0)[-1] > 1.3 * found.losses.mean(0)[0]


def test_few_samples_are_divided_into_folds_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_beta, "_FEW", len(X))
    assert pn.ProvenClassifier(**AUTO).fit(X, CURVED).beta_search_.wrong.shape == (3, len(SHARES))


def test_units_do_not_matter() -> None:
    """Targets a thousand times as large have the same share, and losses a million times as large."""
    y = X[:, 0] * X[:, 1]
    raw = AUTO | {"standardize": False}
    small, large = (pn.ProvenRegressor(**raw).fit(X, scale * y).beta_search_ for scale in (1.0, 1024.0))
    assert small.share == large.share
    assert large.losses == pytest.approx(1024.0**2 * small.losses, rel=1e-6)


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block(name: str) -> None:
    example = EXAMPLES[name][0]
    samples = example.samples(24)
    model = pn.ProvenRegressor(block=example.block, **AUTO | {"n_gates": 3, "tol": 0.1})
    fitted = model.fit(samples, samples.reshape(24, -1)[:, :2])
    assert fitted.beta_search_.losses.shape == (6, len(SHARES))
    assert np.isfinite(fitted.beta_search_.losses).all()


@pytest.mark.parametrize("masked", [False, True])
def test_tokens_with_labels_of_their_own(masked: bool) -> None:
    samples = RNG.standard_normal((12, 4, 3))
    mask = np.arange(4) < RNG.integers(2, 5, (12, 1)) if masked else None
    model = pn.ProvenRegressor(block="attention", readout="tokens", fit_intercept="free", **AUTO | {"tol": 0.1})
    fitted = model.fit(samples, samples[:, :, 0], mask=mask)
    assert np.isfinite(fitted.beta_search_.losses).all()


@pytest.mark.parametrize("loss", ["softmax", "logistic", "squared", "huber"])
@pytest.mark.parametrize("activation", ["gated_relu", "linear"])
def test_every_loss_with_weights(loss: str, activation: str) -> None:
    kind = pn.ProvenClassifier if loss in ("softmax", "logistic") else pn.ProvenRegressor
    weight = RNG.uniform(0.0, 2.0, len(X)) * (np.arange(len(X)) % 5 > 0)
    model = kind(loss=loss, activation=activation, fit_intercept="free", **AUTO)
    fitted = model.fit(X, CURVED, sample_weight=weight)
    assert np.isfinite(fitted.beta_search_.losses).all()
    assert fitted.certificate_.holds(1e-2)


@pytest.mark.parametrize("kind", [pn.ProvenClassifier, pn.ProvenRegressor])
def test_a_weight_of_two_is_a_sample_repeated(kind: Any) -> None:
    """The same folds, trainings and gates, whatever the order: copies are one sample, of the weight of all."""
    weight = RNG.integers(0, 4, len(X))
    settings = {"n_gates": 10, "tol": 1e-5}
    weighted = kind(**settings).fit(X, CURVED, sample_weight=weight)
    order = RNG.permutation(np.repeat(np.arange(len(X)), weight))
    repeated = kind(**settings).fit(X[order], CURVED[order])
    assert weighted.beta_search_.share == repeated.beta_search_.share
    assert weighted.beta_search_.losses == pytest.approx(repeated.beta_search_.losses, rel=1e-9)
    assert repeated.beta_ == pytest.approx(weighted.beta_, rel=1e-12)
    assert repeated._outputs(X) == pytest.approx(weighted._outputs(X), abs=0.02)  # as near as the gap allows


def test_norms_other_than_weight_decay_have_the_share() -> None:
    fitted = pn.ProvenClassifier(penalty=(1, 2), **AUTO).fit(X, CURVED)
    assert fitted.beta_ == pytest.approx(fitted.beta_search_.share * fitted.solution_.problem.beta_max)


def test_classes_of_one_sample() -> None:
    y = CURVED.copy()
    y[:2] = (2, 3)
    fitted = pn.ProvenClassifier(fit_intercept="free", **AUTO).fit(X, y)
    assert np.isfinite(fitted.beta_search_.losses).all()
    assert fitted.beta_search_.losses.max() < 10  # none was judged by a class it had not seen


def test_too_few_samples_have_a_fixed_share_and_say_so() -> None:
    fitted = pn.ProvenClassifier(**AUTO).fit(X[:6], [0, 1, 0, 1, 0, 1])
    found = fitted.beta_search_
    assert found.share == OTHERWISE
    assert "6 different samples are too few" in str(found)
    assert found.to_dict()["losses"] == []


def test_targets_all_equal_and_rows_all_equal() -> None:
    assert pn.ProvenRegressor(**AUTO).fit(X, np.zeros(len(X))).certificate_.gap == 0
    fitted = pn.ProvenClassifier(**AUTO).fit(np.ones((30, 2)), np.arange(30) % 2)
    assert fitted.certificate_.holds(1e-2)


def test_a_time_limit_ends_it() -> None:
    fitted = pn.ProvenClassifier(max_seconds=1e-3, **AUTO)
    with pytest.warns(match="stopped"):
        fitted.fit(X, CURVED)
    assert "time limit" in str(fitted.beta_search_)


def test_large_samples_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_beta, "_MOST", 1e3)
    assert "too long" in pn.ProvenClassifier(**AUTO).fit(X, CURVED).beta_search_.reason


def test_many_samples_are_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pn.ProvenClassifier(**AUTO).fit(X, CURVED).beta_search_
    monkeypatch.setattr(auto_beta, "_WORK", 1.0)
    monkeypatch.setattr(auto_beta, "_SAMPLES", 40)
    part = pn.ProvenClassifier(**AUTO).fit(X, CURVED).beta_search_
    assert not part.reason
    assert not np.array_equal(whole.losses, part.losses)


def test_many_samples_have_smaller_shares() -> None:
    """What a β of 0.005 of β_max is to 600 samples a tenth of it is to 6,000: β_max grows with them."""
    assert shares_for(600) == SHARES
    assert shares_for(6000)[: len(SHARES)] == SHARES
    assert 3 / 6000 <= shares_for(6000)[-1] < 6 / 6000
    assert all(two < one for one, two in pairwise(shares_for(10**6)))


def test_a_rule_that_many_samples_tell_of_is_learnt_with_little_decay() -> None:
    """Without noise, and with it: there a smaller share would have to gain, and does not."""
    many = np.random.default_rng(1).standard_normal((2400, 3))
    rule = (np.abs(many[:, 0]) > np.abs(many[:, 1])).astype(int)
    noise = np.random.default_rng(2).integers(0, 2, len(many))
    clear, vague = (pn.ProvenClassifier(**AUTO | {"n_gates": 20}).fit(many, y).beta_search_ for y in (rule, noise))
    assert clear.share < SHARES[-1] < vague.share
    assert clear.shares.tolist() == list(shares_for(len(many)))
    assert clear.share == clear.shares[int(clear.scores.argmin())]


def test_one_fold_of_many_samples_where_three_are_too_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a share that is smaller than the best one of a part of the samples: all of them have a larger β_max."""
    monkeypatch.setattr(auto_beta, "_MANY", 40)
    monkeypatch.setattr(auto_beta, "_WORK", 45.0 * 4 * 235 * 8 * 7)  # passes, steps, neurons and weights of 45 samples
    found = pn.ProvenClassifier(**AUTO | {"fit_intercept": True}).fit(X, CURVED).beta_search_
    assert found.losses.shape == (1, len(SHARES))
    assert 0.4 < found.part < 0.6
    assert found.share == pytest.approx(SHARES[int(found.scores.argmin())] * found.part**0.5)
    assert "one fold of 50 % of the samples" in str(found)
    assert found.to_dict()["part"] == found.part
    assert "of 99.9 % of the samples" in str(replace(found, part=0.999))


def test_folds_have_their_part_of_every_class() -> None:
    strata = np.array([0] * 30 + [1] * 6 + [2] * 2 + [3])
    fold = folds_of(strata, len(strata), 3, np.random.default_rng(0))
    assert fold[-1] == -1
    for k in range(3):
        assert (fold[strata == 0] == k).sum() == 10
        assert (fold[strata == 1] == k).sum() == 2
        assert (fold[strata == 2] == k).sum() <= 1


def test_a_search_over_betas_has_no_auto() -> None:
    with pytest.raises(ValueError, match="betas: "):
        pn.ProvenClassifierCV(betas=["auto"], n_gates=4).fit(X, CURVED)
