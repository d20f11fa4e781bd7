"""From a block and data to a problem."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor

from provenet import memory
from provenet.blocks import MLP, Block, make_block
from provenet.blocks.implicit import implicit_cones
from provenet.cones import Cones
from provenet.data.validation import as_mask, as_samples, as_targets, as_tensor, as_weights, check_finite
from provenet.gates import distinct_gates, sample_gates
from provenet.gates.arrangements import arrangements, doubt
from provenet.gates.interior import moved_inside
from provenet.gates.spike_free import open_gate, spike_free_stretch
from provenet.gauges import ConeColumns, ConeNuclear, Gauge, SpikeFree
from provenet.gauges.prox.mixed import WEIGHT_DECAY, Penalty, as_penalty, gauge_of
from provenet.losses import LOSSES, Loss
from provenet.losses.base import power_of_four
from provenet.nn.base import ACTIVATIONS, READOUTS
from provenet.problem import Problem, Program, normalised_beta

_ONE_OUTPUT_EACH = (2.0, 1.0)
_MASKED_TOKEN_LOSSES = ("squared", "huber")  # those that are zero where output and target are


@torch.inference_mode(False)
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
    mask: Any = None,
    gate_group: Any = None,
    penalty: tuple[float, float] = WEIGHT_DECAY,
) -> Problem:
    """The convex program of a block on data.

    X: samples (n, d), tokens (n, s, d) or images (n, channels, …), by block.  Y: targets (n, c) or (n,); one-hot or
    integer labels for ``"softmax"``, zeros and ones for ``"logistic"``; (n, s, c) with ``readout="tokens"``.
    ``gates``: how many to sample, or gate vectors (P, p) of your own; a block with groups has them in each group, or
    each in the group that ``gate_group`` (P,) names.  For ReLU gates are arrangements, and "all" enumerates them;
    of whitened X, or rows orthogonal to one another, one open gate is all that is needed (CP §3.3).
    ``mask`` (n, s), for attention: which tokens are there.  Every loss is a sum over samples, each times its
    ``sample_weight``; samples of weight zero are left out.
    ``penalty`` (C, R), for MLPs: the norms, each 1, 2 or inf, of β/2 Σ_j (‖u_j‖_C² + ‖v_j‖_R²), where u_j and v_j are
    the first and the second layer of neuron j (BM Lemma 3.1); (2, 2) is weight decay.  ReLU has (2, 2) and (2, 1).
    """
    block = make_block(block)
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation: {activation!r} is unknown; choose one of {', '.join(map(repr, ACTIVATIONS))}.")
    complete = isinstance(gates, str) and gates == "all"
    if isinstance(gates, str) and not complete:
        raise ValueError(f"gates: {gates!r} is unknown; give a number, gate vectors, or for 'relu' 'all'.")
    if complete and activation != "relu":
        raise ValueError(f"gates: 'all' enumerates the arrangements of ReLU, not those of {activation!r}.")
    penalty = checked_penalty(penalty, block, activation)
    if readout not in READOUTS:
        raise ValueError(f"readout: {readout!r} is unknown; choose 'mean' or 'tokens'.")
    if readout == "tokens" and not block.tokens:
        raise ValueError(f"readout: block {block.name!r} has one output a sample, no tokens; choose 'mean'.")
    loss_name = loss_kind(loss).name
    X, token_mask = as_masked(block, X, mask)
    Y = as_targets(Y, X.shape[0], loss_name, tokens=readout == "tokens")
    block.check(X, Y.shape[-1])
    weight = as_weights(sample_weight, X.shape[0])
    if weight is not None and not bool((weight > 0).all()):
        used = weight > 0
        X, Y, weight = X[used], Y[used], weight[used]
        token_mask = None if token_mask is None else token_mask[used]
    Y = as_masked_targets(Y, token_mask, readout, loss_name)
    p, _ = block.weights(X, Y.shape[-1])
    alone = _open_gate(block, X) if complete and penalty == WEIGHT_DECAY else None
    if alone is None:
        gate_vectors, patterns, gate_group = _gates(block, X, p, activation, gates, seed, gate_group)
        if activation == "relu" and not complete:
            gate_vectors = _inside(block, X, gate_vectors, patterns)
        stretch = None
    else:
        gate_vectors, patterns, stretch = alone
    user_loss = make_loss(loss, Y, weight, loss_settings or {})
    scaled_loss, units = normalised(user_loss, block.size(X), block.degree)
    grouping = {} if gate_group is None else {"group": gate_group}
    operator = block.operator(X, patterns, Y.shape[-1], readout, units.x, token_mask, **grouping)
    if operator.output_shape != Y.shape:
        raise ValueError(f"Y: block {block.name!r} on this X needs {operator.output_shape}, got {tuple(Y.shape)}.")
    if activation == "relu":
        cones = _cone_gauge(block, X, patterns, gate_vectors, gate_group, stretch, complete)
        apart = penalty == _ONE_OUTPUT_EACH and operator.q > 1  # of one output all norms are one
        gauge: Gauge = ConeColumns(cones.region) if apart else cones
    else:
        gauge = gauge_of(penalty, operator.p, operator.q)
    program = Program(operator, scaled_loss, gauge, normalised_beta(beta, units.beta))
    if patterns is None:
        patterns = torch.ones(block.groups, X.shape[0], dtype=torch.bool)
    return Problem(
        block,
        activation,
        readout,
        X,
        user_loss,
        float(beta),
        gate_vectors,
        patterns,
        program,
        units.z,
        units.y,
        units.value,
        gate_group,
        token_mask,
        complete,
        penalty,
    )


def checked_penalty(penalty: Any, block: Block, activation: str) -> Penalty:
    """The norms (C, R), if networks of this block can be judged by them."""
    norms = as_penalty(penalty)
    if norms != WEIGHT_DECAY and not isinstance(block, MLP):
        raise ValueError(
            f"penalty: ({norms[0]:g}, {norms[1]:g}) goes with block 'mlp', not with {block.name!r}; choose (2, 2), "
            "weight decay."
        )
    if activation == "relu" and norms not in (WEIGHT_DECAY, _ONE_OUTPUT_EACH):
        raise ValueError(
            f"penalty: ({norms[0]:g}, {norms[1]:g}) of ReLU networks has no bound of how hard a neuron in its cone can "
            "pull; choose (2, 2), weight decay, or (2, 1), neurons with one output each; or activation 'gated_relu'."
        )
    return norms


def _cone_gauge(
    block: Block,
    X: Tensor,
    patterns: Tensor | None,
    gate_vectors: Tensor | None,
    gate_group: Tensor | None,
    stretch: float | None,
    complete: bool,
) -> ConeNuclear:
    """The gauge of the arrangements' cones, with their rows where the block has a table of them."""
    assert patterns is not None
    assert gate_vectors is not None
    X = X.to(torch.float64)
    table = _table(block, X)
    if table is None:
        return ConeNuclear(implicit_cones(block, X, patterns, gate_vectors, gate_group))
    rows, unit = table
    noise = block.row_noise(X)
    cones = Cones.of(rows, patterns, gate_vectors, None if noise is None else noise / unit)
    if stretch is not None:
        return SpikeFree(cones, stretch=stretch)
    return ConeNuclear(replace(cones, doubt=doubt(rows)) if complete else cones)


def _inside(block: Block, X: Tensor, vectors: Tensor | None, patterns: Tensor | None) -> Tensor:
    """Gate vectors strictly inside the cones of their patterns: a tie is open, but no place for a neuron to start."""
    assert vectors is not None
    assert patterns is not None
    zero = torch.nonzero(~vectors.any(1)).flatten()
    if len(zero):
        raise ValueError(f"gates: gate {int(zero[0])} is zero, and on every row of the data; give it a direction.")
    table = _table(block, X.to(torch.float64))
    return vectors if table is None else moved_inside(vectors, table[0], patterns)


def _open_gate(block: Block, X: Tensor) -> tuple[Tensor, Tensor, float] | None:
    """The one gate that rows orthogonal to one another need, its pattern and `spike_free_stretch`; None for others."""
    table = _table(block, X.to(torch.float64))
    stretch = None if table is None else spike_free_stretch(table[0])
    return None if table is None or stretch is None else (*open_gate(table[0]), stretch)


def _table(block: Block, X: Tensor) -> tuple[Tensor, Tensor] | None:
    """Φ (N, p), every row divided by a power of two so that its largest entry is about one, and these powers (N,);
    None for a block without such a table.

    Arrangements and cones are the same, and squares neither overflow nor vanish.
    """
    rows = block.rows(X) if block.groups == 1 else None
    if rows is None:
        return None
    unit = torch.exp2(torch.frexp(rows.abs().amax(1))[1].clamp(-1000, 1000).to(rows.dtype))
    return rows / unit[:, None], unit


def as_masked(block: Block, X: Any, mask: Any) -> tuple[Tensor, Tensor | None]:
    """X with the tokens that are not there set to zero, whatever they held."""
    if mask is None:
        return as_samples(X), None
    if not block.masks:
        raise ValueError(f"mask: block {block.name!r} has a fixed number of tokens; only 'attention' takes a mask.")
    tensor = as_samples(X, finite=False)
    there = as_mask(mask, tensor.shape)
    tensor.masked_fill_(~there.unsqueeze(-1), 0.0)
    check_finite(tensor, "X")
    return tensor, there


def as_masked_targets(Y: Tensor, mask: Tensor | None, readout: str, loss: str) -> Tensor:
    """Y (n, s, c) of tokens that are not there set to zero, as the outputs are."""
    if mask is None or readout != "tokens":
        return Y
    if loss not in _MASKED_TOKEN_LOSSES:
        raise ValueError(f"mask: with readout='tokens' the loss must be 'squared' or 'huber', got {loss!r}.")
    return Y.masked_fill(~mask.unsqueeze(-1), 0.0)


def loss_kind(loss: str | type[Loss]) -> type[Loss]:
    """A loss by name, or the class itself."""
    if isinstance(loss, type) and issubclass(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ValueError(f"loss: {loss!r} is unknown; choose one of {', '.join(map(repr, LOSSES))} or a Loss class.")
    return LOSSES[loss]


def make_loss(loss: str | type[Loss], target: Tensor, weight: Tensor | None, settings: dict[str, Any]) -> Loss:
    kind = loss_kind(loss)
    try:
        return kind(target, weight, **settings)
    except TypeError as error:
        raise ValueError(f"loss_settings: {settings!r} do not fit loss {kind.name!r} ({error}).") from None


def _check_room(rows: int, gates: int) -> None:
    """A pattern for every row and gate, as truth values and as numbers."""
    memory.check_fits(rows * gates * 9, f"gates: {gates} of them on {rows} rows", "Take fewer gates or samples.")


class Units(NamedTuple):
    """What one unit of the program is in the user's: of X, Z, Y, the objective and β."""

    x: float
    z: float
    y: float
    value: float
    beta: float


def normalised(loss: Loss, x_size: float, degree: int) -> tuple[Loss, Units]:
    """The loss on targets and weights of moderate size, and the units; all must be numbers float64 can hold."""
    scaled, y = loss.normalised()
    w = power_of_four(float(loss.sample_weight.max()))
    x = power_of_four(x_size)
    x_unit = math.prod([x] * degree)  # a product overflows to infinity, a power would raise
    units = Units(x, y / max(x_unit, 1e-307), y, y * y * w, x_unit * y * w)
    if not all(1e-305 < u < 1e305 for u in (x_unit, *units[1:])):
        raise ValueError(
            f"X, Y, sample_weight: at sizes of about {x_unit:.1g}, {y:.1g} and {w:.1g} the weights or the "
            "objective leave the range of float64; rescale them."
        )
    return scaled.with_data(scaled.target, loss.sample_weight / w), units


def _gates(
    block: Block, X: Tensor, p: int, activation: str, gates: int | Any, seed: int | None, gate_group: Any
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gate vectors (P, p), their patterns (P, n·ρ) and groups (P,); groups follow one another."""
    if activation == "linear":
        return None, None, torch.arange(block.groups) if block.groups > 1 else None
    if isinstance(gates, str) and gates == "all":
        return *_all_arrangements(block, X), None
    vectors: Tensor | None = None
    if isinstance(gates, Integral) and not isinstance(gates, bool):
        if gates < 1:
            raise ValueError(f"gates: at least one gate is needed, got {gates}.")
        if seed is not None and not (isinstance(seed, Integral) and seed >= 0):
            raise ValueError(f"seed: it must be a whole number from zero on, or None, got {seed!r}.")
        count = int(gates)
    else:
        vectors = as_tensor(gates, "gates")
        if vectors.ndim != 2 or vectors.shape[0] == 0 or vectors.shape[1] != p:
            raise ValueError(f"gates: gate vectors need shape (P, {p}), got {tuple(vectors.shape)}.")
        check_finite(vectors, "gates")
        count = len(vectors)
    rho = block.sides(X[:1].to(torch.float64), torch.zeros(1, p, dtype=torch.float64)).shape[1]
    _check_room(X.shape[0] * rho, count * block.groups)
    each = [vectors] * block.groups if gate_group is None else _split(vectors, gate_group, block.groups)
    found = [_group_gates(block, X, b, p, mine, count, seed) for b, mine in enumerate(each)]
    group = torch.cat([torch.full((len(v),), b) for b, (v, _) in enumerate(found)]) if block.groups > 1 else None
    if len(found) == 1:
        return *found[0], group
    return torch.cat([v for v, _ in found]), torch.cat([pattern for _, pattern in found]), group


def _all_arrangements(block: Block, X: Tensor) -> tuple[Tensor, Tensor]:
    """Every arrangement but the one that closes all rows."""
    table = _table(block, X.to(torch.float64))
    if table is None:
        raise ValueError(
            f"gates: 'all' needs a table of rows, which block {block.name!r} has not; sample some instead."
        )
    return distinct_gates(*arrangements(table[0]))


def _split(vectors: Tensor | None, gate_group: Any, groups: int) -> list[Tensor | None]:
    """The gate vectors of each group."""
    group = as_tensor(gate_group, "gate_group")
    if vectors is None or group.shape != vectors.shape[:1]:
        raise ValueError(f"gate_group: it goes with gate vectors, one number for each, got shape {tuple(group.shape)}.")
    if set(group.tolist()) != set(range(groups)):
        raise ValueError(f"gate_group: with {groups} groups it needs gates of each, 0 to {groups - 1}.")
    return [vectors[group == b] for b in range(groups)]


def _group_gates(
    block: Block, X: Tensor, group: int, p: int, vectors: Tensor | None, count: int, seed: int | None
) -> tuple[Tensor, Tensor]:
    if vectors is None:
        return sample_gates(lambda draw: block.patterns(X, draw, group), p, count, seed)
    patterns, torn = block.patterns(X, vectors, group)
    check_decided(torn)
    return distinct_gates(vectors, patterns)


def check_decided(torn: Tensor) -> None:
    """No gate may be so close to a row of the data that one order of summation opens it and another closes it."""
    if bool(torn.any()):
        raise ValueError(
            f"gates: gate {int(torch.nonzero(torn)[0])} passes so close to a row of the data that rounding decides on "
            "which side it is; move the gate a little."
        )
