"""What trains in an adapted graph: the adapters, and what a user names besides."""

from dataclasses import dataclass, field
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet._words import Promise
from ramet.adapt.adapting.places import (
    At,
    check_selection,
    patterns_of,
    written,
)
from ramet.backends import is_of_keras
from ramet.errors import GraphError
from ramet.graph import Graph, Layer, Selection
from ramet.graph.names import counted, listed
from ramet.graph.paths import layer_paths
from ramet.graph.select import path_matches

Identity = tuple[int, int]
"""What identifies a layer of a graph; see `Layer.identity`."""

_SHOWN = 6
"""How many layers a message lists."""


@dataclass(frozen=True)
class Flags:
    """The `trainable` flags that change."""

    flags: dict[Identity, bool] = field(default_factory=dict[Identity, bool])
    """The new flags, by layer."""
    froze: tuple[str, ...] = ()
    """The paths of the layers that are frozen."""
    thawed: tuple[str, ...] = ()
    """The paths of those that train and were frozen."""
    promise: Promise = "exact"
    """What the flags promise: some layers compute something else in training when frozen."""

    @classmethod
    def of(cls, graph: Graph, adapted: set[Identity], also: set[Identity]) -> "Flags":
        """Return flags by which only some layers of a graph train.

        Args:
            graph: The graph.
            adapted: The layers with adapters.
            also: The layers that train besides.
        """
        train = adapted | also
        train |= {record.identity for _, record in layer_paths(graph) if _around(record, train)}
        wanted: dict[Identity, bool] = {}
        promise: Promise = "exact"
        froze: list[str] = []
        thawed: list[str] = []
        for path, record in layer_paths(graph):
            trains = record.identity in train
            counts = record.can_train and (record.facts.has_weights or not record.facts.built)
            if counts and _trains(record) is not trains and record.identity not in wanted:
                wanted[record.identity] = trains
                (thawed if trains else froze).append(path)
                if record.graph is None and _reads_its_flag(record.origin):
                    promise = "inference-equal"
        return cls(_with_inner(graph, wanted), tuple(froze), tuple(thawed), promise)

    @classmethod
    def undone(cls, graph: Graph, froze: tuple[str, ...], thawed: tuple[str, ...]) -> "Flags":
        """Return flags by which layers train again that were frozen, and the other way round."""
        wanted = dict.fromkeys(froze, True) | dict.fromkeys(thawed, False)
        records = {path: record for path, record in layer_paths(graph) if path in wanted}
        flags = {
            record.identity: wanted[path]
            for path, record in records.items()
            if _trains(record) is not wanted[path]
        }
        return cls(_with_inner(graph, flags))

    @property
    def text(self) -> str:
        """What is frozen, in words that follow others."""
        frozen = f"; {counted(len(self.froze), 'layer')} frozen" if self.froze else ""
        thawed = f"; {counted(len(self.thawed), 'layer')} unfrozen" if self.thawed else ""
        return frozen + thawed


def _with_inner(graph: Graph, flags: dict[Identity, bool]) -> dict[Identity, bool]:
    """Return flags that also say what trains inside models whose own flag changes.

    Keras sets the flag of a model on all that is inside.
    """
    inner = {
        record.identity: _trains(record)
        for _, model in layer_paths(graph)
        if model.graph is not None and model.identity in flags
        for _, record in layer_paths(model.graph)
        if record.can_train
    }
    return inner | flags


def _reads_its_flag(layer: Any) -> bool:
    """Whether a layer may compute something else in training when it is frozen."""
    return any(
        isinstance(part, keras.layers.BatchNormalization) or not is_of_keras(type(part))
        for part in internals.all_layers(layer)
    )


def _trains(record: Layer) -> bool:
    return record.facts.trainable if record.trainable is None else record.trainable


def _around(record: Layer, train: set[Identity]) -> bool:
    """Whether a layer is a model with some of the layers inside."""
    if record.graph is None:
        return False
    return any(inner.identity in train for _, inner in layer_paths(record.graph))


def trained_also(graph: Graph, named: At | None) -> set[Identity]:
    """Return the layers that a user names to train with the adapters; of models, all inside.

    Raises:
        GraphError: If a pattern names none.
    """
    train: set[Identity] = set()
    layers = [*layer_paths(graph)]
    for pattern in [] if named is None else patterns_of(named):
        check_selection(graph, pattern)
        found = [record for path, record in layers if record.can_train and _names(pattern, path)]
        if not found:
            has = listed([path for path, record in layers if record.can_train], _SHOWN)
            message = (
                f"no layer of graph '{graph.name}' is named by train_also={written(pattern)}; "
                f"it has: {has}"
            )
            raise GraphError(message)
        for record in found:
            train.add(record.identity)
            if record.graph is not None:
                train |= {inner.identity for _, inner in layer_paths(record.graph)}
    return train


def _names(pattern: Any, path: str) -> bool:
    if isinstance(pattern, Selection):
        return path in pattern
    if isinstance(pattern, str):
        return path_matches(path, pattern)
    return pattern.search(path) is not None
