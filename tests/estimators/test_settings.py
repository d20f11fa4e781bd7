"""Settings of the estimators: keywords only, said once, told in the docstring."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest
from sklearn.base import clone

import provenet as pn
from provenet.estimators.settings import Settings

KINDS = [pn.ProvenClassifier, pn.ProvenClassifierCV, pn.ProvenRegressor, pn.ProvenRegressorCV]


@pytest.mark.parametrize("kind", KINDS)
def test_a_signature_that_tools_can_read(kind):
    parameters = inspect.signature(kind).parameters
    assert {field.name for field in fields(Settings)} < set(parameters) == set(kind().get_params())
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters.values())
    with pytest.raises(TypeError, match="positional"):
        kind("mlp")
    with pytest.raises(TypeError, match="betta"):
        kind(betta=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_is_told(kind):
    for name, parameter in inspect.signature(kind).parameters.items():
        assert f"\n    {name} : {parameter.annotation}, default {parameter.default!r}\n        " in kind.__doc__


def test_each_kind_has_its_own():
    names = {kind: set(kind().get_params()) for kind in KINDS}
    one, search = names[pn.ProvenClassifier], names[pn.ProvenClassifierCV]
    assert one - search == {"beta", "warm_start"}
    assert search - one == {"betas", "beta_ratio", "cv", "scoring", "rule", "cv_tol", "patience", "n_jobs"}
    assert one ^ names[pn.ProvenRegressor] == {"class_weight", "delta"}
    assert (pn.ProvenClassifier().loss, pn.ProvenRegressorCV().loss) == ("softmax", "squared")


def test_estimators_are_compared_by_identity_and_print_what_differs():
    one = pn.ProvenRegressor(tol=1e-2)
    assert one != clone(one)
    assert len({one, clone(one)}) == 2
    assert repr(one) == "ProvenRegressor(tol=0.01)"
