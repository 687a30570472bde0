"""`run`: what a model computes, at any place inside it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.checks import check_model
from ramet.bridge.copies import Builder
from ramet.bridge.interpret import Tapped, copied_data, replacement, without_traces
from ramet.bridge.live import is_edited, live_of
from ramet.bridge.trace import trace
from ramet.errors import GraphError, OptionError, StateError
from ramet.graph import Call, Graph
from ramet.graph.locate import call_labels, call_paths, check_place, find_place
from ramet.graph.nested import nested_graph
from ramet.graph.reach import written_calls
from ramet.graph.select import path_matches
from ramet.graph.tree import Tree, leaves, map_tree

Each = Callable[[str, Any], Any]
"""Sees the place and the outputs of a call; returns other outputs, or `None` to keep them."""

_Tensor = tuple[str, int]
"""The path of a call, and which of its outputs."""


def run(
    model: Any, data: Any, *, at: Any = None, each: Each | None = None, training: bool = False
) -> Any:
    """Runs a model, and returns its outputs or the values of any tensors inside it.

    The values are bit for bit those of `model(data)`: Keras runs the model, and ramet makes
    the calls in between. The model is not changed: weights, seeds, and the states of layers
    stay as they are. An edited Graph is built first, on the weights of its model; layers that
    edits bring in without weights get fresh ones.

    Args:
        model: A Keras model, or a Graph.
        data: The inputs, as the model takes them.
        at: The places whose values to return: `"conv"`, `"conv#2"` for the second call of a
            shared layer, `"split.1"` for one of several outputs, `"encoder/conv"` inside a
            nested model, `"encoder#2/conv"` inside the second call of one. A list, tuple or
            dict of places gives values in the same structure. A glob such as `"*"` or
            `"encoder/*"` gives a dict of values by place; without `/` it is matched with the
            last name of a path.
        each: Called as `each(place, outputs)` after every call that the author wrote, those
            inside a nested model before the model's own. What it returns takes the place of
            the outputs, and keeps their masks; with `None` they stay.
        training: Whether layers such as Dropout behave as in training.

    Returns:
        The model's outputs, or what `at` asks for, as tensors of the backend.

    Raises:
        ModelError: If it is not a model, or `at` or `each` is given and it has no graph.
        StateError: If the model has no weights yet.
        GraphError: If a place is not in the graph, is ambiguous, or is not computed.
        OptionError: If a place is not a name, or `each` returns something that does not fit.
    """
    if each is not None and not callable(each):
        message = f"each must be a function of a place and its outputs, got {each!r}"
        raise OptionError(message)
    live = _live_model(model)
    look = None
    if at is not None or each is not None:
        graph = trace(live)
        with internals.room_for(graph):
            look = _Look(graph, at, each)
    with without_traces(live):
        copied = copied_data(data)
        if look is None:
            return live(copied, training=training)
        outputs = look.run(copied, training=training)
    return outputs if at is None else look.results()


def _live_model(model: Any) -> Any:
    """Returns the model to call: that of a graph, or one built of it; a copy if calls build it."""
    if isinstance(model, Graph):
        model = _built(model) if is_edited(model) else _traced_model(model)
    check_model(model)
    if not model.built and not model.weights and _waits(internals.all_layers(model)[1:]):
        message = (
            f"model '{model.name}' has not been built, so it has no weights to run with; build it "
            "or call it on data first"
        )
        raise StateError(message)
    # A call would build what is still to be built, and that cannot be undone.
    return Builder("copy").copy(model) if _waits(internals.all_layers(model)) else model


def _waits(layers: list[Any]) -> bool:
    return any(internals.may_create_weights(layer) for layer in layers)


def _built(graph: Graph) -> Any:
    """Builds an edited graph, as if that had not happened."""
    with internals.untouched_names(), internals.untouched_randomness():
        return graph.build(weights="share")


def _traced_model(graph: Graph) -> Any:
    live = live_of(graph)
    if internals.functional_of(live.model) is not live.function:
        message = f"model '{graph.name}' was rebuilt after it had been traced; trace it again"
        raise GraphError(message)
    return live.model


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one place asks for."""

    place: str
    """The place, as the caller wrote it."""
    tensors: dict[str, _Tensor]
    """The tensors that it means, each by its own place."""
    glob: bool
    """Whether it is a glob, whose value is a dict."""
    derived: bool = False
    """Whether it is a call that only serves masks."""


def _find(graph: Graph, place: Any) -> _Asked:
    """Returns the tensors that a place means."""
    check_place(place)
    glob = isinstance(place, str) and any(sign in place for sign in "*?[")
    try:
        models, ref = find_place(graph, place)
    except GraphError:
        if not glob:
            raise
        return _Asked(place, _matching(graph, place), glob=True)
    inner, path = graph, ""
    for name in models:
        path += f"{call_labels(inner)[name]}/"
        inner = nested_graph(inner.layers[inner.calls[name].layer or ""])
    path += call_labels(inner)[ref.call]
    derived = ref.call not in {call.name for call in written_calls(inner)}
    return _Asked(str(place), {path: (path, ref.index)}, glob=False, derived=derived)


def _matching(graph: Graph, glob: str) -> dict[str, _Tensor]:
    """Returns the tensors that a glob finds, those of inputs left out.

    Raises:
        GraphError: If it finds none.
    """
    found: dict[str, _Tensor] = {}
    for path, call in call_paths(graph):
        if not call.args and not call.kwargs:
            continue
        several = len(call.outputs) > 1
        for index in range(len(call.outputs)):
            place = f"{path}.{index}" if several else path
            if path_matches(path, glob) or path_matches(place, glob):
                found[place] = path, index
    if not found:
        message = (
            f"no call of graph '{graph.name}' is matched by '{glob}'; without '/', a glob is "
            "matched with the last name of a path, and with '/', step by step"
        )
        raise GraphError(message)
    return found


class _Look(Tapped):
    """Runs a model, keeps the values that are asked for, and asks the hook."""

    def __init__(self, graph: Graph, at: Any, each: Each | None) -> None:
        super().__init__(graph)
        self._name = graph.name
        self._each = each
        self._asked: Tree = map_tree(lambda place: _find(graph, place), [] if at is None else at)
        self._wanted: dict[str, set[int]] = {}
        for asked in leaves(self._asked):
            for path, index in asked.tensors.values():
                self._wanted.setdefault(path, set()).add(index)
        self._values: dict[_Tensor, Any] = {}
        self._written: dict[int, set[str]] = {}

    def given(self, path: str, value: Any) -> None:
        self._keep(path, value)

    def seen(self, path: str, graph: Graph, call: Call, outputs: Any) -> Any:
        if self._each is not None and call.name in self._written_in(graph):
            other = self._each(path, outputs)
            if other is not None:
                outputs = replacement(path, outputs, other)
        self._keep(path, outputs)
        return outputs

    def results(self) -> Any:
        """Returns the values in the structure in which they were asked for."""
        return map_tree(self._result, self._asked)

    def _written_in(self, graph: Graph) -> set[str]:
        if id(graph) not in self._written:
            self._written[id(graph)] = {call.name for call in written_calls(graph)}
        return self._written[id(graph)]

    def _keep(self, path: str, outputs: Any) -> None:
        if path not in self._wanted:
            return
        flat = keras.tree.flatten(outputs)
        for index in self._wanted[path]:
            if (path, index) in self._values:
                message = (
                    f"'{path}' of '{self._name}' is computed several times in one run, since a "
                    "model runs its graph several times; look with each=... instead"
                )
                raise GraphError(message)
            self._values[path, index] = flat[index]

    def _result(self, asked: _Asked) -> Any:
        missing = [place for place, tensor in asked.tensors.items() if tensor not in self._values]
        if missing:
            why = (
                "it only serves a mask, and Keras computes that one outside of the graph"
                if asked.derived
                else "a model around it has a call method of its own, which does not run its graph"
            )
            message = f"'{missing[0]}' of graph '{self._name}' is not computed: {why}"
            raise GraphError(message)
        values = {place: self._values[tensor] for place, tensor in asked.tensors.items()}
        return values if asked.glob else next(iter(values.values()))
