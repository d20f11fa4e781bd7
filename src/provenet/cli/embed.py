"""`provenet embed`: images or texts → tokens of a frozen backbone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from provenet.cli import importing, kept
from provenet.cli import options as o
from provenet.cli.console import print_json, say
from provenet.cli.groups import grouped

TEST = "test"  # the test part of a set, within its embedding


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
    with importing():
        from provenet.cli.embedded import as_json, counted_off, tell_skipped
        from provenet.embeddings import embed as embed_samples
        from provenet.embeddings.sources import has_test
    common: dict[str, Any] = asdict(samples)
    try:
        with counted_off("samples", json) as show:
            made = [embed_samples(backbone, data, out, **common, **asdict(reduction), progress=show)]
        if has_test(data):
            with counted_off("test samples", json) as show:
                inside = out / TEST
                made.append(embed_samples(backbone, data, inside, **common, part="test", like=made[0], progress=show))
    except KeyboardInterrupt:
        kept.there("embedding so far, which the same command goes on with,", out)
        raise
    for each in made:
        tell_skipped(each)
    if json:
        print_json({"parts": [as_json(each) for each in made]})
        return
    for each in made:
        n, s, d = each.X.shape
        say(f"{n} samples of {s} tokens, {d} features, by {each.backbone}: {each.folder}")
