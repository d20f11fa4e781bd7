"""What has a name that a user can say, and where it lives: names can be told before anything is imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any


class Named(Mapping[str, Any]):
    """Members by name, in this order, each imported when it is asked for; ``places``: of each, its dotted name."""

    def __init__(self, **places: str) -> None:
        self._places = places

    def __getitem__(self, name: str) -> Any:
        module, _, member = self._places[name].rpartition(".")
        return getattr(import_module(f"provenet.{module}"), member)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self)})"


BLOCKS = Named(
    mlp="blocks.mlp.MLP",
    cnn="blocks.cnn.CNN",
    attention="blocks.attention.SelfAttention",
    mixer="blocks.mixer.Mixer",
    fno="blocks.fourier.FNO",
    bfno="blocks.fourier.BFNO",
    poolformer="blocks.tokens.PoolFormer",
    fnet="blocks.tokens.FNet",
)
LOSSES = Named(
    squared="losses.squared.Squared",
    softmax="losses.softmax.Softmax",
    logistic="losses.logistic.Logistic",
    huber="losses.huber.Huber",
)
METHODS = Named(
    admm="solvers.stacks.admm.ADMM",
    cone_admm="solvers.cones.admm.ConeADMM",
    ipm="solvers.interior.ipm.IPM",
    active_ipm="solvers.interior.active.ActiveIPM",
    apg="solvers.stacks.apg.APG",
    bm="solvers.neurons.bm.BM",
    lbfgs="solvers.neurons.lbfgs.method.LBFGS",
    cone_bm="solvers.cones.bm.ConeBM",
    subspace="solvers.stacks.subspace.Subspace",
    cvx="solvers.reference.cvx.CVX",
    copositive="solvers.interior.copositive.dense.Copositive",
    copositive_dual="solvers.interior.copositive.dual.CopositiveDual",
    copositive_admm="solvers.cones.orthant.OrthantADMM",
    closed_form="solvers.cones.closed_form.ClosedForm",
    frank_wolfe="solvers.cones.frank_wolfe.FrankWolfe",
    line_frank_wolfe="solvers.cones.lines.LineFrankWolfe",
    cutting_plane="solvers.cones.cutting_plane.CuttingPlane",
    working_set="solvers.interior.pairs.working_set.WorkingSet",
)
SAMPLERS = Named(gaussian="gates.gaussian.gaussian", between="gates.between.between", trained="gates.trained.trained")
AUTO = "auto"  # the sampler that suits the data
GROW, ALL = "grow", "all"  # some that `solve` adds to; every arrangement there is
GATES = (AUTO, *SAMPLERS, GROW, ALL)
SUITES = Named(  # of `provenet bench`: programs that solvers are compared on
    small="bench.speed.cases.SMALL",
    size="bench.speed.cases.SIZE",
    relu="bench.speed.cases.RELU",
    blocks="bench.speed.cases.BLOCKS",
)
