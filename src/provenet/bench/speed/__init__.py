"""How long until so small a gap is proven: ours and others' solvers on the same programs, under one judge."""

from provenet.bench.speed.cases import SUITES, Case, Mark
from provenet.bench.speed.entrants import Entrant, entrants
from provenet.bench.speed.trials import Setup, Trial, run

__all__ = ["SUITES", "Case", "Entrant", "Mark", "Setup", "Trial", "entrants", "run"]
