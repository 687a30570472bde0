"""What layers, models and optimizers keep to themselves."""

import contextlib
import random
import weakref
from collections.abc import Generator
from typing import Any

import keras
import numpy as np
from keras.src.models.functional import Functional
from keras.src.trainers.trainer import Trainer
from keras.src.utils.python_utils import remove_by_id

from ramet.bridge.internals.fields import (
    GRAPH_FIELDS,
    TRACKING_FIELDS,
    VARIABLE_VALUE,
    is_record,
)
from ramet.bridge.internals.symbolic import maker, producer


def set_functional(model: Any, inputs: Any, outputs: Any) -> None:
    """Gives a Sequential model the graph between two symbolic tensors."""
    model._functional = Functional(inputs=inputs, outputs=outputs)
    model.built = True


def adopt_layers(model: Any, removed: list[Any], *, attributes: bool = True) -> Any:
    """Makes a model track the layers of its graph, and none that was removed.

    The layers of the graph come first, in the graph's order, like in a model
    that was just made.

    Args:
        model: The model.
        removed: Layers that are not in its graph, perhaps.
        attributes: Whether a layer is tracked nevertheless that an attribute holds.

    Returns:
        The model; a Functional one in place of a Sequential one whose graph is
        not a chain of layers any more.
    """
    if isinstance(model, keras.Sequential):
        function = model._functional
        adopt_layers(function, removed, attributes=attributes)
        chain = _chain_of(function)
        if chain is None:
            vars(function)["name"] = model.name
            return function
        model._layers = chain
        return model
    locked = model._tracker.locked
    model._tracker.unlock()
    inside = {id(operation) for operation in model._operations}
    for layer in removed:
        if id(layer) not in inside and not (attributes and _is_attribute(model, layer)):
            untrack(model, [layer])
    for layer in model.layers:
        model._tracker.track(layer)
    known = {id(layer) for layer in model._layers}  # In Keras 3.12, a list of its own.
    missing = [layer for layer in model.layers if id(layer) not in known]
    list.extend(getattr(model._layers, "_storage", model._layers), missing)
    rank = {id(layer): position for position, layer in enumerate(model.layers)}
    for tracked in (model._tracker.config["layers"][1], model._layers):
        ordered = sorted(tracked, key=lambda layer: rank.get(id(layer), len(rank)))
        if list(map(id, ordered)) != list(map(id, tracked)):
            getattr(tracked, "_storage", tracked)[:] = ordered  # where TensorFlow wraps a list
    if locked:
        model._tracker.lock()
    return model


def set_own_flag(model: Any, *, trainable: bool) -> None:
    """Set the flag of a model itself, and leave those of its layers alone."""
    model._trainable = trainable


def list_parameters(model: Any) -> None:
    """Lets PyTorch list the variables that a model and its layers have by now, by path."""
    if keras.backend.backend() != "torch":
        return
    functions = [
        layer._functional
        for layer in all_layers(model)
        if isinstance(layer, keras.Sequential) and layer._functional is not None
    ]
    for part in [*all_layers(model), *functions]:
        if "_torch_params" in vars(part)["_modules"]:
            wanted = {variable.path: variable.value for variable in part.variables}
            listed = dict(part._torch_params.items())
            if {k: id(v) for k, v in listed.items()} != {k: id(v) for k, v in wanted.items()}:
                part._track_variables()


def name_outputs(function: Any) -> None:
    """Lets a model call its outputs by the names of the layers that make them."""
    names = [maker(tensor).name for tensor in function._outputs]
    if names != list(function.output_names):
        function.output_names = names


def untrack(model: Any, layers: list[Any]) -> None:
    """Makes a model forget layers that it tracks."""
    for layer in layers:
        model._tracker.untrack(layer)
        remove_by_id(model._layers, layer)


_ALPHAS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""The `lora_alpha` that layers were made with: `Dense` forgets it when it is built."""


def keep_alpha(made: Any, alpha: Any) -> None:
    """Remembers the `lora_alpha` that a layer was made with, for when it is built."""
    _ALPHAS[made] = alpha


def take_over_attributes(source: Any, made: Any) -> None:
    """Gives a layer made from a config what the config of its class forgets."""
    if made in _ALPHAS:
        made.lora_alpha = _ALPHAS.pop(made)
    elif getattr(source, "lora_enabled", False) and hasattr(made, "lora_alpha"):
        made.lora_alpha = source.lora_alpha
    both = [keras.tree.flatten(getattr(layer, "states", None)) for layer in (source, made)]
    for old, new in zip(*both, strict=False):
        variables = isinstance(old, keras.Variable) and isinstance(new, keras.Variable)
        if variables and tuple(old.shape) == tuple(new.shape):
            new.assign(keras.ops.copy(old.value))


def has_vocabulary(layer: Any) -> bool:
    """Tells whether a lookup layer knows any words besides those that stand for others."""
    special = getattr(layer, "_token_start_index", None)
    known = getattr(layer, "vocabulary_size", None)
    return special is None or known is None or known() > special()


def has_other_batch(layer: Any, args: Any) -> bool:
    """Tells whether a layer keeps states for batches of another size than it is called on."""
    states = getattr(layer, "states", None)
    if not getattr(layer, "stateful", False) or not states:
        return False
    tensors = [leaf for leaf in keras.tree.flatten(args) if isinstance(leaf, keras.KerasTensor)]
    kept = keras.tree.flatten(states)[0].shape[0]
    return bool(tensors) and tensors[0].shape[0] not in (None, kept)


def rename_layer(layer: Any, name: str, *, variables: bool) -> None:
    """Gives a layer another name, and its variables paths that say so, if asked."""
    old = layer.name
    vars(layer)["name"] = name
    parts = all_layers(layer) if isinstance(layer, keras.Layer) else []
    for part in parts:
        before = vars(part).get("_path")
        for field in ("_path", "_parent_path"):
            if vars(part).get(field):
                vars(part)[field] = _renamed_path(vars(part)[field], old, name)
        policies = vars(part).get("_dtype_policy")
        if isinstance(policies, keras.dtype_policies.DTypePolicyMap) and before in policies:
            # It goes by paths.
            kept = {**policies, vars(part)["_path"]: policies[before]}
            vars(part)["_dtype_policy"] = type(policies)(policies.default_policy, kept)
        for variable in layer_state(part) if variables else ():
            variable._path = _renamed_path(variable._path, old, name)


def _renamed_path(path: str, old: str, new: str) -> str:
    steps = path.split("/")
    if old in steps:
        at = steps.index(old)
        flattened = at > 0 and new == f"{steps[at - 1].replace('.', '_')}_{old}"
        steps[at - flattened : at + 1] = [new]
    return "/".join(steps)


def attribute_name(layer: Any, part: Any) -> str | None:
    """Returns the name of the attribute under which a layer holds a sublayer or variable."""
    return next((name for name, value in _attributes(layer).items() if value is part), None)


def _attributes(layer: Any) -> dict[str, Any]:
    """Returns the attributes of a layer; PyTorch keeps modules in a dict of their own."""
    return {**vars(layer), **vars(layer).get("_modules", {})}


_RECORDS = TRACKING_FIELDS | GRAPH_FIELDS | {"_modules", "_metrics", "_functional"}
"""Attributes that hold layers only because Keras or a backend notes them there."""


def attribute_paths(layer: Any) -> dict[int, str]:
    """Returns where a layer holds others, by their ids: `dense`, `blocks.0`, `heads.left`."""
    found: dict[int, str] = {}
    waiting = [
        (name, value)
        for name, value in _attributes(layer).items()
        if name not in _RECORDS and not is_record(name)
    ]
    while waiting:
        inside: list[tuple[str, Any]] = []
        for path, value in waiting:
            if isinstance(value, keras.Layer):
                found.setdefault(id(value), path)
            elif isinstance(value, dict):
                inside += [(f"{path}.{key}", item) for key, item in value.items()]
            elif isinstance(value, (list, tuple)):
                inside += [(f"{path}.{number}", item) for number, item in enumerate(value)]
        waiting = inside
    return found


def _is_attribute(model: Any, layer: Any) -> bool:
    return any(value is layer for value in vars(model).values())


def _chain_of(function: Any) -> list[Any] | None:
    """Lists the layers of a graph that is a chain, each called once, masks left aside."""
    if not len(function._inputs) == len(function._outputs) == 1:
        return None
    found: list[Any] = []
    tensor = function._outputs[0]
    while True:
        made = producer(tensor)
        node = None if made is None else made[0]
        if node is None or not isinstance(node.operation, keras.Layer):
            return None
        if node.operation in found or len(node.outputs) != 1:
            return None
        found.append(node.operation)
        if node.is_input:
            return found[::-1] if tensor is function._inputs[0] else None
        args, kwargs = node.arguments.args, node.arguments.kwargs
        single = len(args) == 1 and isinstance(args[0], keras.KerasTensor)
        if not single or kwargs.keys() - {"mask", "training"}:
            return None
        tensor = args[0]


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
    """Returns the layers that a layer tracks directly, each once.

    Up to Keras 3.14, a Functional model keeps those of its graph and those in its
    attributes in two lists. What a Sequential model tracks besides its layers is
    the Functional model that it builds of them.
    """
    if isinstance(layer, keras.Sequential):
        return list(layer._layers)
    _, attributes = layer._tracker.config["layers"]
    return list({id(part): part for part in (*layer._layers, *attributes)}.values())


def all_layers(layer: Any) -> list[Any]:
    """Returns a layer and every layer below it, each once."""
    return layer._flatten_layers()


def own_variables(layer: Any) -> list[Any]:
    """Returns the variables that a layer tracks itself, not those of sublayers."""
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def values_from_last(root: Any) -> list[Any]:
    """Returns the backend's values of all variables of a model's layers, the last layers first."""
    layers = all_layers(root) if isinstance(root, keras.Layer) else []
    return [
        vars(variable).get(VARIABLE_VALUE)
        for layer in reversed(layers)
        for variable in own_variables(layer)
    ]


def own_trainable(layer: Any) -> list[Any]:
    """Returns the variables that a layer tracks itself as ones that training changes."""
    return list(layer._trainable_variables)


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


def is_adapted(layer: Any) -> bool:
    """Tells whether a layer's state comes from data, by `adapt`, not from training."""
    return hasattr(layer, "adapt") and not layer._trainable_variables


def may_create_weights(layer: Any) -> bool:
    """Tells whether a layer is not built and has a `build` of its own."""
    return not layer.built and not getattr(layer.build, "_is_default", False)


def is_container(model: Any) -> bool:
    """Tells whether a model is made of its layers alone, so that they can be remade."""
    return isinstance(model, (keras.Function, keras.Sequential))


def own_config(model: Any) -> dict[str, Any] | None:
    """Returns the config of a model that is made of its layers alone, without theirs.

    `None` for any other. Keras's own config of a model holds those of all models inside it,
    and takes the square of their levels.
    """
    if type(model) is Functional:
        return {"trainable": model.trainable}
    if type(model) is not keras.Sequential:
        return None
    policy = keras.dtype_policies.serialize(model.dtype_policy)
    return {"trainable": model.trainable, "dtype": policy, "build_input_shape": model.input_shape}


def reset_initializer(initializer: Any) -> None:
    """Draws a new seed for an initializer whose author gave it none."""
    if initializer._init_seed is None:
        initializer.seed = random.randint(1, int(1e9))  # noqa: S311 what Keras draws from, not a secret


_PROJECTIONS = ("query", "key", "value", "gate", "output")


def attention_parts(layer: Any) -> dict[str, str]:
    """Returns the attributes of an attention layer that hold its projections, by their use."""
    names = {use: f"_{use}_dense" for use in _PROJECTIONS}
    return {use: name for use, name in names.items() if getattr(layer, name, None) is not None}


def attention_output_shape(layer: Any) -> tuple[int, ...] | None:
    """Returns the shape of what an attention layer makes, if its author chose one."""
    return getattr(layer, "_output_shape", None)


def variable_key(optimizer: Any, variable: Any) -> Any:
    """Returns the key under which an optimizer keeps a variable's slot."""
    return optimizer._var_key(variable)


OPTIMIZER_RECORDS = frozenset({"_variables", "_trainable_variables"})
"""Lists in which an optimizer notes variables, its own and those that it trains."""


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


@contextlib.contextmanager
def untouched_layers(model: Any) -> Generator[None]:
    """Restores what a call may leave behind on layers, besides variables.

    Attributes that were assigned, losses, and buffers of PyTorch modules.
    """
    layers = all_layers(model)
    attributes = [(layer, dict(vars(layer))) for layer in layers]
    losses = [(layer._losses, list(layer._losses)) for layer in layers]
    ids = [(layer._loss_ids, set(layer._loss_ids)) for layer in layers]
    buffers = [
        (buffer, buffer.clone()) for layer in layers for buffer in getattr(layer, "buffers", list)()
    ]
    try:
        yield
    finally:
        for layer, saved in attributes:
            vars(layer).clear()
            vars(layer).update(saved)
        for kept, items in losses:
            kept[:] = items
        for kept, items in ids:
            kept.clear()
            kept.update(items)
        for buffer, value in buffers:
            buffer.copy_(value)
