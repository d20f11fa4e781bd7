"""Options that several sub-commands share, one by one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from provenet.beta import Beta, parse_beta
from provenet.memory import as_bytes
from provenet.names import ALL, GATES, LOSSES, METHODS

Task = Literal["auto", "classification", "regression"]
Bias = Literal["free", "penalised"]
Activation = Literal["gated_relu", "relu", "linear"]


def refuse_if_given(context: typer.Context, option: str, reason: str) -> None:
    """An option that would change nothing is wrong use, not silence."""
    source = context.get_parameter_source(option)
    if source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter(reason, param_hint=f"--{option.strip('_').replace('_', '-')}")


def positive(value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter(f"it must be a positive, finite number, got {value}.")
    return value


def a_gap(value: float | None) -> float | None:
    """Every network is within a relative gap of one, so that from there on nothing would be proven."""
    if (gap := positive(value)) is not None and gap >= 1:
        raise typer.BadParameter(
            f"a relative gap is below 1, such as 1e-3 (a thousandth of the objective), got {value}."
        )
    return value


def known_limit(text: str | None) -> str | None:
    try:
        as_bytes(text)
    except ValueError as error:
        raise typer.BadParameter(str(error).removeprefix("memory_limit: ")) from None
    return text


def known_beta(text: str) -> Beta:
    try:
        return parse_beta(text, auto=True)
    except ValueError as error:
        raise typer.BadParameter(str(error).removeprefix("beta: ")) from None


@dataclass(frozen=True)
class GateChoice:
    """How gates are found, by name; ``count``: how many, where a number says so."""

    name: str
    count: int | None = None

    def checked(self, activation: str) -> GateChoice:
        if self.name == ALL and activation != "relu":
            raise typer.BadParameter(
                f"all enumerates the arrangements of relu; {activation} has gates of any direction.",
                param_hint="--gates",
            )
        return self


def parse_gates(text: str) -> GateChoice:
    """ "100", "all", or the name of a sampler."""
    if text in GATES:
        return GateChoice(text)
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither a whole number from 1 on nor one of {', '.join(GATES)}.")
    return GateChoice("gaussian", int(text))


@dataclass(frozen=True)
class Norms:
    """Of the first and the second layer."""

    pair: tuple[float, float]


def parse_norms(text: str) -> Norms:
    """ "1,2", or "2,inf"."""
    known = {"1": 1.0, "2": 2.0, "inf": math.inf}
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(name in known for name in names):
        raise typer.BadParameter(f"{text!r} is not two norms, each 1, 2 or inf, such as 1,2.")
    return Norms((known[names[0]], known[names[1]]))


def known_file(path: Path) -> Path:
    if str(path) != "-" and not path.exists():
        raise typer.BadParameter(f"file {str(path)!r} does not exist.")
    return path


def known_loss(value: str | None) -> str | None:
    if value is not None and value not in LOSSES:
        raise typer.BadParameter(f"{value!r} is unknown; choose one of {', '.join(LOSSES)}.")
    return value


def known_solver(value: str) -> str:
    if value != "auto" and value not in METHODS:
        raise typer.BadParameter(f"{value!r} is unknown; choose auto or one of {', '.join(METHODS)}.")
    return value


DataFile = Annotated[
    Path,
    typer.Argument(callback=known_file, dir_okay=False, help="CSV, Parquet, NPY or NPZ file; - reads CSV from stdin."),
]
ModelFolder = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A model folder, as fit writes it.")]
Targets = Annotated[
    list[str],
    typer.Option("--target", "-t", help="Column to predict, by name or position (-1: the last). Repeat for several."),
]
Features = Annotated[list[str], typer.Option("--feature", help="Column to predict from. (default: all others)")]
Drop = Annotated[list[str], typer.Option("--drop", help="Column to leave out.")]
Weight = Annotated[str | None, typer.Option("--weight", help="Column of sample weights.")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether a CSV has a line of names. (default: found out)")
]
Impute = Annotated[
    bool,
    typer.Option(
        "--impute", help="Fill missing values: numbers by the median, categories by the most frequent, as of training."
    ),
]
OneHot = Annotated[
    bool, typer.Option("--one-hot", help="Make of every column of text a column of zeros and ones for each category.")
]
TaskOption = Annotated[Task, typer.Option(help="What to fit; auto looks at the target.")]
ActivationOption = Annotated[
    Activation | None,
    typer.Option(
        help="The network's activation.",
        show_default="gated_relu; a search on a table tries linear and relu, or gated_relu",
    ),
]
BetaOption = Annotated[
    Beta,
    typer.Option(
        parser=known_beta,
        metavar="NUMBER|SHAREmax|auto",
        help="Weight decay (losses are sums over samples), or a share of the beta from which on the network is zero; "
        "auto: chosen by short trainings on parts of the data.",
    ),
]
LossOption = Annotated[
    str | None,
    typer.Option(
        callback=known_loss, help="softmax or logistic; squared or huber. (default: softmax or squared, by task)"
    ),
]
Gates = Annotated[
    GateChoice,
    typer.Option(
        parser=parse_gates,
        metavar=f"{'|'.join(GATES)}|NUMBER",
        help="How gates are found: the units of a network trained for a moment, gaussian, between rows of different "
        "targets; auto: trained, but gaussian on samples too large for it; grow begins with few and adds those that "
        "pull hardest; all, with --activation relu: every arrangement there is; a number: so many gaussian ones.",
    ),
]
GateCount = Annotated[int, typer.Option("--n-gates", min=1, help="How many gates.")]
PenaltyOption = Annotated[
    Norms,
    typer.Option(
        parser=parse_norms,
        metavar="C,R",
        help="For mlp: norms of first and second layers, 1, 2 or inf, that beta weighs; 1,2 reads few columns.",
    ),
]
Intercept = Annotated[bool, typer.Option(help="For mlp: give the data a column of ones, its weights penalised too.")]
FreeIntercept = Annotated[
    bool | None,
    typer.Option(
        "--free-intercept/--no-free-intercept",
        help="Give the outputs a bias that costs nothing, for every block. (default: yes, but not with --no-intercept)",
    ),
]
Standardize = Annotated[
    bool | None,
    typer.Option(
        "--standardize/--no-standardize",
        help="Bring features, and the targets of a regression, to one scale; the proof is of the standardised problem. "
        "(default: for mlp)",
    ),
]
SolverOption = Annotated[str, typer.Option(callback=known_solver, help=f"auto, {', '.join(METHODS)}.")]
Tol = Annotated[float, typer.Option(callback=a_gap, help="The relative gap to prove.")]
MaxSteps = Annotated[int | None, typer.Option(min=0, help="Stop after so many steps.")]
MaxSeconds = Annotated[float | None, typer.Option(callback=positive, help="Stop after so many seconds.")]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        callback=known_limit,
        metavar="SIZE",
        help="What the fit may allocate, such as 4GB; larger NPY and Parquet files are gone over in shards.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the gates.")]
Delta = Annotated[float, typer.Option(callback=positive, help="Where the huber loss turns linear.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines, and nothing else.")]
