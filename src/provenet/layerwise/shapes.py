"""What each stage sees and passes on, known before any work."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from provenet.layerwise.layer import Layer
from provenet.layerwise.modules import module_of
from provenet.nn import Stage, TwoLayer
from provenet.ranks import current


def blank_network(layer: Layer) -> TwoLayer:
    """The layer's module without neurons: it says how inputs are read, and no more."""
    block = layer.made_block
    nobody = torch.zeros(0, dtype=torch.long) if block.groups > 1 else None
    return module_of(block, torch.zeros(0, 1), torch.zeros(0, 1), None, False, layer.readout, nobody)


def check_shapes(layers: Sequence[Layer], sample: tuple[int, ...], outputs: int) -> list[tuple[int, ...]]:
    """What every stage passes on, from samples of this shape; ValueError, with the stage's number, where one does not
    take what it is given."""
    passed = []
    for number, layer in enumerate(layers, 1):
        try:
            sample = _passed(layer, sample, outputs)
        except ValueError as error:
            raise ValueError(
                f"layers: stage {number} of {len(layers)}, on samples of shape {sample}: {error}"
            ) from None
        passed.append(sample)
    return passed


def check_can_be_spread(layers: Sequence[Layer]) -> None:
    """ValueError, with the stage's number, where one cannot be trained by several processes, and there are such."""
    if current() is None:
        return
    for number, layer in enumerate(layers, 1):
        if layer.activation == "relu" and layer.engine == "solve":
            raise ValueError(
                f"layers: stage {number} of {len(layers)}: activation 'relu' is solved over cones of all rows, which "
                "are spread over processes here; choose engine='minibatch', or fit it in one process."
            )


def _passed(layer: Layer, sample: tuple[int, ...], outputs: int) -> tuple[int, ...]:
    block = layer.made_block
    needs = 2 if block.name == "mlp" else 3
    if len(sample) + 1 < needs:
        kind = "tokens (n, s, d)" if block.tokens else "images (n, channels, height, width)"
        raise ValueError(f"block {block.name!r} needs {kind}.")
    if block.name == "mlp" and len(sample) != 1:
        raise ValueError("block 'mlp' needs a table (n, d).")
    seen = Stage(blank_network(layer), downsample=layer.downsample).prepared(torch.zeros(1, *sample))
    block.check(seen.to(torch.float64), outputs)
    p, q = block.weights(seen.to(torch.float64), outputs)
    assert layer.n_gates is not None
    assert layer.rank is not None
    group = torch.zeros(1, dtype=torch.long) if block.groups > 1 else None
    one = module_of(block, torch.zeros(1, p), torch.zeros(1, q), None, False, layer.readout, group)
    stage = Stage(one, passes=layer.passes)
    shape = list(stage.passed(seen).shape[1:])
    if layer.passes == "features":
        neurons = block.groups * (layer.rank if layer.activation == "linear" else layer.n_gates * layer.rank)
        shape[0 if layer.neuron_axis == 1 else -1] *= neurons
    return tuple(shape)
