"""What deep classifiers and regressors share: data → stages → network."""

from __future__ import annotations

import tempfile
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from provenet.estimators.settings import seed_of
from provenet.layerwise.augment import check_ways
from provenet.layerwise.checkpoint import Checkpoint
from provenet.layerwise.grow import Growth, Samples
from provenet.layerwise.inputs import Held, Store
from provenet.layerwise.layer import Layer
from provenet.layerwise.minibatch import pieces_for
from provenet.layerwise.presets import Recipe, chosen_preset, default_layers
from provenet.layerwise.progress import Event, Watcher
from provenet.layerwise.samples import as_array, as_bytes
from provenet.layerwise.scores import Score
from provenet.layerwise.sets import Sets, cut
from provenet.layerwise.settings import LayerwiseSettings, check_settings
from provenet.layerwise.shapes import check_can_be_spread, check_shapes
from provenet.layerwise.stage import StageTable, TrainedStage
from provenet.nn import Layers
from provenet.ranks.context import current, each_alone, first_says, is_first, started_by_torchrun, total
from provenet.statement import Statement


class Layerwise(LayerwiseSettings, BaseEstimator):
    """Reads data, grows stages, predicts.  A kind says what targets and scores are."""

    loss: str
    losses: tuple[str, ...]
    network_: Layers
    stages_: StageTable
    sample_shape_: tuple[int, ...]
    n_features_in_: int
    _watcher: Watcher | None = None

    def fit(self, X: Any, y: Any) -> Any:
        """Train on X, a table (n, d), tokens (n, s, d) or images (n, channels, height, width), and y.

        Within `provenet.ranks.joined()` they are this process's rows, and the stages are those of all.
        """
        if started_by_torchrun() and current() is None:
            raise ValueError(
                f"{type(self).__name__}: torchrun has started several processes of this; fit within "
                "provenet.ranks.joined(), on each one's own rows."
            )
        check_settings(self)
        if self.loss not in self.losses:
            known = " or ".join(map(repr, self.losses))
            raise ValueError(f"loss: {self.loss!r} is not one of {type(self).__name__}; choose {known}.")
        X, y = each_alone(lambda: self._read(X, y))
        targets = self._targets(y)
        self.sample_shape_ = X.shape[1:]
        self.n_features_in_ = self.sample_shape_[-1 if len(self.sample_shape_) < 3 else 0]
        recipe = replace(chosen_preset(self.preset), augment=tuple(self.augment))
        check_ways(recipe.augment, self.sample_shape_)
        layers = self._layers(recipe, round(total(len(X))))
        check_shapes(layers, self.sample_shape_, targets.shape[-1])
        check_can_be_spread(layers)
        seed = first_says(self._seed())
        pieces = pieces_for(recipe.batch)
        sets = cut(X, targets, self.validation_fraction, self._strata(targets), seed, pieces)
        with self._workplace(sets, layers, recipe, seed) as (store, checkpoint):
            growth = Growth(
                layers,
                recipe,
                self._statement,
                self._score(sets.training),
                sets.training,
                sets.validation,
                store,
                seed,
                self.tol,
                self.certify,
                patient=not self.early_stopping,
                max_seconds=self.max_seconds,
                finish=self.finish,
                sharpen=self.sharpen,
            )
            stages = growth.run(checkpoint, self._tell)
        self._keep(stages)
        return self

    def _layers(self, recipe: Recipe, n: int) -> tuple[Layer, ...]:
        """The stages, with nothing left open."""
        said: Any = 3 if self.layers is None else self.layers
        if isinstance(said, Integral):
            if said < 1:
                raise ValueError(f"layers: at least one is needed, got {said}.")
            said = default_layers(recipe, self.sample_shape_, int(said))
        if not said or not all(isinstance(layer, Layer) for layer in said):
            raise ValueError("layers: a list of provenet.Layer, or how many, is needed.")
        given = {name: getattr(self, name) for name in ("n_gates", "rank", "beta", "epochs")}
        filled = []
        for number, layer in enumerate(said):
            mine = {name: value for name, value in given.items() if value is not None and getattr(layer, name) is None}
            filled.append(recipe.filled(replace(layer, **mine), number, len(said), n))
        return tuple(filled)

    def _statement(self, layer: Layer, beta: float) -> Statement:
        return Statement.of(
            layer.made_block, self.loss, beta, activation=layer.activation, readout=layer.readout, loss_settings={}
        )

    def _read(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        X = as_array(X)
        return X, self._checked(X, y)

    @contextmanager
    def _workplace(
        self, sets: Sets, layers: tuple[Layer, ...], recipe: Recipe, seed: int
    ) -> Iterator[tuple[Store, Checkpoint | None]]:
        """Where features are cached, and the run kept."""
        budget = as_bytes(self.cache)
        if self.checkpoint is None:
            if self.resume:
                raise ValueError("resume: say of which run, checkpoint=folder.")
            with tempfile.TemporaryDirectory(prefix="provenet-layerwise-") as folder:
                yield Store(Path(folder), budget), None
            return
        asked = {
            "kind": type(self).__name__,
            "layers": [layer.to_dict() for layer in layers],
            "recipe": recipe.to_dict(),
            "loss": self.loss,
            "validation_fraction": self.validation_fraction,
            "early_stopping": self.early_stopping,
            "tol": self.tol,
            "max_seconds": self.max_seconds,
            "finish": self.finish,
            "cache": budget,
            "seed": seed,
            "samples": {"shape": list(sets.shape), "digest": sets.digests[0]},
            "targets": sets.digests[1],
        }
        shards = sets.training.inputs.shards
        if shards.spread:  # batches and sums are others; how many processes there are is all one
            asked["torchrun"] = f"rows in {shards.count} pieces"
        kept = Checkpoint.open(Path(self.checkpoint), asked, self.resume)
        yield Store(kept.cache, budget), kept

    def _keep(self, stages: list[TrainedStage]) -> None:
        self.stages_ = StageTable(tuple(stages))
        self.network_ = Layers(stage.module for stage in stages).eval()
        proofs = [(number, stage.certificate) for number, stage in enumerate(stages, 1) if stage.certificate]
        short = [f"stage {number}: {proof.relative_gap:.1e}" for number, proof in proofs if not proof.holds(self.tol)]
        if short and is_first():
            warnings.warn(
                f"{type(self).__name__}: relative gaps above tol={self.tol:g} ({', '.join(short)}). The stages are "
                "kept; more epochs or a larger beta bring the gaps down, and sharpen=seconds their proofs' part.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _tell(self, event: Event) -> None:
        if not is_first():
            return
        if self._watcher is not None:
            self._watcher(event)
        elif self.verbose:
            print(event, flush=True)

    def _seed(self) -> int:
        return seed_of(self.random_state)

    def _outputs(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "network_")
        X = as_array(X)
        if X.shape[1:] != self.sample_shape_:
            raise ValueError(
                f"X: {type(self).__name__} was fitted on samples of shape {self.sample_shape_}, got {X.shape[1:]}."
            )
        with torch.no_grad():
            return torch.cat([self.network_(part) for part in Held(X).parts()]).double().numpy()

    @abstractmethod
    def _checked(self, X: NDArray[Any], y: Any) -> NDArray[Any]:
        """y of these samples, as an array; ValueError says what is wrong with it."""

    @abstractmethod
    def _targets(self, y: NDArray[Any]) -> Tensor:
        """y as the loss wants it, (n, …, c) in float64."""

    @abstractmethod
    def _strata(self, targets: Tensor) -> NDArray[Any] | None:
        """Classes that keep their shares in what is set aside."""

    @abstractmethod
    def _score(self, training: Samples) -> Score:
        """How good outputs are."""
