"""What people call the parts of each block."""

from __future__ import annotations

from dataclasses import dataclass

from provenet.problem import Problem
from provenet.report.numerals import count


@dataclass(frozen=True)
class Nouns:
    """network: its name in a sentence.  neuron: what it has any number of.  side: what a gate is open or closed for."""

    network: str
    neuron: str = "neuron"
    side: str = "token"


_NOUNS = {
    "mlp": Nouns("two-layer network", side="sample"),
    "cnn": Nouns("two-layer CNN", "filter", "position of the kernel"),
    "attention": Nouns("self-attention block", "head", "pair of tokens"),
    "mixer": Nouns("MLP-Mixer block", side="token and feature"),
    "fno": Nouns("FNO block"),
    "bfno": Nouns("B-FNO block"),
    "poolformer": Nouns("PoolFormer block"),
    "fnet": Nouns("FNet block"),
    "token_map": Nouns("block with this map of tokens"),
}


def nouns(problem: Problem) -> Nouns:
    name = problem.block.name
    return _NOUNS.get(name, Nouns(f"{name} block"))


def any_number(problem: Problem) -> str:
    """of any width, with any number of heads, …"""
    noun = nouns(problem).neuron
    return "of any width" if noun == "neuron" else f"with any number of {noun}s"


def has_tokens(problem: Problem) -> bool:
    return problem.X.ndim == 3 and problem.block.name != "cnn"


def sample_shape(problem: Problem) -> str:
    """49 tokens × 8 features; 3 channels × 32 × 32; 64."""
    first, *rest = problem.X.shape[1:]
    if has_tokens(problem):
        return f"{count(first, 'token')} × {count(rest[0], 'feature')}"
    if rest:
        return " × ".join([count(first, "channel"), *map(str, rest)])
    return str(first)
