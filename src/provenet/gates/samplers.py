"""The ways of finding gates that have a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from provenet import names
from provenet.gates.pool import Sampled
from provenet.gates.sight import Sight, Trainee
from provenet.gates.trained import in_a_moment
from provenet.names import AUTO

Sampler = Callable[[Sight, int, int | None], Sampled]
"""(what it may look at, how many gates, seed) ↦ the gates of each group: seeded, one a pattern, none that grazes a row
or is closed everywhere; fewer where there are fewer."""

SAMPLERS: Mapping[str, Sampler] = names.SAMPLERS
BLIND = ("gaussian",)  # those that look at patterns alone
NEED_BETA = ("trained", AUTO)  # those that depend on the β of the problem


def settled(name: str, trainee: Trainee, neurons: int) -> str:
    """The sampler that is meant, for so many neurons."""
    if name != AUTO:
        return name
    return "trained" if in_a_moment(trainee, neurons) else "gaussian"
