"""Stages that get better, each with the certificate of its own problem."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from layerwise_help import fitted, same_weights, small_layers, weights_of
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import provenet as pn
from provenet.layerwise.presets import PRESETS, default_layers
from provenet.layerwise.stage import digest_of


def seen_by(network: pn.nn.Layers, number: int, X: Any) -> torch.Tensor:
    """What the block of a stage saw, in float32."""
    with torch.no_grad():
        return network[number].prepared(network.passed(torch.from_numpy(X).float(), number))


@pytest.fixture(scope="module")
def model(digits: Any) -> Any:
    """The first stage solved, the second trained in batches."""
    layers = [
        replace(layer, engine=engine) for layer, engine in zip(small_layers()[:2], ("solve", "minibatch"), strict=True)
    ]
    return fitted(pn.LayerwiseClassifier(layers=layers, validation_fraction=None, beta="1e-2mean"), *digits)


def test_accuracy_rises_by_stage(digits: Any) -> None:
    X, y = digits
    layers = small_layers(n_gates=12, epochs=16)
    model = fitted(pn.LayerwiseClassifier(layers=layers, validation_fraction=None, certify=False), X, y)
    scores = [stage.score for stage in model.stages_]
    assert all(after >= before - 0.01 for before, after in pairwise(scores))  # three of 300 samples
    assert scores[-1] > scores[0] + 0.01
    assert model.score(X, y) == scores[-1]


def test_certificates_are_of_the_block_itself(model: Any, digits: Any) -> None:
    """The stage's problem is its block's own `formulate` on what it saw, with its gates; checked by another road."""
    X, y = digits
    for number, stage in enumerate(model.stages_):
        network, said = stage.module.network, stage.certificate
        seen = seen_by(model.network_, number, X).double()
        gates = network.gates.unique(dim=0).double()
        problem = pn.formulate(
            small_layers()[number].block, seen, y, gates=gates, loss="softmax", beta=0.01 * len(X), readout="mean"
        )
        found = pn.certify(problem, network)
        assert said.beta == pytest.approx(0.01 * len(X))
        assert said.scope == "fixed_gates"
        assert said.primal == pytest.approx(found.primal, rel=1e-9)
        assert found.dual <= said.dual * (1 + 1e-9)  # a solved stage has its run's dual point, too
        assert said.dual <= said.primal
    assert model.stages_[0].certificate.status == "certified"
    assert model.stages_[0].engine == "solve"


def test_certificates_name_the_stages_below(model: Any) -> None:
    first, second = model.stages_
    frame = pn.nn.Stage(second.module.network, normalise=second.module.normalise)
    assert second.below == digest_of([first.module], frame)
    assert first.below != second.below
    with torch.no_grad():
        changed = pn.nn.rebuild.rebuild(pn.nn.rebuild.describe(first.module), first.module.state_dict())
        changed.network.first[0, 0] += 1e-6
    assert digest_of([changed], frame) != second.below
    assert not hasattr(model, "certificate_")  # the deep network has none


def test_the_deep_network_is_what_predicts(model: Any, digits: Any) -> None:
    X, _ = digits
    with torch.no_grad():
        logits = model.network_(torch.from_numpy(X).float())
    np.testing.assert_allclose(model.decision_function(X), logits.numpy(), rtol=1e-4, atol=1e-5)
    assert np.array_equal(model.predict(X), model.classes_[logits.argmax(1).numpy()])
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)


def test_the_table_says_what_became_of_each_stage(model: Any) -> None:
    head, *rows = str(model.stages_).splitlines()
    assert head.split()[:5] == ["stage", "block", "by", "training", "validation"]
    assert len(rows) == 2
    assert "certified" in rows[0]
    assert "minibatch" in rows[1]


def test_an_open_gap_is_kept_and_said(digits: Any) -> None:
    with pytest.warns(ConvergenceWarning, match=r"stage 1: .* kept"):
        model = pn.LayerwiseClassifier(layers=small_layers(epochs=1)[:1], validation_fraction=None).fit(*digits)
    assert model.stages_[0].certificate.status == "not_certified"
    assert "not certified" in str(model.stages_)


def test_a_stage_that_does_not_help_is_the_last(digits: Any) -> None:
    bad = replace(small_layers()[1], rate=1e-9)
    layers = [small_layers(epochs=8)[0], bad, small_layers()[2]]
    model = fitted(pn.LayerwiseClassifier(layers=layers, certify=False), *digits)
    assert len(model.network_) == len(model.stages_) == 1
    patient = fitted(pn.LayerwiseClassifier(layers=layers, certify=False, early_stopping=False), *digits)
    assert len(patient.stages_) == 3
    assert patient.stages_[1].validation < patient.stages_[0].validation


def test_the_same_seed_gives_the_same_network(digits: Any) -> None:
    one = pn.LayerwiseClassifier(layers=small_layers()[:2], certify=False, random_state=3)
    first, again = (weights_of(fitted(clone(one), *digits)) for _ in range(2))
    other = weights_of(fitted(clone(one).set_params(random_state=4), *digits))
    assert same_weights(first, again)
    assert not same_weights(first, other)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("gates", ["gaussian", "trained"])
@pytest.mark.parametrize("engine", ["solve", "minibatch"])
def test_gates_and_rank(digits: Any, engine: str, gates: str, rank: int) -> None:
    X, y = digits
    layers = small_layers(gates=gates, rank=rank, n_gates=4, engine=engine, beta="1e-2mean", epochs=3)[:1]
    model = fitted(pn.LayerwiseClassifier(layers=layers, validation_fraction=None, tol=1e-2), X, y)
    (stage,) = model.stages_
    assert len(stage.module.network.gates.unique(dim=0)) <= 4
    assert stage.filters <= 4 * rank
    assert stage.shape == (stage.filters, 8, 8)
    assert stage.certificate.dual <= stage.certificate.primal
    if engine == "minibatch":
        assert stage.filters == 4 * rank


@pytest.mark.parametrize(
    ("block", "passes"),
    [
        ("mixer", "features"),
        ("poolformer", "features"),
        ("fno", "features"),
        ("attention", "features"),
        ("fnet", "features"),
    ],
)
def test_tokens_through_any_block(block: str, passes: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4, 3))
    y = (X[:, 0, 0] * X[:, 1, 1] > 0).astype(int)
    layers = [pn.Layer(block, n_gates=3, epochs=3, engine="minibatch", normalise="standard", passes=passes)] * 2
    model = fitted(pn.LayerwiseClassifier(layers=layers, early_stopping=False), X, y)
    assert len(model.stages_) == 2
    assert all(stage.certificate is not None for stage in model.stages_)
    assert model.predict(X).shape == (120,)


def test_regression_with_residuals() -> None:
    """Denoising: every stage adds what it knows to what it saw."""
    rng = np.random.default_rng(0)
    clean = np.sin(rng.normal(size=(100, 1, 3)) + np.linspace(0, 1, 4)[:, None])
    X = clean + 0.3 * rng.normal(size=clean.shape)
    layer = pn.Layer("poolformer", readout="tokens", passes="residual", n_gates=4, gates="gaussian", engine="solve")
    model = fitted(pn.LayerwiseRegressor(layers=[layer] * 2, early_stopping=False, tol=1e-2, beta="1e-3mean"), X, clean)
    first, second = model.network_
    seen = torch.from_numpy(X).float()
    torch.testing.assert_close(model.network_.passed(seen, 1), seen + first.network(seen))
    torch.testing.assert_close(model.network_(seen), second.network(seen + first.network(seen)))
    assert model.predict(X).shape == clean.shape
    assert all(stage.score > 0.5 for stage in model.stages_)


def test_tables() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.abs(X[:, 0]) + X[:, 1]
    model = fitted(pn.LayerwiseRegressor(layers=2, n_gates=10, beta="1e-3mean", epochs=20), X, y)
    assert model.predict(X).shape == (200,)
    assert model.score(X, y) > 0.9


def test_the_papers_recipe_runs_as_it_is(digits: Any) -> None:
    """One batch of it, on one epoch of few samples; the numbers are those of C.2."""
    X, y = digits
    recipe = PRESETS["paper"]
    assert (recipe.epochs, recipe.batch, recipe.n_gates, recipe.beta) == (50, 128, 256, "5e-4mean")
    layers = default_layers(recipe, (1, 28, 28))
    filled = [recipe.filled(layer, number, 3, 60_000) for number, layer in enumerate(layers)]
    assert [layer.rate for layer in filled] == [2e-1, 5e-2, 5e-3]
    assert recipe.rate_at(0.1, 15 * 469, 50 * 469, 469) == pytest.approx(0.02)
    model = pn.LayerwiseClassifier(preset="paper", epochs=1, layers=2, certify=False, early_stopping=False)
    fitted(model, X[:128], y[:128])
    assert [stage.filters for stage in model.stages_] == [256, 256]


@pytest.mark.parametrize("sample", [(1, 28, 28), (3, 32, 32), (1, 8, 8), (16, 12), (7, 5), (9,)])
@pytest.mark.parametrize("preset", ["paper", "cpu"])
def test_presets_have_stages_for_samples_of_any_shape(preset: str, sample: tuple[int, ...]) -> None:
    from provenet.layerwise.shapes import check_shapes

    recipe = PRESETS[preset]
    layers = default_layers(recipe, sample, 5)
    filled = [recipe.filled(layer, number, 5, 100) for number, layer in enumerate(layers)]
    assert len(check_shapes(filled, sample, 10)) == 5


def test_augmented_images_are_others_each_epoch(digits: Any) -> None:
    X, y = digits
    model = pn.LayerwiseClassifier(layers=small_layers()[:2], certify=False, augment=("flip", "crop"))
    again = weights_of(fitted(clone(model), X, y))
    assert same_weights(weights_of(fitted(model, X, y)), again)
    plain = weights_of(fitted(clone(model).set_params(augment=()), X, y))
    assert not same_weights(plain, again)


def test_epochs_are_told(digits: Any, capsys: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pn.LayerwiseClassifier(layers=small_layers(epochs=2)[:1], certify=False, verbose=1).fit(*digits)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert "stage 1/1" in said[0]
    assert "epoch 1/2" in said[0]
    assert "left" in said[0]


@pytest.mark.parametrize("seconds", [None, 5.0])
def test_a_stage_that_is_solved_has_a_limit_its_proof_included(
    seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from provenet import deadline
    from provenet.layerwise import exact
    from provenet.solvers import Limits

    draw = np.random.default_rng(0)
    problem = pn.formulate("mlp", draw.standard_normal((20, 3)), draw.standard_normal((20, 2)), gates=4, beta=0.1)
    real, left = exact.network_certificate, []
    monkeypatch.setattr(exact, "network_certificate", lambda *said: (left.append(deadline.left()), real(*said))[1])
    found = exact.solved(problem, 2, Limits(1e-4, max_seconds=seconds), None)
    assert found.certificate.gap >= 0
    assert left == [np.inf] if seconds is None else 0 < left[0] <= seconds + deadline.grace(seconds)


@pytest.mark.parametrize("beta", ["1e-3mean", "0.05max"])
def test_a_stage_cut_by_time_before_its_first_neuron_is_trained_in_batches(digits: Any, beta: str) -> None:
    X, y = digits
    layers = small_layers(n_gates=4, engine="solve", epochs=20, beta=beta)[:1]
    model = pn.LayerwiseClassifier(layers=layers, validation_fraction=None, max_seconds=1e-6, tol=1e-9)
    (stage,) = fitted(model, X, y).stages_
    assert stage.engine == "minibatch"
    assert stage.filters == 4
    assert stage.certificate.dual <= stage.certificate.primal
    assert stage.score > 0.3


def test_a_stage_that_is_zero_at_its_optimum_is_kept(digits: Any) -> None:
    layers = small_layers(n_gates=4, engine="solve", beta="1.01max")[:1]
    (stage,) = fitted(pn.LayerwiseClassifier(layers=layers, validation_fraction=None), *digits).stages_
    assert (stage.engine, stage.filters, str(stage.certificate.status)) == ("solve", 0, "certified")


@pytest.mark.parametrize("rank", [1, 2])
def test_finishing_behind_the_gates_brings_gaps_down(digits: Any, rank: int) -> None:
    X, y = digits
    layers = small_layers(n_gates=4, rank=rank, beta="1e-2mean", epochs=6)[:2]
    plain = pn.LayerwiseClassifier(layers=layers, validation_fraction=None, tol=1e-2)
    (before, _), (after, second) = (fitted(clone(plain).set_params(finish=steps), X, y).stages_ for steps in (0, 100))
    assert (before.engine, after.engine) == ("minibatch", "minibatch, lbfgs")
    assert after.certificate.primal < before.certificate.primal
    assert after.certificate.relative_gap < 0.2 * before.certificate.relative_gap
    assert second.shape[0] <= 4 * rank


def test_what_finishing_spoils_on_samples_set_aside_is_not_kept(digits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from provenet.layerwise import work

    def worse(network: Any, *_: Any) -> Any:
        gone = type(network).from_weights(
            network.first[:1], 0 * network.second[:1], network.gates[:1], False, **network.settings
        )
        return work.Solved(gone, None, None)

    monkeypatch.setattr(work, "finished", worse)
    model = pn.LayerwiseClassifier(layers=small_layers(epochs=20)[:1], finish=5, certify=False)
    (stage,) = fitted(model, *digits).stages_
    assert (stage.engine, stage.filters) == ("minibatch", 6)
