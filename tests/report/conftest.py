"""Small solved problems, one of each kind the report must show."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import provenet as pn
from provenet.solvers import Solution


def spiral(per_class: int = 30) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    t = np.linspace(0.1, 1, per_class)
    angles = [4 * k + 4 * t + generator.normal(0, 0.1, per_class) for k in range(3)]
    X = np.vstack([np.column_stack([t * np.sin(a), t * np.cos(a)]) for a in angles])
    return X, np.repeat(np.arange(3), per_class)


@pytest.fixture(scope="session")
def classified() -> Solution:
    X, y = spiral()
    problem = pn.formulate("mlp", X, y, loss="softmax", gates=20, beta=1.0)
    return pn.solve(problem.with_beta(0.05 * problem.beta_max), "admm", tol=1e-4)


@pytest.fixture(scope="session")
def starved() -> Solution:
    """Stopped long before its gap closed."""
    X, y = spiral()
    return pn.solve(pn.formulate("mlp", X, y, loss="softmax", gates=20, beta=1e-2), "admm", tol=1e-8, max_steps=20)


@pytest.fixture(scope="session")
def regressed() -> Solution:
    generator = np.random.default_rng(1)
    X = generator.normal(size=(60, 5))
    Y = np.column_stack([np.abs(X[:, 0]), X[:, 1] - X[:, 2]])
    problem = pn.formulate(pn.MLP(fit_intercept=True), X, Y, gates=15, beta=1.0)
    return pn.solve(problem.with_beta(0.05 * problem.beta_max), "admm", tol=1e-5)


@pytest.fixture(scope="session")
def surface() -> Solution:
    generator = np.random.default_rng(2)
    X = generator.uniform(-1, 1, size=(80, 2))
    problem = pn.formulate("mlp", X, X[:, 0] * X[:, 1], gates=20, beta=1e-2)
    return pn.solve(problem, "admm", tol=1e-4)


@pytest.fixture(scope="session")
def zero_network() -> Solution:
    X, y = spiral()
    problem = pn.formulate("mlp", X, y, loss="softmax", gates=20)
    return pn.solve(problem.with_beta(2 * problem.beta_max), "admm", tol=1e-6)


@pytest.fixture(scope="session")
def one_gate() -> Solution:
    X, y = spiral()
    return pn.solve(pn.formulate("mlp", X, y, loss="softmax", gates=1, beta=1.0), "admm", tol=1e-6)


@pytest.fixture(scope="session")
def linear() -> Solution:
    X, y = spiral()
    return pn.solve(pn.formulate("mlp", X, y, activation="linear", loss="softmax", beta=1.0), "admm", tol=1e-6)


@pytest.fixture(scope="session")
def beta_path(classified: Solution) -> list[Solution]:
    solutions: list[Solution] = []
    for share in (1.0, 0.3, 0.1, 0.05):
        problem = classified.problem.with_beta(share * classified.problem.beta_max)
        solutions.append(pn.solve(problem, "admm", tol=1e-3, start=solutions[-1] if solutions else None))
    return solutions


@pytest.fixture
def with_numbers() -> Callable[..., Solution]:
    """A solution whose certificate has these numbers, to see them in words."""

    def change(solution: Solution, **numbers: float) -> Solution:
        return replace(solution, certificate=replace(solution.certificate, **numbers))

    return change


@pytest.fixture(scope="session")
def screenshot(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[np.ndarray, str]]:
    """(pixels (height, width, 3), what the browser wrote to its log) of a page in headless Chromium."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium on this machine: the page cannot be looked at")

    def take(page: Path, width: int = 1200, height: int = 2400, dark: bool = False) -> tuple[np.ndarray, str]:
        room = tmp_path_factory.mktemp("browser")
        picture = room / "page.png"
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
        quiet += [
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={room / 'profile'}",
        ]
        look = ["--hide-scrollbars", f"--window-size={width},{height}", f"--screenshot={picture}"]
        look += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--enable-logging=stderr", "--v=0"]
        run = subprocess.run([browser, *quiet, *look, page.as_uri()], capture_output=True, text=True, timeout=120)
        assert picture.exists(), f"Chromium took no picture:\n{run.stderr}"
        return matplotlib.image.imread(picture)[:, :, :3], run.stderr

    return take
