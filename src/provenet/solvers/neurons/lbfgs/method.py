"""Quasi-Newton on the neurons of programs with much data (BM eq. 17, 18).

    min_{U,V}  L(Σ_k A_k(U_kV_kᵀ), Y) + β/2 Σ_k (‖U_k‖² + ‖V_k‖²)

A step is one product with the data and one back, for few neurons, in float32: linear in samples and in the gates that
are open.  L-BFGS on all weights at once, from scales that know the data's principal axes and the neurons' own sizes.
At each look, whose A*Θ shows every gate, the gates beyond β offer neurons; a small convex program says how large each
should be, new or old, and lets those go that are not needed.  Nothing in float32 is judged: the loop sees the neurons
in float64, and their prediction anew.  Where float32 has no more to give, the same goes on in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.certificates import Gap
from provenet.operators.bases.rank import MOST_AXES
from provenet.polar import is_dear
from provenet.problem import Program
from provenet.solvers.loop import Kept, Point, Resumable
from provenet.solvers.needs import NUCLEAR
from provenet.solvers.neurons.lbfgs.amplitudes import amplitudes
from provenet.solvers.neurons.lbfgs.atoms import Leading, wanted
from provenet.solvers.neurons.lbfgs.coordinates import Coordinates, Spot, spot
from provenet.solvers.neurons.lbfgs.fewer import from_fewer, is_enough
from provenet.solvers.neurons.lbfgs.pairs import Block, Pairs
from provenet.solvers.neurons.lbfgs.scales import inverse_scales
from provenet.solvers.neurons.lbfgs.search import wolfe_step
from provenet.solvers.neurons.place import compress
from provenet.solvers.offers import Offer, Task
from provenet.solvers.status import Status
from provenet.variable import Factors
from provenet.vectors import unit

_FIRST = 8  # steps to the first look
_RENEWED = 15  # steps after which scales are looked at anew
_FINE = 1e-4  # a relative gap from which on float64 pays,
_IDLE = 1e-7  # or a gain between two looks, of the objective, that is as good as none
_BEYOND = 5e-4  # of β: neurons whose pull is less beyond it are not worth adding, while the gap is larger
_DUST, _OF_GAP = 1e-3, 0.02  # of the largest neuron, if β times all such sizes is less of the gap: not worth a step
_CLEARLY_FEWER, _NO_WORSE = 0.7, 1e-4  # of the neurons that there are, and of the objective
_NEURONS = 160.0  # that there are, about, where gates and outputs allow
_REMEMBERED = 4  # of a limit of memory, one part in so many is for steps that are remembered
_FEWEST_PAIRS = 5
_LONG = 25  # steps a decade for linear blocks whose first layers are too long for the estimate to hold
_ALONE = (
    0.5,
    0.1,
)  # times as many for one output of a quadratic loss, and so many times that more with all gates' weights
_KINKED = 3  # times as many steps where curvature ends at a kink
_CALLS = 8e6  # what a step's many small calls take, as multiply-adds;
_BATCHES = 4  # times that, where neurons go through their block batch by batch
_ROUGHLY = 1.1  # of β, what a start for more samples may leave
_FAR = 1.2  # of β: while a neuron pulls as hard, no gap that is asked for is proven
_LEADING = 12  # products for every gate that a look makes where A* is not formed, at the speed of float64
_HESSIANS, _SEEN = 2, 2e6  # sizes at a look take as long as so many, and the numbers one is made of, at most
_GATED, _OUTPUT = 60.0, 300.0  # the work of a neuron's hidden value, gated, and of an output's loss, without products
_TOLD = ("age", "stuck", "exhausted", "seen")  # of a state, in its snapshot
_LED = ("sigma", "leading_left", "leading_right")  # and the singular pairs


@dataclass(frozen=True)
class LBFGSState:
    """scales (N, p + q): inverse curvatures, None where they are to be looked at.  stuck: no step was found.
    exhausted: neither was a neuron to add.  seen: the objective at the last look.  renewed: it added neurons.
    interrupted: Ctrl-C came in the start from fewer samples.  leading: singular pairs where it stands, if they were
    looked for."""

    here: Coordinates
    at: Spot
    pairs: Pairs
    scales: Tensor | None = None
    age: int = 0
    stuck: bool = False
    exhausted: bool = False
    seen: float = math.inf
    renewed: bool = False
    interrupted: bool = False
    leading: Leading = field(default_factory=Leading)


@dataclass(frozen=True)
class LBFGS(Resumable[LBFGSState]):
    """memory_pairs: steps that are remembered.  atoms: neurons that may join at a look, or a quarter of those there
    are.  single: whether to begin in float32.  rough: it is a start for more samples: where products are dear, nothing
    is proven, and it ends once nothing that is found pulls much harder than β."""

    memory_pairs: int = 80
    atoms: int = 128
    single: bool = True
    rough: bool = False

    name = "lbfgs"
    needs = (NUCLEAR,)
    together = True
    check_every = 25
    max_steps = 20_000
    shards = True

    def pause(self, program: Program, state: LBFGSState, step: int) -> int:
        """Looks, with A* in float64, take no more than a third of what steps of the neurons that there are do; more at
        first, while neurons are missing, which after a start from fewer samples are few."""
        task = Task(program, 1.0)
        rest = self._rest(task, state.at.factors.n_neurons)
        first = rest if is_enough(program) else self._rest(task)
        return min(rest, max(_FIRST, step // 3, first // 4))

    def _rest(self, task: Task, neurons: int = 0) -> int:
        op = task.program.operator
        look = _LEADING * op.n_gates * op.neuron_work if is_dear(op) else task.product
        return max(self.check_every, math.ceil(3 * look / self._step_work(task, neurons)))

    def memory(self, program: Program) -> int:
        """The operator in float32, turned; what was remembered of steps; hidden values and their gates."""
        op, neurons = program.operator, self._neurons(program)
        if op.in_shards:
            return 0  # the plan of their memory has counted it: it takes what there is
        share = op.output_shape[0] / op.shards.n  # of all samples, those of this process
        turned = op.kernel_rows * op.p * 3 if op.p <= MOST_AXES else 0  # longer first layers are not turned
        data = share * (turned + op.held_bytes // 2)
        seen = share * 2 * neurons * op.kernel_rows * (op.q // op.output_shape[-1]) * op.keeps_hidden
        remembered = 4 * self.memory_pairs * neurons * (op.p + op.q)
        return 4 * math.ceil(data + seen + remembered) + 16 * math.prod(op.output_shape) * 8

    def offer(self, task: Task) -> Offer:
        """Steps grow with what β lets in, and with how little a neuron explains; where the loss is quadratic, or second
        layers are wider than the outputs, with how many weights there are for each row, too.  Several outputs of a
        quadratic loss have noise of their own, for which a small β needs many neurons."""
        op, loss = task.program.operator, task.program.loss
        look = 2 * task.product + self._join_work(task.program)
        small = min(task.hardship, 1.0)
        hard = task.hardship ** (0.85 if task.hardship < 1 else 1.5)
        steps = 22 * task.decades**1.3 * hard * task.noise**2 * task.width**0.25
        if loss.quadratic or task.width > 1:
            steps *= 1 + task.open_crowding * small
        if loss.quadratic and op.q == 1:
            steps *= _ALONE[0] * (1 + _ALONE[1] * task.crowding)
        if loss.kink is not None:
            steps *= _KINKED
        if task.only_neurons and op.n_gates == 1:
            steps = _LONG * task.decades * hard
        calls = _CALLS if op.gated_rows is not None else _BATCHES * _CALLS
        many = 1 + 5 * small**4 if loss.quadratic and op.q > 1 else 1.0
        each = many * self._step_work(task) + 2 * look / self._rest(task) + calls + task.intercept
        axes = 16.0 * op.p**3 if op.p <= MOST_AXES else 0.0
        return Offer(self.memory(task.program), axes, each, steps, starts=True)

    def _neurons(self, program: Program) -> float:
        op = program.operator
        return float(min(_NEURONS, op.n_gates * min(op.p, op.q, 2 * op.output_shape[-1])))

    def _step_work(self, task: Task, there: int = 0) -> float:
        """Two products of all neurons with the data, at twice the speed of float64, and with what is remembered; hidden
        values and the loss once more, entry by entry.  there: how many neurons, where it is known."""
        op, neurons = task.program.operator, there or self._neurons(task.program)
        each = op.kernel_rows * (_GATED * neurons * task.width + _OUTPUT * op.output_shape[-1])
        return neurons * (op.neuron_work + 4.0 * self.memory_pairs * (op.p + op.q)) + each

    def _join_work(self, program: Program) -> float:
        """Of the small program for all neurons' sizes."""
        neurons = self._neurons(program)
        return _HESSIANS * neurons * min(neurons * math.prod(program.operator.output_shape), _SEEN)

    def work(self, program: Program) -> float:
        return self._step_work(Task(program, 1.0))

    def init(self, program: Program, start: Factors | None) -> LBFGSState:
        dtype = torch.float32 if self.single else torch.float64
        fewer = from_fewer(replace(self, rough=True), program) if start is None else None
        start = start if fewer is None else fewer.factors
        begun = self._begun(program, Coordinates.of(program, dtype), start or program.nobody)
        return replace(begun, interrupted=fewer is not None and fewer.status is Status.INTERRUPTED)

    def _begun(self, program: Program, here: Coordinates, factors: Factors) -> LBFGSState:
        here = here.opened(factors.gate)
        return LBFGSState(here, spot(program, here, here.enter(factors)), self._nothing(here, factors.n_neurons))

    def _nothing(self, here: Coordinates, neurons: int) -> Pairs:
        """What is remembered of steps at first: fewer of them than asked for, where memory is limited."""
        op = here.operator
        fitting = batches.share(_REMEMBERED) // max(2 * neurons * (op.p + op.q) * op.dtype.itemsize, 1)
        return Pairs(min(self.memory_pairs, max(fitting, _FEWEST_PAIRS)))

    def kept(self, state: LBFGSState) -> Kept:
        factors, pairs = state.at.factors, state.pairs
        tensors = {"left": factors.left, "right": factors.right, "gate": factors.gate, "gradient": state.at.gradient}
        if pairs.blocks:
            tensors |= {"pairs": torch.cat([one.pairs for one in pairs.blocks], dim=1), "corner": pairs.corner}
        if state.scales is not None:
            tensors["scales"] = state.scales
        if state.leading.pairs is not None:  # where the next look begins to search
            tensors |= dict(zip(_LED, state.leading.pairs, strict=True))
        told = {name: getattr(state, name) for name in _TOLD} | {"value": state.at.value}
        told["led"] = state.leading.are_of(state.at)
        return told | {"blocks": [[one.count, one.room.most] for one in pairs.blocks]}, tensors

    def resumed(self, program: Program, kept: Kept) -> LBFGSState:
        told, tensors = kept
        factors = Factors(tensors["left"], tensors["right"], tensors["gate"])
        begun = torch.float32 if self.single else torch.float64
        here = Coordinates.of(program, begun)
        here = (here if factors.left.dtype == begun else here.finer(program)).opened(factors.gate)
        pairs = self._nothing(here, factors.n_neurons)
        if told["blocks"]:  # cut as they were: last digits of a product may hang on it
            counts, most = zip(*told["blocks"], strict=True)
            cut = zip(tensors["pairs"].split(counts, dim=1), most, strict=True)
            pairs = Pairs(pairs.most, tuple(Block.of(*each) for each in cut), tensors["corner"])
        numbers = {name: told[name] for name in _TOLD}
        prediction = here.both_ways(factors)[0].to(torch.float64)
        at = Spot(factors, prediction, told["value"], tensors["gradient"])  # not anew: a free intercept began elsewhere
        sigma, left, right = (tensors.get(name) for name in _LED)
        led = None if sigma is None or left is None or right is None else (sigma, left, right)
        leading = Leading(led, at if told.get("led") else None)
        return LBFGSState(here, at, pairs, tensors.get("scales"), leading=leading, **numbers)

    def step(self, program: Program, state: LBFGSState) -> LBFGSState:
        if state.interrupted:  # by now the loop has seen what the start had found
            raise KeyboardInterrupt
        if state.exhausted:
            return state
        if state.stuck or state.at.factors.n_neurons == 0:
            return replace(state, stuck=True)  # until the next look
        here, at, scales, age = state.here, state.at, state.scales, state.age
        if scales is None or age % _RENEWED == 0:
            scales = inverse_scales(program, here, at, age)
        there = wolfe_step(program, here, at, state.pairs.direction(at.gradient, scales))
        if there is None:  # what is remembered may mislead; by itself the gradient does not, up to rounding
            forget = self._nothing(here, at.factors.n_neurons)
            return replace(state, pairs=forget, scales=scales, stuck=not len(state.pairs))
        pairs = state.pairs.after(there.weights - at.weights, there.gradient - at.gradient)
        return replace(state, at=there, pairs=pairs, scales=scales, age=age + 1)

    def look(self, program: Program, state: LBFGSState, gap: Gap) -> LBFGSState:
        value = state.at.value
        idle = state.seen - value <= _IDLE * abs(value)
        state = replace(state, seen=value, renewed=False)
        if state.here.dtype == torch.float32 and (gap.relative < _FINE or idle):
            state = self._finer(program, state)
        beyond = program.beta * (1 + min(_BEYOND, 0.1 * gap.relative))
        there = state.at.factors.n_neurons
        most = int(min(max(self.atoms, there // 4), deadline.neurons() - there))
        atoms = program.nobody
        if most > 0:
            atoms = wanted(program, state.here, state.at, gap.pull, state.leading, beyond, most)
        if is_dear(program.operator):
            if self.rough and self._pull(program, state) <= _ROUGHLY * program.beta:
                return replace(state, exhausted=True)
            state = self._with_fewer(program, state)
        spare = _OF_GAP * gap.absolute / program.beta
        joined = self._joined(program, state, atoms, spare) if atoms.n_neurons else None
        if joined is not None:
            return joined
        if not state.stuck:
            return state
        if state.here.dtype == torch.float32:
            return self._finer(program, state)
        return replace(state, exhausted=True)

    def _finer(self, program: Program, state: LBFGSState) -> LBFGSState:
        """The same neurons in float64."""
        here = state.here.finer(program)
        fine = self._begun(program, here, state.here.leave(state.at.factors))
        return replace(fine, pairs=state.pairs.to(here.dtype, fine.pairs.most), age=state.age, seen=state.seen)

    def _joined(self, program: Program, state: LBFGSState, atoms: Factors, spare: float) -> LBFGSState | None:
        """All neurons of the sizes that are best for their directions; those of none go, and so does dust that comes to
        no more than ``spare``.  None where it is no gain."""
        factors = state.at.factors
        all_sizes = torch.cat([factors.sizes(), atoms.left.new_zeros(atoms.n_neurons)]).to(torch.float64)
        old = Factors(unit(factors.left), unit(factors.right), factors.gate)
        directions = Factors.join(old, atoms)
        here = state.here.opened(directions.gate)
        sizes = amplitudes(program, here, directions, all_sizes)
        for needed in _needed(sizes, spare):
            kept = torch.nonzero(needed).flatten()
            root = sizes[kept].sqrt().to(here.dtype)[:, None]
            few = directions.select(kept)
            nearby = here.opened(few.gate)
            there = spot(program, nearby, Factors(few.left * root, few.right * root, few.gate))
            if there.value < state.at.value:
                break
        else:
            return None
        before = int((kept < factors.n_neurons).sum())
        most = self._nothing(nearby, len(kept)).most
        pairs = state.pairs.carried(state.at.gradient.shape[1], kept[:before], len(kept) - before, most)
        return replace(state, here=nearby, at=there, pairs=pairs, scales=None, stuck=False, renewed=True)

    def _with_fewer(self, program: Program, state: LBFGSState) -> LBFGSState:
        """A gate's neurons as the singular pairs of what they come to, without dust, where these are clearly fewer, and
        hardly worse: then nothing is remembered of steps, but each costs less."""
        there = state.at.factors.n_neurons
        factors = compress(state.here.leave(state.at.factors), _DUST)
        if factors.n_neurons > _CLEARLY_FEWER * there:
            return state
        begun = self._begun(program, state.here, factors)
        worse = begun.at.value > state.at.value + _NO_WORSE * abs(state.at.value)
        return state if worse else replace(begun, age=state.age, seen=state.seen, leading=state.leading)

    def renewed(self, state: LBFGSState) -> bool:
        """At best sizes new neurons pull no harder than β, and neither, almost, do others: a better dual point."""
        return state.renewed

    def finished(self, state: LBFGSState) -> bool:
        return state.exhausted

    def _pull(self, program: Program, state: LBFGSState) -> float:
        """Of the strongest neuron that few products find."""
        return float(state.leading.at(program, state.here, state.at)[0].max())

    def point(self, program: Program, state: LBFGSState) -> Point:
        dear = is_dear(program.operator)  # then dust is gone before anything is proven, not after
        factors = compress(state.here.leave(state.at.factors), *[_DUST] * dear)
        program.operator.shards.check_same(factors.left, factors.right, factors.gate)
        op, least = program.operator, 0.0
        if dear:
            seen = self._pull(program, state)
            # as far again beyond β is what few products may not have seen
            least = math.inf if self.rough else seen + max(seen - program.beta, 0.0)
        far = dear and least > _FAR * program.beta  # from being proven: what float32 says is near enough
        return Point.of(factors, state.at.prediction if far else op.forward_factors(factors), least=least)


def _needed(sizes: Tensor, spare: float) -> list[Tensor]:
    """Which neurons (N,) there are, first without the smallest."""
    everyone, clear = sizes > 0, sizes > _DUST * sizes.max()
    dust = float(sizes.masked_fill(clear, 0.0).sum())
    return [clear, everyone] if 0 < dust <= spare else [everyone]
