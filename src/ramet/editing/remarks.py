"""Side effects of building an edited graph that its edits do not name."""

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import keras

from ramet import keras_internals as internals
from ramet.building.trainable import traced_layers, trains_by_edit
from ramet.copying.models import copy_layer
from ramet.graph import Graph, Ref
from ramet.graph.edits.freeze import without_flags
from ramet.graph.paths import layer_paths
from ramet.graph.reach import written_calls
from ramet.graph.tree import same_shape
from ramet.tracing.origin import is_edited, live_of

_LOSES_FLAGS: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Results of `_is_loaded_unfrozen` by layer, since every edit asks again."""

_NAMED = 3
"""How many layers a remark names."""


def remarks(graph: Graph) -> Iterator[str]:
    """Yield what becomes of classes, of the optimizer and of what trains, in words."""
    live = live_of(graph)
    if live.model is None:
        if live.left_compiled:
            yield f"'{graph.name}' is not compiled, though what it was made from is"
    else:
        yield from _of_training(graph, live.model)
    for model, inner in edited_models(graph):
        if not model.trainable and trains_by_edit(inner, traced_layers(graph)):
            yield (
                f"'{inner.name}' was frozen as a whole: what edits add or unfreeze trains "
                "now, and its other layers stay frozen"
            )
        remark = live_of(inner).class_remark
        if remark is not None:
            yield remark
        elif isinstance(model, keras.Sequential) and not _is_chain(inner):
            yield f"'{model.name}' becomes a Functional model: it is not a chain of layers any more"
    yield from _of_saving(graph)


def edited_models(graph: Graph) -> Iterator[tuple[Any, Graph]]:
    """Yield the models whose graphs were edited, with these graphs: nested ones too."""
    for visit in graph.walk():
        model = live_of(visit.graph).model
        if model is not None and is_edited(visit.graph):
            yield model, visit.graph


def _of_training(graph: Graph, model: Any) -> Iterator[str]:
    before = live_of(graph).graph
    if model.compiled:
        if before is None or not same_shape(before.outputs, graph.outputs):
            yield f"'{graph.name}' is not compiled: it has other outputs than before"
        elif internals.compile_arguments(model) is None:
            yield f"'{graph.name}' is not compiled: its class compiles it in its own way"
        else:
            yield f"'{graph.name}' stays compiled; its optimizer keeps its slots where weights stay"


def _of_saving(graph: Graph) -> Iterator[str]:
    """Yield which layers that an edit froze train again once Keras saved and loaded them."""
    if without_flags(graph) is graph:
        return
    lost: dict[str, list[str]] = {}
    for path, record in layer_paths(graph):
        if record.trainable is False and record.graph is None and _loses_flags(record.origin):
            lost.setdefault(record.kind, []).append(path)
    for kind, paths in lost.items():
        shown = ", ".join(f"'{path}'" for path in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        yield (
            f"{shown}{more} will train again after saving and loading: Keras does not save "
            f"the flags of layers inside {kind}; freeze again once it is loaded"
        )


def _loses_flags(layer: Any) -> bool:
    """Whether layers inside a frozen one train once it is re-created from its config.

    That is so for layers that it creates in `build`, or in its constructor without configs.
    """
    inside = [item for item in internals.all_layers(layer) if item is not layer and item.variables]
    if not inside:
        return False
    if layer not in _LOSES_FLAGS:
        _LOSES_FLAGS[layer] = _is_loaded_unfrozen(layer, len(inside))
    return _LOSES_FLAGS[layer]


def _is_loaded_unfrozen(layer: Any, inside: int) -> bool:
    frozen = copy_layer(layer)
    frozen.trainable = False
    try:
        with internals.untouched_names():
            again = type(layer).from_config(internals.live_config(frozen))
    except Exception:  # noqa: BLE001 what cannot be re-created cannot be loaded, and loading says so
        return False
    still = [item for item in internals.all_layers(again) if not item.trainable]
    return len(still) - 1 < inside


def _is_chain(graph: Graph) -> bool:
    """Whether each layer of a graph is called once, on what the one before it returns."""
    if not isinstance(graph.inputs, Ref) or not isinstance(graph.outputs, Ref):
        return False
    calls = written_calls(graph)
    below = {
        call.args[0]: call for call in calls if len(call.args) == 1 and call.args[0] in call.refs
    }
    ref, count = graph.inputs, 1
    while ref in below:
        ref, count = Ref(below[ref].name), count + 1
    layers = {call.layer for call in calls}
    is_plain = all(isinstance(graph.layers[key or ""].origin, keras.Layer) for key in layers)
    return ref == graph.outputs and count == len(calls) == len(layers) and is_plain
