"""What two models hold, compared once: attributes of their layers, and how they were compiled."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.comparing.alignment.nodes import Node
from ramet.comparing.calls import objects
from ramet.comparing.counterparts import LayerPair, Pairs
from ramet.comparing.objects.attributes import config_differences, layer_differences, serialized
from ramet.comparing.objects.walk import Partners, ValueDifference, Walk
from ramet.comparing.state import VariablePair, Variables, joined, one_and_several, pair_variables
from ramet.graph.names import is_automatic


@dataclass
class Contents:
    """What is held, and how that differs."""

    variables: Variables
    """Which variables belong together, those that Keras does not track too."""
    layers: dict[int, list[ValueDifference]] = field(
        default_factory=dict[int, list[ValueDifference]]
    )
    """How the layers of a pair differ, by the place of the pair."""
    calls: dict[tuple[int, int], list[ValueDifference]] = field(
        default_factory=dict[tuple[int, int], list[ValueDifference]]
    )
    """How objects differ that calls are called on, by the ids of the nodes."""
    compiled: list[ValueDifference] = field(default_factory=list[ValueDifference])
    """How the models were compiled otherwise."""
    shared: list[tuple[int, list[str]]] = field(default_factory=list[tuple[int, list[str]]])
    """Objects that are one in the first or second model only: the side, and their paths."""
    skipped: list[str] = field(default_factory=list[str])
    """What could not be compared, in words."""


def partners_of(pairs: Pairs, variables: Variables | None = None) -> Partners:
    """Return which layers and variables belong together, by their ids."""
    partners: Partners = ({}, {})
    variable_pairs = [] if variables is None else variables.pairs
    for both in (*pairs.layers, *variable_pairs):
        partners[0].setdefault(id(both.old), set()).add(id(both.new))
        partners[1].setdefault(id(both.new), set()).add(id(both.old))
    for side, places in enumerate(() if variables is None else variables.alone):
        for _, variable in places:
            partners[side].setdefault(id(variable), set())
    for side, places in enumerate(pairs.alone):
        for _, layer in places:
            for part in internals.all_layers(layer) if isinstance(layer, keras.Layer) else [layer]:
                partners[side].setdefault(id(part), set())
    return partners


def read(pairs: Pairs) -> Contents:
    """Compare what the layers of two models hold. Costs O(objects)."""
    return _Reading(pairs).contents


class _Reading:
    def __init__(self, pairs: Pairs) -> None:
        self.contents = Contents(pair_variables(pairs))
        variables = self.contents.variables
        self._met = {(id(both.old), id(both.new)) for both in variables.pairs}
        for both in variables.pairs:
            if isinstance(both.old, keras.Variable) and isinstance(both.new, keras.Variable):
                raw = internals.raw_value(both.old), internals.raw_value(both.new)
                self._met.add((id(raw[0]), id(raw[1])))
        self._walk = Walk(partners_of(pairs, variables))
        for both in variables.pairs:
            self._walk.named[0].append((both.path, both.old))
            self._walk.named[1].append((both.path, both.new))
        for named, places in zip(self._walk.named, variables.alone, strict=True):
            named += [(None, variable) for _, variable in places]
        for number, both in enumerate(pairs.layers):
            if type(both.old) is type(both.new):
                found = layer_differences(both.old, both.new, self._walk, both.path)
                self.contents.layers[number] = [*found]
                self._settle(both)
        for prefix, level in pairs.levels():
            for old, new in level.pairing:
                self._call(prefix, old, new)
        self.contents.compiled = [*_compiled(pairs.first, pairs.second, self._walk)]
        self._settle(pairs.layers[0])
        self.contents.shared = [*self._walk.split_objects()]

    def _call(self, prefix: str, a: Node, b: Node) -> None:
        """Compare the objects that two calls are called on."""
        path = prefix + a.path
        for name, old, new in objects(a, b):
            self._walk.call(path)
            found = [*self._walk.differences(name, old, new)]
            self.contents.calls.setdefault((id(a), id(b)), []).extend(found)
            self._settle(LayerPair(path, old, path, new))

    def _settle(self, both: LayerPair) -> None:
        """Note the variables that were met in two layers, and what could not be compared."""
        walk = self._walk
        for each in walk.variables:
            keys = id(each.old), id(each.new)
            if keys in self._met:
                continue
            self._met.add(keys)
            names = joined(both.path, each.name), joined(both.other, each.name)
            noun = "optimizer variable" if each.name.startswith("optimizer.") else "variable"
            pair = VariablePair(noun, names[0], each.old, names[1], each.new)
            self.contents.variables.pairs.append(pair)
        self.contents.skipped += [f"{both.where}: {text}" for text in walk.skipped]
        walk.variables.clear()
        walk.skipped.clear()


def shared_objects(contents: Contents) -> Iterator[str]:
    """Yield which objects besides layers and variables are one in one of the models only."""
    for side, paths in contents.shared:
        yield one_and_several("object", paths[0], side, [f"'{path}'" for path in paths])


_LIVE = ("jit_compile", "run_eagerly", "steps_per_execution")
"""Arguments of `compile` that can be set afterwards."""


def _compiled(first: Any, second: Any, walk: Walk) -> Iterator[ValueDifference]:
    """Compare how two models were compiled."""
    if not (first.compiled and second.compiled):
        return  # that one of them is not is among their attributes
    reported: set[str] = set()
    for name in _LIVE:
        yield from walk.differences(name, getattr(first, name), getattr(second, name))
    old, new = (internals.compile_arguments(model) or {} for model in (first, second))
    for name in sorted({"optimizer", *old, *new} - {*_LIVE}):
        values = [
            getattr(model, "optimizer", None) if name == "optimizer" else known.get(name)
            for model, known in ((first, old), (second, new))
        ]
        for difference in walk.differences(name, *values):
            reported.add(difference.name)
            yield difference
    optimizers = [getattr(model, "optimizer", None) for model in (first, second)]
    if type(optimizers[0]) is type(optimizers[1]) and optimizers[0] is not None:
        for difference in config_differences("optimizer", *map(_saved, optimizers)):
            if difference.name not in reported:
                yield difference


def _saved(value: Any) -> Any:
    """Return the config of an optimizer, without a name that Keras counted."""
    plain = _unnamed(serialized(value))
    return plain.get("config") if isinstance(plain, dict) else None


def _unnamed(plain: Any) -> Any:
    """Return serialized objects, also in one another, without names that Keras counted."""
    if isinstance(plain, (list, tuple)):
        return [_unnamed(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    fields = {key: _unnamed(item) for key, item in plain.items()}
    config, kind = fields.get("config"), str(fields.get("class_name"))
    if isinstance(config, dict) and is_automatic(str(config.get("name")), kind):
        fields["config"] = {key: item for key, item in config.items() if key != "name"}
    return fields
