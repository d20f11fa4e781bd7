"""From a block and data to a problem."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from provenet import memory
from provenet.blocks.base import Block
from provenet.blocks.mlp import MLP
from provenet.data.validation import as_samples, as_targets, as_tensor, as_weights, check_finite
from provenet.gates import patterns as open_rows
from provenet.gates import sample_gates, undecided
from provenet.gauges import NuclearNorm
from provenet.losses import LOSSES, Loss
from provenet.losses.base import power_of_four
from provenet.problem import Problem, Program, normalised_beta

BLOCKS: dict[str, type[Block]] = {"mlp": MLP}
ACTIVATIONS = ("linear", "gated_relu")


def make_block(block: str | Block, **settings: Any) -> Block:
    """A block by name, or the block itself."""
    if isinstance(block, Block):
        return block
    if block not in BLOCKS:
        raise ValueError(
            f"block: {block!r} is unknown; choose one of {', '.join(map(repr, BLOCKS))} or a block object."
        )
    return BLOCKS[block](**settings)


def formulate(
    block: str | Block,
    X: Any,
    Y: Any,
    activation: str = "gated_relu",
    gates: int | Any = 100,
    loss: str | type[Loss] = "squared",
    beta: float = 1e-3,
    readout: str = "mean",
    seed: int | None = 0,
    sample_weight: Any = None,
    loss_settings: dict[str, Any] | None = None,
) -> Problem:
    """The convex program of a block on data.

    X: samples (n, …).  Y: targets (n, c) or (n,); one-hot or integer labels for ``"softmax"``, zeros and ones for
    ``"logistic"``.  ``gates``: how many to sample, or gate vectors (P, p) of your own.  Every loss is a sum over
    samples, each times its ``sample_weight``; samples of weight zero are left out.
    """
    block = make_block(block)
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation: {activation!r} is unknown; choose one of {', '.join(map(repr, ACTIVATIONS))}.")
    if readout not in ("mean", "tokens"):
        raise ValueError(f"readout: {readout!r} is unknown; choose 'mean' or 'tokens'.")
    X = as_samples(X)
    block.check(X)
    if loss not in LOSSES and not (isinstance(loss, type) and issubclass(loss, Loss)):
        raise ValueError(f"loss: {loss!r} is unknown; choose one of {', '.join(map(repr, LOSSES))} or a Loss class.")
    Y = as_targets(Y, X.shape[0], loss if isinstance(loss, str) else loss.name)
    weight = as_weights(sample_weight, X.shape[0])
    if weight is not None:
        used = weight > 0
        X, Y, weight = X[used], Y[used], weight[used]

    gate_vectors, pattern = _gates(block.rows(X), activation, gates, seed)
    user_loss = _make_loss(loss, Y, weight, loss_settings or {})
    scaled_loss, y_scale = user_loss.normalised()
    w_scale = power_of_four(float(user_loss.sample_weight.max()))
    scaled_loss = scaled_loss.with_data(scaled_loss.target, user_loss.sample_weight / w_scale)
    x_scale = power_of_four(block.size(X))
    unit, value_scale, beta_unit = _units(x_scale**block.degree, y_scale, w_scale)
    operator = block.operator(X, pattern, Y.shape[-1], x_scale)
    if operator.output_shape != Y.shape:
        raise ValueError(f"Y: block {block.name!r} on this X needs {operator.output_shape}, got {tuple(Y.shape)}.")
    program = Program(operator, scaled_loss, NuclearNorm(), normalised_beta(beta, beta_unit))
    return Problem(
        block,
        activation,
        readout,
        X,
        user_loss,
        float(beta),
        gate_vectors,
        pattern.T,
        program,
        unit,
        y_scale,
        value_scale,
    )


def _make_loss(loss: str | type[Loss], target: Tensor, weight: Tensor | None, settings: dict[str, Any]) -> Loss:
    kind = LOSSES[loss] if isinstance(loss, str) else loss
    try:
        return kind(target, weight, **settings)
    except TypeError as error:
        raise ValueError(f"loss_settings: {settings!r} do not fit loss {kind.name!r} ({error}).") from None


def _check_room(rows: Tensor, gates: int) -> None:
    """A pattern for every row and gate, as truth values and as numbers, and a batch of them while sampling."""
    needed = rows.shape[0] * gates * (1 + 2 * rows.element_size())
    memory.check_fits(needed, f"gates: {gates} of them on {rows.shape[0]} rows", "Take fewer gates or samples.")


def _units(x_unit: float, y_unit: float, w_unit: float) -> tuple[float, float, float]:
    """The units of Z, of the objective and of β; all must be numbers float64 can hold."""
    unit, value_scale, beta_unit = y_unit / x_unit, y_unit * y_unit * w_unit, x_unit * y_unit * w_unit
    if not all(1e-305 < u < 1e305 for u in (unit, value_scale, beta_unit)):
        raise ValueError(
            f"X, Y, sample_weight: at sizes of about {x_unit:.1g}, {y_unit:.1g} and {w_unit:.1g} the weights or the "
            "objective leave the range of float64; rescale them."
        )
    return unit, value_scale, beta_unit


def _gates(rows: Tensor, activation: str, gates: int | Any, seed: int | None) -> tuple[Tensor | None, Tensor]:
    if activation == "linear":
        return None, torch.ones(rows.shape[0], 1, dtype=torch.bool)
    if isinstance(gates, Integral) and not isinstance(gates, bool):
        if gates < 1:
            raise ValueError(f"gates: at least one gate is needed, got {gates}.")
        if seed is not None and not (isinstance(seed, Integral) and seed >= 0):
            raise ValueError(f"seed: it must be a whole number from zero on, or None, got {seed!r}.")
        _check_room(rows, int(gates))
        return sample_gates(rows, int(gates), seed)
    vectors = as_tensor(gates, "gates")
    if vectors.ndim != 2 or vectors.shape[0] == 0 or vectors.shape[1] != rows.shape[1]:
        raise ValueError(f"gates: gate vectors need shape (P, {rows.shape[1]}), got {tuple(vectors.shape)}.")
    check_finite(vectors, "gates")
    torn = torch.nonzero(undecided(rows, vectors))
    if len(torn):
        row, gate = torn[0].tolist()
        raise ValueError(
            f"gates: gate {gate} passes so close to row {row} of the data that rounding decides on which side it is; "
            "move the gate a little."
        )
    return _distinct(vectors, open_rows(rows, vectors))


def _distinct(vectors: Tensor, pattern: Tensor) -> tuple[Tensor, Tensor]:
    """One gate a pattern, closed gates dropped: doubles change neither the networks nor the optimum."""
    first: dict[bytes, int] = {}
    for k, column in enumerate(pattern.T.contiguous()):
        if bool(column.any()):
            first.setdefault(column.numpy().tobytes(), k)
    keep = list(first.values()) or [0]
    return vectors[keep], pattern[:, keep]
