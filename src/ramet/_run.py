"""`run`: the values of any tensors inside a model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet._arguments import check_flag, check_function
from ramet.comparing.running.data import check_data, explained_failures
from ramet.comparing.running.run import Tapped, copied_data, replacement, without_traces
from ramet.copying.models import copy_layer
from ramet.errors import GraphError, StateError
from ramet.graph import Call, Graph
from ramet.graph.edits.nested import nested_graph
from ramet.graph.locate import check_place, find_place
from ramet.graph.paths import call_labels, call_paths
from ramet.graph.reach import written_calls
from ramet.graph.select import path_matches
from ramet.graph.tree import Tree, leaves, map_tree
from ramet.tracing.options import check_model
from ramet.tracing.origin import is_edited, traced_model
from ramet.tracing.settled import built_aside
from ramet.tracing.trace import trace

Each = Callable[[str, Any], Any]
"""Receives the place and the outputs of a call; returns other outputs, or `None`."""

_Tensor = tuple[str, int]
"""The path of a call, and which of its outputs."""


def run(
    model: Any, data: Any, *, at: Any = None, each: Each | None = None, training: bool = False
) -> Any:
    """Run a model, and return its outputs or the values of any tensors inside it.

    The values are bit for bit those of `model(data)`: Keras runs the model, and ramet
    intercepts its calls. The model is not changed: weights, seeds and layer states stay as
    they are. An edited Graph is built first, on the weights of its model; layers that edits
    add without weights are initialized.

    Args:
        model: A Keras model, or a Graph.
        data: The inputs, as for `model(data)`.
        at: The places whose values to return: `"conv"`, `"conv#2"` for the second call of a
            shared layer, `"split.1"` for one of several outputs, `"encoder/conv"` inside a
            nested model, `"encoder#2/conv"` inside the second call of one. For a list, tuple
            or dict of places, values are returned in the same structure. For a glob such as
            `"*"` or `"encoder/*"`, a dict of values by place is returned; without `/`, it is
            matched with the last name of a path.
        each: Called as `each(place, outputs)` after every call that the user wrote; calls
            inside a nested model come before that of the model. What it returns replaces the
            outputs, and keeps their masks; `None` leaves them as they are.
        training: Whether layers such as Dropout behave as in training.

    Returns:
        The model's outputs, or what `at` asks for, as tensors of the backend.

    Raises:
        ModelError: If the argument is not a model, or has no graph and `at` or `each` is passed.
        StateError: If the model has no weights yet.
        GraphError: If a place is not in the graph, is ambiguous, or is not computed.
        OptionError: If a place is not a name, or `each` returns something that does not fit.

    Examples:
        >>> images = np.ones((2, 8, 8, 3), "float32")
        >>> values = ramet.run(model, images, at=["relu", "pool"])
        >>> [tuple(value.shape) for value in values]
        [(2, 8, 8, 4), (2, 4)]
    """
    if each is not None:
        check_function(each, "each", 2, "a place and its outputs")
    check_flag(training, "training")
    live = _live_model(model)
    look = None
    if at is not None or each is not None:
        graph = trace(live)
        with internals.room_for(graph):
            look = _Look(graph, at, each)
    check_data(data, "data")
    with without_traces(live), explained_failures(live, data):
        copied = copied_data(data)
        if look is None:
            return live(copied, training=training)
        outputs = look.run(copied, training=training)
    return outputs if at is None else look.results()


def _live_model(model: Any) -> Any:
    """Return the model to call; a copy of it if calling would build layers."""
    if isinstance(model, Graph):
        model = built_aside(model) if is_edited(model) else traced_model(model)
    check_model(model)
    if not model.built and not model.weights and _waits(internals.all_layers(model)[1:]):
        message = (
            f"model '{model.name}' has not been built, so it has no weights to run with; build it "
            "or call it on data first"
        )
        raise StateError(message)
    # A call would build layers, and that cannot be undone.
    return copy_layer(model) if _waits(internals.all_layers(model)) else model


def _waits(layers: list[Any]) -> bool:
    return any(internals.may_create_weights(layer) for layer in layers)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The tensors that one place asks for."""

    place: str
    """The place, as the caller wrote it."""
    tensors: dict[str, _Tensor]
    """The tensors, by their own places."""
    glob: bool
    """Whether it is a glob, whose value is a dict."""
    derived: bool = False
    """Whether it is a call that only serves masks."""


def _find(graph: Graph, place: Any) -> _Asked:
    """Return the tensors that a place refers to."""
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
    """Return the tensors that match a glob, without those of inputs.

    Raises:
        GraphError: If nothing matches.
    """
    tensors: dict[str, _Tensor] = {}
    for path, call in call_paths(graph):
        if not call.args and not call.kwargs:
            continue
        several = len(call.outputs) > 1
        for index in range(len(call.outputs)):
            place = f"{path}.{index}" if several else path
            if path_matches(path, glob) or path_matches(place, glob):
                tensors[place] = path, index
    if not tensors:
        message = (
            f"no call of graph '{graph.name}' is matched by '{glob}'; without '/', a glob is "
            "matched with the last name of a path, and with '/', step by step"
        )
        raise GraphError(message)
    return tensors


class _Look(Tapped):
    """Runs a model, calls the hook, and keeps the requested values."""

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
        """Return the values in the structure of `at`."""
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
