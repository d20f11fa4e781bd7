"""``make trust``: try what could go wrong, and write docs/trust.md from what was seen.

    python -m trust [figure …] [--records build/trust/records.jsonl] [--page docs/trust.md]

goes on where an earlier run ended; without names it runs all figures and writes the page.  Deleting the records begins
anew.  A case that failed is tried alone by ``python -m trust FIGURE --case NUMBER``.
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

from trust.figure import Figure
from trust.page import page
from trust.records import Records


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
    records = Records(asked.records.resolve())  # a figure may work in another folder
    failed = False
    for name in asked.figures or FIGURES:
        figure = FIGURES[name]
        if asked.case is not None:
            failed |= not one(figure, asked.case)
            continue
        failed |= not run(figure, records, min(figure.count, asked.most or figure.count))
    if asked.case is None:
        asked.page.write_text(page(FIGURES, records), encoding="utf-8")
        print(asked.page)
    return 1 if failed else 0


def one(figure: Figure, case: int) -> bool:
    """Try it, and say what was seen."""
    with tempfile.TemporaryDirectory() as folder, figure.ready(Path(folder)) as attempt:
        seen = attempt(case)
    print(figure.name, case, seen)
    return seen.wrong is None


def run(figure: Figure, records: Records, count: int) -> bool:
    """Whether no case of it has failed, those of earlier runs among them."""
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
