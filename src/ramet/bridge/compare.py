"""Two live models side by side: each function lists how they differ, in words."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import keras
import numpy as np

from ramet.bridge import internals
from ramet.bridge.samples import Sample
from ramet.bridge.trace import has_graph, trace
from ramet.bridge.values import copy_value, same_bits
from ramet.graph import Call, Graph, Ref
from ramet.graph.tree import map_tree

_PLAIN = (bool, int, float, str, bytes, type(None))


def structure(first: Any, second: Any) -> Iterator[str]:
    """Yields differences in classes, names, configs, attributes and wiring.

    The name of the models themselves may differ.
    """
    yield from _pair("the model", "class", type(first), type(second))
    if has_graph(first) != has_graph(second):
        yield "one of the models has a graph, the other has none"
    elif has_graph(first):
        yield from _graphs(trace(first), trace(second))
    layers = internals.all_layers(first), internals.all_layers(second)
    for old, new in zip_longest(*(group[1:] for group in layers)):
        if old is not None and new is not None:
            yield from _layers(old, new)
        else:
            alone: Any = new if old is None else old
            yield f"layer '{alone.name}' is in one of the models only"
    yield from _attributes("the model", first, second)


def _layers(old: Any, new: Any) -> Iterator[str]:
    where = f"layer '{old.name}'"
    yield from _pair(where, "name", old.name, new.name)
    yield from _pair(where, "class", type(old), type(new))
    yield from _pair(where, "path", old.path, new.path)
    if type(old) is type(new):
        yield from _attributes(where, old, new)
        if _config(old) != _config(new):
            yield f"{where} has another config"


def _attributes(where: str, old: Any, new: Any) -> Iterator[str]:
    """Compares the plain public attributes, also those set after construction."""
    ignored = {"name", *internals.LOOP_FIELDS}
    values = [
        {
            name: value
            for name, value in vars(item).items()
            if isinstance(value, _PLAIN) and name not in ignored and not name.startswith("_")
        }
        for item in (old, new)
    ]
    yield from _pair(where, "trainable", old.trainable, new.trainable)
    for name in sorted(values[0].keys() | values[1].keys()):
        yield from _pair(where, name, values[0].get(name), values[1].get(name))


def _config(layer: Any) -> Any:
    try:
        plain = keras.saving.serialize_keras_object(layer.get_config())
        return json.dumps(plain, sort_keys=True, default=lambda x: type(x).__name__)
    except Exception:  # noqa: BLE001 a layer without a config is compared by its attributes
        return None


def _graphs(old: Graph, new: Graph) -> Iterator[str]:
    yield from _pair("the model", "inputs", _refs(old.inputs), _refs(new.inputs))
    yield from _pair("the model", "outputs", _refs(old.outputs), _refs(new.outputs))
    for name in old.calls.keys() | new.calls.keys():
        if name not in old.calls or name not in new.calls:
            yield f"call '{name}' is in one of the models only"
        else:
            yield from _calls(old.calls[name], new.calls[name])


def _refs(tree: Any) -> Any:
    return map_tree(lambda ref: f"{ref.call}.{ref.index}", tree)


def _calls(old: Call, new: Call) -> Iterator[str]:
    where = f"call '{old.name}'"
    arguments = [map_tree(_argument, (call.args, call.kwargs)) for call in (old, new)]
    if arguments[0] != arguments[1]:
        yield f"{where} has other arguments"
    for a, b in zip_longest(old.outputs, new.outputs):
        facts = [
            spec and (spec.shape, spec.dtype, spec.sparse, spec.ragged, _argument(spec.mask))
            for spec in (a, b)
        ]
        if facts[0] != facts[1]:
            yield f"{where} has other outputs"


def _argument(leaf: Any) -> Any:
    """Turns a leaf of a call's arguments into something that can be compared."""
    if isinstance(leaf, (Ref, *_PLAIN, slice)):
        return leaf
    if isinstance(leaf, keras.Variable):
        return f"variable {leaf.path}"
    if keras.ops.is_tensor(leaf) or isinstance(leaf, np.ndarray):
        array = keras.ops.convert_to_numpy(leaf)
        return array.dtype.str, array.shape, array.tobytes()
    return type(leaf)


def sharing(first: Any, second: Any) -> Iterator[str]:
    """Yields differences in what is the same object within each model."""
    for what, occurrences in (("layers", _layer_uses), ("variables", _variable_uses)):
        patterns = [_pattern(occurrences(model)) for model in (first, second)]
        if patterns[0] != patterns[1]:
            counts = [len(set(pattern)) for pattern in patterns]
            yield f"{what} are shared differently: {counts[0]} and {counts[1]} distinct ones"


def _layer_uses(model: Any) -> list[Any]:
    """Lists the layers of a model once for every place in which they stand."""
    used = [part for layer in internals.all_layers(model) for part in internals.sublayers_of(layer)]
    if has_graph(model):
        used += _called(trace(model))
    return used


def _called(graph: Graph) -> list[Any]:
    called: list[Any] = []
    for call in graph.calls.values():
        if call.layer is not None:
            layer = graph.layers[call.layer]
            called.append(layer.origin)
            if layer.graph is not None:
                called += _called(layer.graph)
    return called


def _variable_uses(model: Any) -> list[Any]:
    return [v for layer in internals.all_layers(model) for v in internals.layer_state(layer)]


def _pattern(items: list[Any]) -> list[int]:
    """Returns, for each item, the position at which it first stands."""
    seen: dict[int, int] = {}
    return [seen.setdefault(id(item), len(seen)) for item in items]


def state(first: Any, second: Any) -> Iterator[str]:
    """Yields differences in variables: of layers, seeds, metrics and optimizer."""
    groups = (
        ("variable", _variables(first), _variables(second)),
        ("optimizer variable", _slots(first), _slots(second)),
    )
    for noun, olds, news in groups:
        if len(olds) != len(news):
            yield f"{len(olds)} and {len(news)} {noun}s"
        for old, new in zip(olds, news, strict=False):
            yield from _variable(noun, old, new)


def count_variables(model: Any) -> int:
    """Counts the variables that `state` compares."""
    return len(_variables(model)) + len(_slots(model))


def _variables(model: Any) -> list[Any]:
    return [*model.variables, *(v for m in model.metrics for v in m.variables)]


def _slots(model: Any) -> list[Any]:
    optimizer = getattr(model, "optimizer", None)
    return [] if optimizer is None else optimizer.variables


def _variable(noun: str, old: Any, new: Any) -> Iterator[str]:
    where = f"{noun} '{old.path}'"
    yield from _pair(where, "path", old.path, new.path)
    yield from _pair(where, "trainable", old.trainable, new.trainable)
    values = [keras.ops.convert_to_numpy(variable.value) for variable in (old, new)]
    difference = array_difference(*values)
    if difference:
        yield f"{where} {difference}"


def array_difference(old: np.ndarray, new: np.ndarray) -> str:
    """Says how two arrays differ, or nothing if they have the same bits."""
    if same_bits(old, new):
        return ""
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"is {old.dtype}{list(old.shape)} and {new.dtype}{list(new.shape)}"
    if old.dtype.kind == "O" and np.array_equal(old, new):
        return ""
    if old.dtype.kind not in "fiu":
        return f"differs in {int((old != new).sum())} of {old.size} values"
    if np.array_equal(old, new, equal_nan=old.dtype.kind == "f"):
        return ""
    size = np.abs(old.astype("float64") - new.astype("float64"))
    return f"differs in {int((old != new).sum())} of {old.size} values, by {np.nanmax(size):.3g}"


def outputs(first: Any, second: Any, sample: Sample, *, training: bool) -> Iterator[str]:
    """Yields differences in what two models compute, and in the state after it.

    Neither model is changed.
    """
    results = [_run(model, sample, training=training) for model in (first, second)]
    for what, olds, news in zip(("output", "updated state"), *results, strict=True):
        if len(olds) != len(news):
            yield f"{len(olds)} and {len(news)} {what}s"
        for index, (old, new) in enumerate(zip(olds, news, strict=False)):
            difference = array_difference(old, new)
            if difference:
                yield f"{what} {index} {difference}"


def _run(model: Any, sample: Sample, *, training: bool) -> list[list[np.ndarray]]:
    """Calls a model without side effects on its state or on random numbers."""
    variables = model.variables
    held = [(variable, variable.value) for variable in variables]
    # A copy of the data for each model: some layers write into what they are given.
    args = keras.tree.map_structure(copy_value, sample.args)
    kwargs = keras.tree.map_structure(copy_value, sample.kwargs)
    with internals.untouched_losses(model), internals.fixed_randomness(0):
        with keras.StatelessScope(state_mapping=held) as scope:
            computed = model(*args, training=training, **kwargs)
        updated = [scope.get_current_value(variable) for variable in variables]
    return [
        [np.asarray(internals.to_numpy(value)) for value in keras.tree.flatten(values)]
        for values in (computed, updated)
    ]


def _pair(where: str, what: str, old: Any, new: Any) -> Iterator[str]:
    if old != new:
        shown = [item.__name__ if isinstance(item, type) else repr(item) for item in (old, new)]
        yield f"{where} has {what} {shown[0]} and {shown[1]}"
