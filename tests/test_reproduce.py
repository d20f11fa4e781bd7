"""The papers' experiments: pieces are kept, pages say what came out, formulas are right."""

from __future__ import annotations

from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from provenet.cli import app
from provenet.reproduce import EXPERIMENTS, OutOfTime, Run
from provenet.reproduce.norm_ball import constrained, nuclear
from provenet.reproduce.training import Recipe, descend


def test_the_constrained_norm_is_that_of_its_definition() -> None:
    """min Σ ‖g‖ over Z = Σ ugᵀ, u from a fine fan of unit vectors ≥ 0."""
    angle = np.linspace(0, np.pi / 2, 91)
    fan = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for Z in np.random.default_rng(0).standard_normal((6, 2, 2)):
        g = cp.Variable((len(fan), 2))
        problem = cp.Problem(cp.Minimize(cp.sum(cp.norm(g, axis=1))), [fan.T @ g == Z])
        assert constrained(Z) == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=2e-3)
        assert constrained(Z) >= nuclear(Z) * (1 - 1e-12)


@pytest.mark.parametrize("gated", [False, True])
def test_many_descents_at_once_are_those_of_torch_one_by_one(gated: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    X, Y, u, v = (torch.randn(s, generator=draw, dtype=torch.float64) for s in ((9, 2), (9, 3), (2, 4, 2), (2, 4, 3)))
    beta = torch.tensor([0.1, 1.0], dtype=torch.float64)
    opened = (torch.randn(2, 9, 2, generator=draw) > 0).double() if gated else None  # two neurons behind each gate
    recipe = Recipe(epochs=60, rate=3e-3, momentum=0.9, decay=0.5, patience=3, mean=2.0)
    made = descend(X, Y, opened, u, v, beta, recipe, looks=60)
    for k in range(2):
        first, second = u[k].clone().requires_grad_(), v[k].clone().requires_grad_()
        optimiser = torch.optim.SGD([first, second], lr=recipe.rate, momentum=recipe.momentum)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=3)
        for _ in range(60):
            hidden = X @ first.T
            hidden = torch.relu(hidden) if opened is None else hidden * opened[k].repeat_interleave(2, 1)
            decay = first.square().sum() + second.square().sum()
            objective = 0.5 * (hidden @ second - Y).square().sum() + 0.5 * beta[k] * decay
            schedule.step(float(objective.detach()))
            optimiser.zero_grad()
            (objective / recipe.mean).backward()
            optimiser.step()
        torch.testing.assert_close(made.first[k], first.detach())
        torch.testing.assert_close(made.second[k], second.detach())


def test_whitened_data_are_the_identity_in_coordinates_of_their_own() -> None:
    draw = torch.Generator().manual_seed(0)
    Y, w, v = (torch.randn(s, generator=draw, dtype=torch.float64) for s in ((5, 3), (1, 4, 5), (1, 4, 3)))
    Q = torch.linalg.qr(torch.randn(8, 5, generator=draw, dtype=torch.float64))[0].T  # QQᵀ = I
    recipe = Recipe(epochs=40, rate=1e-2, momentum=0.9, decay=0.5)
    beta = torch.tensor([0.1], dtype=torch.float64)
    there, here = descend(Q, Y, None, w @ Q, v, beta, recipe), descend(None, Y, None, w, v, beta, recipe)
    torch.testing.assert_close(there.first, here.first @ Q)
    torch.testing.assert_close(there.second, here.second)


def test_pieces_are_made_once_and_a_cut_line_again(tmp_path: Path) -> None:
    kept, made = tmp_path / "a" / "pieces.jsonl", []
    run = Run(kept=kept)
    for _ in range(2):
        assert run.piece("one", lambda: made.append(1) or {"x": 1}) == {"x": 1}  # type: ignore[func-returns-value]
    assert made == [1]
    with kept.open("a") as out:
        out.write('{"key": "two", "pie')
    assert run.piece("one", dict) == {"x": 1}
    assert run.piece("two", lambda: {"x": 2}) == {"x": 2}
    assert Run(kept=kept).piece("two", dict) == {"x": 2}
    with pytest.raises(OutOfTime):
        Run(kept=kept, max_seconds=0.0).piece("three", dict)
    kept.write_text("nonsense\n")
    with pytest.raises(ValueError, match="not pieces"):
        run.piece("one", dict)


def invoke(*words: str):
    return CliRunner().invoke(app, ["reproduce", *words])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_in_small(name: str, tmp_path: Path) -> None:
    done = invoke(name, "--quick", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "page" in done.stdout
    folder = tmp_path / name
    text = (folder / "page.md").read_text()
    assert "The paper reports" in text
    assert f"provenet reproduce {name} --quick" in text
    pictures = list(folder.glob("*.png"))
    assert pictures
    assert all(picture.with_suffix(".svg").exists() and picture.name in text for picture in pictures)
    assert (folder / "numbers.json").stat().st_size > 100


def test_what_is_known_and_what_is_not(tmp_path: Path) -> None:
    listed = invoke()
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in EXPERIMENTS)
    unknown = invoke("fig-9")
    assert unknown.exit_code == 2
    assert "spiral-gap" in unknown.output
    missing = invoke("whitened-svd", "--out", str(tmp_path))
    assert missing.exit_code == 1
    assert "--data FOLDER" in missing.output
    other = invoke("sgd-global", "--quick", "--out", str(tmp_path), "--gates", "4")
    assert other.exit_code == 2
    assert "layerwise-cifar10" in " ".join(other.output.replace("│", " ").split())
    late = invoke("sgd-global", "--quick", "--out", str(tmp_path), "--max-seconds", "1e-9")
    assert late.exit_code == 1
    assert "goes on from here" in late.output


def test_gates_and_epochs_that_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from provenet.reproduce import deep

    known = {"train": [0.9], "test": [0.8], "gap": [None], "filters": [5], "cpu": [1.0]}
    asked = []
    monkeypatch.setattr(deep, "grown", lambda _, said, m, *__, **___: asked.append((said, m)) or known)  # type: ignore[func-returns-value]
    monkeypatch.setattr(
        deep, "_at_once", lambda _, __, width, ___: {"test": 0.7, "cpu": 1.0, "epochs": 2.0, "width": width}
    )
    found = EXPERIMENTS["layerwise-cifar10"].run(Run(quick=True, gates=5, epochs=7))
    assert {(said.gates, said.epochs) for said, _ in asked} == {(5, (7, 7, 7))}
    assert (found.numbers["gates"], found.numbers["epochs"]) == (5, [7, 7, 7])
    assert found.numbers["end to end"]["width"] == 2 * 5  # that of the largest m
    assert "Every stage has 5 gates and m neurons behind each. 7 epochs" in " ".join(found.words)


def test_a_page_of_the_stages_that_were_run_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """m = 1 is there; m = 2 and the network trained at once were not begun, and the page says so."""
    from provenet.reproduce import deep
    from provenet.reproduce.page import write

    class Short(Run):
        def piece(self, key, make):  # type: ignore[no-untyped-def]
            if not key.endswith("m = 1"):
                raise OutOfTime
            return make()

    known = {"train": [0.8, 0.9], "test": [0.7, 0.8], "gap": [None, None], "filters": [4, 4], "cpu": [1.0, 2.0]}
    monkeypatch.setattr(deep, "grown", lambda *_, **__: known)
    experiment = EXPERIMENTS["layerwise-cifar10"]
    write(tmp_path, experiment, experiment.run(Short(quick=True)), 1.0, quick=True)
    page = (tmp_path / "page.md").read_text()
    assert "Not run in the time given: m = 2, the CNN trained end to end" in page
    assert "| layerwise, m = 1 | 80.00 |" in page
    assert (tmp_path / "accuracy-by-stage.png").exists()
