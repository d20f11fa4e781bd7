"""Means and scales: the same as scikit-learn's, and right where those are hard to compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

import provenet as pn
from provenet.scaling import Scaling

RNG = np.random.default_rng(0)


def fitted(X: np.ndarray, weight: np.ndarray | None = None, axis: int = 1) -> Scaling:
    return Scaling.fit(torch.tensor(X), None, axis, None if weight is None else torch.tensor(weight))


@pytest.mark.parametrize("weighted", [False, True])
def test_as_scikit_learn_does(weighted: bool) -> None:
    X = RNG.standard_normal((50, 3)) * [1.0, 1e5, 1e-3] + [0.0, 1e6, 5.0]
    weight = RNG.integers(1, 4, 50).astype(float) if weighted else None
    ours = fitted(X, weight).samples(torch.tensor(X)).numpy()
    theirs = StandardScaler().fit(X, sample_weight=weight).transform(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_weight_of_two_is_the_sample_twice() -> None:
    X = RNG.standard_normal((20, 2))
    twice = fitted(np.concatenate([X, X[:5]]))
    weighed = fitted(X, np.r_[np.full(5, 2.0), np.ones(15)])
    assert twice.near(weighed)
    np.testing.assert_allclose(twice.scale, weighed.scale, rtol=1e-12)


def test_medians_weigh_like_repeats_and_ignore_outliers() -> None:
    Y = RNG.standard_normal((31, 2)) * [1, 100] + 7
    weight = RNG.integers(1, 4, 31)
    many = np.repeat(Y, weight, axis=0)
    found = Scaling.fit(torch.tensor(Y), torch.tensor(Y), 1, torch.tensor(weight.astype(float)), robust=True)
    np.testing.assert_allclose(found.target_mean, np.median(many, 0))
    deviation = 1.4826 * np.median(np.abs(many - np.median(many, 0)), 0)
    np.testing.assert_allclose(found.target_spread, deviation)
    Y[0] = 1e9
    spoilt = Scaling.fit(torch.tensor(Y), torch.tensor(Y), 1, torch.tensor(weight.astype(float)), robust=True)
    np.testing.assert_allclose(spoilt.target_spread, deviation, rtol=0.5)
    same = torch.tensor([[1.0]] * 5 + [[3.0]])
    assert float(Scaling.fit(same, same, 1, robust=True).target_spread) == pytest.approx(2 / 6)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e300, 1e-300])
def test_constant_columns_say_nothing_ever(value: float) -> None:
    X = np.c_[np.full(30, value), RNG.standard_normal(30)]
    scaling = fitted(X)
    assert scaling.mean[0] == value
    assert scaling.scale[0] == 0
    assert not scaling.samples(torch.tensor([[7.0, 1.0]]))[0, 0]  # new values there neither


def test_rounding_is_not_blown_up() -> None:
    X = np.c_[np.array([0.3, 0.1 + 0.2] * 20), np.zeros(40)]
    assert not fitted(X).samples(torch.tensor(X)).any()


@pytest.mark.parametrize("size", [1e300, 1e-300, 1e-3, 1e307])
def test_all_sizes(size: float) -> None:
    X = RNG.uniform(-1, 1, (40, 1)) * size
    ready = fitted(X).samples(torch.tensor(X)).numpy()
    np.testing.assert_allclose([ready.mean(), ready.std()], [0, 1], atol=1e-12)


def test_what_float64_cannot_hold_is_named() -> None:
    X = np.c_[np.zeros(3), [-1.7e308, 1.7e308, 1.7e308]]
    with pytest.raises(ValueError, match="feature 1 spans more than float64 can hold"):
        fitted(X).samples(torch.tensor(X))


def test_large_means_do_not_cancel() -> None:
    X = 1e9 + RNG.standard_normal((100, 1))
    ready = fitted(X).samples(torch.tensor(X)).numpy()
    assert ready.std() == pytest.approx(1, rel=1e-12)


def test_float32_is_taken_as_it_is() -> None:
    X = (RNG.standard_normal((30, 2)) * [1e3, 1e-3]).astype(np.float32)
    same = [fitted(kind(X)) for kind in (np.float32, np.float64)]
    assert torch.equal(same[0].mean, same[1].mean)
    assert same[0].samples(torch.tensor(X)).dtype == torch.float64


def test_features_of_tokens_and_channels_of_images() -> None:
    tokens = RNG.standard_normal((10, 4, 3)) * [1, 10, 100]
    mask = torch.tensor(RNG.random((10, 4)) < 0.6)
    mask[:, 0] = True
    spoilt = torch.tensor(tokens).masked_fill(~mask.unsqueeze(-1), 1e6)
    scaling = Scaling.fit(spoilt, None, -1, mask=mask)
    ready = scaling.samples(spoilt, mask)
    assert not ready[~mask].any()
    np.testing.assert_allclose(ready[mask].mean(0), 0, atol=1e-12)
    images = RNG.standard_normal((10, 2, 5, 5)) * np.array([1, 1e3])[:, None, None]
    ready = fitted(images).samples(torch.tensor(images))
    np.testing.assert_allclose(ready.std((0, 2, 3), correction=0), 1, rtol=1e-12)


def test_moments_are_recognised_up_to_rounding() -> None:
    X = RNG.standard_normal((50, 2)) * [1, 1e9] + [1e5, 0]
    Y = torch.tensor(RNG.standard_normal((50, 1)))
    one = Scaling.fit(torch.tensor(X), Y, 1)
    order = RNG.permutation(50)
    assert one.near(Scaling.fit(torch.tensor(X[order]), Y[order], 1))
    for other in (Scaling.fit(torch.tensor(X * 1.0001), Y, 1), Scaling.fit(torch.tensor(X), Y + 0.001, 1), fitted(X)):
        assert not one.near(other)


def test_a_module_in_float32_is_still_that_of_the_problem() -> None:
    X = RNG.standard_normal((20, 2)) * 100
    problem = pn.formulate("mlp", X, X[:, 0], gates=3, beta=0.1, standardize=True)
    network = pn.solve(problem).network()
    assert pn.certify(problem, network.float()).relative_gap < 1e-3
    network.mean += 1
    with pytest.raises(ValueError, match="by the same means and scales"):
        pn.certify(problem, network)
