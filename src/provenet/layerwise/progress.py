"""What long work tells while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """After an epoch, or a look of a solver: ``done`` of the stage's work, in [0, 1]; ``loss`` the mean over samples,
    ``score`` on the samples as they were trained on; ``gap`` relative, where there is one.  ``what`` it is doing."""

    stage: int
    stages: int
    what: str
    done: float
    seconds: float
    epoch: int | None = None
    epochs: int | None = None
    loss: float | None = None
    score: float | None = None
    gap: float | None = None

    @property
    def left(self) -> float | None:
        """Seconds until the stage is trained, as far as can be told."""
        return self.seconds * (1 - self.done) / self.done if self.done > 0 else None

    def __str__(self) -> str:
        parts = [f"stage {self.stage}/{self.stages}", self.what]
        if self.epoch is not None:
            parts.append(f"epoch {self.epoch}/{self.epochs}")
        for name, form in (("loss", ".4f"), ("score", ".4f"), ("gap", ".1e")):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name} {value:{form}}")
        parts.append(f"{self.seconds:.0f} s" + ("" if self.left is None else f", about {self.left:.0f} s left"))
        return "  ".join(parts)


Watcher = Callable[[Event], None]
