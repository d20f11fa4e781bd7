"""``make trust``: try what could go wrong, and write docs/trust.md from what was seen.

    python -m trust [figure …] [--records build/trust/records.jsonl] [--page docs/trust.md]

goes on where an earlier run of the same code ended; without names it runs all figures.  A record says which code it was
made with (sources and libraries), and those of other code count for nothing.  Started twice, the second one takes the
figures that the first has not begun.  The page is written from the records each time.  A case that failed is tried
alone by ``python -m trust FIGURE --case NUMBER``.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
import warnings
from pathlib import Path

from trust.code import digest
from trust.figure import Figure
from trust.page import page
from trust.records import Changed, Records


def main() -> int:
    parser = argparse.ArgumentParser("python -m trust", description="Try what could go wrong.")
    parser.add_argument("figures", nargs="*", metavar="figure", help="which; all if none is named")
    parser.add_argument("--records", type=Path, default=Path("build/trust/records.jsonl"), help="where they are kept")
    parser.add_argument("--page", type=Path, default=Path("docs/trust.md"), help="the page that is written from them")
    parser.add_argument("--case", type=int, help="try only this one, and keep no record")
    parser.add_argument("--most", type=int, help="stop each figure after so many cases in all")
    asked = parser.parse_args()
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(threads, "1")
    from trust.figures import FIGURES  # torch and numpy, which read that

    if unknown := [name for name in asked.figures if name not in FIGURES]:
        parser.error(f"{', '.join(unknown)}: unknown; the figures are {', '.join(FIGURES)}.")
    warnings.simplefilter("ignore")
    names = asked.figures or list(FIGURES)
    if asked.case is not None:
        wrong = [name for name in names if not one(FIGURES[name], asked.case)]
        return 1 if wrong else 0
    records = Records(asked.records.resolve(), digest())  # a figure may work in another folder
    if others := records.others():
        print(f"{others} records of other code are left out", flush=True)
    try:
        good = [run(FIGURES[name], records, min(FIGURES[name].count, asked.most or sys.maxsize)) for name in names]
    except Changed as stop:
        print(f"error: {stop}", file=sys.stderr)
        return 1
    asked.page.write_text(page(FIGURES, records), encoding="utf-8")
    print(asked.page)
    return 0 if all(good) else 1


def one(figure: Figure, case: int) -> bool:
    """Try it, and say what was seen."""
    with tempfile.TemporaryDirectory() as folder, figure.ready(Path(folder)) as attempt:
        seen = attempt(case)
    print(figure.name, case, seen)
    return seen.wrong is None


def run(figure: Figure, records: Records, count: int) -> bool:
    """Whether no case of it has failed, those of earlier runs among them."""
    with records.alone(figure) as mine:
        if not mine:
            print(f"{figure.name}: another process works on it", flush=True)
            return True
        return _go_on(figure, records, count)


def _go_on(figure: Figure, records: Records, count: int) -> bool:
    told = records.told(figure)
    done, wrong = told.done, len(told.failures)
    if done < count:
        with tempfile.TemporaryDirectory() as folder, figure.ready(Path(folder)) as attempt:
            while done < count:
                last = min(done + figure.chunk, count)
                line = records.add(figure, done, last, attempt, machine())
                done, wrong = last, wrong + len(line["failures"])
                for failure in line["failures"]:
                    print(f"{figure.name} {failure['case']}: {failure['wrong']}", flush=True)
                _progress(figure, done, count, wrong)
    print(f"{figure.name}: {done} tried, {wrong} failed", flush=True)
    return wrong == 0


def machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _progress(figure: Figure, done: int, count: int, wrong: int) -> None:
    end = "\r" if sys.stderr.isatty() else "\n"
    now = time.strftime("%H:%M:%S")
    print(f"{now} {figure.name}: {done} of {count}, {wrong} failed", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
