"""Every private Keras name that ramet leans on, in one place.

Checked on Keras 3.12.0 to 3.15.1. Each entry says what it is for. Nothing
outside this module imports from `keras.src` or touches an attribute of a Keras
object whose name starts with an underscore.
"""

import contextlib
import functools
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras.src.backend.common import global_state
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask
from keras.src.initializers.random_initializers import RandomInitializer
from keras.src.models.functional import Functional
from keras.src.ops.function import make_node_key
from keras.src.ops.node import KerasHistory, Node
from keras.src.ops.symbolic_arguments import SymbolicArguments
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.saving.keras_saveable import KerasSaveable
from keras.src.saving.serialization_lib import SerializableDict
from keras.src.trainers.trainer import Trainer
from keras.src.utils import tracking
from keras.src.utils.tracking import Tracker

__all__ = [
    "BaseOptimizer",
    "Functional",
    "KerasSaveable",
    "Node",
    "RandomInitializer",
    "SerializableDict",
    "Tracker",
    "Trainer",
    "get_keras_mask",
    "set_keras_mask",
]

# --- Attributes of live objects, by the role they play in a copy ---

NODE_LISTS = ("_inbound_nodes", "_outbound_nodes")
"""Calls of an operation. They are made by replay, not copied."""

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

COMPILED_FIELDS = frozenset(
    {"train_function", "test_function", "predict_function", "_jax_state"}
)
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

STORED_IDS = "stored_ids"
"""Ids of what a `Tracker` holds, by store."""

VARIABLE_VALUE = "_value"
"""The backend's value inside a Keras variable."""


LOSSES = "_losses"
"""Losses that a layer added during its last call."""

TRACKED_COLLECTIONS: tuple[type, ...] = tuple(
    kind for name, kind in vars(tracking).items() if name.startswith("Tracked")
)
"""What Keras turns a layer's lists, dicts and sets into. They report to a tracker."""

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
        found += (slots,) if isinstance(slots, str) else slots
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))


def live_attributes(obj: Any) -> dict[str, Any]:
    """Returns the instance attributes of an object, those in slots too."""
    attributes = dict(getattr(obj, "__dict__", {}))
    for name in slots_of(type(obj)):
        if hasattr(obj, name):
            attributes[name] = getattr(obj, name)
    return attributes


def set_attribute(obj: Any, name: str, value: Any) -> None:
    """Sets an attribute past `__setattr__`, which would track or wrap the value."""
    if name in slots_of(type(obj)):
        object.__setattr__(obj, name, value)
    else:
        vars(obj)[name] = value


def set_state(obj: Any, state: Any) -> None:
    """Gives an object the state that its `__reduce_ex__` told, as `copy` does."""
    if hasattr(type(obj), "__setstate__"):
        obj.__setstate__(state)
        return
    fields, slots = state if isinstance(state, tuple) else (state, None)
    vars(obj).update(fields or {})
    for name, value in (slots or {}).items():
        object.__setattr__(obj, name, value)


# --- Objects of the backends ---


def _torch() -> Any:
    return sys.modules.get("torch")


def is_torch_module(value: Any) -> bool:
    """Tells whether a value is a module of PyTorch."""
    return _torch() is not None and isinstance(value, _torch().nn.Module)


def is_torch_tensor(value: Any) -> bool:
    """Tells whether a value is a tensor of PyTorch."""
    return _torch() is not None and isinstance(value, _torch().Tensor)


def is_torch_parameter(value: Any) -> bool:
    """Tells whether a value is a parameter of PyTorch."""
    return _torch() is not None and isinstance(value, _torch().nn.Parameter)


def is_backend_state(value: Any) -> bool:
    """Tells whether a value is a variable, parameter or module of a backend."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and isinstance(
        value, (tensorflow.Variable, tensorflow.Module)
    ):
        return True
    return is_torch_module(value) or is_torch_parameter(value)


def empty_like(nodes: Any) -> Any:
    """Returns an empty list of the same class; TensorFlow wraps some lists."""
    wrapped = type(nodes).__name__ == "ListWrapper"
    return type(nodes)([]) if wrapped else type(nodes)()


def tensorflow_wrapper(value: Any) -> Any | None:
    """Returns the plain content of a list, dict or tuple that TensorFlow wrapped."""
    plain = {"ListWrapper": list, "_DictWrapper": dict, "_TupleWrapper": tuple}
    kind = plain.get(type(value).__name__)
    return None if kind is None else kind(value)


# --- Symbolic tensors and calls ---


def producer(tensor: Any) -> tuple[Any, int] | None:
    """Returns the node that made a symbolic tensor and which output it is."""
    history = getattr(tensor, "_keras_history", None)
    if history is None or history.operation is None:
        return None
    node = history.operation._inbound_nodes[history.node_index]
    return node, history.tensor_index


def node_index(node: Any) -> int:
    """Returns the position of a node among the calls of its operation."""
    return node.operation._inbound_nodes.index(node)


def new_tensor(**spec: Any) -> Any:
    """Makes a symbolic tensor without a history and without touching name counters."""
    return keras.KerasTensor(**spec)


def ragged_spec(tensor: Any) -> dict[str, Any]:
    """Returns what a ragged symbolic tensor has beyond shape and dtype."""
    if not getattr(tensor, "_ragged", False):
        return {}
    return {
        "ragged": True,
        "ragged_rank": getattr(tensor, "_ragged_rank", None),
        "row_splits_dtype": getattr(tensor, "_row_splits_dtype", None),
    }


def new_node(operation: Any, args: Any, kwargs: Any, outputs: list[Any]) -> Any:
    """Records a call without running it; wires it to operations and tensors."""
    return Node(operation, call_args=args, call_kwargs=kwargs, outputs=outputs)


def order_nodes(operation: Any, rank: dict[int, int]) -> None:
    """Sorts the calls of an operation by the given rank of each node's id."""
    nodes = operation._inbound_nodes
    ordered = sorted(nodes, key=lambda node: rank.get(id(node), len(rank)))
    if all(old is new for old, new in zip(nodes, ordered, strict=True)):
        return
    getattr(nodes, "_storage", nodes)[:] = ordered  # where TensorFlow wraps a list
    for index, node in enumerate(ordered):
        for position, tensor in enumerate(node.outputs):
            tensor._keras_history = KerasHistory(operation, index, position)


def calls_of(operation: Any) -> list[Any]:
    """Returns the nodes of an operation, in the order in which it was called."""
    return operation._inbound_nodes


# --- Models ---


def functional_of(model: Any) -> Any | None:
    """Returns the object that holds a model's graph, if it has one."""
    if isinstance(model, keras.Sequential):
        return model._functional
    if isinstance(model, keras.Function):
        return model
    return None


def is_input(tensor: Any) -> bool:
    """Tells whether a symbolic tensor was made by `keras.Input`."""
    made = producer(tensor)
    return made is not None and isinstance(made[0].operation, keras.layers.InputLayer)


def structures_of(function: Any) -> tuple[Any, Any]:
    """Returns the inputs and outputs of a `keras.Function`, as the author gave them."""
    return function._inputs_struct, function._outputs_struct


def flat_inputs(function: Any) -> list[Any]:
    """Returns the symbolic inputs of a `keras.Function`, in Keras's flat order."""
    return function._inputs


def set_structures(function: Any, inputs: Any, outputs: Any) -> None:
    """Gives a `keras.Function` its symbolic inputs and outputs."""
    fields = vars(function)
    fields["_inputs_struct"], fields["_outputs_struct"] = inputs, outputs
    fields["_inputs"] = keras.tree.flatten(inputs)
    fields["_outputs"] = keras.tree.flatten(outputs)


def map_graph(function: Any) -> None:
    """Maps the graph between a `keras.Function`'s inputs and outputs.

    Does what Keras's `map_graph` does, but without recursion and without
    counting every name over all names. Costs O(calls).
    """
    fields = vars(function)
    nodes, first_seen = _walk(fields["_inputs"], fields["_outputs"])
    node_depth, operation_depth = _depths(nodes)
    keys = {make_node_key(node.operation, node_index(node)) for node in nodes}
    for tensor in fields["_inputs"]:
        made = producer(tensor)
        if made is None or made[0].operation in operation_depth:
            continue
        node = made[0]
        if node.is_input:
            operation_depth[node.operation] = node_depth[node] = 0
            first_seen[node.operation] = -1
            keys.add(make_node_key(node.operation, node_index(node)))
    fields["_nodes"] = keys
    fields["_nodes_by_depth"] = _by_depth(node_depth)
    by_depth = _by_depth(operation_depth)
    fields["_operations_by_depth"] = by_depth
    fields["_operations"] = [
        operation
        for depth in sorted(by_depth, reverse=True)
        for operation in _sorted_in_place(by_depth[depth], first_seen)
    ]


def _walk(inputs: list[Any], outputs: list[Any]) -> tuple[list[Any], dict[Any, int]]:
    """Lists nodes depth first from the outputs, and when each operation was met."""
    boundary = {id(tensor) for tensor in inputs}
    done: dict[Any, None] = {}
    skipped: set[Any] = set()
    first_seen: dict[Any, int] = {}
    for output in outputs:
        stack: list[tuple[Any, Iterator[Any]]] = []
        pending: Iterator[Any] = iter((output,))
        while True:
            for tensor in pending:
                made = producer(tensor)
                if made is None or made[0] in done or made[0] in skipped:
                    continue
                node = made[0]
                if not node.is_input and id(tensor) in boundary:
                    skipped.add(node)
                    continue
                first_seen.setdefault(node.operation, len(first_seen))
                stack.append((node, pending))
                pending = iter(() if node.is_input else node.input_tensors)
                break
            else:
                if not stack:
                    break
                node, pending = stack.pop()
                done[node] = None
    return list(done), first_seen


def _depths(nodes: list[Any]) -> tuple[dict[Any, int], dict[Any, int]]:
    """Returns how far nodes and operations are from the outputs."""
    node_depth: dict[Any, int] = {}
    operation_depth: dict[Any, int] = {}
    inside = set(nodes)
    for node in reversed(nodes):
        depth = max(node_depth.setdefault(node, 0), operation_depth.get(node.operation, 0))
        operation_depth[node.operation] = node_depth[node] = depth
        for parent in node.parent_nodes:
            if parent in inside:
                node_depth[parent] = max(depth + 1, node_depth.get(parent, 0))
    return node_depth, operation_depth


def _by_depth(depths: dict[Any, int]) -> dict[int, list[Any]]:
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for item, depth in depths.items():
        found[depth].append(item)
    return found


def _sorted_in_place(operations: list[Any], rank: dict[Any, int]) -> list[Any]:
    operations.sort(key=rank.__getitem__)
    return operations


def set_functional(model: Any, inputs: Any, outputs: Any) -> None:
    """Gives a Sequential model the graph between two symbolic tensors."""
    model._functional = Functional(inputs=inputs, outputs=outputs)
    model.built = True


def adopt_layers(model: Any) -> Any:
    """Makes a model track the layers of its graph, and only those of it.

    Returns:
        The model; a Functional one in place of a Sequential one whose graph is
        not a chain of layers any more.
    """
    if isinstance(model, keras.Sequential):
        function = model._functional
        adopt_layers(function)
        if not _is_chain(function):
            vars(function)["name"] = model.name
            return function
        model._layers = list(function._operations)
        return model
    for layer in model.layers:
        model._tracker.track(layer)
    return model


def _is_chain(function: Any) -> bool:
    operations = function._operations
    return len(function._inputs) == len(function._outputs) == 1 and all(
        isinstance(operation, keras.Layer)
        and len(node.input_tensors) <= 1
        and not node.arguments.kwargs.keys() - {"mask", "training"}
        for operation in operations
        for node in operation._inbound_nodes
        if make_node_key(operation, node_index(node)) in function._nodes
    )


def reset_compile(model: Any) -> None:
    """Makes a model look as if it had not been compiled."""
    fields = vars(model)
    fields["compiled"] = False
    for name in ("loss", "_compile_loss", "_compile_metrics", "_loss_tracker"):
        fields[name] = None


def compile_arguments(model: Any) -> dict[str, Any] | None:
    """Returns what `compile` was called with; `None` if it was not, or is custom."""
    custom = type(model).compile is not Trainer.compile
    if not model.compiled or custom or not hasattr(model, "_compile_config"):
        return None
    return model._compile_config.config


def sublayers_of(layer: Any) -> list[Any]:
    """Returns the layers that a layer tracks directly."""
    return list(layer._layers)


def all_layers(layer: Any) -> list[Any]:
    """Returns a layer and every layer below it, each once."""
    return layer._flatten_layers()


def own_variables(layer: Any) -> list[Any]:
    """Returns the variables that a layer tracks itself, not those of sublayers."""
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def layer_state(layer: Any) -> list[Any]:
    """Returns the variables that a layer tracks itself, its seeds included."""
    return own_variables(layer) + [seed.state for seed in own_seed_generators(layer)]


def own_seed_generators(layer: Any) -> list[Any]:
    """Returns the seed generators that a layer tracks itself."""
    return list(layer._seed_generators)


def own_metrics(layer: Any) -> list[Any]:
    """Returns the metrics that a layer tracks itself."""
    return list(layer._metrics)


def first_state(generator: Any) -> np.ndarray:
    """Returns the state a new seed generator would have: a drawn one if none was given."""
    seed = generator._initial_seed
    if seed is None:
        seed = random.randint(1, int(1e9))  # noqa: S311 what Keras draws from, not a secret
    return np.array([seed, 0]).astype(generator.state.dtype)


def may_create_weights(layer: Any) -> bool:
    """Tells whether a layer is not built and has a `build` of its own."""
    return not layer.built and not getattr(layer.build, "_is_default", False)


def is_container(model: Any) -> bool:
    """Tells whether a model is made of its layers alone, so that they can be remade."""
    return isinstance(model, (keras.Function, keras.Sequential))


def reset_initializer(initializer: Any) -> None:
    """Draws a new seed for an initializer whose author gave it none."""
    if initializer._init_seed is None:
        initializer.seed = random.randint(1, int(1e9))  # noqa: S311 what Keras draws from, not a secret


def variable_key(optimizer: Any, variable: Any) -> Any:
    """Returns the key under which an optimizer keeps a variable's slot."""
    return optimizer._var_key(variable)


def optimizer_targets(optimizer: Any) -> list[Any]:
    """Returns the variables that an optimizer was built for."""
    return optimizer._trainable_variables


def build_shapes(layer: Any) -> dict[str, Any] | None:
    """Returns the arguments that a layer's `build` was called with."""
    return layer._build_shapes_dict


def forget_variables(layer: Any) -> None:
    """Makes a built layer look unbuilt, so that `build` can make its weights anew."""
    tracker = layer._tracker
    tracker.unlock()
    for variable in own_variables(layer):
        tracker.untrack(variable)
    layer.built = False


def unwrapped(error: Exception) -> Exception:
    """Returns what a layer's `__init__` raised, which `from_config` wraps."""
    inner = error.__context__
    wrapped = str(error).startswith("Error when deserializing class")
    return inner if wrapped and isinstance(inner, Exception) else error


def raised_by_user(error: Exception) -> bool:
    """Tells whether an exception comes from a user's code, not from Keras or Python."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    return module.partition(".")[0] not in ("keras", "ramet", "")


# --- Keras's global state ---


@contextlib.contextmanager
def untouched_names() -> Iterator[None]:
    """Restores the counters from which Keras makes names, after use."""
    counters = global_state.get_global_attribute("object_name_uids")
    saved = dict(counters or {})
    try:
        yield
    finally:
        counters = global_state.get_global_attribute("object_name_uids")
        if counters is not None:
            counters.clear()
            counters.update(saved)


@contextlib.contextmanager
def untouched_randomness() -> Iterator[None]:
    """Restores the generators of random numbers that initializers draw from."""
    generator = global_state.get_global_attribute("global_seed_generator")
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
        global_state.set_global_attribute("global_seed_generator", generator)


def seed_globals(seed: int) -> None:
    """Seeds the generators of random numbers that initializers draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    generator = keras.random.SeedGenerator(seed, name="global_seed_generator")
    global_state.set_global_attribute("global_seed_generator", generator)
