"""Every block behind the estimators: shapes, readouts, masks, searches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.model_selection import GridSearchCV

import provenet as pn
from provenet.blocks import BLOCKS
from provenet.data import validation
from provenet.testing.examples import EXAMPLES

TOKENS = [name for name, kind in BLOCKS.items() if kind.tokens]
MASKED = [name for name, kind in BLOCKS.items() if kind.masks]
SMALL = {"n_gates": 4, "tol": 1e-3}


def block_samples(name):
    """A block and 24 samples for it."""
    example = EXAMPLES[name][0]
    return example.block, example.samples(24)


def flat(X):
    return X.reshape(len(X), -1)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_classifier_of_every_block(name):
    block, X = block_samples(name)
    y = np.where(flat(X).sum(1) > 0, "warm", "cold")
    clf = pn.ProvenClassifier(block=block, beta=0.2, **SMALL).fit(X, y)
    assert clf.certificate_.holds(1e-3)
    assert clf.sample_shape_ == X.shape[1:]
    assert clf.n_features_in_ == (X.shape[1] if X.ndim in (2, 4) else X.shape[2])
    logits = clf.network_(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(clf.decision_function(X), logits[:, 1] - logits[:, 0], rtol=1e-9, atol=1e-12)
    assert clf.predict_proba(X).shape == (24, 2)
    assert clf.score(X, y) == np.mean(clf.predict(X) == y)
    raw = clf.solution_.problem.scaling is None
    assert raw == (block.name != "mlp")  # tables are standardised
    settings = {"gates": "trained", "n_gates": 4, "fit_intercept": "free", "standardize": not raw}
    problem = pn.formulate(block, X, y == "warm", loss="softmax", beta=0.2, **settings)
    assert pn.certify(problem, clf.network_, tol=1e-3).primal == pytest.approx(clf.certificate_.primal, rel=1e-10)


@pytest.mark.parametrize("name", [name for name in BLOCKS if not EXAMPLES[name][0].settings and name != "mlp"])
def test_a_name_is_the_block_with_its_defaults(name):
    _, X = block_samples(name)
    Y = flat(X)[:, :2]
    named, given = (pn.ProvenRegressor(block=block, beta=1.0, **SMALL).fit(X, Y) for block in (name, BLOCKS[name]()))
    np.testing.assert_array_equal(named.predict(X), given.predict(X))


def test_the_intercept_is_the_mlps_alone():
    _, X = block_samples("fnet")
    same = [
        pn.ProvenRegressor(block="fnet", fit_intercept=on, beta=1.0, **SMALL).fit(X, X[:, 0]) for on in (True, False)
    ]
    np.testing.assert_array_equal(*(model.predict(X) for model in same))
    rows = X[:, 0]
    other = [
        pn.ProvenRegressor(block="mlp", fit_intercept=on, beta=0.1, **SMALL).fit(rows, rows[:, 0])
        for on in (True, False)
    ]
    assert [model.network_.first.shape[1] for model in other] == [3, 2]


@pytest.mark.parametrize("name", TOKENS)
def test_a_target_for_every_token(name):
    block, X = block_samples(name)
    Y = X[..., :2] + 0.5 * X.mean(1, keepdims=True)[..., :2]
    reg = pn.ProvenRegressor(block=block, readout="tokens", beta=0.2, **SMALL).fit(X, Y)
    assert reg.certificate_.holds(1e-3)
    said = reg.predict(X)
    assert said.shape == Y.shape
    spread = ((Y - Y.mean((0, 1))) ** 2).sum((0, 1))
    assert reg.score(X, Y) == pytest.approx((1 - ((Y - said) ** 2).sum((0, 1)) / spread).mean())
    weight = np.arange(24.0)
    repeated = np.repeat(np.arange(24), weight.astype(int))
    assert reg.score(X, Y, weight) == pytest.approx(reg.score(X[repeated], Y[repeated]))
    if block.groups == 1:
        one = pn.ProvenRegressor(block=block, readout="tokens", beta=0.2, **SMALL).fit(X, Y[..., 0])
        assert one.predict(X).shape == Y.shape[:2]


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_label_for_every_token(loss, classes):
    block, X = block_samples("poolformer")
    kind = np.where(X[..., 0] > 0, 1, 0) + np.where(X[..., 1] > 1, 1, 0)
    y = np.array(["b", "a", "c"])[kind.clip(max=classes - 1)]
    clf = pn.ProvenClassifier(block=block, readout="tokens", loss=loss, beta=0.05, **SMALL).fit(X, y)
    assert clf.predict(X).shape == y.shape
    chances = clf.predict_proba(X)
    assert chances.shape == (*y.shape, classes)
    np.testing.assert_allclose(chances.sum(-1), 1, rtol=1e-12)
    assert (clf.classes_[chances.argmax(-1)] == clf.predict(X)).all()
    assert clf.score(X, y) == np.mean(clf.predict(X) == y)
    assert clf.score(X, y, np.arange(24)) == pytest.approx(np.average((clf.predict(X) == y).mean(1), weights=range(24)))
    with pytest.raises(ValueError, match=r"class_weight: with readout='tokens'"):
        pn.ProvenClassifier(block=block, readout="tokens", class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match=r"y: with readout='tokens' every token has a label"):
        pn.ProvenClassifier(block=block, readout="tokens").fit(X, y[:, 0])


@pytest.mark.parametrize("name", [name for name in BLOCKS if name != "mlp"])
def test_a_search_over_beta(name):
    block, X = block_samples(name)
    Y = flat(X)[:, :2]
    search = pn.ProvenRegressorCV(block=block, betas=3, cv=2, beta_ratio=0.05, activation="linear", **SMALL).fit(X, Y)
    assert search.cv_scores_.shape == (2, 3)
    assert np.isfinite(search.cv_scores_).all()
    assert search.predict(X).shape == Y.shape


def test_a_search_over_tokens():
    _, X = block_samples("fnet")
    search = pn.ProvenClassifierCV(block="fnet", readout="tokens", betas=2, cv=2, beta_ratio=0.1, **SMALL)
    search.fit(X, (X[..., 0] > 0).astype(int))
    assert ((search.cv_scores_ >= 0) & (search.cv_scores_ <= 1)).all()
    assert search.predict(X).shape == (24, 3)


@pytest.mark.parametrize("name", MASKED)
class TestMasks:
    def data(self, name):
        block, X = block_samples(name)
        mask = np.random.default_rng(1).random((24, 3)) < 0.7
        mask[:, 0] = True
        return block, X, mask

    def test_tokens_that_are_not_there_do_not_matter(self, name):
        block, X, mask = self.data(name)
        y = (X[:, 0, 0] > 0).astype(int)
        holes = np.where(mask[..., None], X, np.nan)
        clf = pn.ProvenClassifier(block=block, beta=0.2, **SMALL).fit(holes, y, mask=mask)
        same = pn.ProvenClassifier(block=block, beta=0.2, **SMALL).fit(X, y, mask=torch.from_numpy(mask))
        assert clf.certificate_.holds(1e-3)
        np.testing.assert_array_equal(clf.predict_proba(holes, mask=mask), same.predict_proba(X, mask=mask))
        assert clf.score(X, y, mask=mask) == np.mean(clf.predict(X, mask) == y)
        short = X[mask.sum(1) == 2][:1]
        there = mask[mask.sum(1) == 2][0]
        alone = clf.decision_function(short[:, there])  # fewer tokens than those of the fit, no mask needed
        np.testing.assert_allclose(alone, clf.decision_function(short, mask=there[None]), rtol=1e-9)
        with pytest.raises(ValueError, match="NaN"):
            clf.predict(np.full_like(X, np.nan), mask=mask)

    def test_a_score_of_the_tokens_that_are_there(self, name):
        block, X, mask = self.data(name)
        Y = X[..., :2] * mask[..., None]
        reg = pn.ProvenRegressor(block=block, readout="tokens", beta=0.2, **SMALL).fit(X, Y, mask=mask)
        said = reg.predict(X, mask=mask)
        assert (said[~mask] == 0).all()
        spoilt = np.where(mask[..., None], Y, 100.0)
        assert reg.score(X, spoilt, mask=mask) == reg.score(X, Y, mask=mask) <= 1

    def test_masks_are_routed_through_a_grid_search(self, name):
        """scikit-learn's own search splits the mask with the samples, for fits and for scores."""
        block, X, mask = self.data(name)
        y = (X[:, 0, 0] > 0).astype(int)
        holes = np.where(mask[..., None], X, np.nan)
        with config_context(enable_metadata_routing=True):
            clf = pn.ProvenClassifier(block=block, **SMALL).set_fit_request(mask=True).set_score_request(mask=True)
            search = GridSearchCV(clf, {"beta": [0.2, 2.0]}, cv=2, refit=False, error_score="raise")
            search.fit(holes, y, mask=mask)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()

    @pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
    def test_a_search(self, name, scoring):
        block, X, mask = self.data(name)
        y = (X[:, 0, 0] > 0).astype(int)
        search = pn.ProvenClassifierCV(block=block, betas=2, cv=2, beta_ratio=0.1, scoring=scoring, **SMALL)
        search.fit(np.where(mask[..., None], X, np.nan), y, mask=mask)
        assert np.isfinite(search.cv_scores_).all()
        assert search.predict(X, mask=mask).shape == (24,)


def test_wrong_shapes_are_named():
    block, X = block_samples("poolformer")
    y = X[:, 0, 0]
    reg = pn.ProvenRegressor(block=block, beta=1.0, **SMALL).fit(X, y)
    for wrong in (X[:, :, :1], X[:, :4], X[:, None], X[:, 0]):
        with pytest.raises(ValueError, match=r"fitted on samples of shape \(6, 2\), got"):
            reg.predict(wrong)
    with pytest.raises(ValueError, match="mask: block 'poolformer'"):
        reg.predict(X, mask=np.ones((24, 6)))
    with pytest.raises(ValueError, match="mask: block 'poolformer'"):
        reg.fit(X, y, mask=np.ones((24, 6)))
    with pytest.raises(ValueError, match=r"tokens of shape \(n, s, d\)"):
        pn.ProvenRegressor(block=block).fit(X[:, 0], y)
    with pytest.raises(ValueError, match="readout: block 'mlp'"):
        pn.ProvenRegressor(block="mlp", readout="tokens").fit(X[:, 0], X[:, 0, :2])
    with pytest.raises(ValueError, match=r"Y: block 'poolformer' on this X needs \(24, 6, 2\)"):
        pn.ProvenRegressor(block=block, readout="tokens").fit(X, X[:, :3, :2])
    tokens = pn.ProvenRegressor(block=block, readout="tokens", beta=1.0, **SMALL).fit(X, X)
    with pytest.raises(ValueError, match=r"y: \(24, 6, 2\) is needed"):
        tokens.score(X, X[:, 0])


def test_large_float32_samples_stay_float32(monkeypatch):
    monkeypatch.setattr(validation, "_LARGE_BYTES", 100)
    _, X = block_samples("fnet")
    single = X.astype(np.float32)
    single.flags.writeable = False  # as a file mapped into memory has it
    reg = pn.ProvenRegressor(block="fnet", beta=1.0, **SMALL).fit(single, X[:, 0])
    assert reg.solution_.problem.X.dtype == torch.float32
    assert reg.predict(single).dtype == np.float64
    double = pn.ProvenRegressor(block="fnet", beta=1.0, **SMALL).fit(single.astype(np.float64), X[:, 0])
    assert reg.certificate_.primal == pytest.approx(double.certificate_.primal, rel=1e-9)


def test_warm_start_of_tokens():
    _, X = block_samples("fnet")
    reg = pn.ProvenRegressor(block="fnet", beta=1.0, warm_start=True, n_gates=4, tol=1e-6).fit(X, X[:, 0])
    assert reg.n_iter_ > 0
    assert reg.fit(X, X[:, 0]).n_iter_ == 0
