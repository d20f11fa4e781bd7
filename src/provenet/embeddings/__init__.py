"""Tokens of frozen backbones, on disk: `embed`, and what is read back."""

from provenet.embeddings.backbones import load_backbone
from provenet.embeddings.embedding import Embedding, load_embedding
from provenet.embeddings.make import embed

__all__ = ["Embedding", "embed", "load_backbone", "load_embedding"]
