"""`certify`: a network on a problem, or a module on any data, whoever trained it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from numbers import Real
from typing import Any, overload

import torch
from torch import nn

from provenet.certificates import Certificate, network_certificate
from provenet.losses import Loss
from provenet.problem import Problem
from provenet.proofs.modules import certify_module
from provenet.proofs.relu import with_better
from provenet.proofs.training import Training


@overload
def certify(problem: Problem, network: nn.Module, /, *, tol: float = 1e-4) -> Certificate: ...


@overload
def certify(
    module: nn.Module,
    data: Any,
    Y: Any = None,
    /,
    *,
    loss: str | type[Loss],
    beta: float,
    tol: float = 1e-4,
    mean: bool = False,
    sample_weight: Any = None,
    loss_settings: dict[str, Any] | None = None,
    sharpen: float = 0.0,
    layers: Sequence[str] | None = None,
    bias: str = "free",
    scope: str | None = None,
) -> Certificate: ...


@torch.inference_mode(False)
def certify(what: Any, on: Any, Y: Any = None, /, *, tol: float = 1e-4, **training: Any) -> Certificate:
    """How far a network is from the best one, proven.

    ``certify(problem, network)``: of any network of the problem's block, however it was trained, in the scope of the
    problem.

    ``certify(module, X, Y, loss=, beta=)``, or ``certify(module, data, loss=, beta=)``: of a module of
    ``provenet.nn``, at whatever point your own loop left it, among all networks with its gates ("fixed_gates"; "linear"
    without gates), and for ReLU among all networks of its block, of any width ("all_arrangements").  Or of an ordinary
    two-layer network, ``nn.Sequential([Flatten,] Linear, [ReLU,] Linear)`` or ``nn.Sequential(Conv, [ReLU,] [average
    pooling,] Flatten, Linear)``, dropout being what it is in evaluation.  Of a module of any other class the two layers
    are named by ``layers``.

    Parameters
    ----------
    what : Problem or torch module
        The problem, or the module that is judged by itself.
    on : torch module, array or batches
        The network of the problem; or samples X, arrays ``(X, Y)`` or ``(X, Y, mask)``, or any re-iterable of such
        batches, like a torch DataLoader.  They are gone over more than once, some samples at a time, in float64; only
        predictions and targets are kept.  A loader may shuffle, but every pass must bring the same samples.
    Y : array, optional
        Targets, where X is an array.  Labels for ``"softmax"`` may be class indices.
    tol : float, default 1e-4
        The relative gap at which the certificate says "certified".
    loss : str or Loss class
        Of a module: what it was trained with, "squared", "softmax", "logistic" or "huber".
    beta : float
        Of a module: what multiplies the penalty, in the *sum* of the samples' losses plus beta·module.penalty().
    mean : bool, default False
        Of a module: its loop minimised the mean over the n samples plus β·penalty(), the same thing divided by n; beta
        is that β, and the certificate speaks of the sum, with n·β.  (``mse_loss`` also divides by the c outputs and has
        no ½: its β is 2/(n·c) of ours.  AdamW's decoupled ``weight_decay`` minimises no such objective: set it to zero
        and add the penalty to the loss.)
    sample_weight : array (n,), optional
        Of a module, with arrays: multiplies each sample's loss; samples of weight zero are left out.
    loss_settings : dict, optional
        Of a module: ``{"delta": 1.0}`` for "huber".
    layers : names of layers, optional
        Of a module of any other class, ``("fc1", "fc2")`` or ``("conv", "pool", "fc")``: whether a ReLU is between them
        or nothing is told by what the module computes on the data, and anything else is refused.
    bias : "free" or "penalised", default "free"
        Of a module whose last layer has a bias: whether its loop left that out of the penalty, or added β/2 times its
        squares, as ``weight_decay`` on all parameters does.
    scope : "all_arrangements", "fixed_gates" or "linear", optional
        Of a ReLU module: judge it among all networks of its block, which is what is done where it can be, or among
        those whose neurons have its own activation patterns.  The latter asks less, and is often proven far closer.
    sharpen : float, default 0
        Of a module: so many seconds to look for a better dual point by solving the problem, on all samples at once.
        The network's own is the gradient of the loss there, and far from the optimum it proves little.

    Returns
    -------
    Certificate
        Of a network that standardises (`provenet.nn.Standardised`) it is of the standardised problem, from raw data.
        ``certificate.improve()`` gives a network with a lower objective, if a ReLU neuron that pulls harder than β was
        found.

    Notes
    -----
    The penalty is β/2 times the squares of *all* weights of both layers.  A bias of the first layer counts among them:
    it is the weight of a column of ones (of a one in every patch), and the certificate speaks of networks that pay for
    it.  A bias of the last layer, if not zero, is free: no penalty is on it, and the certificate speaks of networks
    with any such bias, like ``formulate(…, fit_intercept="free")``; with ``bias="penalised"`` it speaks of those that
    pay β/2‖b‖² for it.  ``certificate.biases`` says which it was.

    A ReLU network's certificate goes over all arrangements where they can be enumerated; else the strongest pull of
    any neuron is bounded over all u at once (``certificate.method`` says how), and the gap may be large.  A ReLU
    network's data are held in memory at once.  B-FNO, and token blocks with a mask or with rows of more than a few
    million numbers, are judged among networks with their own activation patterns.
    """
    if isinstance(Y, Real):
        raise TypeError(f"tol: it is given by name, tol={Y!r}; a third argument by position is Y.")
    if isinstance(tol, bool) or not isinstance(tol, Real) or not tol >= 0:
        raise ValueError(f"tol: it must be a number from zero on, got {tol!r}.")
    known = [field.name for field in fields(Training)]
    if unknown := [name for name in training if name not in known]:
        raise TypeError(f"{', '.join(unknown)}: certify has no such settings; it has tol, {', '.join(known)}.")
    if not isinstance(what, Problem):
        return certify_module(what, on if Y is None else (on, Y), Training(**training), tol)
    if Y is not None:
        raise ValueError("Y: the problem has its own data; call certify(problem, network).")
    given = [name for name, value in training.items() if not (value is None or (isinstance(value, Real) and not value))]
    if given:
        raise ValueError(f"{', '.join(given)}: the problem has its own.")
    certificate = network_certificate(what, on, tol)
    return with_better(certificate, what, on) if what.activation == "relu" else certificate
