"""`provenet head`: heads for a frozen backbone, compared on one embedding."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provenet.cli import importing, kept
from provenet.cli import options as o
from provenet.cli.console import FAILED, print_json, say
from provenet.cli.embed import TEST
from provenet.cli.groups import grouped

if TYPE_CHECKING:
    from provenet.heads import Row


@dataclass(frozen=True)
class Asked:
    """Which heads are compared, by what, and how far each is solved."""

    heads: Annotated[
        str, typer.Option(help="Names with commas between them, such as linear,mixer-gated; quick, or all.")
    ] = "quick"
    validation: Annotated[
        str | None,
        typer.Option(
            help="A share of the samples that chooses beta and the head, or an embedding that does. (default: 0.2 of "
            "more than 10,000 samples, of fewer three folds)"
        ),
    ] = None
    folds: Annotated[
        int | None, typer.Option(min=2, help="Choose by the mean over so many folds, and not by one part.")
    ] = None
    test: Annotated[
        Path | None, typer.Option(help="An embedding to tell accuracies of. (default: test within EMBEDDING)")
    ] = None
    betas: Annotated[int, typer.Option(min=1, help="How many values of beta, from 0.3 beta_max down.")] = 6
    n_gates: Annotated[
        int, typer.Option("--gates", min=1, help="Gates of heads that have any; attention has five at most.")
    ] = 20
    tol: o.Tol = 1e-2
    max_seconds: Annotated[
        float | None, typer.Option(callback=o.positive, help="A limit of all heads together, shared evenly.")
    ] = None
    seed: o.Seed = 0

    def settings(self, embedding: Path) -> dict[str, Any]:
        """Those of `compare`."""
        from provenet.embeddings.embedding import ABOUT
        from provenet.heads.kinds import head_names

        inside = embedding / TEST
        test = inside if self.test is None and (inside / ABOUT).exists() else self.test
        read = {"heads": head_names(self.heads), "validation": _share_or_folder(self.validation), "test": test}
        return asdict(self) | read


@grouped
def head(
    embedding: Annotated[Path, typer.Argument(help="A folder that `provenet embed` wrote.")],
    asked: Asked,
    out: Annotated[Path, typer.Option("--out", "-o", file_okay=False, help="Folder for the best head.")] = Path(
        "model"
    ),
    judge: Annotated[
        Path | None, typer.Option(help="Fit nothing: tell how right the head in this folder is on EMBEDDING.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Fit heads for a frozen backbone over a path of beta; keep the best by validation, with its certificate.

    Example: provenet head grids --heads linear,mixer-linear,attention-linear --out model

    Example: provenet head new-grids --judge model
    """
    with importing():
        from rich.progress import MofNCompleteColumn, TimeElapsedColumn

        from provenet.cli.progress import bar
        from provenet.heads import compare, score
    if judge is not None:
        told = score(judge, embedding)
        print_json(told) if json else say("  ".join(f"{name} {100 * value:.2f} %" for name, value in told.items()))
        return
    settings, progress = asked.settings(embedding), bar(MofNCompleteColumn(), TimeElapsedColumn(), quiet=json)
    names = settings["heads"]
    task, following = progress.add_task(names[0], total=len(names)), iter((*names[1:], "saving"))

    def show(row: Row) -> None:
        progress.update(task, advance=1, description=next(following))
        kept.there("heads so far, which the same command goes on with,", out)
        if not json:
            said = f"refused: {row.why}" if row.validation is None else f"validation {_percent(row)}"
            progress.console.print(f"{row.head}  {said}  {row.seconds:.1f} s", soft_wrap=True, highlight=False)

    with progress:
        found = compare(embedding, **settings, out=out, progress=show)
    if json:
        print_json({"folder": str(out), "best": found.best.head, "rows": [row.to_dict() for row in found]})
    else:
        say(str(found))
        say(f"model   {out}")
    if found.best.status != "certified":
        raise typer.Exit(FAILED)


def _percent(row: Row) -> str:
    return f"{100 * (row.validation or 0):.2f} ± {100 * (row.error or 0):.2f} %"


def _share_or_folder(said: str | None) -> float | Path | None:
    if said is None:
        return None
    try:
        return float(said)
    except ValueError:
        return Path(said)
