"""BM Fig. 6: what a stage costs as the factorisation, and as the convex form (23) itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import cross_entropy, unfold

from provenet import memory
from provenet.layerwise.presets import PRESETS, default_layers
from provenet.nn import CNN
from provenet.nn.cnn import Convolution, pooling_matrix
from provenet.nn.layers import space_to_depth
from provenet.reproduce.experiment import Experiment, Findings, Piece, Run, Table

_CLASSES = 10
_FORMS = {"factors": "#3b6fb6", "convex": "#d9822b"}
_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


@dataclass(frozen=True)
class Setting:
    """A batch of ``batch`` images of this shape; ``samples`` make an epoch."""

    sample: tuple[int, int, int]
    stages: int
    gates: int
    batch: int
    samples: int


@dataclass(frozen=True)
class Cost:
    """One stage: what it sees (channels, height, width), and its convolution."""

    setting: Setting
    seen: tuple[int, ...]
    convolution: Convolution

    @property
    def positions(self) -> int:
        return prod(self.convolution.positions((1, *self.seen)))

    @property
    def patch(self) -> int:
        return self.convolution.patch(self.seen[0], 2)

    def convex_bytes(self) -> int:
        """Z, its gradient and momentum (P, p, a·c); a batch's images, patches, gates and pooled features."""
        P, b, a = self.setting.gates, self.setting.batch, self.convolution.cells(2)
        weights = 3 * P * self.patch * a * _CLASSES
        return 4 * (weights + b * (prod(self.seen) + self.positions * (self.patch + P) + 2 * P * a * self.patch))

    def factors_step(self) -> Callable[[], None]:
        network = CNN(self.seen[0], _CLASSES, **vars(self.convolution), n_gates=self.setting.gates, rank=1, seed=0)
        return self._step(network, [network.first, network.second])

    def convex_step(self) -> Callable[[], None]:
        """ŷ_i = Σ_k Σ_a F_k[i, a] Z_k[:, (·, a)], F_k[i, a] = Σ_t P[a, t] D_k[i, t] Φ_i[t] (BM eq. 23)."""
        P, a = self.setting.gates, self.convolution.cells(2)
        gates = torch.randn(self.patch, P, generator=torch.Generator().manual_seed(0))
        Z = torch.zeros(P * a * self.patch, _CLASSES, requires_grad=True)
        grid = self.convolution.positions((1, *self.seen))
        pooling = pooling_matrix(self.convolution, grid).float()
        kernel, stride, padding = (self.convolution.per_dimension(name, 2) for name in ("kernel", "stride", "padding"))

        def predicted(x: Tensor) -> Tensor:
            patches = unfold(x, kernel, padding=padding, stride=stride).transpose(1, 2)  # (b, K, p)
            opened = (patches @ gates >= 0).float().transpose(1, 2)  # (b, P, K)
            each = [(opened * cell) @ patches for cell in pooling]  # a of (b, P, p)
            return torch.stack(each, 2).flatten(1) @ Z

        return self._step(predicted, [Z])

    def _step(self, predicted: Callable[[Tensor], Tensor], weights: list[Tensor]) -> Callable[[], None]:
        optimiser = torch.optim.SGD(weights, lr=1e-3, momentum=0.9)
        draw = torch.Generator().manual_seed(1)
        x = torch.randn(self.setting.batch, *self.seen, generator=draw)
        y = torch.randint(_CLASSES, (self.setting.batch,), generator=draw)

        def step() -> None:
            cross_entropy(predicted(x), y).backward()
            optimiser.step()
            optimiser.zero_grad()

        return step


def run(run: Run) -> Findings:
    setting = Setting((3, 16, 16), 3, 8, 32, 1_024) if run.quick else Setting((3, 32, 32), 5, 256, 128, 50_000)
    found: list[Piece] = []
    _warm_up()
    for form in _FORMS:
        sample: tuple[int, ...] = setting.sample
        for number, layer in enumerate(default_layers(PRESETS["paper"], sample, setting.stages), 1):
            seen = tuple(space_to_depth(torch.empty(1, *sample, device="meta"), layer.downsample, 1).shape[1:])
            settings = dict(layer.made_block.settings())
            cost = Cost(setting, seen, Convolution(**settings))
            key = f"{form}, stage {number}, {setting}"
            found.append(run.piece(key, lambda cost=cost, form=form, number=number: _measured(cost, form, number)))  # type: ignore[misc]
            passed = setting.gates * (1 if form == "factors" else cost.convolution.cells(2) * _CLASSES)
            sample = (passed, *cost.convolution.positions((1, *seen)))
    return Findings(
        (_table(found),), {"cost": _picture(found, setting.stages)}, _words(found, setting), {"stages": found}
    )


def _measured(cost: Cost, form: str, number: int) -> Piece:
    told: Piece = {"form": form, "stage": number, "channels": cost.seen[0]}
    if form == "convex":
        needed = cost.convex_bytes()
        try:
            memory.check_fits(needed, f"the convex form of stage {number}", "Train the factorisation, as BM does.")
        except MemoryError as refused:
            return told | {"why": str(refused), "needed": needed}
    make = cost.factors_step if form == "factors" else cost.convex_step
    with _Peak() as peak:
        step = make()
        step()  # memory is got, kernels are made ready
        began, clock = time.process_time(), time.perf_counter()
        step()
        cpu, seconds = time.process_time() - began, time.perf_counter() - clock
    steps = -(-cost.setting.samples // cost.setting.batch)
    return told | {"cpu": steps * cpu, "seconds": steps * seconds, "bytes": peak.bytes}


def _warm_up() -> None:
    """What libraries get once, and no stage is to be charged with."""
    Cost(Setting((3, 8, 8), 1, 2, 2, 2), (3, 8, 8), Convolution(3, padding=1, pool=2)).factors_step()()


class _Peak:
    """The most memory that was held within, beyond what there was before: as Linux tells; elsewhere not at all."""

    bytes: int | None = None

    def __enter__(self) -> _Peak:
        self._before = None
        if os.access(_CLEAR, os.W_OK):
            _CLEAR.write_text("5")  # the high-water mark begins anew
            self._before = _status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self.bytes = max(_status("VmHWM") - self._before, 0)


def _status(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])


def _table(found: list[Piece]) -> Table:
    rows = []
    for piece in found:
        head = (str(piece["stage"]), piece["form"], f"{piece['channels']:,}")
        if "why" in piece:
            rows.append((*head, "refused", memory.gibibytes(piece["needed"]) + " needed"))
        else:
            peak = "not known here" if piece["bytes"] is None else memory.gibibytes(piece["bytes"])
            rows.append((*head, f"{piece['cpu']:.1f}", peak))
    columns = ("stage", "form", "channels it reads", "CPU seconds an epoch", "peak memory")
    return Table("What a stage costs", columns, tuple(sorted(rows, key=lambda row: (row[0], row[1] != "factors"))))


def _words(found: list[Piece], setting: Setting) -> tuple[str, ...]:
    refused = [piece for piece in found if "why" in piece]
    words = [
        f"{setting.gates} gates, m = 1, kernels of 3 × 3, pooling to 2 × 2, batches of {setting.batch}; an epoch is "
        f"{setting.samples:,} images of {' × '.join(map(str, setting.sample))}, from one step measured after another. "
        "The images are random: cost does not depend on them.",
        "The factorisation passes on mP channels, the convex form Pac: a neuron for every gate, cell and class.",
        "Both take a step of SGD with momentum on the loss; the convex form's nuclear norm is not counted, which "
        "favours it.",
    ]
    if refused:
        words.append(f"Refused before anything was allocated: {refused[0]['why']}")
    return tuple(words)


def _picture(found: list[Piece], stages: int) -> Figure:
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    panels = (("cpu", "CPU seconds an epoch", 1.0), ("bytes", "peak memory, GiB", 2.0**30))
    for axes, (name, label, unit) in zip(figure.subplots(1, 2), panels, strict=True):
        for form, colour in _FORMS.items():
            mine = [piece for piece in found if piece["form"] == form]
            done = [piece for piece in mine if piece.get(name)]  # a peak of zero was not seen, or not known
            axes.plot([p["stage"] for p in done], [p[name] / unit for p in done], "o-", color=colour, label=form)
            refused = [piece for piece in mine if name == "bytes" and "needed" in piece]
            if refused:
                needed = [piece["needed"] / unit for piece in refused]
                axes.plot([p["stage"] for p in refused], needed, "x:", color=colour, label=f"{form}, refused")
        axes.set(yscale="log", xlabel="stage", ylabel=label, xticks=range(1, stages + 1))
        axes.grid(alpha=0.2)
        axes.legend(frameon=False)
    return figure


LAYERWISE_COST = Experiment(
    "layerwise-cost",
    "What a stage costs, factorised and convex",
    "Scaling convex neural networks with Burer–Monteiro factorization (ICLR 2024), Fig. 6",
    "plots; on CIFAR-10 the convex form exceeds 12 GB after the first stage.",
    run,
)
