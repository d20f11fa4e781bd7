"""How stages are trained, and which stages, where nothing else is said."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import cos, pi
from typing import Any

from provenet.blocks import CNN, MLP, PoolFormer
from provenet.layerwise.layer import Layer

_TO_PART = 0.25  # of the epochs: in which the neurons behind a gate, where there are several, part
_PAPER_RATES = {3: (2e-1, 5e-2, 5e-3), 5: (1e-1, 1e-2, 1e-3, 1e-2, 1e-2)}  # BM C.2: Fashion-MNIST, CIFAR-10


@dataclass(frozen=True)
class Recipe:
    """Minibatch training of a stage's neurons behind fixed gates.

    optimiser: "sgd", with momentum 0.9, or "adam".  schedule: "steps", rate × ``decay`` every ``every`` epochs; or
    "one_cycle", up to the rate during the first ``warm_up`` of all steps and down along a cosine.  least_steps: of a
    stage, by more epochs where samples are few.  gate_share: of the epochs that a stage with trained gates is a ReLU
    network; at most three quarters where the rank m is more than one, since the m neurons behind a gate begin alike
    and need time to part.  whiten: the
    first layer begins as patches of the stage's inputs, and is stepped in coordinates in which these are white but for
    such a share of their mean variance (`provenet.layerwise.whitening`); none: Gaussian, and steps on the weights
    themselves.  rates and whiten: of the first stage, of the second, …, and the last number of all that follow.
    augment: "flip" (left to right), "crop" (shifts by up to an eighth), both or none.
    """

    name: str
    optimiser: str
    schedule: str
    epochs: int
    batch: int
    rates: tuple[float, ...]
    beta: str
    n_gates: int
    rank: int
    gates: str
    engine: str
    least_steps: int = 0
    decay: float = 0.2
    every: int = 15
    warm_up: float = 0.2
    gate_share: float = 1.0
    whiten: tuple[float, ...] = ()
    augment: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> Recipe:
        """As `to_dict` says it; recipes of earlier versions have one ``rate`` for all stages."""
        said = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
        if "rate" in said:
            said["rates"] = (said.pop("rate"),)
        return cls(**said)

    def rate_at(self, rate: float, step: int, steps: int, each: int) -> float:
        """The rate of step number ``step`` of ``steps``, ``each`` of which are an epoch."""
        if self.schedule == "steps":
            return rate * self.decay ** (step // each // self.every)
        top = max(1, round(self.warm_up * steps))
        if step < top:
            return rate * (0.1 + 0.9 * step / top)
        return rate * (0.001 + 0.999 * 0.5 * (1 + cos(pi * (step - top) / max(1, steps - top))))

    def gate_epochs(self, rank: int, epochs: int) -> int:
        """Of so many epochs, those before a ReLU network's first layer becomes the gates of ``rank`` neurons each."""
        share = self.gate_share if rank == 1 else min(self.gate_share, 1 - _TO_PART)
        return min(epochs, max(1, round(share * epochs)))

    def ridge(self, number: int) -> float | None:
        """Of the whitening at stage ``number``, from zero on; None: there is none."""
        return _of_stage(self.whiten, number) if self.whiten else None

    def filled(self, layer: Layer, number: int, of: int, n: int) -> Layer:
        """The layer, stage ``number`` of so many, with what it leaves open; of few samples n it has more epochs."""
        rate = _of_stage(self.rates, number)
        if self.name == "paper":
            rates = _PAPER_RATES.get(of, (1e-1,))
            rate = rates[number] if number < len(rates) else 1e-2
        own = {name: getattr(self, name) for name in ("gates", "n_gates", "rank", "beta", "epochs", "engine")}
        own["epochs"] = max(self.epochs, -(-self.least_steps * self.batch // n))
        missing = {name: value for name, value in (own | {"rate": rate}).items() if getattr(layer, name) is None}
        return replace(layer, **missing)


PRESETS = {
    "paper": Recipe(
        "paper",
        optimiser="sgd",
        schedule="steps",
        epochs=50,
        batch=128,
        rates=(1e-1,),
        beta="5e-4mean",
        n_gates=256,
        rank=1,
        gates="gaussian",
        engine="minibatch",
    ),
    "cpu": Recipe(
        "cpu",
        optimiser="adam",
        schedule="one_cycle",
        epochs=10,
        batch=128,
        rates=(0.15, 0.1, 0.1, 0.05),
        beta="1e-4mean",
        n_gates=128,
        rank=1,
        gates="trained",
        engine="auto",
        least_steps=400,
        whiten=(1e-2, 1.0),
    ),
}


def chosen_preset(preset: str | Recipe) -> Recipe:
    if isinstance(preset, Recipe):
        return preset
    if preset not in PRESETS:
        raise ValueError(f"preset: {preset!r} is unknown; choose one of {', '.join(map(repr, PRESETS))}, or a Recipe.")
    return PRESETS[preset]


def default_layers(preset: Recipe, sample: tuple[int, ...], count: int = 3) -> tuple[Layer, ...]:
    """Stages for samples of this shape: MLPs for tables, PoolFormers for tokens, CNNs for images.

    Of images the "paper" has 3 × 3 kernels, pooling to 2 × 2, and space to depth before every second stage.  "cpu" is
    made for two cores, on which float32 convolutions make about 70 of 109 GFLOP/s: what counts is positions × channels.
    So it strides where the paper keeps all positions, and pools to cells of 2 × 2 positions, which tell more of where
    things are: on 28 × 28 a 5 × 5 kernel at every second pixel (14 × 14, 7 × 7 cells), then 3 × 3 kernels at every
    second place (7 × 7, 4 × 4 cells), then at all of those; images below 16 × 16 are pooled to 2 × 2.  With 128 gates a
    sample and epoch cost 3, 29 and 29 MFLOP (neurons and their gradient), and half as much again behind fixed gates;
    the first stage is bound by memory.  A certificate takes 3, 16 and 13 ms a sample of one core, in float64: 2, 8 and
    7 minutes on two.
    """
    if len(sample) == 1:
        layers = tuple(Layer(MLP(fit_intercept=True), normalise="standard") for _ in range(count))
    elif len(sample) == 2:
        layers = tuple(Layer(PoolFormer(grid=None if _square(sample[0]) else (1, sample[0]))) for _ in range(count))
        layers = tuple(replace(layer, normalise="standard") for layer in layers)
    elif len(sample) == 3:
        layers = _of_images(preset, min(sample[1:]), count)
    else:
        raise ValueError(f"X: samples of shape {sample} are no table, tokens or images; say which layers they need.")
    return layers


def _of_images(preset: Recipe, side: int, count: int) -> tuple[Layer, ...]:
    layers, large = [], side >= 16
    for number in range(count):
        odd = number % 2 == 1
        if preset.name == "paper":
            halved = odd and side % 2 == 0 and side >= 4
            side = side // 2 if halved else side
            block = CNN(kernel=3, padding=1, pool=min(2, side))
            layers.append(Layer(block, downsample=2 if halved else 1))
            continue
        kernel = 5 if number == 0 and side >= 16 else 3
        stride = 2 if side >= (8 if odd else 24) else 1
        side = (side - 1) // stride + 1
        pool = min(8, (side + 1) // 2) if large else min(2, side)
        block = CNN(kernel=kernel, stride=stride, padding=kernel // 2, pool=pool, fit_intercept=True)
        layers.append(Layer(block, normalise="standard"))
    return tuple(layers)


def _of_stage(values: tuple[float, ...], number: int) -> float:
    return values[min(number, len(values) - 1)]


def _square(s: int) -> bool:
    return round(s**0.5) ** 2 == s
