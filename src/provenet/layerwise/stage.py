"""A stage that was trained: its module, its certificate and what that is conditional on, its scores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from provenet.certificates import Certificate
from provenet.nn import Stage
from provenet.ranks import Whole

UNASKED = "none was asked for"  # why a stage has no certificate, until it gets one


@dataclass(frozen=True)
class TrainedStage:
    """A stage and what is known of it.

    certificate: of the stage's own convex problem, on its own inputs, as the stages below made them; it is conditional
    on these, whose digest is ``below``, and says nothing of the deep network.  None: there is none, and ``reason`` says
    why, or what came between.  inputs: the digest of the inputs.  score: on samples it was trained on; validation: on
    those set aside.  filters: neurons whose features are passed on.  seconds: training and certificate; cpu: the same
    of processors.
    complete: whether its training and its proof came to their end; Ctrl-C keeps what the last epoch left.
    """

    module: Stage
    certificate: Certificate | None
    below: str
    inputs: str
    engine: str
    score: float
    validation: float | None
    filters: int
    shape: tuple[int, ...]
    epochs: int
    seconds: float
    reason: str = ""
    complete: bool = True
    cpu: float = 0.0

    @property
    def unproven(self) -> bool:
        """Whether a proof is still to be tried."""
        return self.complete and self.certificate is None and self.reason == UNASKED

    def to_dict(self) -> dict[str, Any]:
        """All but the module, ready for JSON."""
        rest = {name: value for name, value in vars(self).items() if name not in ("module", "certificate")}
        told = None if self.certificate is None else self.certificate.to_dict()
        return rest | {"certificate": told, "shape": list(self.shape)}

    def row(self) -> list[str]:
        """Of the table of stages."""
        gap = "none" if self.certificate is None else f"{self.certificate.relative_gap:.1e}"
        standing = "" if self.certificate is None else str(self.certificate.status).replace("_", " ")
        return [
            type(self.module.network).__name__,
            self.engine,
            f"{self.score:.4f}",
            "" if self.validation is None else f"{self.validation:.4f}",
            gap,
            standing,
            str(self.filters),
            " × ".join(map(str, self.shape)),
            f"{self.seconds:.1f}",
        ]


HEADINGS = ["stage", "block", "by", "training", "validation", "gap", "proof", "filters", "passes", "seconds"]


@dataclass(frozen=True)
class StageTable(Sequence[TrainedStage]):
    """The stages in order; prints as a table."""

    stages: tuple[TrainedStage, ...] = field(default=())

    def __getitem__(self, number: Any) -> Any:
        return self.stages[number]

    def __len__(self) -> int:
        return len(self.stages)

    def rows(self) -> list[list[str]]:
        return [[str(number), *stage.row()] for number, stage in enumerate(self.stages, 1)]

    def __str__(self) -> str:
        rows = [HEADINGS, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        notes = [
            f"stage {number}: {'no certificate: ' if stage.certificate is None else ''}{stage.reason}"
            for number, stage in enumerate(self.stages, 1)
            if stage.reason
        ]
        return "\n".join([*lines, *notes])


def digest_of(stages: Iterable[Stage], preparing: Stage | None = None) -> str:
    """SHA-256 of all weights and settings of the stages, and of how one more prepares its inputs."""
    total = hashlib.sha256()
    for stage in stages:
        total.update(repr((stage.passes, stage.downsample, type(stage.network).__name__)).encode())
        _add(total, stage.state_dict())
    if preparing is not None:
        total.update(repr(preparing.downsample).encode())
        _add(total, {} if preparing.normalise is None else preparing.normalise.state_dict())
    return total.hexdigest()


def _add(total: Any, state: dict[str, Tensor]) -> None:
    for name, value in sorted(state.items()):
        total.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        total.update(value.detach().cpu().contiguous().numpy().tobytes())


def digest_of_samples(parts: Iterable[Tensor]) -> str:
    """SHA-256 of numbers in float32, in their order."""
    return _digest(parts).hexdigest()


def digest_by_piece(pieces: Iterable[Iterable[Tensor]], shards: Whole) -> str:
    """The same, of samples that are spread over processes: of the digests of all pieces; of one piece its own."""
    own = (torch.frombuffer(bytearray(_digest(parts).digest()), dtype=torch.uint8) for parts in pieces)
    listed: bytes = shards.listed(own).numpy().tobytes()
    return hashlib.sha256(listed).hexdigest() if shards.spread else listed.hex()


def _digest(parts: Iterable[Tensor]) -> Any:
    total = hashlib.sha256()
    for part in parts:
        total.update(part.to(torch.float32).contiguous().numpy().tobytes())
    return total
