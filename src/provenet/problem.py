"""The convex program, and the problem it came from.

`Program` is what a solver sees: loss ∘ operator + β·gauge, in normalised units.
`Problem` is what a user poses: a block on data, in the data's own units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from provenet import deadline
from provenet.blocks import Block, OnData
from provenet.blocks.outputs import batch_size, outputs_in_batches
from provenet.gates import Gates, pattern_keys
from provenet.gauges import Asked, Bounds, Gauge
from provenet.gauges.prox.mixed import Penalty
from provenet.losses import Loss
from provenet.memory.plan import MemoryPlan
from provenet.nn import Standardised, TwoLayer
from provenet.nn.standardised import core
from provenet.operators import Operator
from provenet.polar import is_dear, polar_bounds
from provenet.scaling import Scaling
from provenet.space import Placed, Space
from provenet.statement import Scope, Statement
from provenet.variable import Factors, Neurons

_TINY = torch.finfo(torch.float64).tiny
_NEAR, _NEAR_DEAR = 1e-3, 1e-2  # how well β_max is known where every digit takes more passes over the data; dear ones

G_co = TypeVar("G_co", bound=Gauge, covariant=True, default=Gauge)


@dataclass(frozen=True)
class Program(Placed, Generic[G_co]):
    """min_Z L(A(Z)) + β Σ_k γ(Z_k)  (BM eq. 16, AT Thm 3.1–4.8).  ``Program[ProxGauge]``: its gauge has a prox."""

    operator: Operator
    loss: Loss
    gauge: G_co
    beta: float

    def objective_factors(self, factors: Factors) -> Tensor:
        """BM eq. 17, 18."""
        return self.loss.value(self.operator.forward_factors(factors)) + self.beta * self.gauge.penalty(factors)

    @cached_property
    def beta_max(self) -> float:
        """max_k γ°(−A_k*∇L(0)), or somewhat more (`Gauge.relaxed`, and by products with vectors a thousandth, where
        they are dear a hundredth): from here on Z = 0 is optimal.  Zero where it is no more than rounding can make of
        nothing, as of rows that are all equal, or of constant targets, with a free intercept: no share of that is a
        β."""
        pull = -self.loss.gradient(torch.zeros_like(self.loss.target))
        op, gauge = self.operator, self.gauge.relaxed(self.operator.q)
        with deadline.of_products():  # shares of a mere bound are not what was asked for
            near = _NEAR_DEAR if is_dear(op) else _NEAR
            found = float(polar_bounds(op, gauge, pull, asked=Asked(near=near)).upper.max())
        return 0.0 if found <= gauge.rounding(op.p, op.q) * op.rounding(pull) < math.inf else found

    @property
    def known_beta_max(self) -> float | None:
        """β_max, where somebody has asked for it."""
        known: float | None = vars(self).get("beta_max")
        return known

    def polar(self, theta: Tensor, final: bool = False) -> Bounds:
        """γ°(A_k*Θ) of every gate, bounded from both sides; what rounding in A* can hide is not yet in it.

        ``final``: take the best kind of bound that can be afforded once, not one for every look.
        """
        return polar_bounds(self.operator, self.gauge, theta, final)

    @property
    def nobody(self) -> Factors:
        """No neurons: Z = 0."""
        return Factors.empty(self.operator.p, self.operator.q, self.operator.space)

    def with_beta(self, beta: float) -> Program[G_co]:
        loss = self.loss.dearer(beta / self.beta)
        other = replace(self, loss=loss, beta=beta)
        return self._knowing(other) if loss is self.loss else other

    def remembering(self) -> Program[G_co]:
        """The same for one run: bounds of its polars may use what the ones before them have met, and searches for a
        free intercept begin where the one before ended; of other runs nothing is known."""
        return self._knowing(replace(self, gauge=self.gauge.remembering(), loss=self.loss.forgetful()))

    def _knowing(self, other: Program[G_co]) -> Program[G_co]:
        """A program of the same β_max, which is not found once more."""
        if self.known_beta_max is not None:
            vars(other)["beta_max"] = self.known_beta_max
        return other

    def restrict(self, gates: Tensor) -> Program[G_co]:
        gauge: Any = self.gauge.restrict(gates)
        return replace(self, operator=self.operator.restrict(gates), gauge=gauge)


class Units(NamedTuple):
    """What one unit of the program is in the user's: of X, Z, Y, the objective and β.  All are powers of two, so that
    no change of units rounds: Z = z·Z̃, Ŷ = y·(the program's Ŷ), objective = value·(the program's objective)."""

    x: float
    z: float
    y: float
    value: float
    beta: float

    @property
    def dual(self) -> float:
        """Of a dual point Θ, a derivative of the objective by the outputs."""
        return self.value / self.y

    def normalised_beta(self, beta: float) -> float:
        """β in the program's units, where it is a number a program can work with."""
        normalised = float(beta) / self.beta
        if not _TINY <= normalised < float("inf"):
            raise ValueError(
                f"beta: {beta!r} is out of all proportion to the data, whose unit of beta is {self.beta:.3g}."
            )
        return normalised


@dataclass(frozen=True, repr=False)
class Problem:
    """A statement on data, in the data's own units; what `formulate` makes and `solve` takes.

    Parameters
    ----------
    statement : Statement
        What is minimised: block, activation, readout, loss, β, penalty.
    X : Tensor
        Samples, standardised where ``scaling`` says so.
    mask : Tensor (n, s), optional
        Which tokens count; None: all.
    loss : Loss
        The loss, with the targets Y and the samples' weights.
    gates : Gates
        Gate vectors and what they open.
    program : Program
        The same in normalised ``units``: what a method sees.
    units : Units
        What one unit of the program is in the user's.
    growth : int, optional
        How many gates `solve` may let it grow to, in each group of features; None: it has those it has.
    scaling : Scaling, optional
        X and Y are standardised, from raw ones, by this: what is penalised are weights of standardised features, and
        objectives are in units of standardised targets.
    memory : MemoryPlan, optional
        Where samples are in shards, of which X reads some at a time, what it takes; printed, in words.
    """

    statement: Statement
    X: Tensor
    mask: Tensor | None
    loss: Loss
    gates: Gates
    program: Program
    units: Units
    growth: int | None = None
    scaling: Scaling | None = None
    memory: MemoryPlan | None = None

    def __repr__(self) -> str:
        shapes = [" × ".join(map(str, part.shape)) for part in (self.X, self.loss.target)]
        gates = "" if self.gate_vectors is None else f", {len(self.patterns)} gates"
        return (
            f"Problem({self.block.name!r} on X {shapes[0]}, Y {shapes[1]}: {self.activation}{gates}, "
            f"loss {self.loss.name!r}, beta {self.beta:g})"
        )

    @property
    def block(self) -> Block:
        return self.statement.block

    @property
    def activation(self) -> str:
        return self.statement.activation

    @property
    def readout(self) -> str:
        return self.statement.readout

    @property
    def beta(self) -> float:
        return self.statement.beta

    @property
    def penalty(self) -> Penalty:
        """The norms of the first and second layer."""
        return self.statement.penalty

    @property
    def scope(self) -> Scope:
        """What a certificate of this problem speaks of."""
        return self.statement.scope

    @property
    def gate_vectors(self) -> Tensor | None:
        """(P, p); None for linear activation."""
        return self.gates.vectors

    @property
    def patterns(self) -> Tensor:
        """(P, n·ρ) bool."""
        return self.gates.patterns

    @property
    def beta_max(self) -> float:
        """From here on the zero network is optimal.

        ReLU with several outputs: that of gated ReLU with the same gates, which is at least as large; how hard a neuron
        in its cone can pull is too dear to know for a number that settings are told in parts of.
        """
        return self.program.beta_max * self.units.beta

    @property
    def on_data(self) -> OnData:
        """The block on this problem's data; what is looked up of them is kept with what is returned, not here."""
        return self.block.on(self.X, self.loss.target.shape[-1], self.readout, self.mask)

    def with_beta(self, beta: float) -> Problem:
        statement = self.statement.with_beta(beta)
        program = self.program.with_beta(self.units.normalised_beta(statement.beta))
        loss = self.loss.dearer(statement.beta / self.beta)
        return replace(self, statement=statement, loss=loss, program=program)

    def network(self, factors: Factors, bias: Tensor | None = None) -> nn.Module:
        """The network, on this problem's X, of factors in normalised units; a free intercept is the best for them, for
        which it goes over the data, unless this ``bias`` is known to be it."""
        network = self.bare_network(factors)
        if bias is None:
            return self.with_best_bias(network)
        network.bias = nn.Parameter(bias.clone())
        return network

    def spoken(self, factors: Factors) -> tuple[nn.Module, Tensor | None]:
        """`network`, and what it says of X without its free intercept, where it had to be asked for the best one."""
        network = self.bare_network(factors)
        if not self.loss.free:
            return network, None
        said = self._said(network)
        return self._with_bias_for(network, said), said

    def bare_network(self, factors: Factors) -> TwoLayer:
        """`network` without its free intercept."""
        relu = self.activation == "relu"
        gates = None if self.gate_vectors is None or relu else self.gate_vectors[factors.gate]
        group = None if self.gates.group is None else self.gates.group[factors.gate]
        return self.block.network(factors.scaled(self.units.z**0.5), gates, self.readout, group, relu)

    def outward(self, network: nn.Module) -> nn.Module:
        """A network of this problem's X as one of the user's samples: raw ones, where it standardises them."""
        return network if self.scaling is None else self.scaling.around(network)  # type: ignore[arg-type]

    def inward(self, network: nn.Module) -> nn.Module:
        """Back from `outward`; a network that does not standardise is one of this problem's X already."""
        if isinstance(network, Standardised) and not (self.scaling and self.scaling.is_that_of(network)):
            raise ValueError(
                "network: it standardises its samples, and the problem does not do so by the same means and scales; "
                "pose it with standardize=True on the data of the fit, or certify the module on raw data."
            )
        return core(network)

    def with_best_bias(self, network: TwoLayer) -> TwoLayer:
        """A network with the best free intercept for its neurons, where the problem has one."""
        if self.loss.free:
            network.bias = None
            return self._with_bias_for(network, self._said(network))
        return network

    def _with_bias_for(self, network: TwoLayer, said: Tensor) -> TwoLayer:
        bias = self.loss.intercept(said)
        assert bias is not None
        network.bias = nn.Parameter(bias.to(network.first.dtype))
        return network

    def _said(self, network: TwoLayer) -> Tensor:
        return torch.cat([self.outputs(network, rows) for rows in self.loss.shards.slices])

    def outputs(self, network: TwoLayer, rows: slice) -> Tensor:
        """Of some samples in a row, in memory of their own if they are not all: the same whoever else has more."""
        X, mask = self.X, self.mask
        if rows.stop - rows.start < len(X):
            X, mask = X[rows].clone(), None if mask is None else mask[rows].clone()
        return outputs_in_batches(network, X, mask, batch_size(self.block, network, X))

    def neurons(self, network: nn.Module) -> Neurons:
        """The network's weights, checked to be of this problem's shape and activation; in the user's units."""
        network = self.inward(network)
        neurons = self.block.neurons(network, self.readout)
        p, q = self.program.operator.p, self.program.operator.q
        if neurons.first.shape[1] != p or neurons.second.shape[1] != q:
            raise ValueError(
                f"network: first has {neurons.first.shape[1]} and second {neurons.second.shape[1]} weights a neuron; "
                f"this problem needs {p} and {q}."
            )
        bias = getattr(network, "bias", None)
        if bias is not None and not self.loss.free:
            raise ValueError(
                "network: it has a bias of its outputs, and the problem has none; formulate it with "
                "fit_intercept='free'."
            )
        if bias is not None and (bias.shape != self.loss.target.shape[-1:] or not bool(torch.isfinite(bias).all())):
            raise ValueError(f"network: its bias needs {self.loss.target.shape[-1]} finite numbers, one an output.")
        activation = "relu" if neurons.relu else "linear" if neurons.gates is None else "gated_relu"
        if activation != self.activation:
            raise ValueError(f"network: its activation is {activation}, the problem's is {self.activation}.")
        return neurons

    def factors(self, network: nn.Module) -> Factors:
        """The network's neurons, in normalised units, each with its gate among this problem's gates."""
        left, right, gates, group, relu = self.neurons(network)
        if group is None:
            group = torch.zeros(left.shape[0], dtype=torch.long)
        vectors = left if relu else gates
        gate = group if vectors is None else self._find_gates(vectors, group)
        return Factors(left, right, gate).to(Space()).scaled(self.units.z**-0.5)

    def _find_gates(self, gates: Tensor, group: Tensor) -> Tensor:
        """Which of the problem's gates each neuron has: the one in its group with the same pattern."""
        found = torch.zeros(len(gates), dtype=torch.long)
        own, rows = self.gates.own, self.on_data.groups
        for b in torch.unique(group).tolist():
            mine = torch.nonzero(own == b).flatten()
            known = dict(zip(pattern_keys(self.patterns[mine]), mine.tolist(), strict=True))
            members = torch.nonzero(group == b).flatten()
            distinct, which = torch.unique(gates[members].to(torch.float64), dim=0, return_inverse=True)
            patterns, _ = rows[b].patterns(distinct)
            names = [known.get(key) for key in pattern_keys(patterns)]
            if None in names:
                raise ValueError(
                    "network: a neuron's gate is none of the problem's gates. Formulate the problem with "
                    "gates=network.gates (with groups, gate_group=network.group) to certify this network among those "
                    "with its own gates."
                )
            found[members] = torch.tensor(names, dtype=torch.long)[which]
        return found
