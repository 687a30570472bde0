"""Attributes of Keras objects, by how a copy treats them."""

import functools
from typing import Any

import keras
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.utils import tracking

from ramet.backends.tensorflow import is_list_wrapper, replace_items

NODE_LISTS = ("_inbound_nodes", "_outbound_nodes")
"""Nodes of an operation: calls of it, and calls that use its outputs."""

TRACKING_FIELDS = frozenset({"_layers", "_tracker", *NODE_LISTS})
"""Attributes that hold the layers that a model tracks, or the tracker itself."""

GRAPH_FIELDS = frozenset(
    {
        "_inputs_struct",
        "_outputs_struct",
        "_inputs",
        "_outputs",
        "_nodes",
        "_nodes_by_depth",
        "_operations",
        "_operations_by_depth",
    }
)
"""The graph of a `keras.Function`. Mapped again where a copy gets another graph."""

NODE_KEYS = "_nodes"
"""The set of the node keys of a `keras.Function`. A key contains an id."""

COMPILED_FIELDS = frozenset({"train_function", "test_function", "predict_function", "_jax_state"})
"""Compiled functions of a model, bound to its variables, and JAX's state during `fit`.

A copy starts without them and compiles its own.
"""

COMPILE_FIELDS = frozenset(
    {
        "optimizer",
        "loss",
        "compiled",
        "_compile_loss",
        "_compile_metrics",
        "_loss_tracker",
        "_compile_config",
        "_compiled_trainable_state",
    }
)
"""Attributes that `compile` sets. Left out where a model with new layers is compiled again."""

LOOP_FIELDS = frozenset({"stop_training", "stop_evaluating", "stop_predicting"})
"""Flags of a model that `fit`, `evaluate` and `predict` set for themselves."""

LOSS_IDS = "_loss_ids"
"""Ids of the tensors in a layer's list of losses."""

STORES = "config"
"""Stores of a `Tracker`, by name: a test for what belongs there, and the list of it."""

STORED_IDS = "stored_ids"
"""Ids of the objects in a `Tracker`, by store."""

VARIABLE_VALUE = "_value"
"""The backend's value inside a Keras variable."""


LOSSES = "_losses"
"""Losses that a layer added during its last call."""


_BARE = keras.Layer(name="bare")  # with a name, so that Keras counts none

WRAPPERS = frozenset(
    id(getattr(_BARE, name).__code__)
    for name in ("build", "quantize")
    if getattr(_BARE, name).__code__.co_freevars == ("obj", f"original_{name}_method")
)
"""Ids of the code objects of the wrappers that Keras puts around methods of every layer.

Each layer has its own: closures over the layer and its method.
"""


LAYER_RECORDS = frozenset(
    name for name in vars(_BARE) if name.startswith("_") or name in ("name", "build", "quantize")
)
"""Attributes of every layer: records of Keras and the backend, wrapped methods."""

MODEL_RECORDS = frozenset(vars(keras.Model(name="bare"))) | GRAPH_FIELDS | COMPILE_FIELDS
"""The same for every model, with its graph and the attributes that `compile` sets."""


LOADING_FIELDS = frozenset({"is_awq_calibrated", "is_gptq_calibrated"})
"""Flags that loading sets on layers. Keras takes a missing one for False."""


def settle_losses(fields: dict[str, Any]) -> None:
    """Set the loss ids of a copied layer to those of the copied losses."""
    if fields.get(LOSS_IDS):
        replace_items(fields[LOSS_IDS], {id(loss) for loss in fields[LOSSES]})


TRACKED_COLLECTIONS: tuple[type, ...] = tuple(
    cls for name, cls in vars(tracking).items() if name.startswith("Tracked")
)
"""Classes that Keras turns a layer's lists, dicts and sets into. They report to a tracker."""

TRACKED_LIST = tracking.TrackedList
TRACKED_DICT = tracking.TrackedDict
TRACKED_SET = tracking.TrackedSet

STATEFUL = (
    keras.Variable,
    keras.Operation,
    keras.KerasTensor,
    keras.random.SeedGenerator,
    keras.Metric,
    BaseOptimizer,
)
"""Classes whose instances belong to one model and must not be shared with a copy."""


@functools.cache
def slots_of(cls: type) -> tuple[str, ...]:
    """Return the names of the attributes that a class keeps in slots."""
    names: list[str] = []
    for base in cls.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def live_attributes(obj: Any) -> dict[str, Any]:
    """Return the instance attributes of an object, including those in slots."""
    attributes = dict(getattr(obj, "__dict__", {}))
    for name in slots_of(type(obj)):
        if hasattr(obj, name):
            attributes[name] = getattr(obj, name)
    return attributes


def set_state(obj: Any, state: Any) -> None:
    """Set the state of an object, as returned by `__reduce_ex__`, the way `copy` does."""
    if hasattr(type(obj), "__setstate__"):
        obj.__setstate__(state)
        return
    fields, slots = state if isinstance(state, tuple) else (state, None)
    if fields:
        vars(obj).update(fields)
    for name, value in (slots or {}).items():
        object.__setattr__(obj, name, value)


def empty_like(nodes: Any) -> Any:
    """Return an empty list of the same class; TensorFlow wraps some lists."""
    if type(nodes) is TRACKED_LIST:
        empty = list.__new__(TRACKED_LIST)  # Its constructor, written in Python, is slow.
        empty.tracker = None
        return empty
    return type(nodes)([]) if is_list_wrapper(type(nodes)) else type(nodes)()
