"""The gauge of a statement's penalty, for ReLU within the cones of its gates."""

from __future__ import annotations

from dataclasses import replace

from provenet.blocks import OnData
from provenet.blocks.implicit import implicit_cones
from provenet.cones import Cones
from provenet.gates import Gates
from provenet.gates.arrangements import doubt
from provenet.gauges import ConeColumns, ConeLines, ConeNuclear, Gauge, SpikeFree
from provenet.gauges.prox.mixed import WEIGHT_DECAY, Penalty, gauge_of
from provenet.statement import ONE_OUTPUT_EACH, Statement


def check_pull(norms: Penalty, activation: str, outputs: int) -> None:
    """Whether there is a bound of how hard a neuron with so many second-layer weights can pull within a cone."""
    if activation == "relu" and norms != WEIGHT_DECAY and norms[1] != 1 and outputs > 1:
        raise ValueError(
            f"penalty: ({norms[0]:g}, {norms[1]:g}) of ReLU networks with several outputs has no bound of how hard a "
            "neuron in its cone can pull; choose (2, 2), weight decay, or (2, 1), (1, 1) or (inf, 1), neurons with one "
            "output each; or activation 'gated_relu'."
        )


def gauge_for(statement: Statement, on: OnData, gates: Gates) -> Gauge:
    if statement.activation != "relu":
        return gauge_of(statement.penalty, on.p, on.q)
    assert gates.vectors is not None
    if on.table is None:
        region = implicit_cones(on, gates)
        if statement.complete:
            region = replace(region, doubt=max(doubt(rows.table.rows) for rows in on.groups if rows.table is not None))
        return ConeNuclear(region)
    cones = Cones.of(on.table.rows, gates.patterns, gates.vectors, on.table.noise)
    if gates.stretch is not None:
        return SpikeFree(cones, stretch=gates.stretch)
    if statement.complete:
        cones = replace(cones, doubt=doubt(on.table.rows))
    if statement.penalty[0] != 2:
        return ConeLines(cones, statement.penalty[0])
    columns = statement.penalty == ONE_OUTPUT_EACH and on.q > 1  # of one output all norms are one
    return ConeColumns(cones) if columns else ConeNuclear(cones)
