"""Backbones by name, each imported when it is asked for; and callables of the user's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from provenet.nn.backbone import weights_digest


@dataclass(frozen=True)
class Backbone:
    """run: a batch of images in [0, 1] or a list of texts → tokens, as `nn.backbone.as_tokens` takes them."""

    name: str
    digest: str | None
    run: Callable[..., Any]
    device: torch.device | None = None

    def __call__(self, inputs: Any) -> Any:
        if self.device is not None and isinstance(inputs, torch.Tensor):
            inputs = inputs.to(self.device)
        with torch.inference_mode():
            return self.run(inputs)


def load_backbone(name: str, *, size: int | None = None, tokens: int | None = None) -> nn.Module:
    """The backbone of this name, frozen, as a module that takes images in [0, 1] or a list of texts.

    "efficientnet-lite0" to "…-lite2" (extra ``vision``), "all-minilm" (extra ``text``), "timm:NAME", "hf:NAME", a model
    or folder of Hugging Face's.  ``size``: of the images that will come; ``tokens``: texts are cut and padded to so
    many.  ImportError says what to install.
    """
    kind, _, rest = name.partition(":")
    if name.startswith("efficientnet-lite"):
        from provenet.embeddings.vision import efficientnet_lite

        return efficientnet_lite(name, size)
    if name == "all-minilm":
        from provenet.embeddings.text import all_minilm

        return all_minilm(tokens)
    if kind == "timm" and rest:
        from provenet.embeddings.vision import from_timm

        return from_timm(rest)
    if kind == "hf" and rest:
        from provenet.embeddings.text import from_hugging_face

        return from_hugging_face(rest, tokens)
    raise ValueError(
        f"backbone: {name!r} is unknown; choose efficientnet-lite0, …1, …2, all-minilm, timm:NAME or hf:NAME, or give "
        "a callable."
    )


def as_backbone(given: Any, *, name: str | None = None, size: int | None = None, tokens: int | None = None) -> Backbone:
    """What was given, by name or as a callable, with what tells it from others."""
    if isinstance(given, str):
        module = load_backbone(given, size=size, tokens=tokens)
        return Backbone(name or given, weights_digest(module), module, _device(module))
    if not callable(given):
        raise ValueError(f"backbone: a name or a callable is needed, got {type(given).__name__}.")
    if isinstance(given, nn.Module):
        given.eval()
        return Backbone(name or type(given).__name__, weights_digest(given), given, _device(given))
    return Backbone(name or str(getattr(given, "__qualname__", type(given).__name__)), None, given)


def _device(module: nn.Module) -> torch.device | None:
    first = next(module.parameters(), None)
    return None if first is None else first.device


def needs(extra: str, error: Exception) -> ImportError:
    """What to say where an optional package is missing, or does not import."""
    said = re.sub(r"\s+", " ", str(error))
    told = f"this backbone needs a package that is not installed or does not import ({said}); "
    if _torchvision_of_another_torch():
        return ImportError(
            f"{told}torchvision is installed, but not of this torch's build, and stands in the way: pip uninstall "
            "torchvision, or install the one that goes with your torch"
        )
    return ImportError(f"{told}install it: pip install 'provenet[{extra}]'")


def _torchvision_of_another_torch() -> bool:
    if find_spec("torchvision") is None:
        return False
    try:
        import_module("torchvision")
    except (ImportError, RuntimeError):  # RuntimeError: an operator of another build
        return True
    return False
