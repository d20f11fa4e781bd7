"""What can still be had: the machine's memory, and less where a container has a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from provenet import memory

GIB = 2**30


def system(root: Path, free: int, group: str, **files: str) -> Path:
    """A file system whose /proc and /sys say this; names of files have "__" for each "/"."""
    written = {"proc/meminfo": f"MemTotal: 999 kB\nMemAvailable: {free // 1024} kB\n", "proc/self/cgroup": group}
    written |= {f"sys/fs/cgroup/{name.replace('__', '/').replace('-', '.')}": text for name, text in files.items()}
    for name, text in written.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_a_container_the_machine_counts(tmp_path: Path) -> None:
    assert memory.available_bytes(system(tmp_path, 8 * GIB, "0::/\n")) == 8 * GIB
    assert memory.available_bytes() > 0  # type: ignore[operator]


def test_the_second_version(tmp_path: Path) -> None:
    files = {
        "memory-max": f"{2 * GIB}\n",
        "memory-current": f"{GIB}\n",
        "memory-stat": f"anon 7\ninactive_file {GIB // 2}\n",
    }
    assert memory.available_bytes(system(tmp_path, 8 * GIB, "0::/\n", **files)) == GIB + GIB // 2


def test_no_limit_is_none(tmp_path: Path) -> None:
    files = {"memory-max": "max\n", "memory-current": f"{GIB}\n"}
    assert memory.available_bytes(system(tmp_path, 8 * GIB, "0::/\n", **files)) == 8 * GIB


@pytest.mark.parametrize("tight", ["", "pod__", "pod__box__"])
def test_the_tightest_of_all_groups_around_counts(tmp_path: Path, tight: str) -> None:
    files = {f"{group}memory-max": "max" for group in ("", "pod__", "pod__box__")}
    files |= {f"{group}memory-current": "0" for group in ("", "pod__", "pod__box__")} | {f"{tight}memory-max": str(GIB)}
    assert memory.available_bytes(system(tmp_path, 8 * GIB, "0::/pod/box\n", **files)) == GIB


@pytest.mark.parametrize("where", ["", "docker__box__"])  # a container may see its own group as the top
def test_the_first_version(tmp_path: Path, where: str) -> None:
    files = {
        f"memory__{where}memory-limit_in_bytes": str(3 * GIB),
        f"memory__{where}memory-usage_in_bytes": str(2 * GIB),
        f"memory__{where}memory-stat": f"inactive_file 5\ntotal_inactive_file {GIB}\n",
    }
    group = "3:cpu,cpuacct:/docker/box\n2:memory:/docker/box\n1:name=systemd:/\n"
    assert memory.available_bytes(system(tmp_path, 8 * GIB, group, **files)) == 2 * GIB


def test_a_container_that_is_full_has_nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = system(tmp_path, 8 * GIB, "0::/\n", **{"memory-max": "100", "memory-current": "200"})
    assert memory.available_bytes(root) == 0
    monkeypatch.setattr(memory, "available_bytes", lambda: 0)
    with pytest.raises(MemoryError, match="this needs"):
        memory.check_fits(GIB, "this", "Take less.")


def test_the_system_is_not_asked_about_trifles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: pytest.fail("asked"))
    assert memory.fits(1000)
