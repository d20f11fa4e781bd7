"""`provenet layerwise`: a deep network by convex stages, from a set of images."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from provenet.cli import importing, kept
from provenet.cli import options as o
from provenet.cli.console import print_json, say, warn

_RUN = ".run"  # within the model's folder


def layerwise(
    data: Annotated[
        Path,
        typer.Argument(help="A folder of idx files, CIFAR's binary batches or pictures by class; or an NPZ file."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", file_okay=False, help="Folder for the model and its run.")] = Path(
        "model"
    ),
    preset: Annotated[
        Literal["cpu", "paper"], typer.Option(help="cpu: few passes; paper: the paper's recipe.")
    ] = "cpu",
    stages: Annotated[int, typer.Option(min=1, help="How many stages.")] = 3,
    gates: Annotated[int | None, typer.Option(min=1, help="Gates of a stage. (default: the preset's)")] = None,
    rank: Annotated[int | None, typer.Option(min=1, help="Neurons behind each gate. (default: the preset's)")] = None,
    beta: Annotated[
        str | None, typer.Option(help="Weight decay, such as 1e-4mean (of the mean loss). (default: the preset's)")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of each stage. (default: the preset's)")] = None,
    augment: Annotated[list[str], typer.Option(help="flip or crop: change images in every epoch. Repeat.")] = [],  # noqa: B006
    limit: Annotated[int | None, typer.Option(min=2, help="Train on the first so many samples only.")] = None,
    validation: Annotated[
        float,
        typer.Option(min=0.0, max=0.9, help="Share set aside: a stage that does not help on it is dropped. 0: none."),
    ] = 0.1,
    certify: Annotated[bool, typer.Option(help="Prove each stage's gap, in float64.")] = True,
    sharpen: Annotated[
        float, typer.Option(min=0.0, help="Seconds to look for a better bound of each gap; with --resume, too.")
    ] = 0.0,
    tol: o.Tol = 1e-3,
    cache: Annotated[str, typer.Option(help="For features of frozen stages; beyond, they are made anew.")] = "16GB",
    seed: o.Seed = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, if there is one.")
    ] = False,
    json: o.Json = False,
) -> None:
    """Train a deep network stage by stage, each a two-layer block with a certificate of its own; it can be resumed.

    Example: provenet layerwise fashion-mnist --stages 3 --out model

    Example: provenet layerwise fashion-mnist --stages 3 --out model --resume

    Example: torchrun --nproc-per-node 4 --max-restarts 3 -m provenet layerwise fashion-mnist --stages 3 --out model
    """
    with importing():
        from sklearn.exceptions import ConvergenceWarning

        from provenet.cli.layerwise_told import shown, tell_of_axes
        from provenet.data.images import load_images
        from provenet.estimators.telling import watched
        from provenet.files import check_writable
        from provenet.io import save
        from provenet.io.folder import check_replaceable
        from provenet.layerwise import LayerwiseClassifier
        from provenet.ranks import joined
        from provenet.ranks.context import started_by_torchrun
    check_replaceable(out)
    check_writable(out)
    images = load_images(data)
    images.check_test()
    X, y = images.training if limit is None else (images.training[0][:limit], images.training[1][:limit])
    model = LayerwiseClassifier(
        layers=stages,
        preset=preset,
        n_gates=gates,
        rank=rank,
        beta=beta,
        epochs=epochs,
        augment=tuple(augment),
        validation_fraction=validation or None,
        certify=certify,
        sharpen=sharpen,
        tol=tol,
        cache=cache,
        random_state=seed,
        checkpoint=out / _RUN,
        resume=resume,
    )
    with joined() if started_by_torchrun() else nullcontext() as group:
        first, mine = group is None or group.is_first, slice(None) if group is None else group.rows(len(X))
        if first:
            tell_of_axes(data, X.shape)
        with (
            shown(quiet=json or not first) as show,
            watched(model, show),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always", ConvergenceWarning)
            try:
                model.fit(X[mine], y[mine])
            except KeyboardInterrupt:
                if (out / _RUN).is_dir():
                    kept.there("run so far, for --resume,", out / _RUN)
                raise
        for warning in caught if first else ():
            warn(str(warning.message))
        with kept.writing("model", out):
            save(model, out, source={"data": images.name})
    if not first:
        return
    score = None if images.test is None else model.score(*images.test)
    if json:
        rows = [stage.to_dict() for stage in model.stages_]
        print_json({"folder": str(out), "data": images.name, "samples": list(X.shape), "stages": rows, "test": score})
        return
    say(f"{images.name}, {' × '.join(map(str, X.shape))}")
    say(str(model.stages_))
    if score is not None:
        say(f"test accuracy {score:.4f}")
    say(f"model   {out}")
