"""Attributes of live objects, by the part they play in a copy."""

import functools
import sys
from collections.abc import Iterable
from typing import Any

import keras
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.utils import tracking

NODE_LISTS = ("_inbound_nodes", "_outbound_nodes")
"""Calls of an operation. They are made by replay, not copied."""

TRACKING_FIELDS = frozenset({"_layers", "_tracker", *NODE_LISTS})
"""Where a model keeps the layers that it tracks, or a list that knows of them."""

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
"""What `keras.Function` knows of its graph. Made anew from the replayed calls."""

NODE_KEYS = "_nodes"
"""The set of keys under which a `keras.Function` knows its nodes, made of ids."""

COMPILED_FIELDS = frozenset({"train_function", "test_function", "predict_function", "_jax_state"})
"""Compiled functions of a model, bound to its variables, and JAX's state of a
running `fit`. A copy starts without them and compiles its own."""

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
"""What `compile` sets. Left out where a model gets new layers and compiles anew."""

LOOP_FIELDS = frozenset({"stop_training", "stop_evaluating", "stop_predicting", "training"})
"""Flags that `fit`, `evaluate` and `predict` set for themselves; `training` is PyTorch's."""

ID_KEYED_FIELDS = frozenset(
    {
        "_trainable_variables_indices",
        "_var_to_optimizer_idx",
        "_exclude_from_weight_decay",
        "_exclude_from_weight_decay_cache",
    }
)
"""Dicts and sets of an optimizer whose keys are made of the ids of variables."""

LOSS_IDS = "_loss_ids"
"""Ids of the tensors in a layer's list of losses."""

STORES = "config"
"""What a `Tracker` puts into which list: tests and lists, by name."""

STORED_IDS = "stored_ids"
"""Ids of what a `Tracker` holds, by store."""

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
"""Ids of the code of what Keras wraps around methods of every layer.

Closures over the layer itself and its method, made anew for each layer.
"""


def settle_losses(fields: dict[str, Any]) -> None:
    """Lets the attributes of a copied layer know its losses by their own ids."""
    if fields.get(LOSS_IDS):
        replace_items(fields[LOSS_IDS], {id(loss) for loss in fields[LOSSES]})


TRACKED_COLLECTIONS: tuple[type, ...] = tuple(
    kind for name, kind in vars(tracking).items() if name.startswith("Tracked")
)
"""What Keras turns a layer's lists, dicts and sets into. They report to a tracker."""

TRACKED_LIST = tracking.TrackedList
TRACKED_DICT = tracking.TrackedDict
TRACKED_ORDERED_DICT = getattr(tracking, "TrackedOrderedDict", ())
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
def slots_of(kind: type) -> tuple[str, ...]:
    """Returns the names of the attributes that a class keeps in slots."""
    found: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))


def live_attributes(obj: Any) -> dict[str, Any]:
    """Returns the instance attributes of an object, those in slots too."""
    attributes = dict(getattr(obj, "__dict__", {}))
    for name in slots_of(type(obj)):
        if hasattr(obj, name):
            attributes[name] = getattr(obj, name)
    return attributes


def is_record(name: str) -> bool:
    """Tells whether an attribute is TensorFlow's own record of others."""
    return str(name).startswith("_self_")


def set_state(obj: Any, state: Any) -> None:
    """Gives an object the state that its `__reduce_ex__` told, as `copy` does."""
    if hasattr(type(obj), "__setstate__"):
        obj.__setstate__(state)
        return
    fields, slots = state if isinstance(state, tuple) else (state, None)
    if fields:
        vars(obj).update(fields)
    for name, value in (slots or {}).items():
        object.__setattr__(obj, name, value)


def _torch() -> Any:
    return sys.modules.get("torch")


def is_torch_module(kind: type) -> bool:
    """Tells whether a class is one of modules of PyTorch."""
    return _torch() is not None and issubclass(kind, _torch().nn.Module)


def is_torch_tensor_class(kind: type) -> bool:
    """Tells whether a class is one of tensors of PyTorch."""
    return _torch() is not None and issubclass(kind, _torch().Tensor)


def is_torch_tensor(value: Any) -> bool:
    """Tells whether a value is a tensor of PyTorch."""
    return is_torch_tensor_class(type(value))


def torch_parameters(layer: Any) -> Iterable[Any]:
    """Returns the parameters of a layer that is a module of PyTorch."""
    return layer.parameters() if is_torch_module(type(layer)) else ()


def is_torch_parameter(value: Any) -> bool:
    """Tells whether a value is a parameter of PyTorch."""
    return _torch() is not None and isinstance(value, _torch().nn.Parameter)


def is_parameter_class(kind: type) -> bool:
    """Tells whether all instances of a class are parameters of PyTorch, not just marked as such."""
    return _torch() is not None and _torch().nn.Parameter in kind.__mro__


def is_backend_state(value: Any) -> bool:
    """Tells whether a value is a variable, parameter or module of a backend."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and isinstance(value, (tensorflow.Variable, tensorflow.Module)):
        return True
    return is_torch_module(type(value)) or is_torch_parameter(value)


def is_bound_tensorflow(value: Any) -> bool:
    """Tells whether a value of TensorFlow's is bound to the variables of one model."""
    tensorflow = sys.modules["tensorflow"]
    if isinstance(value, (tensorflow.train.Checkpoint, tensorflow.train.CheckpointManager)):
        return True
    traced = isinstance(value, tensorflow.types.experimental.ConcreteFunction)
    return traced and bool(value.variables)


def is_tensorflow_structure(kind: type) -> bool:
    """Tells whether values of a class of TensorFlow's only hold others: modules, dependencies."""
    named = kind.__name__ == "TrackableReference"
    return named or issubclass(kind, sys.modules["tensorflow"].Module)


SENTINEL = "_self_attribute_sentinel"
"""Where TensorFlow's wrapped lists keep who is to be told of changes."""


def is_list_wrapper(kind: type) -> bool:
    """Tells whether a class is that of lists that TensorFlow wrapped."""
    return kind.__name__ == "ListWrapper" and _is_tensorflow(kind)


def _is_tensorflow(kind: type) -> bool:
    return kind.__module__.startswith("tensorflow.")


def empty_like(nodes: Any) -> Any:
    """Returns an empty list of the same class; TensorFlow wraps some lists."""
    if type(nodes) is TRACKED_LIST:
        made = list.__new__(TRACKED_LIST)  # Its constructor is written in Python.
        made.tracker = None
        return made
    return type(nodes)([]) if is_list_wrapper(type(nodes)) else type(nodes)()


def tensorflow_wrapper(value: Any) -> Any | None:
    """Returns the plain content of a dict or tuple that TensorFlow wrapped."""
    plain = {"_DictWrapper": dict, "_TupleWrapper": tuple}
    kind = plain.get(type(value).__name__) if _is_tensorflow(type(value)) else None
    return None if kind is None else kind(value)


def wrap_alike(wrapper: Any, content: Any) -> Any:
    """Wraps a dict or tuple as TensorFlow did, with what it knows of changes."""
    made = type(wrapper)(content)
    for name in ("_self_non_string_key", "_self_external_modification"):
        if hasattr(wrapper, name):
            setattr(made, name, getattr(wrapper, name))
    return made


def replace_items(table: Any, items: Any) -> None:
    """Replaces what a dict or set holds, also of one that TensorFlow wraps and watches."""
    plain = getattr(table, "__wrapped__", table)
    plain.clear()
    plain.update(items)
    if plain is not table:
        table._update_snapshot()


def is_symbolic(value: Any) -> bool:
    """Tells whether a tensor stands for a value in a trace and has none itself."""
    jax, tensorflow = sys.modules.get("jax"), sys.modules.get("tensorflow")
    if jax is not None and isinstance(value, jax.core.Tracer):
        return True
    if is_torch_tensor(value):
        return bool(value.is_meta)
    return (
        tensorflow is not None
        and isinstance(value, tensorflow.Tensor)
        and not hasattr(value, "numpy")
    )


def sparse_tensor(values: Any) -> Any:
    """Makes a sparse tensor of the backend in use from a dense array."""
    if keras.backend.backend() == "tensorflow":
        return sys.modules["tensorflow"].sparse.from_dense(values)
    from jax.experimental import sparse

    return sparse.BCOO.fromdense(values, n_batch=1)


def to_numpy(value: Any) -> Any:
    """Returns the values of a tensor of any backend; strings and sparse ones too."""
    if isinstance(value, keras.Variable):
        value = value.value
    todense = getattr(value, "todense", None)
    if todense is not None:
        value = todense()
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and isinstance(value, tensorflow.SparseTensor):
        value = tensorflow.sparse.to_dense(value)
    if tensorflow is not None and isinstance(value, tensorflow.RaggedTensor):
        value = value.to_tensor()
    if tensorflow is not None and tensorflow.is_tensor(value):
        return value.numpy()
    return keras.ops.convert_to_numpy(value)
