"""Heads chosen by folds: what each is trained on and judged by, and when the path has seen enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import provenet as pn
from provenet.cli.commands import app
from provenet.deadline import Budget
from provenet.heads import kinds
from provenet.heads.fisher import fisher_pool
from provenet.heads.fitting import Asked, _Fold, _follow, _unfitted
from provenet.heads.samples import Samples, in_folds, usual_splits


def itself(images: torch.Tensor) -> torch.Tensor:
    return images[:, 0]


def embedded(folder: Path, n: int, seed: int = 0, **more: object) -> pn.Embedding:
    """Tokens (n, 4, 3) whose class is the sign of a noisy sum."""
    X = np.random.default_rng(seed).standard_normal((n, 1, 4, 3)).astype(np.float32)
    noise = np.random.default_rng(seed + 1).standard_normal(n)
    return pn.embed(itself, X, folder, y=X[..., 0].sum((1, 2)) + noise > 0, name="itself", **more)


def test_every_sample_judges_once_and_classes_are_shared_out() -> None:
    y = np.repeat([0, 1, 2], [50, 25, 1])
    splits = in_folds(y, 5, seed=3)
    np.testing.assert_array_equal(np.sort(np.concatenate([split.judge for split in splits])), np.arange(75))
    for train, judge in splits:
        np.testing.assert_array_equal(np.bincount(y[judge]), [10, 5])  # one alone in its class is always trained on
        np.testing.assert_array_equal(np.sort(np.concatenate([train, judge])), np.arange(76))
    assert [len(usual_splits(np.arange(n) % 2, 0)) for n in (10_000, 10_001)] == [3, 1]


def test_folds_that_nothing_judges_are_left_out() -> None:
    y = np.array([0, 0, 1, 2, 3, 4])
    splits = in_folds(y, 3, seed=0)
    assert [len(judge) for _, judge in splits] == [1, 1]
    with pytest.raises(ValueError, match="none can judge"):
        in_folds(np.arange(6), 3, seed=0)


def test_heads_are_chosen_by_the_mean_of_folds(tmp_path: Path) -> None:
    data = embedded(tmp_path / "e", 60)
    found = pn.heads.compare(data, heads=["linear"], folds=3, betas=[0.3, 0.1], out=tmp_path / "m", tol=1e-5)
    X, y = np.asarray(data.X), data.y
    for share, validation, _ in found.best.path:
        scores = []
        for train, judge in in_folds(y, 3, seed=0):
            alone = pn.ProvenClassifier(block="poolformer", activation="linear", beta=f"{share}max", tol=1e-5)
            alone.set_params(block=pn.load(tmp_path / "m").block).fit(X[train], y[train])
            scores.append(alone.score(X[judge], y[judge]))
        assert validation == pytest.approx(np.mean(scores), abs=0.02)  # up to a sample at the border
    share = found.best.validation
    assert share == max(validation for _, validation, _ in found.best.path)
    assert found.best.error == pytest.approx((share * (1 - share) / 60) ** 0.5)
    assert f"{100 * found.best.error:.2f}" in str(found)
    assert pn.load(tmp_path / "m").saved_.data["samples"][0] == 60


def test_folds_are_the_default_of_few_samples_and_part_of_the_recipe(tmp_path: Path) -> None:
    data = embedded(tmp_path / "e", 40)
    settings = {"heads": ["linear"], "betas": [0.3], "out": tmp_path / "m"}
    (usual,) = pn.heads.compare(data, **settings)
    (three,) = pn.heads.compare(data, folds=3, **settings | {"out": None})
    (one,) = pn.heads.compare(data, validation=0.25, **settings | {"out": None})
    assert usual.validation == three.validation
    assert one.error == pytest.approx((one.validation * (1 - one.validation) / 10) ** 0.5)
    with pytest.raises(FileExistsError, match="another way"):
        pn.heads.compare(data, folds=2, **settings)
    with pytest.raises(ValueError, match="one of the two"):
        pn.heads.compare(data, folds=2, validation=0.2)
    with pytest.raises(ValueError, match="between 2 and 40"):
        pn.heads.compare(data, folds=41)


def test_each_fold_has_a_pooling_of_its_own_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = embedded(tmp_path / "e", 40)
    seen: list[np.ndarray] = []
    monkeypatch.setattr(kinds, "fisher_pool", lambda X, y, cells: seen.append(X) or fisher_pool(X, y, cells))
    pn.heads.compare(data, heads=["fisher-linear"], folds=2, betas=[0.3])
    X = np.asarray(data.X)
    for own, split in zip(seen, in_folds(data.y, 2, seed=0), strict=False):
        np.testing.assert_array_equal(own, X[split.train])
    np.testing.assert_array_equal(seen[2], X)  # nothing is chosen any more
    assert len(seen) == 3


def test_a_fold_that_waits_keeps_its_samples_alone(tmp_path: Path) -> None:
    whole = Samples.of(embedded(tmp_path / "e", 40))
    (split, _) = in_folds(whole.y, 2, seed=0)
    fold = _Fold(_unfitted("fisher-gated", whole.rows(split.train), 2, None, Asked(n_gates=3)), whole, split)
    first = fold.judged_at(0.1, 1e-2, None)
    operator = fold.model.solution_.problem.program.operator
    assert operator.made("kept") is not None
    fold.rest()
    waiting = fold.model.solution_.problem.program.operator
    assert waiting.made("kept") is None
    assert waiting.patterns is operator.patterns
    again = fold.judged_at(0.1, 1e-2, None)
    assert again[0] == first[0]
    assert again[1] <= 1e-2


class Told:
    """A fold whose scores are known; ``done``: at which β it was asked."""

    def __init__(self, scores: list[float]):
        self.scores, self.done = scores, 0

    def judged_at(self, share: float, tol: float, seconds: float | None) -> tuple[float, float]:
        self.done += 1
        return self.scores[self.done - 1], 0.01 * self.done

    def rest(self) -> None:
        pass


def test_a_path_ends_where_the_mean_has_seen_enough() -> None:
    asked = Asked((0.3, 0.1, 0.03, 0.01, 0.003))
    folds = [Told([0.9, 0.8, 0.7, 0.6, 0.5]), Told([0.3, 0.5, 0.8, 0.7, 0.6])]  # the first alone would end at 0.03
    path = _follow(folds, asked, Budget(None))
    assert [validation for _, validation, _ in path] == pytest.approx([0.6, 0.65, 0.75, 0.65, 0.55])
    assert [fold.done for fold in folds] == [5, 5]


def test_without_time_a_beta_counts_where_all_folds_were_tried() -> None:
    folds = [Told([0.9, 0.8]), Told([0.3, 0.5])]
    assert len(_follow(folds, Asked((0.3, 0.1)), Budget(1e-9))) == 1
    assert [fold.done for fold in folds] == [1, 1]


def test_the_command_takes_folds(tmp_path: Path) -> None:
    embedded(tmp_path / "e", 40)
    asked = ["head", str(tmp_path / "e"), "--heads", "linear", "--betas", "1", "-o", str(tmp_path / "m")]
    done = CliRunner().invoke(app, [*asked, "--folds", "2"])
    assert done.exit_code == 0, done.output
    assert "±" in done.stdout
    both = CliRunner().invoke(app, [*asked, "--folds", "2", "--validation", "0.2"])
    assert both.exit_code == 1
    assert "one of the two" in both.stderr
