"""The graph that a `.keras` file describes, read without Keras.

A file tells the layers, how they are connected, the shapes of tensors that are read
by others, and the weights. What else a table shows follows from that for many models.
For any other, `describe` says so by `None`: those have to be loaded.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np

from ramet.files import known
from ramet.files.archive import ARCHIVE_SUFFIXES, WEIGHTS
from ramet.files.load import checked_configs
from ramet.files.member import opened
from ramet.graph import Call, Graph, Layer, Ref, Spec
from ramet.graph.names import unique_name
from ramet.graph.tree import leaves

_MODELS = ("Functional", "Sequential")


class _UndescribedError(Exception):
    """Something that only Keras can tell."""


@dataclass(eq=False)
class FileLayer:
    """A layer as a file has it."""

    config: dict[str, Any]
    """What it was made with."""
    parameters: dict[int, tuple[int, bool]] = field(default_factory=dict[int, tuple[int, bool]])
    """Sizes of its weights, and whether they are trained, by their numbers in the file."""
    places: list[str] = field(default_factory=list[str])
    """Where its weights are."""
    read: Callable[[list[str]], list[Any]] = field(default=lambda _: [], repr=False)
    """Reads weights."""

    def arrays(self) -> list[np.ndarray]:
        """Reads the weights of the layer."""
        return self.read(self.places)


def describe(path: Path) -> Graph | None:
    """Reads the graph of a model from its file; `None` if that takes Keras.

    Raises:
        FileError: If it is no such file, or a broken or hostile one.
    """
    (config, *_) = checked_configs(path)
    if path.suffix not in ARCHIVE_SUFFIXES:
        return None
    try:
        with opened(path, WEIGHTS) as member, h5py.File(member, "r") as file:
            return _Reader(_Weights(path, file)).graph(config, "")
    except Exception:  # noqa: BLE001 Keras will say what is wrong with the file, if anything is
        return None


class _Weights:
    """The weights in a file."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path, self._file = path, file
        self._numbers: dict[str, int] = {}
        self._names: dict[str, dict[str, str]] = {}

    def place(self, group: str, name: str) -> str | None:
        """Returns where a model that lies in a group keeps one of its layers."""
        if group not in self._names:
            inside = self._file.get(f"{group}/layers", {})
            self._names[group] = {
                str(part["vars"].attrs["name"]): f"{group}/layers/{key}"
                for key, part in inside.items()
                if "vars" in part and "name" in part["vars"].attrs
            }
        return self._names[group].get(name)

    def variables(self, place: str) -> Iterator[list[tuple[str, Any]]]:
        """Yields the variables in each group at and below a place."""
        waiting, met = [place], set[Any]()
        while waiting:
            at = waiting.pop()
            group = self._file[at]
            if "seed_generator" in at.rpartition("/")[2] or group.id in met:
                continue
            met.add(group.id)
            if at.endswith("/vars"):
                keys = sorted(group, key=int)
                yield [(f"{at}/{key}", group[key]) for key in keys]
            else:
                waiting += [f"{at}/{key}" for key in group if isinstance(group[key], h5py.Group)]

    def number(self, place: str) -> int:
        """Returns the number of a variable."""
        return self._numbers.setdefault(place, len(self._numbers))

    def read(self, places: list[str]) -> list[Any]:
        """Reads variables, also after the file was closed."""
        if not places:
            return []
        with opened(self._path, WEIGHTS) as member, h5py.File(member, "r") as file:
            return [np.asarray(file[place]) for place in places]


@dataclass(eq=False)
class _Reader:
    """Reads models from configs, a shared layer once."""

    weights: _Weights
    layers: dict[int, FileLayer] = field(default_factory=dict[int, FileLayer])
    graphs: dict[int, Graph] = field(default_factory=dict[int, Graph])

    def graph(self, described: dict[str, Any], place: str) -> Graph:
        """Reads a model whose weights are in a group."""
        kind, config = described["class_name"], described["config"]
        if kind not in _MODELS or described["module"].partition(".")[0] != "keras":
            raise _UndescribedError
        layers = {
            each["config"]["name"]: self.layer(each, place, config["trainable"])
            for each in config["layers"]
        }
        made = _Sequential if kind == "Sequential" else _Functional
        return made(config, layers).graph()

    def layer(self, described: dict[str, Any], group: str, trainable: object) -> Layer:
        """Reads a layer of a model whose weights are in a group."""
        kind, config = described["class_name"], described["config"]
        shared = described.get("shared_object_id")
        if config.get("trainable", True) and not trainable and kind != "InputLayer":
            raise _UndescribedError  # frozen as a whole, and yet not in parts
        found = self.layers.get(shared) if shared is not None else None
        if found is None:
            found = FileLayer(_plain(described["config"]), read=self.weights.read)
            if shared is not None:
                self.layers[shared] = found
        place = self.weights.place(group, config["name"])
        graph = None
        if kind in _MODELS:
            graph = self.graphs.get(shared) if shared is not None else None
            graph = graph or self.graph(described, place or "")
            if shared is not None:
                self.graphs[shared] = graph
            for inner in graph.layers.values():
                found.parameters |= inner.origin.parameters
        elif place is not None and not found.places:
            self._weigh(found, kind, config, place)
        _check(kind, described, found)
        return Layer(config["name"], kind, found, graph)

    def _weigh(self, layer: FileLayer, kind: str, config: dict[str, Any], place: str) -> None:
        trained = config.get("trainable", True)
        for variables in self.weights.variables(place):
            frozen = known.frozen_weights(kind, config, len(variables))
            for at, (where, variable) in enumerate(variables):
                if variable.dtype.kind not in "fV" and kind != "Normalization":
                    raise _UndescribedError  # quantized
                trains = bool(trained) and at < len(variables) - frozen
                layer.parameters[self.weights.number(where)] = math.prod(variable.shape), trains
                layer.places.append(where)


def _check(kind: str, described: dict[str, Any], layer: FileLayer) -> None:
    """Checks that a layer is one whose outputs, masks and weights are known."""
    module, config = described["module"], described["config"]
    layers = known.LAYERS if module == "keras.layers" else known.OPERATIONS
    is_known = kind in layers or kind in _MODELS
    plain = not any(
        config.get(name)
        for name in ("mask_zero", "return_state", "stateful", "lora_rank", "quantization_config")
    )
    own = module.partition(".")[0] == "keras"
    if not (is_known and own and plain) or config.get("sparse") or config.get("ragged"):
        raise _UndescribedError
    if "build_config" in described and kind == "Dense" and not layer.parameters:
        raise _UndescribedError  # its weights were not found


def _plain(config: Any) -> Any:
    """Returns a config without the numbers by which a file tells what is shared."""
    if isinstance(config, dict):
        items = cast("dict[str, Any]", config).items()
        return {key: _plain(item) for key, item in items if key != "shared_object_id"}
    if isinstance(config, list):
        return [_plain(item) for item in cast("list[Any]", config)]
    return config


class _Calls:
    """The calls of one model."""

    def __init__(self, config: dict[str, Any], layers: dict[str, Layer]) -> None:
        self.config, self.layers = config, layers
        self.described = {each["config"]["name"]: each for each in config["layers"]}
        self.calls: dict[str, Call] = {}

    def add(self, name: str, refs: list[Ref], outputs: tuple[Spec, ...]) -> str:
        """Adds a call of a layer."""
        key = unique_name(name, self.calls)
        self.calls[key] = Call(key, name, tuple(refs), {}, outputs)
        return key

    def whole(self, inputs: Any, outputs: Any) -> Graph:
        """Returns the graph of the model."""
        used = {call.layer for call in self.calls.values()}
        layers = {key: layer for key, layer in self.layers.items() if key in used}
        return Graph(self.config["name"], layers, self.calls, inputs, outputs)

    def given(self, name: str, taken: list[Spec]) -> Spec:
        """Returns what a layer gives when it takes some tensors."""
        layer, config = self.layers[name], self.described[name]["config"]
        if layer.kind == "InputLayer":
            return Spec(tuple(config["batch_shape"]), config["dtype"], name)
        if layer.graph is not None:
            return _given_by(layer.graph, taken)
        if not taken or layer.kind not in known.LAYERS:
            raise _UndescribedError
        shape = known.LAYERS[layer.kind](config, *(spec.shape for spec in taken))
        dtypes = {known.dtype_of(layer.kind, config.get("dtype"), spec.dtype) for spec in taken}
        dtype = dtypes.pop()
        if shape is None or dtype is None or dtypes:
            raise _UndescribedError
        return Spec(shape, dtype, name)


def _given_by(graph: Graph, taken: list[Spec]) -> Spec:
    """Returns what a nested model gives when it takes tensors of its own shapes."""
    starts: list[Spec] = [graph.calls[ref.call].outputs[ref.index] for ref in leaves(graph.inputs)]
    if not isinstance(graph.outputs, Ref) or [s.shape for s in starts] != [s.shape for s in taken]:
        raise _UndescribedError
    return graph.calls[graph.outputs.call].outputs[graph.outputs.index]


class _Sequential(_Calls):
    """The calls of a Sequential model."""

    def graph(self) -> Graph:
        """Reads the model, if it begins with an input."""
        specs: list[Spec] = []
        refs: list[Ref] = []
        for name in self.layers:
            specs = [self.given(name, specs)]
            refs = [Ref(self.add(name, refs, (*specs,)))]
        first = next(iter(self.layers.values()))
        if first.kind != "InputLayer":
            raise _UndescribedError
        return self.whole(Ref(first.name), refs[0])


class _Functional(_Calls):
    """The calls of a Functional model."""

    def graph(self) -> Graph:
        """Reads the model."""
        self.nodes: dict[str, list[dict[str, Any]]] = {
            name: each["inbound_nodes"] or [{"args": [], "kwargs": {}}]
            for name, each in self.described.items()
        }
        self.taken = {
            (name, at): [*_tensors([node["args"], node["kwargs"]])]
            for name, nodes in self.nodes.items()
            for at, node in enumerate(nodes)
        }
        self.specs: dict[tuple[str, int], dict[int, Spec]] = {}
        for tensors in self.taken.values():
            for tensor in tensors:
                name, at, index = tensor["keras_history"]
                spec = Spec(tuple(tensor["shape"]), tensor["dtype"], name)
                self.specs.setdefault((name, at), {})[index] = spec
        self.names: dict[tuple[str, int], str] = {}
        ends = [self.config["input_layers"], self.config["output_layers"]]
        for call in self._in_order([(name, at) for name, at, _ in _histories(ends)]):
            self._make(call)
        return self.whole(*(self._structure(end) for end in ends))

    def _make(self, call: tuple[str, int]) -> None:
        name, at = call
        options = self.nodes[name][at]["kwargs"]
        if options.get("mask") is not None or options.get("return_attention_scores"):
            raise _UndescribedError
        tensors = self.taken[call]
        histories = [tensor["keras_history"] for tensor in tensors]
        refs = [Ref(self.names[source, node], index) for source, node, index in histories]
        specs = self.specs.get(call, {})
        if not specs:
            taken = [self.specs[source, node][index] for source, node, index in histories]
            specs = {0: self.given(name, taken)}
        count = 1
        graph = self.layers[name].graph
        if graph is not None:
            count = len([*leaves(graph.outputs)])
        if [*sorted(specs)] != [*range(count)]:
            raise _UndescribedError
        self.names[call] = self.add(name, refs, tuple(specs[index] for index in range(count)))

    def _structure(self, tree: Any) -> Any:
        """Returns inputs or outputs with tensors in the place of what a file calls them."""
        if _is_history(tree):
            return Ref(self.names[tree[0], tree[1]], tree[2])
        if isinstance(tree, dict):
            items = cast("dict[str, Any]", tree).items()
            return {key: self._structure(item) for key, item in items}
        return [self._structure(item) for item in tree]

    def _in_order(self, ends: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Lists calls, each after those that it needs and earlier ones of the same layer."""
        done: dict[tuple[str, int], None] = {}
        for end in ends:
            path: dict[tuple[str, int], Iterator[tuple[str, int]]] = {}
            pending = iter([end])
            while True:
                call = next((c for c in pending if c not in done and c not in path), None)
                if call is not None:
                    path[call] = pending
                    pending = iter(self._needs(call))
                elif path:
                    call, pending = path.popitem()
                    done[call] = None
                else:
                    break
        return [*done]

    def _needs(self, call: tuple[str, int]) -> list[tuple[str, int]]:
        name, at = call
        before = [(name, at - 1)] if at else []
        return before + [(t["keras_history"][0], t["keras_history"][1]) for t in self.taken[call]]


def _tensors(value: Any) -> Iterator[dict[str, Any]]:
    """Yields the tensors among the arguments of a call, in order."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        if items.get("class_name") == "__keras_tensor__":
            yield items["config"]
        else:
            for item in items.values():
                yield from _tensors(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _tensors(item)


def _is_history(tree: Any) -> bool:
    if not isinstance(tree, list):
        return False
    items = cast("list[Any]", tree)
    return [type(item) for item in items] == [str, int, int]


def _histories(tree: Any) -> Iterator[Any]:
    """Yields the ends of a model in the order in which Keras flattens them: dicts by key."""
    if _is_history(tree):
        yield tree
    elif isinstance(tree, dict):
        for _, item in sorted(cast("dict[str, Any]", tree).items()):
            yield from _histories(item)
    else:
        for item in cast("list[Any]", tree):
            yield from _histories(item)
