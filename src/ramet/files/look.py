"""`look`: a model made of what its file says, with stand-ins for classes that nobody has.

Keras creates it, from a config in which every foreign class and function is replaced by a
stand-in (see `standins.py`). All rules on files hold for the rest, and nothing in the file is
imported or run.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import h5py
import keras

from ramet.errors import FileError
from ramet.files import standins
from ramet.files.archive import WEIGHTS
from ramet.files.config import Named, named_in
from ramet.files.description import (
    MALFORMED,
    Places,
    UndescribedError,
    has_layers,
    histories_in,
    tensors_in,
)
from ramet.files.limits import check_numbers
from ramet.files.load import checked_file, created
from ramet.files.member import opened
from ramet.files.standins import Tensor, Told
from ramet.files.words import one_line

Reads = dict[tuple[str, int], dict[int, Tensor | None]]
"""Outputs of calls, by layer, number of the call, and index; `None` for what nobody reads."""

_OUTPUTS = 1 << 12
"""How many outputs a layer may have: as many are created for its stand-in as one is read of."""

_PICKLED = "__lambda__"


def look(path: Path) -> tuple[Any, list[str]]:
    """Create a model as far as its file tells what it is, without importing anything.

    The classes and functions that are not part of Keras are stand-ins: they have names, configs,
    weights and connections, and compute nothing.

    Returns:
        The model, and the names of what stands in for something.

    Raises:
        FileError: If it is not a model file, a broken or hostile one, or does not say how its
            layers are connected.
    """
    (config, *_), stored = checked_file(path, trust=True)
    foreign = [str(named) for named in named_in(config) if named.foreign]
    try:
        with opened(path, WEIGHTS) as member, h5py.File(member, "r") as file:
            rewriter = _Rewriter(Places(file))
            rewritten = rewriter.model(config, "", [])
    except (UndescribedError, *MALFORMED) as error:
        message = f"'{path}' does not say how its layers are connected: {one_line(str(error))}"
        raise FileError(message) from error
    check_numbers(path, rewritten, stored.lengths)
    objects = rewriter.objects

    def create() -> Any:
        model: Any = keras.saving.deserialize_keras_object(rewritten, custom_objects=objects)
        model.load_weights(path)
        return model

    return created(path, [rewritten], stored, objects, create), [*dict.fromkeys(foreign)]


@dataclass(eq=False)
class _Rewriter:
    """Replaces what is foreign in the config of a model."""

    places: Places
    objects: dict[str, Any] = field(default_factory=dict[str, Any])
    """The stand-ins, by the names that they have in the new config."""
    shared: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    """What replaces layers with several places in the config."""

    def model(self, described: dict[str, Any], group: str, ends: list[Tensor | None]) -> Any:
        """Return the new config of a model whose weights are in a group.

        Args:
            described: The config.
            group: The group.
            ends: What is known of its outputs by those who read them.
        """
        config = described["config"]
        if not has_layers(described):
            what = f"only the code of {_named(described)} does"
            raise UndescribedError(f"{what}; 'ramet show' lists its weights")
        is_sequential = "input_layers" not in config
        reads = _chained(config, ends) if is_sequential else _read_in(config, ends)
        layers = [self._layer(each, group, reads) for each in config["layers"]]
        rewritten = {**described, "config": {**config, "layers": layers}}
        rewritten.pop("compile_config", None)
        if _named(described).foreign:
            kind = standins.model_class(described["class_name"], is_sequential=is_sequential)
            known = ("name", "trainable", "layers", "input_layers", "output_layers")
            known += ("build_input_shape",) if is_sequential else ()
            inner = {key: value for key, value in rewritten["config"].items() if key in known}
            rewritten |= {**self._named(kind), "config": inner}
        return rewritten

    def _layer(self, described: dict[str, Any], group: str, reads: Reads) -> Any:
        config = described["config"]
        number = described.get("shared_object_id")
        name = config["name"]
        place = self.places.place(group, name)
        calls = described.get("inbound_nodes")
        if has_layers(described):
            known: dict[int, Tensor | None] = {}
            outputs = next((reads[key] for key in sorted(reads) if key[0] == name), known)
            ends = [outputs.get(index) for index in range(max(outputs, default=-1) + 1)]
            return self.model(described, place or "", ends)
        if not _is_foreign_layer(described):
            inner = {key: self._part(value) for key, value in config.items()}
            return {**described, "config": inner}
        twin = self.shared.get(number) if number is not None else None
        if twin is None:
            told = Told(str(described["class_name"]), _plain(config))
            trains = bool(config.get("trainable", True))
            told.variables = [*self._variables(place, trains=trains)] if place else []
            twin = {**self._named(standins.layer_class(told)), "told": told}
            if number is not None:
                self.shared[number] = twin
        told = twin["told"]
        if calls is None:
            told.calls += _built_for(described, reads)
        for at, call in enumerate(calls or []):
            told.calls.append(([*_specs(call)], reads.get((name, at), {})))
        rest = {
            k: v for k, v in described.items() if k in ("inbound_nodes", "name", "shared_object_id")
        }
        fresh = {"name": name, "trainable": bool(config.get("trainable", True))}
        return {**rest, **self._without_told(twin), "config": fresh}

    def _without_told(self, known: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in known.items() if key != "told"}

    def _named(self, cls: Any) -> dict[str, Any]:
        """Return how a config names a stand-in that is a class."""
        key = f"standin>{len(self.objects)}"
        self.objects[key] = cls
        return {"module": None, "class_name": cls.__name__, "registered_name": key}

    def _part(self, value: Any) -> Any:
        """Return a part of a config of a layer of Keras, without what is foreign."""
        if isinstance(value, list):
            return [self._part(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        described = cast("dict[str, Any]", value)
        if "class_name" in described and _named(described).foreign:
            if described["class_name"] in ("function", _PICKLED):
                key = f"standin>{len(self.objects)}"
                self.objects[key] = standins.function(_function_name(described))
                names = {"module": "builtins", "class_name": "function", "config": key}
                return {**names, "registered_name": "function"}
            inner: Any = described.get("config") or {}
            kind = standins.part_class(str(described["class_name"]), _plain(inner))
            return {**self._named(kind), "config": {}}
        return {key: self._part(item) for key, item in described.items()}

    def _variables(self, place: str, *, trains: bool) -> Iterator[tuple[str, Any, bool]]:
        for variables in self.places.variables(place):
            for where, data in variables:
                values = data[()]
                if data.attrs.get("dtype") == "bfloat16":
                    values = values.view("bfloat16")
                if values.dtype.kind in "biuf" or values.dtype.name == "bfloat16":
                    label = where.removeprefix(f"{place}/").replace("vars/", "weight_")
                    yield (
                        label.replace("/", "_").replace(".", "_"),
                        values,
                        trains and values.dtype.kind not in "biu",
                    )


def _named(described: dict[str, Any]) -> Named:
    return next(iter(named_in(described)))


def _is_foreign_layer(described: dict[str, Any]) -> bool:
    """Whether a layer, or one that it wraps, is foreign, or all that it computes is."""
    if _named(described).foreign:
        return True
    foreign = [named for named in named_in(described["config"]) if named.foreign]
    if described["class_name"] == "Lambda":
        return bool(foreign)
    return any(_is_layer(named) for named in foreign)


def _is_layer(named: Named) -> bool:
    config = named.described.get("config")
    own = cast("dict[str, Any]", config) if isinstance(config, dict) else {}
    return named.name != _PICKLED and ("build_config" in named.described or "trainable" in own)


def _function_name(described: dict[str, Any]) -> str:
    """Return the name of a function; of a pickled one, a digest of its code. It is not read."""
    if described["class_name"] == "function":
        return str(described["config"])
    text = json.dumps(described.get("config"), sort_keys=True)
    return f"lambda_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _plain(value: Any) -> Any:
    """Return a config with names in place of functions, so that nothing in it can be run."""
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    described = cast("dict[str, Any]", value)
    if described.get("class_name") == _PICKLED or (
        described.get("class_name") == "function" and isinstance(described.get("config"), str)
    ):
        return _function_name(described)
    return {key: _plain(item) for key, item in described.items()}


def _specs(tree: Any) -> Iterator[Tensor]:
    for tensor in tensors_in(tree):
        yield tuple(tensor["shape"]), tensor["dtype"]


def _read_in(config: dict[str, Any], ends: list[Tensor | None]) -> Reads:
    """Return what is read of each call in a Functional model."""
    reads: Reads = {}
    for each in config["layers"]:
        for tensor in tensors_in(each["inbound_nodes"]):
            name, at, index = _checked(tensor["keras_history"])
            reads.setdefault((name, at), {})[index] = tuple(tensor["shape"]), tensor["dtype"]
    known = [*ends, *[None] * len(config["layers"])]
    for history, end in zip(histories_in(config["output_layers"]), known, strict=False):
        name, at, index = _checked(history)
        outputs = reads.setdefault((name, at), {})
        outputs[index] = outputs.get(index) or end
    return reads


def _checked(history: Any) -> tuple[str, int, int]:
    """Return the call and the number of an output, if a layer may have that many.

    Raises:
        UndescribedError: If it may not.
    """
    name, at, index = history
    if type(index) is not int or not 0 <= index < _OUTPUTS:
        raise UndescribedError(f"no layer has an output number {index}")
    return name, at, index


def _chained(config: dict[str, Any], ends: list[Tensor | None]) -> Reads:
    """Return what is read of each layer of a Sequential model."""
    reads: Reads = {}
    layers = config["layers"]
    for each, following in itertools.pairwise(layers):
        shape = _built_shape(following)
        if shape is not None:
            reads[each["config"]["name"], 0] = {0: (shape, "float32")}
    if layers and ends and ends[0] is not None:
        reads[layers[-1]["config"]["name"], 0] = {0: ends[0]}
    return reads


def _built_shape(described: dict[str, Any]) -> standins.Shape | None:
    """Return the shape of the input that a layer was built for."""
    built: dict[str, Any] = described.get("build_config") or {}
    shape = built.get("input_shape")
    return None if shape is None else tuple(shape)


def _built_for(described: dict[str, Any], reads: Reads) -> list[Any]:
    """Return the one call of a layer of a Sequential model."""
    shape = _built_shape(described)
    inputs: list[Tensor] = [] if shape is None else [(shape, "float32")]
    return [(inputs, reads.get((described["config"]["name"], 0), {}))]
