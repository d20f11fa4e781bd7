"""How a run ended."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a run ended; ``advice`` says what to do.  Only SOLVED says that the asked gap was certified.

    ``SOLVED_INACCURATE``: within a hundred times that.  ``MAX_STEPS``, ``TIME_LIMIT``: it met a limit.  ``STALLED``:
    the gap stopped falling.  ``NONFINITE``: numbers overflowed.  ``INTERRUPTED``: by Ctrl-C.
    """

    SOLVED = "solved"
    SOLVED_INACCURATE = "solved_inaccurate"
    MAX_STEPS = "max_steps"
    TIME_LIMIT = "time_limit"
    STALLED = "stalled"
    NONFINITE = "nonfinite"
    INTERRUPTED = "interrupted"

    @property
    def advice(self) -> str:
        return _ADVICE[self]


_ADVICE = {
    Status.SOLVED: "The certificate holds to the asked tolerance.",
    Status.SOLVED_INACCURATE: "The gap stopped falling within a hundred times the asked tolerance; "
    "accept it, or try another method.",
    Status.MAX_STEPS: "Raise max_steps, loosen tol, or raise beta.",
    Status.TIME_LIMIT: "Raise max_seconds, loosen tol, or raise beta.",
    Status.STALLED: "The gap stopped falling: try another method, loosen tol, or raise beta.",
    Status.NONFINITE: "The iteration overflowed: rescale the data or try another method.",
    Status.INTERRUPTED: "Stopped by hand; the best point so far is returned. "
    "To go on in Python, give it to solve as start=, or fit again with warm_start=True.",
}
