"""What single classes of layers keep to themselves, and the name of a layer."""

import weakref
from typing import Any

import keras

from ramet.keras_internals.layer_state import layer_state
from ramet.keras_internals.tracking import all_layers

_ALPHAS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""The `lora_alpha` that layers were created with: `Dense` forgets it when it is built."""


def keep_alpha(layer: Any, alpha: Any) -> None:
    """Remember the `lora_alpha` that a layer was created with until it is built."""
    _ALPHAS[layer] = alpha


def take_over_attributes(source: Any, twin: Any) -> None:
    """Set what a config leaves out on a layer that was re-created from one."""
    if twin in _ALPHAS:
        twin.lora_alpha = _ALPHAS.pop(twin)
    elif getattr(source, "lora_enabled", False) and hasattr(twin, "lora_alpha"):
        twin.lora_alpha = source.lora_alpha
    states = [keras.tree.flatten(getattr(layer, "states", None)) for layer in (source, twin)]
    for old, new in zip(*states, strict=False):
        variables = isinstance(old, keras.Variable) and isinstance(new, keras.Variable)
        if variables and tuple(old.shape) == tuple(new.shape):
            new.assign(keras.ops.copy(old.value))


def has_vocabulary(layer: Any) -> bool:
    """Whether a lookup layer has a vocabulary beyond its special tokens."""
    special = getattr(layer, "_token_start_index", None)
    known = getattr(layer, "vocabulary_size", None)
    return special is None or known is None or known() > special()


def has_other_batch(layer: Any, args: Any) -> bool:
    """Whether a stateful layer has states for another batch size than it is called on."""
    states = getattr(layer, "states", None)
    if not getattr(layer, "stateful", False) or not states:
        return False
    tensors = [leaf for leaf in keras.tree.flatten(args) if isinstance(leaf, keras.KerasTensor)]
    kept = keras.tree.flatten(states)[0].shape[0]
    return bool(tensors) and tensors[0].shape[0] not in (None, kept)


def rename_layer(layer: Any, name: str, *, variables: bool) -> None:
    """Rename a layer and the paths of the layers inside it; of variables too, if asked."""
    old = layer.name
    vars(layer)["name"] = name
    parts = all_layers(layer) if isinstance(layer, keras.Layer) else []
    for part in parts:
        before = vars(part).get("_path")
        for field in ("_path", "_parent_path"):
            if vars(part).get(field):
                vars(part)[field] = _renamed_path(vars(part)[field], old, name)
        if before:
            _rekey_policies(part, before)
        for variable in layer_state(part) if variables else ():
            variable._path = _renamed_path(variable._path, old, name)


def place_like(layer: Any, source: Any) -> None:
    """Give a re-created layer, and what is inside of it, the paths of the layer before it.

    They begin with the names of the models around it, which a new layer is not built in, and
    contain numbers that Keras counts, such as those of seed generators.
    """
    old, known = vars(layer).get("_path"), vars(source).get("_path")
    if not old or not known:
        return
    parts, sources = all_layers(layer), all_layers(source)
    if [type(part) for part in parts[1:]] != [type(part) for part in sources[1:]]:
        parts, sources = [layer], [source]
    for part, before in zip(parts, sources, strict=True):
        _place_part(part, before, source.name, layer.name)


def _place_part(part: Any, source: Any, old_name: str, name: str) -> None:
    """Give one part of a re-created layer, and its variables, the paths of another."""
    path, known = vars(part).get("_path"), vars(source).get("_path")
    if not path or not known:
        return
    new = vars(part)["_path"] = _renamed_path(known, old_name, name)
    vars(part)["_parent_path"] = new.rpartition("/")[0]
    _rekey_policies(part, path)
    states = [layer_state(each) for each in (part, source)]
    alike = [variable.name for variable in states[0]] == [variable.name for variable in states[1]]
    for index, variable in enumerate(states[0]):
        if alike:  # seed generators too, whose paths contain numbers
            variable._path = _renamed_path(states[1][index].path, old_name, name)
        elif variable.path.startswith(f"{path}/"):
            variable._path = new + variable.path[len(path) :]


def _rekey_policies(part: Any, before: str) -> None:
    """Enter the policy of a layer under its new path, if it is in a map by paths."""
    policies = vars(part).get("_dtype_policy")
    if isinstance(policies, keras.dtype_policies.DTypePolicyMap) and before in policies:
        kept = {**policies, vars(part)["_path"]: policies[before]}
        vars(part)["_dtype_policy"] = type(policies)(policies.default_policy, kept)


def _renamed_path(path: str, old: str, new: str) -> str:
    steps = path.split("/")
    if old in steps:
        at = steps.index(old)
        flattened = at > 0 and new == f"{steps[at - 1].replace('.', '_')}_{old}"
        steps[at - flattened : at + 1] = [new]
    return "/".join(steps)


_PROJECTIONS = {
    "query": "_query_dense",
    "key": "_key_dense",
    "value": "_value_dense",
    "gate": "_gate_dense",
    "output": "_output_dense",
}
"""Attributes that may hold the projections of an attention layer, by their use."""


def attention_parts(layer: Any) -> dict[str, str]:
    """Return the attributes of an attention layer that hold its projections, by their use."""
    held = _PROJECTIONS.items()
    return {use: name for use, name in held if getattr(layer, name, None) is not None}


def attention_output_shape(layer: Any) -> tuple[int, ...] | None:
    """Return the `output_shape` that an attention layer was created with, if any."""
    return getattr(layer, "_output_shape", None)


def unpacked_shape(layer: Any, variable: Any) -> tuple[int, ...]:
    """Return the shape of a kernel; of one whose numbers are packed in pairs, that before."""
    if getattr(layer, "quantization_mode", None) != "int4":
        return tuple(variable.shape)
    if isinstance(layer, keras.layers.EinsumDense):
        return tuple(layer.original_kernel_shape)
    if isinstance(layer, keras.layers.Embedding):
        return layer.input_dim, layer.output_dim
    return layer.input_spec.axes[-1], layer.units
