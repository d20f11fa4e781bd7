"""The page as a person sees it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from provenet.report import write_report
from provenet.solvers import Solution

Screenshot = Callable[..., tuple[np.ndarray, str]]


@pytest.fixture(scope="module")
def page(classified: Solution, beta_path: list[Solution], tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(target, solution=classified, path=beta_path, classes=["<script>alert(1)</script>", "b", "$c"])


def colours_of(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct colours (m, 3), 0 to 255, and how often each occurs (m,)."""
    packed = np.round(255 * pixels.reshape(-1, 3)).astype(np.int64) @ (65536, 256, 1)
    colours, times = np.unique(packed, return_counts=True)
    return np.column_stack([colours >> 16, colours >> 8 & 255, colours & 255]), times


def test_light_and_dark(page: Path, screenshot: Screenshot) -> None:
    for dark in (False, True):
        pixels, log = screenshot(page, dark=dark)
        assert "CONSOLE" not in log, log
        assert len(colours_of(pixels)[0]) > 500, "the page is nearly blank"
        background = pixels[2, 2]
        assert (background < 0.2).all() if dark else (background > 0.9).all()
        # text and drawings stand out all the way down, not only at the top
        for part in np.array_split(pixels, 4):
            assert np.abs(part - background).max() > 0.6


def test_the_figures_follow_the_theme(page: Path, screenshot: Screenshot) -> None:
    """Nothing is left in the inks the figures were drawn in: on a dark page they would be black on black."""
    pixels, _ = screenshot(page, dark=True)
    assert not (pixels.reshape(-1, 3).max(axis=1) < 0.03).any()


def test_a_narrow_window_has_no_sideways_overflow(page: Path, screenshot: Screenshot) -> None:
    pixels, log = screenshot(page, width=500, height=3000)
    assert "CONSOLE" not in log, log
    margin = pixels[:, -8:]
    assert np.ptp(margin.reshape(-1, 3), axis=0).max() == 0


def test_a_table_that_goes_on_beyond_its_box_has_a_shadow_there(
    page: Path, tmp_path: Path, screenshot: Screenshot
) -> None:
    style = re.search(r"<style>.*?</style>", page.read_text(encoding="utf-8"), re.DOTALL)
    assert style is not None

    def edges(width: int) -> tuple[float, float]:
        """How dark the left and the right edge of a box of 300 pixels are, around something of this width."""
        alone = tmp_path / f"{width}.html"
        inner = f"<div style='width: {width}px; height: 200px'></div>"
        box = f"<div class='scroll' style='width: 300px'>{inner}</div>"
        alone.write_text(f"<!DOCTYPE html>{style[0]}<body style='margin: 0; padding: 0; background: #fff'>{box}")
        pixels, _ = screenshot(alone, width=500, height=300)
        return tuple(float(1 - pixels[50:150, x].mean()) for x in (0, 299))

    assert edges(300) == pytest.approx((0, 0), abs=0.01)
    left, right = edges(600)
    assert left == pytest.approx(0, abs=0.01)
    assert right > 0.1


def test_a_console_error_would_be_seen(tmp_path: Path, screenshot: Screenshot) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text("<script>console.error('seen')</script>")
    assert "CONSOLE" in screenshot(broken, height=400)[1]


def test_an_uncertified_page_looks_different(
    classified: Solution, starved: Solution, tmp_path: Path, screenshot: Screenshot
) -> None:
    def tone(solution: Solution, name: str) -> np.ndarray:
        """The most frequent colour of the banner below the title, apart from the page's own."""
        pixels, _ = screenshot(write_report(tmp_path / name, solution=solution, title="x"), height=400)
        colours, times = colours_of(pixels[110:300])
        times[(colours == np.round(255 * pixels[2, 2])).all(axis=1)] = 0
        return colours[times.argmax()]

    proven, open_ = tone(classified, "proven.html"), tone(starved, "open.html")
    assert proven[1] > proven[0], "green"
    assert open_[0] > open_[1], "amber"
