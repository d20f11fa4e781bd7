"""The options that `provenet fit` alone has, in groups, and what each group makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from provenet.cli import options as o
from provenet.cli.console import warn
from provenet.cli.groups import OfBlock, OfNetwork
from provenet.files import check_writable


@dataclass(frozen=True)
class OfFolder:
    """Where a model goes, and what besides it."""

    out: Annotated[Path, typer.Option("--out", "-o", file_okay=False, help="Folder for the model and the report.")] = (
        Path("model")
    )
    report: Annotated[bool, typer.Option(help="Write report.html into the folder.")] = True
    force: Annotated[
        bool, typer.Option("--force", help="Replace a certified model even by one that could not be certified.")
    ] = False
    snapshots: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Folder for snapshots, from which a fit that was killed goes on. (under torchrun: beside --out)",
        ),
    ] = None
    snapshot_every: Annotated[int, typer.Option(min=1, help="Steps between two snapshots.")] = 50

    def check(self) -> None:
        """Before the work, not after it."""
        from provenet.io.folder import check_replaceable

        check_replaceable(self.out)
        check_writable(self.out)

    def for_model(self, holds: bool, tell: bool) -> Path:
        """The folder, or one beside it: a certified model is not replaced by one that is not."""
        from provenet.io.folder import holds_certified

        if holds or self.force or not holds_certified(self.out):
            return self.out
        if tell:
            warn(f"{self.out} has a certified model, which one that is not certified does not replace without --force.")
        return self.out.with_name(f"{self.out.name}-uncertified")


@dataclass(frozen=True)
class OfBeta:
    """The weight decay, or how it is chosen."""

    beta: o.BetaOption = "auto"  # type: ignore[assignment]  # typer parses it
    cv: Annotated[int | None, typer.Option(min=2, help="Choose beta by cross-validation with so many folds.")] = None
    betas: Annotated[int, typer.Option(min=2, help="With --cv: how many values of beta to try, at most.")] = 8

    def settings(self, context: typer.Context) -> dict[str, Any]:
        """Those of the estimator."""
        if self.cv is None:
            o.refuse_if_given(context, "betas", "it goes with --cv.")
            return {"beta": self.beta.said}
        o.refuse_if_given(context, "beta", "--cv chooses beta; give one or the other.")
        return {"cv": self.cv, "betas": self.betas}


@dataclass(frozen=True)
class OfSamples:
    """What is made of the samples, how they count, and which are kept apart."""

    task: o.TaskOption = "auto"
    delta: o.Delta = 1.0
    balanced: Annotated[bool, typer.Option("--balanced", help="Weigh classes against their frequency.")] = False
    whiten: Annotated[
        bool, typer.Option("--whiten", help="Whiten the data first (ZCA); they need no more rows than columns.")
    ] = False
    holdout: Annotated[
        float | None,
        typer.Option(min=0.01, max=0.9, help="Keep this share of the rows from training, and score on them."),
    ] = None

    def settings(self, context: typer.Context, block: OfBlock, network: OfNetwork) -> dict[str, Any]:
        """Those of the estimator."""
        if self.whiten and block.block != "mlp":
            raise typer.BadParameter("it goes with --block mlp.", param_hint="--whiten")
        if self.whiten and network.standardize:
            raise typer.BadParameter("whitened data have a scale of their own.", param_hint="--standardize, --whiten")
        made = {"class_weight": "balanced" if self.balanced else None, "whiten": self.whiten}
        if network.loss == "huber":
            return made | {"delta": self.delta}
        o.refuse_if_given(context, "delta", "it goes with --loss huber.")
        return made
