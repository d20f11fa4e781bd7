"""From what a command line asks for to data and an estimator."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from provenet import estimators
from provenet.beta import USUAL
from provenet.blocks import Block
from provenet.cli.blocks import check_fits, check_mask, chosen_block
from provenet.cli.console import warn
from provenet.cli.groups import FromFile, OfBlock, OfNetwork, OfSolver
from provenet.cli.options import refuse_if_given
from provenet.cli.samples import load
from provenet.data.loading import Dataset, guess_task, split_rows
from provenet.estimators.base import ProvenEstimator
from provenet.formulation.gauge import check_pull
from provenet.gauges.prox.mixed import Penalty, gauge_of
from provenet.memory import as_bytes
from provenet.problem import Problem
from provenet.statement import check_penalty

_KINDS = {"classification": "ProvenClassifier", "regression": "ProvenRegressor"}


@dataclass(frozen=True)
class Fitting:
    """The data and the estimator a command line asks for."""

    data: Dataset
    y: NDArray[Any]
    task: str
    estimator: ProvenEstimator
    path: Path

    def held_out(self, share: float, seed: int) -> tuple[Fitting, Fitting]:
        """(to train on, to judge by)."""
        train, test = self.data.split(share, seed)
        y_train, y_test = (self.y[rows] for rows in split_rows(self.y, share, seed))
        return replace(self, data=train, y=y_train), replace(self, data=test, y=y_test)

    def problem(self) -> Problem:
        """The problem the estimator would solve, for any beta."""
        data = self.estimator._read(self.data.X, self.y, self.data.weight, self.data.mask)
        return self.estimator._formulate(data, USUAL, self.estimator._seed())

    @property
    def named(self) -> str:
        """The file, and what is predicted from it."""
        targets = self.data.source.targets
        return f"{self.path.name}, target {', '.join(targets)}" if targets else self.path.name

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X; positions where the file has no names; None for tokens and images."""
        names = self.data.source.names
        if self.data.X.ndim > 2:
            return None
        return list(names) if len(names) == self.data.X.shape[1] else [str(i) for i in range(self.data.X.shape[1])]


def prepare(
    context: typer.Context,
    file: FromFile,
    task: str,
    block: OfBlock,
    network: OfNetwork,
    solver: OfSolver,
    search: bool = False,
    holdout: float | None = None,
    **more: Any,
) -> Fitting:
    """Read the data, decide on the task, and make the estimator (with ``search``, one that chooses β).

    ``more``: settings of the estimator; a class_weight goes with classification alone.
    """
    if block.block != "mlp":
        refuse_if_given(context, "intercept", "it goes with --block mlp.")
    activation = network.activation or ("auto" if search else "gated_relu")
    chosen, gates = chosen_block(block, file), network.gates.checked(activation)
    if gates.count is not None or gates.name == "all":
        refuse_if_given(context, "n_gates", f"--gates {gates.count or gates.name} says how many.")
    data = load(file, task, as_bytes(solver.memory_limit), holdout, network.seed)
    assert data.y is not None
    if task == "auto":
        task = guess_task(data.y, tokens=block.readout == "tokens")
        if task == "classification" and data.y.dtype.kind in "iuf" and len(kinds := np.unique(data.y)) > 2:
            warn(f"the target's {len(kinds)} whole numbers are taken for classes; if they measure: --task regression.")
    kind = getattr(estimators, _KINDS[task] + ("CV" if search else ""))
    if network.loss is not None and network.loss not in kind.losses:
        raise typer.BadParameter(
            f"{network.loss} is not a loss of {task}; choose {' or '.join(kind.losses)}.", param_hint="--loss"
        )
    if task == "regression":
        more.pop("class_weight", None)
    y = data.y if task == "classification" else _as_numbers(file.data, data.y)
    if task == "classification" and len(kinds := np.unique(y)) == 1:
        raise ValueError(
            f"{file.data}: the target has one class only, {kinds.tolist()[0]!r}; a classifier needs two or more."
        )
    outputs = _outputs(y, task, network.loss, block.readout)
    check_fits(chosen, data.X, outputs)
    check_mask(file.data, chosen, data.mask)
    _check_penalty(chosen, activation, network.penalty.pair, data.X, outputs)
    estimator = kind(
        block=chosen if block.set_ else block.block,
        readout=block.readout,
        activation=activation,
        gates=gates.name,
        n_gates=gates.count or network.n_gates,
        fit_intercept=network.fit_intercept,
        penalty=network.penalty.pair,
        standardize="auto" if network.standardize is None else network.standardize,
        random_state=network.seed,
        **asdict(solver),
        **({} if network.loss is None else {"loss": network.loss}),
        **more,
    )
    return Fitting(data, y, task, estimator, file.data)


def _check_penalty(block: Block, activation: str, penalty: Penalty, X: NDArray[Any], outputs: int) -> None:
    """Norms that the block does not have, or that cannot be judged, are wrong use, told before the work."""
    try:
        check_penalty(penalty, block)
        p, q = block.weights(torch.zeros(1, *X.shape[1:], dtype=torch.float64), outputs)
        check_pull(penalty, activation, q)
        gauge_of(penalty, p, q)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--penalty") from None


def _outputs(y: NDArray[Any], task: str, loss: str | None, readout: str) -> int:
    """How many numbers the network is to say of a sample, or of a token."""
    if task == "classification":
        classes = len(np.unique(y))
        return 1 if loss == "logistic" and classes == 2 else classes
    single = y.ndim == (2 if readout == "tokens" else 1)
    return 1 if single else y.shape[-1]


def _as_numbers(path: Path, y: NDArray[Any]) -> NDArray[np.float64]:
    if y.dtype.kind not in "biuf":
        raise ValueError(
            f"{path}: the target is not a number; a regression needs numbers, or use --task classification."
        )
    return y.astype(np.float64)
