"""The graph that a `.keras` file describes, read without Keras.

A file stores the layers, their connections, the shapes of tensors that other layers read, and
the weights. For many models, everything else that a table shows follows from that. For all others,
`describe` returns `None`: they have to be loaded.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import h5py

from ramet.files import known
from ramet.files.archive import ARCHIVE_SUFFIXES, WEIGHTS
from ramet.files.config import check_calls, named_in
from ramet.files.load import checked_file
from ramet.files.member import opened
from ramet.graph import Call, Graph, Layer, Ref, Spec
from ramet.graph.data import Facts
from ramet.graph.names import unique_name, with_article
from ramet.graph.tree import leaves

_MODELS = ("Functional", "Sequential")

MALFORMED = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError),
    *(RecursionError, AssertionError, RuntimeError),
)
"""What reading raises if Keras did not write the config or the weights."""


class UndescribedError(Exception):
    """Something that only Keras can compute; the message says what."""


@dataclass(eq=False)
class FileLayer:
    """A layer as a file describes it."""

    parameters: dict[int, tuple[int, bool]] = field(default_factory=dict[int, tuple[int, bool]])
    """Sizes of its weights, and whether they are trained, by their numbers in the file."""


def describe(path: Path, *, trust: bool = False) -> Graph | None:
    """Read the graph of a model from its file; return `None` if that needs Keras.

    A file that `load` would refuse is refused, or needs Keras, which gives the reason.

    Raises:
        FileError: If it is not a model file, or a broken or hostile one.
    """
    config = checked_file(path, trust=trust)[0][0]
    try:
        _check_names(path, config)
        return read_graph(path, config)
    except (UndescribedError, *MALFORMED):
        return None  # If anything is wrong with the file, Keras will report it.


def read_graph(path: Path, config: dict[str, Any]) -> Graph:
    """Read the graph of a model from the config and the weights in its file.

    A config that Keras did not write may raise anything that `describe` catches.

    Raises:
        UndescribedError: If that needs Keras.
    """
    if path.suffix not in ARCHIVE_SUFFIXES:
        raise UndescribedError(f"a file of the format {path.suffix}")
    with opened(path, WEIGHTS) as member, h5py.File(member, "r") as file:
        return _Reader(Places(file)).graph(config, "")


def _check_names(path: Path, described: dict[str, Any]) -> None:
    """Check that a config names only what is known, and calls every layer with a tensor."""
    check_calls(path, described)
    for named in named_in(described):
        plain = named.module is None and named.registered is None and named.name.startswith("__")
        part = named.module in known.ROOMS and named.name in known.PARTS
        layer = named.name in (*known.LAYERS, *known.OPERATIONS, *_MODELS)
        if not (plain or part or layer):
            raise UndescribedError(str(named))


class Places:
    """The weights in a file."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._numbers: dict[str, int] = {}
        self._names: dict[str, dict[str, str]] = {}

    def place(self, group: str, name: str) -> str | None:
        """Return the group of a layer, for a model in a group."""
        if group not in self._names:
            inside = self._file.get(f"{group}/layers", {})
            self._names[group] = {
                str(part["vars"].attrs["name"]): f"{group}/layers/{key}"
                for key, part in inside.items()
                if "vars" in part and "name" in part["vars"].attrs
            }
        return self._names[group].get(name)

    def variables(self, place: str) -> Iterator[list[tuple[str, Any]]]:
        """Yield the variables in each group at and below a place."""
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

    def shapes(self, place: str | None) -> list[tuple[int, ...]]:
        """Return the shapes of the variables at and below a place."""
        if place is None:
            return []
        return [item.shape for group in self.variables(place) for _, item in group]

    def number(self, place: str) -> int:
        """Return the number of a variable."""
        return self._numbers.setdefault(place, len(self._numbers))


@dataclass(eq=False)
class _Reader:
    """Reads models from configs, a shared layer once."""

    weights: Places
    layers: dict[int, FileLayer] = field(default_factory=dict[int, FileLayer])
    graphs: dict[int, Graph] = field(default_factory=dict[int, Graph])

    def graph(self, described: dict[str, Any], place: str) -> Graph:
        """Read a model whose weights are in a group."""
        kind, config = described["class_name"], described["config"]
        is_own = kind in _MODELS and described["module"].partition(".")[0] == "keras"
        if not is_own:
            raise UndescribedError(f"a model of the class {kind}")
        layers = {
            each["config"]["name"]: self.layer(each, place, config.get("trainable", True))
            for each in config["layers"]
        }
        calls = _Functional if "output_layers" in config else _Sequential
        return calls(config, layers).graph()

    def layer(self, described: dict[str, Any], group: str, trainable: object) -> Layer:
        """Read a layer of a model whose weights are in a group."""
        kind, config = described["class_name"], described["config"]
        shared = described.get("shared_object_id")
        frozen = config.get("trainable", True) and not trainable and _role(described) != "input"
        if frozen:
            raise UndescribedError(f"{config['name']} is in a frozen model, and not frozen itself")
        layer = self.layers.get(shared) if shared is not None else None
        if layer is None:
            layer = FileLayer()
            if shared is not None:
                self.layers[shared] = layer
        place = self.weights.place(group, config["name"])
        graph = None
        if kind in _MODELS:
            graph = self.graphs.get(shared) if shared is not None else None
            graph = graph or self.graph(described, place or "")
            if shared is not None:
                self.graphs[shared] = graph
            for inner in graph.layers.values():
                layer.parameters |= inner.origin.parameters
        elif place is not None and not layer.parameters:
            self._weigh(layer, kind, config, place)
        if kind not in _MODELS:
            _check_weights(described, self.weights.shapes(place))
        _check(described)
        return Layer(config["name"], kind, layer, graph, facts=Facts(_role(described)))

    def _weigh(self, layer: FileLayer, kind: str, config: dict[str, Any], place: str) -> None:
        trained = config.get("trainable", True)
        for variables in self.weights.variables(place):
            frozen = known.frozen_weights(kind, config, len(variables))
            for at, (where, variable) in enumerate(variables):
                if variable.dtype.kind not in "fV" and kind != "Normalization":
                    raise UndescribedError(f"{config['name']} is quantized")
                trains = bool(trained) and at < len(variables) - frozen
                layer.parameters[self.weights.number(where)] = math.prod(variable.shape), trains


def has_layers(described: dict[str, Any]) -> bool:
    """Whether a config is of a model, of whatever class, that says what it is made of."""
    config: Any = described["config"]
    layers = cast("dict[str, Any]", config).get("layers") if isinstance(config, dict) else None
    if not isinstance(layers, list):
        return False
    items = cast("list[Any]", layers)
    return all(isinstance(item, dict) and "class_name" in item for item in items)


def _role(described: dict[str, Any]) -> Literal["layer", "operation", "input"]:
    if described["class_name"] == "InputLayer":
        return "input"
    is_layer = described["module"] == "keras.layers" or described["class_name"] in _MODELS
    return "layer" if is_layer else "operation"


def _check(described: dict[str, Any]) -> None:
    """Check that a layer is one whose outputs, masks and weights are known."""
    kind, module, config = described["class_name"], described["module"], described["config"]
    layers = known.LAYERS if module == "keras.layers" else known.OPERATIONS
    is_known = kind in layers or kind in _MODELS
    plain = not any(
        config.get(name)
        for name in ("mask_zero", "return_state", "stateful", "lora_rank", "quantization_config")
    )
    own = module.partition(".")[0] == "keras"
    if not (is_known and own and plain) or config.get("sparse") or config.get("ragged"):
        raise UndescribedError(f"{config['name']} is {with_article(kind)} with this config")


def _check_weights(described: dict[str, Any], shapes: list[tuple[int, ...]]) -> None:
    """Check that the weights of a layer are those that its config asks for."""
    kind, config = described["class_name"], described["config"]
    build, rule = described.get("build_config"), known.WEIGHTS.get(kind)
    expected: list[tuple[Any, ...]] | None = [] if build is None or not shapes else None
    if build is not None and rule is not None:
        shape = build.get("input_shape") or build["shapes_dict"]["sequences_shape"]
        expected = rule(config, tuple(shape))
    if expected != shapes:
        raise UndescribedError(f"{config['name']}, a {kind} with weights of the shapes {shapes}")


class _Calls:
    """The calls of one model."""

    def __init__(self, config: dict[str, Any], layers: dict[str, Layer]) -> None:
        self.config, self.layers = config, layers
        self.described = {each["config"]["name"]: each for each in config["layers"]}
        self.calls: dict[str, Call] = {}

    def add(self, name: str, refs: list[Ref], outputs: tuple[Spec, ...]) -> str:
        """Add a call of a layer."""
        key = unique_name(name, self.calls)
        self.calls[key] = Call(key, name, tuple(refs), {}, outputs)
        return key

    def whole(self, inputs: Any, outputs: Any) -> Graph:
        """Return the graph of the model."""
        used = {call.layer for call in self.calls.values()}
        layers = {key: layer for key, layer in self.layers.items() if key in used}
        return Graph(self.config["name"], layers, self.calls, inputs, outputs)

    def output(self, name: str, inputs: list[Spec]) -> Spec:
        """Return the output of a layer for some inputs."""
        layer, config = self.layers[name], self.described[name]["config"]
        if layer.is_input:
            return Spec(tuple(config["batch_shape"]), config["dtype"], name)
        if layer.graph is not None:
            return _output_of(layer.graph, inputs)
        # Some operations have the names of layers, with other configs.
        is_layer = self.described[name]["module"] == "keras.layers"
        if not (inputs and is_layer and layer.kind in known.LAYERS):
            raise UndescribedError(f"the output of {name}, a {layer.kind}")
        shape = known.LAYERS[layer.kind](config, *(spec.shape for spec in inputs))
        dtypes = {known.dtype_of(layer.kind, config.get("dtype"), spec.dtype) for spec in inputs}
        dtype = dtypes.pop()
        if shape is None or dtype is None or dtypes:
            raise UndescribedError(f"the shape or dtype of the output of {name}")
        return Spec(shape, dtype, name)


def _output_of(graph: Graph, inputs: list[Spec]) -> Spec:
    """Return the output of a nested model for inputs of its own shapes."""
    own: list[Spec] = [graph.calls[ref.call].outputs[ref.index] for ref in leaves(graph.inputs)]
    if not isinstance(graph.outputs, Ref) or [s.shape for s in own] != [s.shape for s in inputs]:
        raise UndescribedError(f"the output of {graph.name} for other inputs than its own")
    return graph.calls[graph.outputs.call].outputs[graph.outputs.index]


class _Sequential(_Calls):
    """The calls of a Sequential model."""

    def graph(self) -> Graph:
        """Read the model, if it begins with an input."""
        specs: list[Spec] = []
        refs: list[Ref] = []
        for name in self.layers:
            specs = [self.output(name, specs)]
            refs = [Ref(self.add(name, refs, (*specs,)))]
        first = next(iter(self.layers.values()))
        if not first.is_input:
            raise UndescribedError(f"the input of {self.config['name']}")
        return self.whole(Ref(first.name), refs[0])


class _Functional(_Calls):
    """The calls of a Functional model."""

    def graph(self) -> Graph:
        """Read the model."""
        self.nodes: dict[str, list[dict[str, Any]]] = {
            name: each["inbound_nodes"] or [{"args": [], "kwargs": {}}]
            for name, each in self.described.items()
        }
        self.inputs = {
            (name, at): [*tensors_in([node["args"], node["kwargs"]])]
            for name, nodes in self.nodes.items()
            for at, node in enumerate(nodes)
        }
        self.specs: dict[tuple[str, int], dict[int, Spec]] = {}
        for tensors in self.inputs.values():
            for tensor in tensors:
                name, at, index = tensor["keras_history"]
                spec = Spec(tuple(tensor["shape"]), tensor["dtype"], name)
                self.specs.setdefault((name, at), {})[index] = spec
        self.names: dict[tuple[str, int], str] = {}
        ends = [self.config["input_layers"], self.config["output_layers"]]
        for call in self._in_order([(name, at) for name, at, _ in histories_in(ends)]):
            self._make(call)
        return self.whole(*(self._structure(end) for end in ends))

    def _make(self, call: tuple[str, int]) -> None:
        name, at = call
        options = self.nodes[name][at]["kwargs"]
        if options.get("mask") is not None or options.get("return_attention_scores"):
            raise UndescribedError(f"what {name} computes from its arguments")
        tensors = self.inputs[call]
        histories = [tensor["keras_history"] for tensor in tensors]
        refs = [Ref(self.names[source, node], index) for source, node, index in histories]
        specs = self.specs.get(call, {})
        if not specs:
            made = [self.calls[ref.call].outputs[ref.index] for ref in refs]
            specs = {0: self.output(name, made)}
        graph = self.layers[name].graph
        count = 1 if graph is None else len([*leaves(graph.outputs)])
        if [*sorted(specs)] != [*range(count)]:
            raise UndescribedError(f"all outputs of {name}")
        outputs = tuple(specs[index] for index in range(count))
        self.names[call] = self.add(name, refs, outputs)

    def _structure(self, tree: Any) -> Any:
        """Return inputs or outputs with refs in place of the histories in a file."""
        if _is_history(tree):
            return Ref(self.names[tree[0], tree[1]], tree[2])
        if isinstance(tree, dict):
            items = cast("dict[str, Any]", tree).items()
            return {key: self._structure(item) for key, item in items}
        return [self._structure(item) for item in _listed(tree)]

    def _in_order(self, ends: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """List calls, each after those that it needs and earlier ones of the same layer."""
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
        return before + [(t["keras_history"][0], t["keras_history"][1]) for t in self.inputs[call]]


def tensors_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the tensors among the arguments of a call, in order."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        if items.get("class_name") == "__keras_tensor__":
            yield items["config"]
        else:
            for item in items.values():
                yield from tensors_in(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from tensors_in(item)


def _is_history(tree: Any) -> bool:
    if not isinstance(tree, list):
        return False
    items = cast("list[Any]", tree)
    return [type(item) for item in items] == [str, int, int]


def histories_in(tree: Any) -> Iterator[Any]:
    """Yield the ends of a model in the order in which Keras flattens them: dicts by key."""
    if _is_history(tree):
        yield tree
    elif isinstance(tree, dict):
        for _, item in sorted(cast("dict[str, Any]", tree).items()):
            yield from histories_in(item)
    else:
        for item in _listed(tree):
            yield from histories_in(item)


def _listed(tree: Any) -> list[Any]:
    if not isinstance(tree, list):
        raise TypeError("neither a tensor nor a structure of tensors")
    return cast("list[Any]", tree)
