"""Two live models side by side: each function lists how they differ, in words."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import keras
import numpy as np

from ramet.bridge import internals
from ramet.bridge.copies import Builder
from ramet.bridge.samples import Sample
from ramet.bridge.trace import has_graph, trace
from ramet.bridge.values import copy_value, same_bits
from ramet.graph import Call, Graph, Ref
from ramet.graph.tree import map_tree

_PLAIN = (bool, int, float, str, bytes, type(None))
_ABSENT: Any = type("absent", (), {})


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
    yield from _training(first, second)


def _training(first: Any, second: Any) -> Iterator[str]:
    """Compares how two models were compiled."""
    yield from _pair("the model", "compiled", first.compiled, second.compiled)
    if not (first.compiled and second.compiled):
        return
    for name in ("jit_compile", "run_eagerly"):
        yield from _pair("the model", name, getattr(first, name), getattr(second, name))
    pairs = (internals.compile_arguments(model) or {} for model in (first, second))
    old, new = pairs
    for name in sorted(old.keys() | new.keys()):
        first, second = old.get(name), new.get(name)
        # By attributes too: Keras's Huber loss does not tell its delta in its config.
        facts = [(_config_of(one), _facts(one)) for one in (first, second)]
        if not _alike(*facts):
            yield f"the model was compiled with another {name}"


def _facts(value: Any) -> Any:
    """Returns the plain attributes of what a model was compiled with."""
    if isinstance(value, dict):
        return {key: _facts(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_facts(item) for item in value]
    return {
        name: item
        for name, item in getattr(value, "__dict__", {}).items()
        # What TensorFlow tracks, and what is keyed by ids, differs between equals.
        if name not in internals.ID_KEYED_FIELDS and not name.startswith("_self_")
    }


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
    """Compares the public attributes, also those set after construction."""
    for name in ("trainable", "supports_masking"):
        yield from _pair(where, name, getattr(old, name), getattr(new, name))
    values = [_public(item) for item in (old, new)]
    for name in sorted(values[0].keys() | values[1].keys()):
        first, second = (known.get(name, _ABSENT) for known in values)
        if not _alike(first, second):
            yield f"{where} has {name} {_shown(first)} and {_shown(second)}"


def _public(layer: Any) -> dict[str, Any]:
    ignored = {"name", *internals.LOOP_FIELDS, *internals.COMPILED_FIELDS}
    return {
        name: value
        for name, value in vars(layer).items()
        if not name.startswith("_") and name not in ignored
    }


def _alike(old: Any, new: Any) -> bool:
    """Tells whether two attributes are alike: plain ones equal, others of one class."""
    if isinstance(old, _PLAIN) and isinstance(new, _PLAIN):
        return old == new or (old != old and new != new)  # noqa: PLR0124 NaN is like NaN
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(_alike(old[key], new[key]) for key in old)
    if isinstance(old, (list, tuple)):
        return len(old) == len(new) and all(map(_alike, old, new))
    symbolic = internals.is_symbolic(old) or internals.is_symbolic(new)
    if symbolic or not (isinstance(old, np.ndarray) or keras.ops.is_tensor(old)):
        return True
    return same_bits(*(np.asarray(internals.to_numpy(value)) for value in (old, new)))


def _shown(value: Any) -> str:
    if isinstance(value, _PLAIN):
        return repr(value)
    return value.__name__ if isinstance(value, type) else f"<{type(value).__name__}>"


def _config(layer: Any) -> str | None:
    # What a model is made of is compared layer by layer, and its graph by itself.
    own = internals.own_config(layer) if has_graph(layer) else None
    try:
        return _config_of(own or layer.get_config())
    except Exception:  # noqa: BLE001 a layer without a config is compared by its attributes
        return None


def _config_of(value: Any) -> str | None:
    try:
        plain = keras.saving.serialize_keras_object(value)
        return json.dumps(plain, sort_keys=True, default=lambda x: type(x).__name__)
    except Exception:  # noqa: BLE001 what cannot be serialized is compared elsewhere
        return None


def _graphs(old: Graph, new: Graph) -> Iterator[str]:
    """Compares two graphs, and those of the models inside, each pair once."""
    yield from _graph("the model", old, new)
    seen = {(id(old), id(new))}
    waiting = [(old, new)]
    while waiting:
        old, new = waiting.pop()
        for key, layer in old.layers.items():
            inner, other = layer.graph, new.layers[key].graph if key in new.layers else None
            if inner is None or other is None or (id(inner), id(other)) in seen:
                continue
            seen.add((id(inner), id(other)))
            waiting.append((inner, other))
            yield from _graph(f"model '{layer.name}'", inner, other)


def _graph(where: str, old: Graph, new: Graph) -> Iterator[str]:
    yield from _pair(where, "inputs", _refs(old.inputs), _refs(new.inputs))
    yield from _pair(where, "outputs", _refs(old.outputs), _refs(new.outputs))
    for name in dict.fromkeys([*old.calls, *new.calls]):
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
    values = [np.asarray(internals.to_numpy(variable)) for variable in (old, new)]
    difference = array_difference(*values)
    if difference:
        yield f"{where} {difference}"
    for name in ("regularizer", "constraint"):
        if _config_of(getattr(old, name)) != _config_of(getattr(new, name)):
            yield f"{where} has another {name}"


def array_difference(old: np.ndarray, new: np.ndarray, *, nan_is_nan: bool = False) -> str:
    """Says how two arrays differ, or nothing if they have the same bits.

    With `nan_is_nan`, which bits a NaN has does not matter.
    """
    if same_bits(old, new):
        return ""
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"is {old.dtype}{list(old.shape)} and {new.dtype}{list(new.shape)}"
    if old.dtype.kind == "O":
        return "" if np.array_equal(old, new) else "differs"
    unequal = _bits(old) != _bits(new)
    if nan_is_nan and old.dtype.kind in "fV":
        unequal &= ~(np.isnan(old) & np.isnan(new))
    if not unequal.any():
        return ""
    size = np.abs(old.astype("float64") - new.astype("float64")) if old.dtype.kind != "U" else 0
    by = f", by {np.nanmax(size):.3g}" if np.any(np.isfinite(size)) else ""
    return f"differs in {int(unequal.sum())} of {old.size} values{by}"


def _bits(array: np.ndarray) -> np.ndarray:
    """Returns what can be compared bit by bit, one number for each value."""
    sizes = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
    kind = sizes.get(array.dtype.itemsize) if array.dtype.kind != "U" else None
    return array if kind is None else np.ascontiguousarray(array).view(kind)


Results = list[list[np.ndarray]]
"""What a model gives for some inputs: its outputs, and its state after the call."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much numbers may differ; with neither number, not by a bit."""

    rtol: float
    """Relative to the first."""
    atol: float
    """At all."""

    def difference(self, old: np.ndarray, new: np.ndarray) -> str:
        """Says how two arrays differ by more than is allowed, or nothing."""
        told = array_difference(old, new, nan_is_nan=True)
        exact = not (self.rtol or self.atol)
        if not told or exact or old.shape != new.shape or old.dtype.kind not in "fiub":
            return told
        a, b = old.astype("float64"), new.astype("float64")
        return "" if np.allclose(b, a, self.rtol, self.atol, equal_nan=True) else told


def same_values(old: Any, new: Any) -> bool:
    """Tells whether two variables have the same bits."""
    return same_bits(*(np.asarray(internals.to_numpy(variable)) for variable in (old, new)))


def outputs(
    first: Results, second: Results, differs: Callable[[np.ndarray, np.ndarray], str]
) -> Iterator[str]:
    """Yields differences in what two models computed, and in the state after it."""
    for what, olds, news in zip(("output", "updated state"), first, second, strict=True):
        if len(olds) != len(news):
            yield f"{len(olds)} and {len(news)} {what}s"
        for index, (old, new) in enumerate(zip(olds, news, strict=False)):
            difference = differs(old, new)
            if difference:
                yield f"{what} {index} {difference}"


def run(model: Any, sample: Sample, *, training: bool) -> Results:
    """Calls a model without side effects on its state or on random numbers.

    A model with layers that are still to be built is copied first: they would be
    built by the call, and that cannot be undone.
    """
    if any(internals.may_create_weights(layer) for layer in internals.all_layers(model)):
        model = Builder("copy").copy(model)
    variables = model.variables
    held = [(variable, variable.value) for variable in variables]
    # A copy of the data for each model: some layers write into what they are given.
    args = keras.tree.map_structure(copy_value, sample.args)
    kwargs = keras.tree.map_structure(copy_value, sample.kwargs)
    with internals.untouched_layers(model), internals.fixed_randomness(0):
        with keras.StatelessScope(state_mapping=held) as scope:
            computed = model(*args, training=training, **kwargs)
        updated = [scope.get_current_value(variable) for variable in variables]
    return [
        [np.asarray(internals.to_numpy(value)) for value in keras.tree.flatten(values)]
        for values in (computed, updated)
    ]


def _pair(where: str, what: str, old: Any, new: Any) -> Iterator[str]:
    if not _alike(old, new) or (isinstance(old, type) and old is not new):
        yield f"{where} has {what} {_shown(old)} and {_shown(new)}"
