"""A head on disk: a model folder with what is done to the backbone's tokens before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provenet.embeddings import Embedding, load_embedding
from provenet.embeddings.embedding import REDUCTION, file_digest, read_reduction
from provenet.estimators.base import ProvenEstimator
from provenet.files import read_regular, write_atomically
from provenet.heads.fitting import right
from provenet.heads.samples import Samples
from provenet.io import load as load_estimator
from provenet.io import load_model, save
from provenet.nn.backbone import Head

_KEYS = ("backbone", "size", "reduction")


def save_head(model: ProvenEstimator, embedding: Embedding, folder: Path) -> None:
    """The model folder, which says whose tokens it reads, and the PCA beside it."""
    save(model, folder, source={"head": {key: embedding.about[key] for key in _KEYS}})
    if embedding.about["reduction"]["pca"] is not None:
        write_atomically(folder / REDUCTION, read_regular(embedding.folder / REDUCTION))


def load(folder: str | Path) -> Head:
    """The head of a folder as a module of a backbone's own tokens, for `provenet.nn.with_backbone`.

    Parameters
    ----------
    folder : path
        As `compare` or `provenet head` wrote it.
    """
    folder = Path(folder)
    about = _about(folder)
    reduction = about["reduction"]
    if reduction["pca"] is not None:
        if not (folder / REDUCTION).is_file():
            raise FileNotFoundError(f"{folder / REDUCTION}: the PCA of the head's tokens is missing; fit it again.")
        if file_digest(folder / REDUCTION) != reduction["digest"]:
            raise ValueError(f"{folder / REDUCTION}: it is not the PCA that the head was fitted with.")
    saved, _ = load_model(folder)
    backbone = about["backbone"]
    return Head(
        saved.network,
        read_reduction(folder, reduction),
        backbone=backbone["name"],
        digest=backbone["digest"],
        size=about["size"],
    )


def score(folder: str | Path, embedding: Embedding | str | Path) -> dict[str, float]:
    """Accuracies of a saved head on an embedding: ``top1``, and of more than five classes ``top5``.

    ValueError for the tokens of another backbone than the head's.

    Parameters
    ----------
    folder : path
        The head's.
    embedding : Embedding or path
        Tokens and labels.
    """
    found = embedding if isinstance(embedding, Embedding) else load_embedding(embedding)
    check_same(Path(folder), found)
    samples, model = Samples.of(found), load_estimator(folder)
    among = (1, 5) if len(model.classes_) > 5 else (1,)
    return {f"top{k}": right(model, samples, k) for k in among}


def check_same(folder: Path, embedding: Embedding) -> None:
    """ValueError unless the embedding is by the backbone that the head of ``folder`` was trained with."""
    about = _about(folder)
    mine, theirs = about["backbone"], embedding.about["backbone"]
    if mine != theirs:
        names = [f"{each['name']!r} ({(each['digest'] or 'no weights')[:12]})" for each in (theirs, mine)]
        raise ValueError(
            f"{embedding.folder}: its tokens are by {names[0]}, and the head in {folder} reads those of {names[1]}; "
            "embed with that backbone, or fit a head anew."
        )
    if any(about[key] != embedding.about[key] for key in _KEYS):
        raise ValueError(
            f"{embedding.folder}: its tokens were reduced in another way than those of the head in {folder}; embed "
            "them like the head's (like=)."
        )


def _about(folder: Path) -> dict[str, Any]:
    saved, _ = load_model(folder)
    about = saved.source.get("head")
    if not isinstance(about, dict) or not all(key in about for key in _KEYS):
        raise ValueError(f"{folder}: it is a model, but no head of a backbone; `provenet head` makes one.")
    return about
