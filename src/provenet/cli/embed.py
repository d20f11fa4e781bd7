"""`provenet embed`: images or texts → tokens of a frozen backbone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from provenet.cli import kept
from provenet.cli import options as o
from provenet.cli.console import errors, print_json, say, warn
from provenet.cli.groups import grouped
from provenet.cli.progress import bar
from provenet.embeddings import Embedding
from provenet.embeddings import embed as embed_samples
from provenet.embeddings.sources import has_test

TEST = "test"  # the test part of a set, within its embedding
_EVERY = 80  # batches between two lines off a terminal


@dataclass(frozen=True)
class OfSamples:
    """What is embedded, and how it is read."""

    size: Annotated[int | None, typer.Option(min=1, help="Bring images to so many pixels each way.")] = None
    tokens: Annotated[int | None, typer.Option(min=1, help="Cut and pad texts to so many. (default: 32)")] = None
    column: Annotated[str | None, typer.Option(help="The column of a CSV file that holds the texts.")] = None
    label: Annotated[str | None, typer.Option(help="The column of a CSV file that holds the labels.")] = None
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many samples of each part only.")] = None
    batch_size: Annotated[int, typer.Option("--batch", min=1, help="Samples that the backbone gets at a time.")] = 8
    strict: Annotated[bool, typer.Option("--strict", help="A picture that cannot be read is an error.")] = False
    seed: Annotated[int, typer.Option(min=0, help="Which samples a PCA is of.")] = 0


@dataclass(frozen=True)
class OfReduction:
    """What becomes of the tokens."""

    pool: Annotated[int | None, typer.Option(min=1, help="Average the grid to so many cells each way.")] = None
    features: Annotated[int | None, typer.Option(min=1, help="Average features to so many.")] = None
    pca: Annotated[int | None, typer.Option(min=1, help="Project features to so many, by a PCA that is kept.")] = None
    like: Annotated[Path | None, typer.Option(help="Reduce tokens as this embedding's: for test samples.")] = None


@grouped
def embed(
    data: Annotated[
        Path,
        typer.Argument(
            help="A folder of idx files, CIFAR's binary batches or pictures by class; an NPZ file; a TXT file of "
            "texts, one a line; a CSV file."
        ),
    ],
    backbone: Annotated[
        str, typer.Option(help="efficientnet-lite0, …1, …2, all-minilm, timm:NAME, or hf:NAME (or a folder).")
    ],
    samples: OfSamples,
    reduction: OfReduction,
    out: Annotated[Path, typer.Option("--out", "-o", file_okay=False, help="Folder for the embedding.")] = Path(
        "embedding"
    ),
    json: o.Json = False,
) -> None:
    """Write token grids of images or texts by a frozen backbone into a folder; it goes on where it was interrupted.

    Example: provenet embed cifar-100-binary --backbone efficientnet-lite2 --size 160 --pca 100 --out grids

    Example: provenet embed questions.csv --column text --label kind --backbone all-minilm --tokens 16 --out tokens

    A set with a test part has it embedded alike, in the folder test within.
    """
    common: dict[str, Any] = asdict(samples)
    try:
        with _bar("samples", json) as show:
            made = [embed_samples(backbone, data, out, **common, **asdict(reduction), progress=show)]
        if has_test(data):
            with _bar("test samples", json) as show:
                inside = out / TEST
                made.append(embed_samples(backbone, data, inside, **common, part="test", like=made[0], progress=show))
    except KeyboardInterrupt:
        kept.there("embedding so far, which the same command goes on with,", out)
        raise
    for each in made:
        _tell_skipped(each)
    if json:
        print_json({"parts": [_told(each) for each in made]})
        return
    for each in made:
        n, s, d = each.X.shape
        say(f"{n} samples of {s} tokens, {d} features, by {each.backbone}: {each.folder}")


def _told(made: Embedding) -> dict[str, Any]:
    kept_of = ("backbone", "reduction", "size", "shape", "files")
    return {"folder": str(made.folder), "skipped": made.skipped} | {key: made.about[key] for key in kept_of}


def _tell_skipped(made: Embedding) -> None:
    for _, why in made.skipped[:10]:
        warn(f"skipped {why}")
    if len(made.skipped) > 10:
        warn(f"skipped {len(made.skipped) - 10} more; embedding.json lists them.")


@contextmanager
def _bar(what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Samples done and the time left, on a terminal; a line now and then elsewhere."""
    console = errors()
    if quiet:
        yield lambda done, total: None
        return
    if not console.is_terminal:
        told: list[int] = []

        def line(done: int, total: int) -> None:
            told.append(done)
            if len(told) % _EVERY == 0 or done == total:
                console.print(f"{done} of {total} {what}", soft_wrap=True, highlight=False)

        yield line
        return
    with bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
