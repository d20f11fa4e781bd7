"""`embed`: samples → tokens of a frozen backbone, on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from provenet.embeddings.backbones import Backbone, as_backbone
from provenet.embeddings.embedding import (
    ABOUT,
    FORMAT,
    REDUCTION,
    VERSION,
    Embedding,
    file_digest,
    load_embedding,
    read_reduction,
)
from provenet.embeddings.pca import chosen_rows, fitted
from provenet.embeddings.sources import Source, read_source
from provenet.embeddings.store import Store, marker
from provenet.files import check_writable
from provenet.memory import check_fits
from provenet.nn.backbone import as_tokens
from provenet.nn.reduction import Reduction

Progress = Callable[[int, int], Any]


def embed(
    backbone: Any,
    data: Any,
    out: str | Path,
    *,
    y: Any = None,
    part: str = "train",
    column: str | None = None,
    label: str | None = None,
    size: int | None = None,
    tokens: int | None = None,
    pool: int | tuple[int, int] | None = None,
    features: int | None = None,
    pca: int | None = None,
    like: str | Path | Embedding | None = None,
    name: str | None = None,
    limit: int | None = None,
    batch_size: int = 8,
    strict: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Embedding:
    """Tokens of a frozen backbone for every sample, in a folder; an embedding that was interrupted goes on.

    Parameters
    ----------
    backbone : str or callable
        A name ("efficientnet-lite2", "all-minilm", "timm:NAME", "hf:NAME"), or anything that takes a batch, images
        (b, channels, height, width) in [0, 1] or a list of texts, and returns tokens (b, s, d) or maps (b, d, h, w);
        or such tokens with a mask (b, s).
    data : path, array or list of texts
        A folder of idx files, of CIFAR's binary batches or of pictures by class; an NPZ file; a TXT file with a text a
        line; a CSV file.  Or images (n, channels, height, width), or texts.
    out : str or path
        The folder: ``tokens.npy`` (n, s, d), ``embedding.json``, and ``mask.npy``, ``reduction.safetensors`` as needed.
    y : array, optional
        Labels of arrays and lists; files have theirs.
    part : "train" or "test"
        Of a set on disk that has both.
    column, label : str, optional
        Of a CSV file: texts, and labels.
    size : int, optional
        Images are brought to so many pixels each way.
    tokens : int, optional
        Texts are cut and padded to so many, 32 by default; for backbones by name.
    pool : int or (int, int), optional
        The grid of tokens is averaged to so many cells each way.
    features, pca : int, optional
        Features of a token are averaged to so many, or projected to so many by a PCA of at most 2,000 samples' tokens,
        which is kept with the embedding.
    like : Embedding or folder, optional
        Reduce tokens as they were there, by the same PCA: for test samples.
    name : str, optional
        What the backbone is called; a function has no weights, and its name is all that tells it from others.
    limit : int, optional
        The first so many samples only.
    batch_size : int
        Samples that the backbone gets at a time; on a processor few are quicker, as they stay in its cache.
    strict : bool
        A picture that cannot be read is an error; else it is skipped, and listed in the result.
    seed : int
        Which samples a PCA is of.
    progress : callable, optional
        Is told (samples done, samples in all) after every batch.

    Returns
    -------
    Embedding
    """
    if batch_size < 1 or (limit is not None and limit < 1):
        raise ValueError("limit, batch_size: at least one sample is needed.")
    if like is not None and (pool, features, pca) != (None, None, None):
        raise ValueError("like: tokens are reduced as they were there; leave out pool, features and pca.")
    given = as_backbone(backbone, name=name, size=size, tokens=tokens)
    source = read_source(data, y, part=part, size=size, column=column, label=label)
    n = len(source) if limit is None else min(limit, len(source))
    model = None if like is None else like if isinstance(like, Embedding) else load_embedding(like)
    pooled = (pool, pool) if isinstance(pool, int) else pool
    recipe = {
        "backbone": {"name": given.name, "digest": given.digest},
        "source": source.digest(),
        "samples": n,
        "size": size,
        "tokens": tokens,
        "reduction": {"pool": pooled, "features": features, "pca": pca, "seed": seed},
        "like": None if model is None else model.about["reduction"],
    }
    recipe = _plain(recipe)
    folder = Path(out)
    check_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / ABOUT).exists():
        held = load_embedding(folder)
        if held.about["recipe"] != recipe:
            raise FileExistsError(f"{folder}: it holds another embedding; choose another folder, or remove it.")
        return held
    maker = _Maker(given, source, n, batch_size, strict, progress)
    store = _gone_on_with(folder, recipe, model) or maker.begun(folder, recipe, pooled, features, pca, seed, model)
    try:
        maker.fill(store)
    except BaseException:
        store.mark()  # what is there is not made twice
        raise
    about = _about(given, source, size, store, folder)
    store.finish(about | {"recipe": recipe})
    return load_embedding(folder, check=False)


def _gone_on_with(folder: Path, recipe: dict[str, Any], model: Embedding | None) -> Store | None:
    state = marker(folder)
    if state is None:
        return None
    if state["recipe"] != recipe:
        raise FileExistsError(
            f"{folder}: it holds the beginning of another embedding (another backbone, reduction or other samples); "
            "choose another folder, or remove it."
        )
    asked = recipe["reduction"] if model is None else model.about["reduction"]
    reduction = read_reduction(folder, asked | {"grid": state["grid"]})
    store = Store(folder, recipe, reduction, state["shape"], state["masked"], state["done"], state["skipped"])
    store.go_on()
    return store


class _Maker:
    def __init__(
        self, backbone: Backbone, source: Source, n: int, batch_size: int, strict: bool, progress: Progress | None
    ):
        self.backbone, self.source, self.n = backbone, source, n
        self.batch_size, self.strict, self.progress = batch_size, strict, progress

    def answers(self, rows: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Tokens and mask of those of the rows that can be read."""
        tokens, mask, _ = self._answer(self._read(rows).inputs)
        return tokens, mask

    def begun(
        self,
        folder: Path,
        recipe: dict[str, Any],
        pool: tuple[int, int] | None,
        features: int | None,
        pca: int | None,
        seed: int,
        model: Embedding | None,
    ) -> Store:
        rows = range(min(self.batch_size, self.n))
        batch = self._read(rows)
        if not batch.kept:
            raise ValueError(f"data: none of the first {len(rows)} samples can be read: {batch.skipped[0][1]}")
        tokens, mask, grid = self._answer(batch.inputs)
        if model is not None:
            if (model.backbone, model.digest) != (self.backbone.name, self.backbone.digest):
                raise ValueError(
                    f"like: {model.folder} was made by {model.backbone!r} with other weights or another name than "
                    f"{self.backbone.name!r}; tokens of another backbone mean other things."
                )
            reduction = model.reduction()
            if reduction.grid != grid:
                raise ValueError(f"like: tokens lie on a grid of {grid} here, and of {reduction.grid} there.")
        else:
            reduction = Reduction(grid, pool, features)
            if pca is not None:
                mean, components = fitted(self.answers, chosen_rows(self.n, seed), self.batch_size, reduction, pca)
                reduction = Reduction(grid, pool, features, mean, components)
        s, d = reduction(tokens, mask).shape[1:]
        store = Store(folder, recipe, reduction, (self.n, s, d), mask is not None)
        check_fits(4 * s * d * self.batch_size, "embed: a batch", "Make batch_size smaller.")
        store.begin()
        return store

    def fill(self, store: Store) -> None:
        """The rows that are not there yet."""
        for start in range(store.done, self.n, self.batch_size):
            rows = range(start, min(start + self.batch_size, self.n))
            batch = self._read(rows)
            lost = sorted(set(range(len(rows))) - set(batch.kept))
            skipped = [(rows[k], *said) for k, said in zip(lost, batch.skipped, strict=True)]
            if batch.kept:
                tokens, mask, _ = self._answer(batch.inputs)
                reduced = store.reduction(tokens, mask)
                self._check(reduced, store.shape, rows)
                store.add(len(rows), reduced.numpy(), None if mask is None else mask.numpy(), skipped)
            else:
                store.add(len(rows), np.empty((0, *store.shape[1:])), np.empty((0, store.shape[1])), skipped)
            if self.progress is not None:
                self.progress(store.done, self.n)
        if store.written == 0:
            raise ValueError("data: no sample can be read.")

    def _read(self, rows: Sequence[int]) -> Any:
        batch = self.source.batch(rows)
        if self.strict and batch.skipped:
            raise ValueError(batch.skipped[0][1])
        return batch

    def _answer(self, inputs: Any) -> tuple[Tensor, Tensor | None, tuple[int, int] | None]:
        tokens, mask, grid = as_tokens(self.backbone(inputs))
        if len(tokens) != len(inputs):
            raise ValueError(f"backbone: it returned tokens of {len(tokens)} samples, and was given {len(inputs)}.")
        mask = None if mask is None else torch.as_tensor(mask).cpu().bool()
        if mask is not None and mask.shape != tokens.shape[:2]:
            raise ValueError(f"backbone: its mask has shape {tuple(mask.shape)}, tokens {tuple(tokens.shape)}.")
        return tokens.detach().cpu().float().clone(), mask, grid

    def _check(self, tokens: Tensor, shape: tuple[int, ...], rows: range) -> None:
        if tuple(tokens.shape[1:]) != tuple(shape[1:]):
            raise ValueError(
                f"backbone: samples {rows[0]} to {rows[-1]} have tokens of shape {tuple(tokens.shape[1:])}, the first "
                f"ones of {tuple(shape[1:])}; bring images to one size (size), texts to one number of tokens."
            )
        if not bool(tokens.isfinite().all()):
            raise ValueError(f"backbone: tokens of samples {rows[0]} to {rows[-1]} are not all finite.")


def _about(backbone: Backbone, source: Source, size: int | None, store: Store, folder: Path) -> dict[str, Any]:
    """The description, but for what the store adds."""
    made = store.reduction
    pca = None if made.components is None else len(made.components)
    lost = {row for row, _, _ in store.skipped}
    labels = None
    if source.labels is not None:
        labels = [label for row, label in enumerate(source.labels[: store.done].tolist()) if row not in lost]
    return {
        "format": FORMAT,
        "version": VERSION,
        "backbone": {"name": backbone.name, "digest": backbone.digest},
        "size": size,
        "reduction": _plain({"grid": made.grid, "pool": made.pool, "features": made.features, "pca": pca})
        | {"digest": None if pca is None else file_digest(folder / REDUCTION)},
        "labels": labels,
    }


def _plain(value: Any) -> Any:
    """As JSON has it: lists for tuples."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value
