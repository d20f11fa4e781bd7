"""From a block and data to a problem."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from provenet.blocks import Block
from provenet.formulation.assemble import Given, assembled
from provenet.formulation.data import read_data, standardised
from provenet.formulation.sharded import goes_in_shards, pose_in_shards
from provenet.formulation.spread import refuse_together, spread, spread_operator
from provenet.formulation.wanted import Wanted
from provenet.gauges.prox.mixed import WEIGHT_DECAY
from provenet.losses import Loss
from provenet.memory import as_bytes
from provenet.problem import Problem
from provenet.ranks import Spread
from provenet.scaling import Scaling
from provenet.statement import Statement


def formulate(
    block: str | Block,
    X: Any,
    Y: Any = None,
    activation: str = "gated_relu",
    gates: str | int | Any = 100,
    loss: str | type[Loss] = "squared",
    beta: float = 1e-3,
    readout: str = "mean",
    seed: int | None = 0,
    sample_weight: Any = None,
    loss_settings: dict[str, Any] | None = None,
    mask: Any = None,
    gate_group: Any = None,
    penalty: tuple[float, float] = WEIGHT_DECAY,
    n_gates: int = 100,
    fit_intercept: bool | str | None = None,
    standardize: bool = False,
    memory_limit: str | int | None = None,
) -> Problem:
    """The convex program of a block on data.

    Parameters
    ----------
    block : str or Block
        A name, or a block with settings of its own.
    X : array
        Samples (n, d), tokens (n, s, d) or images (n, channels, …), by block.  Or what is larger than memory, and gone
        over in shards: the path of an NPY file, that of a Parquet file, with Y its target column; pairs (X_i, y_i) of
        arrays, memory maps or paths, a torch DataLoader or any iterable of pairs, without Y.
    Y : array, optional
        Targets (n, c) or (n,); one-hot or integer labels for ``"softmax"``, zeros and ones for ``"logistic"``;
        (n, s, c) with ``readout="tokens"``.
    activation : str, default "gated_relu"
        "gated_relu", "relu" or "linear".
    gates : str, int, array, network or function, default 100
        "gaussian", "between" (halfway between rows of different targets), "trained" (the units of a ReLU network
        trained for a moment) or "auto" (trained, where that takes a moment, else Gaussian), ``n_gates`` of them;
        "grow", some Gaussian ones to which `solve` adds the ones that pull hardest, up to ``n_gates``; a number of
        Gaussian ones; gate vectors (P, p) of your own; a network, whose units they are; or a sampler of your own.  A
        block with groups has so many in each group.  For ReLU gates are arrangements, and "all" enumerates them; of
        whitened X, or rows orthogonal to one another, one open gate is all that is needed (CP §3.3).
    loss : str or Loss class, default "squared"
        "squared", "softmax", "logistic" or "huber".  Every loss is a sum over samples.
    beta : float, default 1e-3
        Multiplies the penalty.
    readout : str, default "mean"
        Over tokens; or "tokens", an output for each.
    seed : int, default 0
        Of gates that are sampled.
    sample_weight : array (n,), optional
        Multiplies each sample's loss; samples of weight zero are left out.
    loss_settings : dict, optional
        ``{"delta": 1.0}`` for "huber".
    mask : array (n, s), optional
        For attention: which tokens are there.
    gate_group : array (P,), optional
        The group of each gate vector, for a block with groups; without it every group has them all.
    penalty : pair of norms, default (2, 2)
        For MLPs and convolutions: (C, R), each 1, 2 or inf, of β/2 Σ_j (‖u_j‖_C² + ‖v_j‖_R²), where u_j and v_j are the
        first and the second layer of neuron j (BM Lemma 3.1, Thm B.1); (2, 2) is weight decay.  ReLU has (2, 2) and
        (C, 1), and any where v_j is one number.
    n_gates : int, default 100
        How many, where ``gates`` is a name or a sampler.
    fit_intercept : bool or "free", optional
        "free": outputs get a bias (c,) that costs nothing, shared by all samples and tokens, and the certificate speaks
        of networks with any such bias.  True and False, and the MLP's part in "free", are for ``block="mlp"`` by name:
        a column of ones for X, whose weights are penalised, so that hidden units have biases.
    standardize : bool, default False
        The problem is that of features with mean zero and variance one (channels of images), and of such targets where
        the loss measures distances: its penalty is on weights of standardised features, its objective in units of
        standardised targets.  Networks take, and return, the user's own numbers.
    memory_limit : str or int, optional
        "4GB", or bytes: what posing, solving and certifying may allocate beyond what the process has.  Arrays whose
        copies would take more than a quarter of it are gone over in shards; ``problem.memory`` says what will be used.
        A limit below the least that works is refused, and that is named.

    Returns
    -------
    Problem
        With ``beta_max``, ``gate_vectors`` and ``patterns``; for `provenet.solve` and `provenet.certify`.
    """
    if isinstance(block, Block) and isinstance(fit_intercept, bool):
        raise ValueError(f"fit_intercept: the block, {block!r}, says so itself; give it True or False, or 'free' here.")
    wanted = Wanted.of(gates, n_gates)
    statement = Statement.of(
        block,
        loss,
        beta,
        activation=activation,
        readout=readout,
        loss_settings=loss_settings,
        penalty=penalty,
        complete=wanted.all,
        fit_intercept=fit_intercept,
    )
    more = {"sample_weight": sample_weight, "mask": mask, "gate_group": gate_group, "standardize": standardize}
    return pose(statement, X, Y, wanted, seed=seed, **more, memory_limit=memory_limit)


@torch.inference_mode(False)
def pose(
    statement: Statement,
    X: Any,
    Y: Any,
    gates: Wanted | Any = 100,
    *,
    seed: int | None = 0,
    sample_weight: Any = None,
    mask: Any = None,
    gate_group: Any = None,
    standardize: bool | Scaling = False,
    memory_limit: Any = None,
) -> Problem:
    """The statement on data; arguments as `formulate` has them.  Gates are found anew where it is complete.

    standardize: by the data's own moments, or by those of another fit."""
    wanted, limit = gates if isinstance(gates, Wanted) else Wanted.of(gates), as_bytes(memory_limit)
    given = Given(wanted, seed, sample_weight, mask, gate_group, standardize)
    if goes_in_shards(X, limit):
        refuse_together(limit)
        return pose_in_shards(statement, X, Y, given, limit)
    data = read_data(statement, X, Y, sample_weight, mask)
    data, shards = spread(statement, wanted, data, as_labels=np.ndim(Y) < data.Y.ndim)
    scaling = None
    if standardize:
        data, scaling = standardised(statement, data, given.scaling, shards)
    on = statement.block.on(data.X, data.Y.shape[-1], statement.readout, data.mask)
    loss = statement.make_loss(data.Y, data.weight, data.mask, shards)
    size = shards.largest(on.block.size(data.X))
    make = partial(spread_operator, on, shards) if isinstance(shards, Spread) else on.operator
    return replace(assembled(statement, on, loss, size, given, shards, make), scaling=scaling)
