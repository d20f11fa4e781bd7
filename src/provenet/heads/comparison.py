"""`compare`: every head of a list on one embedding, in one table; the best is kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from provenet.embeddings import Embedding, load_embedding
from provenet.estimators import ProvenClassifier
from provenet.files import check_writable, read_regular, write_atomically
from provenet.heads.fitting import Asked, Row, fit_head
from provenet.heads.kinds import head_names
from provenet.heads.model import save_head
from provenet.heads.samples import Samples, Split, in_folds, one_split, usual_splits
from provenet.io.folder import check_replaceable

TABLE = "heads.json"
_BEGUN = ".heads"  # within the model's folder: the heads that are done, each a model
_NO_TIME = "no time was left for it; the same comparison goes on with it"
_COLUMNS = ("head", "top-1", "top-5", "validation", "±", "gap", "β/β_max", "neurons", "parameters", "seconds", "cpu")


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; prints as a table.

    Parameters
    ----------
    rows : tuple of Row
        In the order that was asked for.
    best : Row
        By validation, the first of equals.
    folder : Path, optional
        Where the best lies.
    """

    rows: tuple[Row, ...]
    best: Row
    folder: Path | None = None

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def table(self) -> list[list[str]]:
        """Headings, and a row a head."""
        return [list(_COLUMNS), *(_cells(row) for row in self.rows)]

    def __str__(self) -> str:
        rows = self.table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, f"best by validation: {self.best.head}"])


def compare(
    embedding: Embedding | str | Path,
    *,
    heads: str | Iterable[str] = "quick",
    validation: float | Embedding | str | Path | None = None,
    folds: int | None = None,
    test: Embedding | str | Path | None = None,
    betas: int | Iterable[float] = 6,
    n_gates: int = 20,
    tol: float = 1e-2,
    max_seconds: float | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Callable[[Row], Any] | None = None,
) -> Comparison:
    """Fit every head of a list over a path of β, choose by validation, and certify what is kept.

    Parameters
    ----------
    embedding : Embedding or folder
        With labels.
    heads : str or list of str
        Names of `provenet.heads.HEADS`; "all" of them, or "quick".
    validation : float, Embedding or folder, optional
        A share of the samples, or other ones, by which β and the best head are chosen; then all are trained on.
    folds : int, optional
        In place of ``validation``: choose by the mean over so many folds.  Without either three folds choose of up to
        10,000 samples, whose fifth would not tell heads apart, and a fifth of more.
    test : Embedding or folder, optional
        What the table's accuracies are of.  It chooses nothing.
    betas : int or list of float
        How many, from 0.3 β_max down, or shares of β_max.
    n_gates : int
        Gaussian gates of heads that have any; attention has five at most.
    tol : float
        The relative gap asked of every head; the table has the gap that was reached.
    max_seconds : float, optional
        A limit of all together: each has an even share of what the ones before it left.  A head for which no time was
        left waits until the same comparison is begun again.
    seed : int
        For the split and the gates.
    out : str or path, optional
        A folder for the best head, as `provenet.load` and `provenet.heads.load` read it, and the table; a comparison
        that was interrupted goes on after the last head that was done.
    progress : callable, optional
        Is told every row.

    Returns
    -------
    Comparison
    """
    names = head_names(heads)
    data = _embedding(embedding)
    asked = Asked(betas if isinstance(betas, int) else tuple(betas), n_gates=n_gates, tol=tol, seed=seed)
    asked = replace(asked, max_seconds=max_seconds)
    samples, judge = Samples.of(data), None if test is None else _like(data, test)
    whole, splits, said = _chosen_by(data, samples, validation, folds, seed)
    other = None if judge is None else Samples.of(judge)
    recipe = {
        "asked": asdict(asked),
        "embedding": data.about["files"],
        "validation": said,
        "test": None if judge is None else judge.about["files"],
    }
    begun = None if out is None else _Begun(Path(out), data, recipe)
    known = {} if begun is None else begun.known
    waiting, began = [name for name in names if name not in known], time.perf_counter()
    rows: list[Row] = []
    for name in names:
        if name in waiting:
            share = _share(max_seconds, began, len(waiting) - waiting.index(name))
            row, model = _fitted(name, (splits, whole, other), data.grid, replace(asked, max_seconds=share))
            if begun is not None and row.why != _NO_TIME:
                begun.add(row, model)
            del model  # with all that it keeps of the samples
        else:
            row = known[name]
        rows.append(row)
        if progress is not None:
            progress(row)
    done = [row for row in rows if row.validation is not None]
    if not done:
        raise ValueError(f"heads: none could be fitted: {rows[0].why}")
    best = max(done, key=lambda row: row.validation or 0.0)
    found = Comparison(tuple(rows), best, None if out is None else Path(out))
    if begun is not None:
        begun.finish(found)
    return found


def _chosen_by(
    data: Embedding, samples: Samples, validation: Any, folds: int | None, seed: int
) -> tuple[Samples, Sequence[Split], Any]:
    """(all that is trained on in the end, what chooses before, and that in words of a recipe)."""
    if validation is not None and folds is not None:
        raise ValueError("folds, validation: either chooses; give one of the two.")
    if folds is not None:
        return samples, in_folds(samples.y, folds, seed), {"folds": folds}
    if validation is None:
        usual = usual_splits(samples.y, seed)
        return samples, usual, {"folds": len(usual)}
    if isinstance(validation, (int, float)):
        return samples, one_split(samples.y, validation, seed), validation
    by = _like(data, validation)
    whole, n = samples.and_also(Samples.of(by)), len(samples.y)
    return whole, (Split(slice(n), slice(n, None)),), by.about["files"]


def _share(max_seconds: float | None, began: float, waiting: int) -> float | None:
    """Of the seconds that are left, those of the first of so many heads."""
    return None if max_seconds is None else (max_seconds - (time.perf_counter() - began)) / waiting


def _fitted(
    name: str, samples: tuple[Sequence[Split], Samples, Samples | None], grid: Any, asked: Asked
) -> tuple[Row, ProvenClassifier | None]:
    """Its row and the head; where it cannot be had, a row that says why."""
    if asked.max_seconds is not None and asked.max_seconds <= 0:
        return Row(name, why=_NO_TIME), None
    try:
        return fit_head(name, *samples, grid, asked)
    except (ValueError, MemoryError) as error:
        return Row(name, why=str(error)), None


def _embedding(given: Embedding | str | Path) -> Embedding:
    return given if isinstance(given, Embedding) else load_embedding(given)


def _like(data: Embedding, given: Embedding | str | Path) -> Embedding:
    other = _embedding(given)
    data.check_like(other)
    return other


class _Begun:
    """A comparison's folder: rows that are known, and the heads they are of."""

    def __init__(self, folder: Path, data: Embedding, recipe: dict[str, Any]):
        self.folder, self.data = folder, data
        self.recipe: dict[str, Any] = json.loads(json.dumps(recipe))  # as it is read back: lists for tuples
        check_replaceable(folder)
        check_writable(folder)
        self.known: dict[str, Row] = {}
        held = folder / _BEGUN / TABLE
        if held.exists():
            saved = json.loads(read_regular(held).decode())
            if saved["recipe"] != self.recipe:
                raise FileExistsError(
                    f"{folder}: it holds heads of another embedding, or fitted in another way; choose another folder."
                )
            self.known = {each["head"]: Row(**each) for each in saved["rows"]}

    def add(self, row: Row, model: ProvenClassifier | None) -> None:
        place = self.folder / _BEGUN
        place.mkdir(parents=True, exist_ok=True)
        if model is not None:
            save_head(model, self.data, place / row.head)
        self.known[row.head] = row
        rows = [each.to_dict() for each in self.known.values()]
        write_atomically(place / TABLE, json.dumps({"recipe": self.recipe, "rows": rows}).encode())

    def finish(self, found: Comparison) -> None:
        """The best head, and the table beside it."""
        from provenet.io import load

        save_head(load(self.folder / _BEGUN / found.best.head), self.data, self.folder)
        told = {"best": found.best.head, "rows": [row.to_dict() for row in found]}
        write_atomically(self.folder / TABLE, json.dumps(told, indent=1).encode())


def _cells(row: Row) -> list[str]:
    if row.validation is None:
        return [row.head, row.why, *[""] * (len(_COLUMNS) - 2)]
    shares = [_percent(row.top1), _percent(row.top5), _percent(row.validation), _percent(row.error)]
    sizes = [f"{row.relative_gap:.1e}", f"{row.beta:.2g}", str(row.neurons), f"{row.parameters:,}"]
    return [row.head, *shares, *sizes, f"{row.seconds:.1f}", f"{row.cpu:.1f}"]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f}"
