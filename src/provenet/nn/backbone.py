"""A frozen backbone and a head as one module."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from provenet.nn.attention import SelfAttention
from provenet.nn.cnn import CNN, Convolution
from provenet.nn.mixer import Mixer
from provenet.nn.reduction import Reduction
from provenet.nn.standardised import core


class Head(nn.Module):
    """A network of tokens with what is done to a backbone's tokens before it.

    Parameters
    ----------
    network : module
        Of the reduced tokens.
    reduction : Reduction, optional
        What is done to tokens; None: nothing.
    backbone : str
        Whose tokens it was trained on.
    digest : str, optional
        Of the backbone's weights, as `weights_digest` tells them apart; None: by name alone.
    size : int, optional
        Images are brought to this many pixels, each way, before the backbone; None: they come as they are.
    """

    def __init__(
        self,
        network: nn.Module,
        reduction: Reduction | None = None,
        *,
        backbone: str = "",
        digest: str | None = None,
        size: int | None = None,
    ):
        super().__init__()
        self.network, self.reduction = network, reduction or Reduction()
        self.backbone, self.digest, self.size = backbone, digest, size

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits of the backbone's own tokens (b, s, d)."""
        if isinstance(self.reduction.components, Tensor):
            tokens = tokens.to(self.reduction.components.dtype)
        reduced = self.reduction(tokens, mask).to(next(self.network.parameters()).dtype)
        own = core(self.network)
        if isinstance(own, CNN):
            logits: Tensor = self.network(as_convolved(reduced, mask, own.convolution))
        elif mask is None or isinstance(own, Mixer):
            logits = self.network(reduced)
        elif isinstance(own, SelfAttention):
            logits = self.network(reduced, mask)
        else:
            logits = self.network(weighed(reduced, mask))
        return logits


class WithBackbone(nn.Module):
    """Images (b, channels, height, width) in [0, 1], or a list of texts, → logits.  The backbone is frozen.

    Parameters
    ----------
    backbone : callable
        Images or texts → tokens.
    head : Head
        What reads them.
    """

    def __init__(self, backbone: Callable[..., Any], head: Head):
        super().__init__()
        self.backbone, self.head = backbone, head
        if isinstance(backbone, nn.Module):
            backbone.requires_grad_(False)
            backbone.eval()

    def forward(self, inputs: Any) -> Tensor:
        if isinstance(inputs, Tensor) and self.head.size is not None:
            inputs = resized(inputs, self.head.size)
        with torch.no_grad():
            tokens, mask, _ = as_tokens(self.backbone(inputs))
        logits: Tensor = self.head(tokens, mask)
        return logits

    def train(self, mode: bool = True) -> WithBackbone:
        """The head alone; a backbone's batch statistics and dropout stay as they were when it was embedded with."""
        super().train(mode)
        if isinstance(self.backbone, nn.Module):
            self.backbone.eval()
        return self


def with_backbone(backbone: Callable[..., Any], head: nn.Module) -> WithBackbone:
    """One module of a backbone and a head; what was done to the tokens between them is done again.

    ValueError for a `Head` that was trained on the tokens of another backbone.

    Parameters
    ----------
    backbone : callable
        Images or texts → tokens.
    head : module
        A `Head`, as `provenet.heads.load` gives it, or any network of the backbone's tokens.
    """
    if not isinstance(head, Head):
        return WithBackbone(backbone, Head(head))
    if head.digest is not None and (found := weights_digest(backbone)) != head.digest:
        has = "has no weights to compare" if found is None else f"has weights {found[:12]}"
        raise ValueError(
            f"backbone: the head was trained on tokens of {head.backbone!r} with weights {head.digest[:12]}, and this "
            f"one {has}; their tokens mean other things. Load that backbone, or embed and train anew with this one."
        )
    return WithBackbone(backbone, head)


def weighed(tokens: Any, mask: Any) -> Any:
    """Tokens (b, s, d), arrays or tensors, those that are there times s over their number, the others zero.

    What blocks without a mask that take means read of samples with fewer tokens: means over all s are over those there.
    """
    count = mask.sum(1)
    share = mask * (mask.shape[1] / (count + (count == 0)))[:, None]
    return tokens * (share.astype(tokens.dtype) if hasattr(share, "astype") else share.to(tokens.dtype))[..., None]


def as_convolved(tokens: Any, mask: Any, convolution: Convolution) -> Any:
    """Tokens (b, s, d), arrays or tensors, as a convolution reads them: over places (b, d, s); where its kernel has two
    sizes, over an image (b, 1, s, d).

    Those that one mean is taken of are `weighed`; where places are told apart each keeps its size.
    """
    if not isinstance(convolution.kernel, int):
        return tokens[:, None]
    if mask is not None and convolution.cells(1) == 1:
        tokens = weighed(tokens, mask)
    return tokens.swapaxes(1, 2)


def weights_digest(backbone: Any) -> str | None:
    """SHA-256 of a module's parameters and buffers, in the order of their names; None of what is no module."""
    if not isinstance(backbone, nn.Module):
        return None
    found = hashlib.sha256()
    for name, value in sorted(backbone.state_dict().items()):
        found.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        found.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def resized(images: Tensor, size: int) -> Tensor:
    """Images (b, channels, height, width) at ``size`` × ``size`` pixels."""
    if tuple(images.shape[-2:]) == (size, size):
        return images
    return interpolate(images, (size, size), mode="bilinear", antialias=True, align_corners=False)


def as_tokens(answer: Any) -> tuple[Tensor, Tensor | None, tuple[int, int] | None]:
    """(tokens (b, s, d), mask (b, s) or None, grid or None) of what a backbone returned.

    Taken: tokens (b, s, d), maps (b, d, h, w), either with a mask as a pair, and Hugging Face's outputs.
    """
    mask = None
    if hasattr(answer, "last_hidden_state"):
        answer = answer.last_hidden_state
    if isinstance(answer, tuple | list) and len(answer) == 2:
        answer, mask = answer
    tokens = torch.as_tensor(answer) if hasattr(answer, "__array__") else answer
    if not isinstance(tokens, Tensor) or tokens.ndim not in (3, 4) or 0 in tokens.shape:
        shape = f"an array of shape {tuple(tokens.shape)}" if isinstance(tokens, Tensor) else type(tokens).__name__
        raise ValueError(
            f"backbone: it returned {shape}, and no tokens: (batch, tokens, features), or maps (batch, features, "
            "height, width). Take it before its pooling and classifier (forward_features, extract_features, "
            "last_hidden_state); of one vector a sample make one token, x[:, None]."
        )
    if tokens.ndim == 3:
        return tokens, mask, None
    return tokens.flatten(2).transpose(1, 2), mask, (tokens.shape[2], tokens.shape[3])
