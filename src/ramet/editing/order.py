"""Whether it matters in which order independent calls are made.

Keras orders calls by depth, which an edit changes. That shows where layers draw random numbers
from one generator, or where calls of one layer update its state.
"""

from collections.abc import Iterator
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet._words import Promise, weakest
from ramet.backends import is_of_keras
from ramet.graph import Graph, Layer
from ramet.tracing.origin import live_of

Mark = tuple[str, int, bool]
"""What calls have in common if their order matters: a name, the layer, and whether it matters in
training only."""

_MOST = 1 << 16
"""How many layers are remembered at once."""

_MARKS: dict[int, set[Mark]] = {}
"""The marks of layers by their tokens, since every edit asks again."""

_UPDATED = (keras.layers.BatchNormalization, keras.layers.SpectralNormalization)
"""Classes of Keras whose calls update variables in training."""


def promise_of_order(graph: Graph) -> Promise:
    """Return what making the calls of a graph in another order promises.

    `exact` if calls whose order matters depend on each other, so that it cannot change;
    `changed` if a model has a `call` of its own, which may do anything with its graph.
    Costs O(calls).
    """
    if live_of(graph).has_own_call(graph):
        return "changed"
    return weakest(
        "inference-equal" if in_training else "changed"
        for visit in graph.walk()
        for _, _, in_training in _unordered(visit.graph)
    )


def keeps_state(graph: Graph) -> bool:
    """Whether a call of a layer may change what its next call returns, also in inference."""
    return any(
        not in_training for layer in graph.layers.values() for _, _, in_training in marks_of(layer)
    )


def _unordered(graph: Graph) -> Iterator[Mark]:
    """Yield what makes the order of two calls matter that do not depend on each other."""
    marks = {key: found for key, layer in graph.layers.items() if (found := marks_of(layer))}
    if not marks:
        return
    above: dict[str, set[str]] = {}
    """By call: those of the calls that matter which it depends on, itself included."""
    last: dict[Mark, str] = {}
    for call in graph.calls.values():
        own = set[str]().union(*(above[ref.call] for ref in call.refs))
        for mark in marks.get(call.layer or "", ()):
            if last.get(mark, call.name) not in own | {call.name}:
                yield mark
            last[mark] = call.name
            own.add(call.name)
        above[call.name] = own


def marks_of(layer: Layer) -> set[Mark]:
    """Return what a layer, and all inside it, have in common with others if order matters."""
    if layer.graph is not None:
        inner = (each for visit in layer.graph.walk() for each in visit.graph.layers.values())
        return {mark for each in inner if each.graph is None for mark in marks_of(each)}
    if layer.token not in _MARKS:
        if not isinstance(layer.origin, keras.Layer) or layer.is_input:
            return set()
        found = {mark for part in internals.all_layers(layer.origin) for mark in _own_marks(part)}
        if not layer.facts.built:
            return found  # It may still get some.
        if len(_MARKS) == _MOST:
            _MARKS.clear()
        _MARKS[layer.token] = found
    return _MARKS[layer.token]


def _own_marks(layer: keras.Layer) -> Iterator[Mark]:
    """Yield the marks of one live layer, without those inside it."""
    if getattr(layer, "stateful", False):
        yield "state", id(layer), False
    if is_of_keras(type(layer)):
        if isinstance(layer, _UPDATED):
            yield "state", id(layer), True
        if internals.own_seed_generators(layer) and not _draws_nothing(layer):
            yield "random", 0, True
        return
    # What a user's layer does with its state is not known.
    if internals.own_seed_generators(layer):
        yield "random", 0, False
    elif internals.accepts(layer, "training"):
        yield "random", 0, True
    if any(not variable.trainable for variable in internals.own_variables(layer)):
        yield "state", id(layer), False


def _draws_nothing(layer: Any) -> bool:
    """Whether a recurrent layer, which always has a seed generator, does not drop anything."""
    rates = [getattr(layer, name, None) for name in ("dropout", "recurrent_dropout")]
    return rates == [0, 0]
