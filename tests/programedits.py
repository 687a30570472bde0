# ruff: noqa: PLR0913, PLR0917  an edit has as many arguments as it has
"""Edits as data: each is drawn from a plan, made on the plan, and made on a ramet graph.

The plan's side is a small account of what each edit promises, written without ramet. To
add an edit, write a class with `draw`, `on_plan` and `on_graph` and decorate it with
`edit`.
"""

import copy
import random
from dataclasses import dataclass, field
from typing import Any

import keras
from keras import ops

import ramet
from programplans import (
    COMPOSITE,
    OPERATIONS,
    Call,
    Hand,
    Invalid,
    Layer,
    Net,
    T,
    make_layer,
    nets,
    number,
    random_weights,
    unique_name,
)

RENAMING = {"rename", "prefix", "flatten", "unshare", "share", "replace"}

# --- choosing ------------------------------------------------------------------------


class NothingThereError(Exception):
    """There is nothing to choose from."""


class Choices:
    """Makes the choices of one program, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, items: Any) -> Any:
        found = [*items]
        if not found:
            raise NothingThereError
        return self._random.choice(found)

    def flag(self, one_in: int = 2) -> bool:
        return self._random.randrange(one_in) == 0

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)


@dataclass
class State:
    """A plan in the midst of a program."""

    root: Net
    hand: Hand
    count: int = 0
    """How many layers the program brought in, for their names."""
    touched: set[str] = field(default_factory=set)
    """What has been done, for steps that are known to fail after others."""

    def tensors(self) -> list["Place"]:
        """Lists the tensors of all plans, outer ones first."""
        found = []
        for path, net in nets(self.root):
            start = "".join(f"{key}/" for key in path)
            names = [*net.inputs, *net.needed()]
            for name in names:
                for index in range(self.hand.arity.get((net.uid, name), 1)):
                    tensor = T(name, index)
                    if (net.uid, tensor) in self.hand.found:
                        found.append(Place(path, net, tensor, start + self.text(net, tensor)))
        return found

    def text(self, net: Net, tensor: T) -> str:
        """Returns ramet's name of a tensor."""
        several = self.hand.arity.get((net.uid, tensor.call), 1) > 1
        return call_text(net, tensor.call) + (f".{tensor.out}" if several else "")

    def value(self, place: "Place") -> Any:
        return self.hand.found[place.net.uid, place.tensor]

    def layers(self) -> list["Spot"]:
        """Lists the layers of all plans that are called."""
        found = []
        for path, net in nets(self.root):
            start = "".join(f"{key}/" for key in path)
            keys = dict.fromkeys(net.calls[name].layer for name in net.needed())
            found += [Spot(path, net, key, start + key) for key in keys]
        return found

    def calls(self) -> list["Spot"]:
        """Lists the calls of all plans."""
        found = []
        for path, net in nets(self.root):
            start = "".join(f"{key}/" for key in path)
            found += [Spot(path, net, n, start + call_text(net, n)) for n in net.needed()]
        return found

    def holders(self, layer: Layer) -> list[tuple[Net, str]]:
        """Lists the plans that call a layer, with its key there."""
        return [
            (net, key)
            for _, net in nets(self.root)
            for key, found in net.layers.items()
            if found is layer
        ]

    def name(self) -> str:
        self.count += 1
        return f"new{self.count}"


def call_text(net: Net, name: str) -> str:
    """Returns ramet's name of a call."""
    if name in net.inputs:
        return name
    key = net.calls[name].layer
    if len(net.calls_of(key)) == 1:
        return key
    return name if "#" in name else f"{name}#1"


@dataclass(frozen=True)
class Place:
    """A tensor."""

    path: tuple[str, ...]
    net: Net
    tensor: T
    text: str


@dataclass(frozen=True)
class Spot:
    """A layer or a call, by its key in the plan."""

    path: tuple[str, ...]
    net: Net
    key: str
    text: str

    @property
    def layer_key(self) -> str:
        return self.net.calls[self.key].layer if self.key in self.net.calls else self.key

    @property
    def layer(self) -> Layer:
        return self.net.layers[self.layer_key]

    @property
    def names(self) -> list[str]:
        """The calls that are meant: one, or all of the layer."""
        return [self.key] if "#" in self.text else self.net.calls_of(self.layer_key)


def find(root: Net, path: Any) -> Net:
    net = root
    for key in path:
        net = net.layers[key].net
    return net


# --- new layers ----------------------------------------------------------------------


@dataclass(frozen=True)
class New:
    """A layer that an edit brings in."""

    layer: Layer
    name: str
    shape: tuple[int | None, ...] | None = None
    """If it comes built, with weights of its own: for which shape."""

    def live(self) -> Any:
        made = make_layer(self.layer, self.name)
        if self.shape is not None:
            made.build(self.shape)
            random_weights(made, self.layer.init)
        return made

    def into(self, hand: Hand) -> Layer:
        """Returns the layer for a plan; tells the oracle the weights that it brings."""
        if self.shape is not None:
            hand.values[self.layer.uid] = self.live().get_weights()
        return copy.copy(self.layer)


def is_int(value: Any) -> bool:
    return "int" in keras.backend.standardize_dtype(value.dtype)


def is_bool(value: Any) -> bool:
    return "bool" in keras.backend.standardize_dtype(value.dtype)


def keeping(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Lists layers that keep the shape of a tensor."""
    if is_bool(value):
        return []
    if is_int(value):
        return [("Roll", {})]
    width = value.shape[-1]
    found = [
        ("Activation", {"activation": "tanh"}),
        ("Dense", {"units": width, "activation": "relu"}),
        ("LayerNormalization", {}),
        ("BatchNormalization", {}),
        ("Dropout", {"rate": 0.4}),
        ("Louder", {}),
        ("Block", {"width": width}),
        ("MaskedBlock", {"width": width}),
    ]
    if len(value.shape) == 3:
        found += [
            ("Masking", {"mask_value": 0.0}),
            ("Masking", {"mask_value": 1.0}),
            ("Positive", {}),
            ("UnitNormalization", {}),
            ("TimeDistributed", {"wrapped": ("Dense", {"units": width})}),
            ("Conv1D", {"filters": width, "kernel_size": 2, "padding": "causal"}),
            ("GRU", rnn_options(width)),
            ("Bidirectional", {"wrapped": ("SimpleRNN", rnn_options(width)), "merge_mode": "sum"}),
        ]
    return found


def rnn_options(width: int, *, sequences: bool = True) -> dict[str, Any]:
    unroll = keras.backend.backend() != "torch"  # There, Keras cannot do it with a mask.
    return {"units": width, "return_sequences": sequences, "unroll": unroll}


def draw_new(choose: Choices, state: State, value: Any, *, changing: bool = True) -> New | None:
    """Draws a new layer that can read a tensor."""
    kinds = keeping(value)
    if changing and len(value.shape) == 3:
        kinds += [
            ("MaxPooling1D", {"pool_size": 2}),
            ("EverySecond", {}),
            ("ZeroPadding1D", {"padding": (0, 1)}),
        ]
    if not kinds:
        return None
    kind, options = choose.pick(kinds)
    frozen = choose.flag(6) and kind not in COMPOSITE
    layer = Layer(kind, options, choose.number(1, 9) * 10, trainable=not frozen)
    own = kind in ("Dense", "LayerNormalization", "Block", "Conv1D") and choose.flag(4)
    shape = (None, *value.shape[1:]) if own else None
    return New(layer, state.name(), shape)


# --- edits ---------------------------------------------------------------------------

EDITS: dict[str, Any] = {}


@dataclass
class Edit:
    """One edit, as data."""

    op: str
    args: dict[str, Any]

    def on_plan(self, state: State) -> None:
        EDITS[self.op].on_plan(state, **self.args)

    def on_graph(self, graph: Any) -> Any:
        return EDITS[self.op].on_graph(graph, **self.args)


def edit(cls: type) -> type:
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__)
    EDITS[name.lstrip("_")] = cls
    return cls


def place_args(place: Place) -> dict[str, Any]:
    return {"path": place.path, "tensor": place.tensor, "at": place.text}


def pick_place(choose: Choices, state: State) -> Place:
    return choose.pick(state.tensors())


@edit
class InsertAfter:
    @staticmethod
    def draw(choose: Choices, state: State):
        place = pick_place(choose, state)
        new = draw_new(choose, state, state.value(place))
        return new and {**place_args(place), "new": new}

    @staticmethod
    def on_plan(state: State, path, tensor, at, new) -> None:
        del at
        net = find(state.root, path)
        net.layers[new.name] = new.into(state.hand)
        net.calls[new.name] = Call(new.name, [tensor])
        net.redirect({tensor: T(new.name)}, but=new.name)

    @staticmethod
    def on_graph(graph, path, tensor, at, new):
        del path, tensor
        return graph.insert_after(at, new.live())


@edit
class InsertOn:
    """Also `insert_before`, where the call reads one tensor."""

    @staticmethod
    def draw(choose: Choices, state: State):
        spot = choose.pick(state.calls())
        tensors = spot.net.calls[spot.key].tensors()
        index = choose.number(0, len(tensors) - 1)
        value = state.hand.found[spot.net.uid, tensors[index]]
        new = draw_new(choose, state, value)
        before = len(tensors) == 1 and choose.flag()
        which = None if before else index
        return new and {"path": spot.path, "call": spot.key, "at": spot.text, "argument": which,
                        "new": new}  # fmt: skip

    @staticmethod
    def on_plan(state: State, path, call, at, argument, new) -> None:
        del at
        net = find(state.root, path)
        tensor = net.calls[call].tensors()[argument or 0]
        net.layers[new.name] = new.into(state.hand)
        set_argument(net.calls[call], argument or 0, T(new.name))
        net.calls[new.name] = Call(new.name, [tensor])

    @staticmethod
    def on_graph(graph, path, call, at, argument, new):
        del path, call
        if argument is None:
            return graph.insert_before(at, new.live())
        return graph.insert_on(at, argument, new.live())


def set_argument(call: Call, index: int, tensor: T) -> None:
    """Puts another tensor in the place of one, counted as `keras.tree` does."""
    flat = call.tensors()
    flat[index] = tensor
    call.args, call.kwargs = keras.tree.pack_sequence_as((call.args, call.kwargs), flat)


@edit
class Remove:
    @staticmethod
    def draw(choose: Choices, state: State):
        spot = choose.pick(state.calls() if choose.flag(3) else state.layers())
        names = spot.names
        arity = state.hand.arity.get((spot.net.uid, names[0]), 1)
        other = None
        if len(names) == 1 and (arity > 1 or choose.flag(4)):
            found = [p for p in state.tensors() if p.net is spot.net]
            picked = [choose.pick(found) for _ in range(arity)]
            other = ([p.tensor for p in picked], [p.text.rpartition("/")[2] for p in picked])
        return {"path": spot.path, "names": names, "at": spot.text, "reconnect": other}

    @staticmethod
    def on_plan(state: State, path, names, at, reconnect) -> None:
        net = find(state.root, path)
        layer = net.layers[net.calls[names[0]].layer]
        holders = [(net, names)]
        if "#" not in at and reconnect is None:
            holders = [(other, other.calls_of(key)) for other, key in state.holders(layer)]
        for inner, calls in holders:
            for name in calls:
                call = inner.calls.pop(name)
                tensors = reconnect[0] if reconnect else [*dict.fromkeys(call.tensors())]
                if not reconnect and (
                    len(tensors) != 1 or state.hand.arity.get((inner.uid, name), 1) != 1
                ):
                    raise Invalid("what is read instead is not clear")
                if any(t.call == name for t in tensors):
                    raise Invalid("a layer cannot be read instead of itself")
                inner.redirect({T(name, i): t for i, t in enumerate(tensors)})
            inner.forget_unused()

    @staticmethod
    def on_graph(graph, path, names, at, reconnect):
        del path, names
        if reconnect is None:
            return graph.remove(at)
        texts = reconnect[1]
        return graph.remove(at, reconnect=texts if len(texts) > 1 else texts[0])


CONSTANT = {"plus", "times", "later", "flip", "is_known"}
"""Operations with arguments that no layer takes."""


@edit
class Replace:
    @staticmethod
    def draw(choose: Choices, state: State):
        spot = choose.pick(state.calls() if choose.flag(3) else state.layers())
        names = spot.names
        call = spot.net.calls[names[0]]
        layer = spot.layer
        policy = choose.pick(["fit", "fit", "grow", "fresh", "tile"])
        same_name = choose.flag(4) and "#" not in spot.text and not layer.is_operation
        name = spot.layer_key if same_name else state.name()
        if layer.net is None and not layer.is_operation and choose.flag():
            new = Layer(layer.kind, dict(layer.options), choose.number(1, 9) * 10)
            other = other_options(choose, layer)
            if other is not None:
                new.options |= other
            return {"path": spot.path, "names": names, "at": spot.text, "new": New(new, name),
                    "policy": policy}  # fmt: skip
        if len(call.tensors()) != 1 or layer.kind in CONSTANT:
            return None
        new = draw_new(choose, state, state.hand.found[spot.net.uid, call.tensors()[0]])
        return new and {"path": spot.path, "names": names, "at": spot.text,
                        "new": New(new.layer, name, new.shape), "policy": policy}  # fmt: skip

    @staticmethod
    def on_plan(state: State, path, names, at, new, policy) -> None:
        net = find(state.root, path)
        old = net.layers[net.calls[names[0]].layer]
        made = new.into(state.hand)
        if new.shape is None and old.net is None and not old.is_operation:
            made.inherits = (old.uid, policy)
        holders = [(net, names)]
        if "#" not in at:
            holders = [(other, other.calls_of(key)) for other, key in state.holders(old)]
        for inner, calls in holders:
            put(inner, calls, made, new.name)

    @staticmethod
    def on_graph(graph, path, names, at, new, policy):
        del path, names
        return graph.replace(at, new.live(), weights=policy)


def put(net: Net, calls: list[str], layer: Layer, key: str) -> None:
    """Lets some calls be calls of another layer."""
    taken = net.calls.keys() - calls
    names: dict[str, str] = {}
    for name in calls:
        names[name] = unique_name(key, taken | set(names.values()))
    old = net.calls[calls[0]].layer
    net.rename_calls(names)
    for name in names.values():
        net.calls[name].layer = key
    if not net.calls_of(old) or old == key:
        net.layers.pop(old, None)
    net.layers[key] = layer


def other_options(choose: Choices, layer: Layer) -> dict[str, Any] | None:
    """Draws other options for a layer of the same kind."""
    kind, options = layer.kind, layer.options
    units = choose.pick([2, 3, 4, 5])
    found: list[dict[str, Any]] = []
    if kind == "Dense":
        found = [{"activation": choose.pick(["relu", "tanh", "linear"])}, {"units": units}]
    elif kind == "Embedding":
        found = [{"mask_zero": not options["mask_zero"]}, {"input_dim": units + 6}]
    elif kind == "Masking":
        found = [{"mask_value": 1.0 - options["mask_value"]}]
    elif kind == "Activation":
        found = [{"activation": "sigmoid"}]
    elif kind in ("LSTM", "GRU", "SimpleRNN"):
        found = [{"go_backwards": True}, {"activation": "relu"}]
        found.append({"units": units})
    elif kind == "Conv1D":
        found = [{"activation": "relu"}, {"filters": units}]
    elif kind == "Dropout":
        found = [{"rate": 0.1}]
    elif kind == "Bidirectional":
        found = [{"merge_mode": "mul"}]
    elif kind == "BatchNormalization":
        found = [{"epsilon": 0.1}]
    return choose.pick(found) if found else None


@edit
class ReplaceBlock:
    @staticmethod
    def draw(choose: Choices, state: State):
        net = state.root
        inner = [p for p in state.tensors() if p.net is net]
        end = choose.pick(inner)
        if end.tensor.call in net.inputs:
            return None
        above = [p for p in inner if p.tensor != end.tensor]
        start = choose.pick(above)
        if not lies_between(net, start.tensor, end.tensor):
            return None
        new = draw_new(choose, state, state.value(start))
        return new and {"start": start.tensor, "end": end.tensor, "texts": (start.text, end.text),
                        "new": new}  # fmt: skip

    @staticmethod
    def on_plan(state: State, start, end, texts, new) -> None:
        del texts
        net = state.root
        net.layers[new.name] = new.into(state.hand)
        net.redirect({end: T(new.name)})
        net.calls[new.name] = Call(new.name, [start])
        drop_unneeded(net)

    @staticmethod
    def on_graph(graph, start, end, texts, new):
        del start, end
        return graph.replace(texts, new.live())


def lies_between(net: Net, start: T, end: T) -> bool:
    """Whether a tensor follows from another alone, and nothing between is read outside."""
    inside: set[str] = set()
    waiting = [end]
    while waiting:
        tensor = waiting.pop()
        if tensor == start:
            continue
        if tensor.call in net.inputs:
            return False
        if tensor.call not in inside:
            inside.add(tensor.call)
            waiting += net.calls[tensor.call].tensors()
    outputs = keras.tree.flatten(net.outputs)
    for name in inside:
        read = [T(name, i) for i in range(4)]
        if any(t in outputs and t != end for t in read):
            return False
        for other in net.needed():
            outside = other not in inside
            if outside and any(t in read and t != end for t in net.calls[other].tensors()):
                return False
    return bool(inside)


def drop_unneeded(net: Net) -> None:
    kept = net.needed()
    net.calls = {name: call for name, call in net.calls.items() if name in kept}
    net.forget_unused()


@edit
class Configure:
    @staticmethod
    def draw(choose: Choices, state: State):
        spots = [s for s in state.layers() if s.layer.net is None and not s.layer.is_operation]
        if not spots:
            return None
        spot = choose.pick(spots)
        layer = spot.layer
        if choose.flag(3):
            return {"path": spot.path, "key": spot.key, "at": spot.text, "policy": "fit",
                    "changes": {"trainable": not layer.trainable}}  # fmt: skip
        changes = other_options(choose, layer)
        policy = choose.pick(["fit", "grow", "tile", "fresh"])
        return changes and {"path": spot.path, "key": spot.key, "at": spot.text,
                            "policy": policy, "changes": changes}  # fmt: skip

    @staticmethod
    def on_plan(state: State, path, key, at, policy, changes) -> None:
        del at
        configure(state, find(state.root, path).layers[key], policy, changes)

    @staticmethod
    def on_graph(graph, path, key, at, policy, changes):
        del path, key
        return graph.configure(at, weights=policy, **changes)


def configure(state: State, layer: Layer, policy: str, changes: dict[str, Any]) -> None:
    changes = dict(changes)
    trainable = changes.pop("trainable", layer.trainable)
    new = layer.changed(policy, options={**layer.options, **changes}, trainable=trainable)
    for net, key in state.holders(layer):
        net.layers[key] = new


@edit
class Freeze:
    """Also `unfreeze`, of one layer, of a nested model, or of all."""

    @staticmethod
    def draw(choose: Choices, state: State):
        spots = [s for s in state.layers() if not s.layer.is_operation]
        if choose.flag(5):
            return {"path": (), "key": None, "at": None, "trainable": choose.flag()}
        if not spots:
            return None
        spot = choose.pick(spots)
        return {"path": spot.path, "key": spot.key, "at": spot.text, "trainable": choose.flag()}

    @staticmethod
    def on_plan(state: State, path, key, at, trainable) -> None:
        net = find(state.root, path)
        start = net if at is None else net.layers[key]
        for layer in plain_layers(start):
            if layer.trainable != trainable:
                configure(state, layer, "fit", {"trainable": trainable})

    @staticmethod
    def on_graph(graph, path, key, at, trainable):
        del path, key
        return graph.unfreeze(at) if trainable else graph.freeze(at)


def plain_layers(start: Net | Layer) -> list[Layer]:
    """Lists the layers of a plan, or of a layer that may be one, without those that are plans."""
    if isinstance(start, Layer):
        return plain_layers(start.net) if start.net is not None else [start]
    found = [layer for inner in start.layers.values() for layer in plain_layers(inner)]
    return [
        layer for layer in {layer.uid: layer for layer in found}.values() if not layer.is_operation
    ]


FUNCTIONS = ("relu", "plus", "flip")
"""Operations that are given as functions."""


@edit
class InsertFunction:
    @staticmethod
    def draw(choose: Choices, state: State):
        place = pick_place(choose, state)
        value = state.value(place)
        if is_int(value) or is_bool(value):
            return None
        return {**place_args(place), "kind": choose.pick(FUNCTIONS), "name": state.name()}

    @staticmethod
    def on_plan(state: State, path, tensor, at, kind, name) -> None:
        del at
        net = find(state.root, path)
        net.layers[name] = Layer(kind)
        net.calls[name] = Call(name, [tensor])
        net.redirect({tensor: T(name)}, but=name)

    @staticmethod
    def on_graph(graph, path, tensor, at, kind, name):
        del tensor
        return named(graph, graph.insert_after(at, OPERATIONS[kind]), path, name)


@edit
class ReplaceByFunction:
    @staticmethod
    def draw(choose: Choices, state: State):
        spots = [s for s in state.calls() if len(s.net.calls[s.key].tensors()) == 1]
        if not spots:
            return None
        spot = choose.pick(spots)
        value = state.hand.found[spot.net.uid, spot.net.calls[spot.key].tensors()[0]]
        if is_int(value) or is_bool(value) or len(spot.names) != 1:
            return None
        return {
            "path": spot.path,
            "call": spot.key,
            "at": spot.text,
            "kind": choose.pick(FUNCTIONS),
            "name": state.name(),
        }

    @staticmethod
    def on_plan(state: State, path, call, at, kind, name) -> None:
        del at
        net = find(state.root, path)
        tensor = net.calls[call].tensors()[0]
        net.layers[name] = Layer(kind)
        net.calls[name] = Call(name, [tensor], trail=net.calls[call].trail)
        net.redirect({T(call): T(name)}, but=name)
        del net.calls[call]
        net.forget_unused()

    @staticmethod
    def on_graph(graph, path, call, at, kind, name):
        del call
        return named(graph, graph.replace(at, OPERATIONS[kind]), path, name)


def named(before: Any, after: Any, path: Any, name: str) -> Any:
    """Gives the operation that an edit brought into a graph its name in the plan."""
    graphs = [before, after]
    for key in path:
        graphs = [graph.layers[key].graph for graph in graphs]
    known = {layer.identity for layer in graphs[0].layers.values()}
    new = [key for key, layer in graphs[1].layers.items() if layer.identity not in known]
    return after.rename({"/".join([*path, new[0]]): name})


@edit
class Rewire:
    @staticmethod
    def draw(choose: Choices, state: State):
        spot = choose.pick(state.calls())
        tensors = spot.net.calls[spot.key].tensors()
        index = choose.number(0, len(tensors) - 1)
        old = state.hand.found[spot.net.uid, tensors[index]]
        others = [
            p
            for p in state.tensors()
            if p.net is spot.net and p.tensor != tensors[index] and alike(state.value(p), old)
        ]
        if not others:
            return None
        other = choose.pick(others)
        return {"path": spot.path, "call": spot.key, "at": spot.text, "argument": index,
                "tensor": other.tensor, "to": other.text}  # fmt: skip

    @staticmethod
    def on_plan(state: State, path, call, at, argument, tensor, to) -> None:
        del at, to
        set_argument(find(state.root, path).calls[call], argument, tensor)

    @staticmethod
    def on_graph(graph, path, call, at, argument, tensor, to):
        del path, call, tensor
        return graph.rewire(at, argument, to)


def alike(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


@edit
class Rename:
    @staticmethod
    def draw(choose: Choices, state: State):
        spot = choose.pick(state.layers())
        return {"path": spot.path, "key": spot.key, "at": spot.text, "name": state.name()}

    @staticmethod
    def on_plan(state: State, path, key, at, name) -> None:
        del at
        rename(state, {id(find(state.root, path).layers[key]): name})

    @staticmethod
    def on_graph(graph, path, key, at, name):
        del path, key
        return graph.rename({at: name})


def rename(state: State, names: dict[int, str]) -> None:
    """Gives layers other names, in all plans that call them."""
    for _, net in [*nets(state.root)]:
        keys = {key: names[id(v)] for key, v in net.layers.items() if id(v) in names}
        net.rename_calls(
            {n: keys[c.layer] + n[len(c.layer) :] for n, c in net.calls.items() if c.layer in keys}
        )
        for call in net.calls.values():
            call.layer = keys.get(call.layer, call.layer)
        net.layers = {keys.get(key, key): layer for key, layer in net.layers.items()}
        for layer in net.layers.values():
            if layer.net is not None and id(layer) in names:
                layer.net.name = names[id(layer)]


@edit
class Prefix:
    @staticmethod
    def draw(choose: Choices, state: State):
        return {"text": choose.pick(["p_", "q_"])} if state.root.inputs else None

    @staticmethod
    def on_plan(state: State, text) -> None:
        net = state.root
        rename(state, {id(layer): f"{text}{key}" for key, layer in net.layers.items()})
        net.rename_calls({name: f"{text}{name}" for name in net.inputs})

    @staticmethod
    def on_graph(graph, text):
        return graph.prefix(text)


@edit
class Flatten:
    @staticmethod
    def draw(choose: Choices, state: State):
        keys = [k for k, v in state.root.layers.items() if v.net is not None]
        keys = [k for k in keys if any(state.root.calls[n].layer == k for n in state.root.needed())]
        if not keys:
            return None
        return {"at": choose.pick([None, *keys])}

    @staticmethod
    def on_plan(state: State, at) -> None:
        net = state.root
        drop_unneeded(net)
        while True:
            keys = [k for k, v in net.layers.items() if v.net is not None and at in (None, k)]
            if not keys:
                return
            inline(net, keys[0])

    @staticmethod
    def on_graph(graph, at):
        return graph.flatten(at)


def inline(net: Net, key: str) -> None:
    """Puts the calls of a nested plan in the place of each call of it."""
    inner = net.layers[key].net
    known = {id(layer): name for name, layer in net.layers.items()}
    keys: dict[str, str] = {}
    for name, layer in inner.layers.items():
        keys[name] = known.get(id(layer), f"{key}_{name}")
    for call in net.calls_of(key):
        starts = keras.tree.flatten(net.calls[call].args)
        moved = dict(zip((T(name) for name in inner.inputs), starts, strict=True))
        names: dict[str, str] = {}
        for name, step in inner.calls.items():
            names[name] = unique_name(keys[step.layer], {*net.calls, *names.values()})
            moved |= {T(name, i): T(names[name], i) for i in range(4)}
        for name, step in inner.calls.items():
            args, kwargs = keras.tree.map_structure(moved.__getitem__, (step.args, step.kwargs))
            trail = (*net.calls[call].trail, *step.trail) if step.trail else ()
            net.calls[names[name]] = Call(keys[step.layer], args, kwargs, trail)
        ends = keras.tree.flatten(inner.outputs)
        del net.calls[call]
        net.redirect({T(call, i): moved[t] for i, t in enumerate(ends)})
    del net.layers[key]
    net.layers |= {keys[name]: layer for name, layer in inner.layers.items()}


@edit
class Unshare:
    @staticmethod
    def draw(choose: Choices, state: State):
        spots = [
            s
            for s in state.layers()
            if len(s.net.calls_of(s.key)) > 1 and not s.layer.options.get("tied")
        ]
        if not spots:
            return None
        spot = choose.pick(spots)
        return {"path": spot.path, "key": spot.key, "at": spot.text}

    @staticmethod
    def on_plan(state: State, path, key, at) -> None:
        del at
        net = find(state.root, path)
        calls = net.calls_of(key)
        names: dict[str, str] = {}
        for count, name in enumerate(calls[1:], 1):
            taken = {*net.layers, *net.calls, *names.values()}
            new = unique_name(f"{key}_{count}", taken).replace("#", "_")
            net.layers[new] = twin(net.layers[key], new)
            net.calls[name].layer = new
            names[name] = new
        net.rename_calls(names)

    @staticmethod
    def on_graph(graph, path, key, at):
        del path, key
        return graph.unshare(at)


def twin(layer: Layer, name: str) -> Layer:
    """Returns a layer of its own with the same weights."""
    new = layer.changed("fit")
    if new.net is not None:
        new.net = copy.deepcopy(new.net)
        new.net.name = name
        for _, net in nets(new.net):
            net.uid = number()
            net.layers = {
                key: inner if inner.net is not None else inner.changed("fit")
                for key, inner in net.layers.items()
            }
    return new


@edit
class Share:
    @staticmethod
    def draw(choose: Choices, state: State):
        spots = [s for s in state.layers() if s.layer.net is None and not s.layer.is_operation]
        pairs = [
            (a, b)
            for a in spots
            for b in spots
            if a.net is b.net and a.key != b.key and a.layer.kind == b.layer.kind
        ]
        if not pairs:
            return None
        first, other = choose.pick(pairs)
        return {"path": first.path, "keys": (first.key, other.key), "at": (first.text, other.text)}

    @staticmethod
    def on_plan(state: State, path, keys, at) -> None:
        del at
        net, (first, other) = find(state.root, path), keys
        names: dict[str, str] = {}
        for name in net.calls_of(other):
            net.calls[name].layer = first
            names[name] = unique_name(first, ({*net.calls} - {name}) | {*names.values()})
        net.rename_calls(names)
        net.forget_unused()

    @staticmethod
    def on_graph(graph, path, keys, at):
        del path, keys
        return graph.share(*at)


@edit
class AddOutput:
    @staticmethod
    def draw(choose: Choices, state: State):
        place = pick_place(choose, state)
        if place.path or place.tensor in keras.tree.flatten(state.root.outputs):
            return None
        if place.tensor.call in state.root.inputs or is_bool(state.value(place)):
            return None
        return {"tensor": place.tensor, "at": place.text}

    @staticmethod
    def on_plan(state: State, tensor, at) -> None:
        net = state.root
        if isinstance(net.outputs, dict):
            if tensor.call in net.outputs:
                raise Invalid("there is such an output")
            net.outputs = {**net.outputs, tensor.call: tensor}
        else:
            before = net.outputs if isinstance(net.outputs, list) else [net.outputs]
            net.outputs = [*before, tensor]
        del at

    @staticmethod
    def on_graph(graph, tensor, at):
        del tensor
        return graph.add_output(at)


@edit
class Extract:
    """Other outputs."""

    @staticmethod
    def draw(choose: Choices, state: State):
        places = [p for p in state.tensors() if not p.path]
        picked = [choose.pick(places) for _ in range(choose.number(1, 2))]
        inputs = state.root.inputs
        if any(p.tensor.call in inputs or is_bool(state.value(p)) for p in picked):
            return None
        if len({p.tensor for p in picked}) < len(picked):
            return None
        return {"tensors": [p.tensor for p in picked], "at": [p.text for p in picked]}

    @staticmethod
    def on_plan(state: State, tensors, at) -> None:
        del at
        net = state.root
        net.outputs = tensors if len(tensors) > 1 else tensors[0]
        net.kind = "Functional"
        drop_unneeded(net)
        read = {t.call for call in net.calls.values() for t in call.tensors()}
        net.inputs = {name: port for name, port in net.inputs.items() if name in read}
        if not net.inputs:
            raise Invalid("no input is needed")

    @staticmethod
    def on_graph(graph, tensors, at):
        del tensors
        return graph.extract(outputs=at if len(at) > 1 else at[0])


@edit
class WithInputs:
    """Another length, or a fixed size of batches."""

    @staticmethod
    def draw(choose: Choices, state: State):
        if len(state.root.inputs) != 1:
            return None
        ((name, port),) = state.root.inputs.items()
        steps = choose.pick([4, 5, 6])
        return {"name": name, "shape": (steps, *port.shape[1:])}

    @staticmethod
    def on_plan(state: State, name, shape) -> None:
        net = state.root
        port = net.inputs[name]
        net.inputs = {name: type(port)(shape, port.data, port.key)}

    @staticmethod
    def on_graph(graph, name, shape):
        del name
        return graph.with_inputs(shape=shape)


@edit
class PruneUnused:
    @staticmethod
    def draw(choose: Choices, state: State):
        del choose, state
        return {}

    @staticmethod
    def on_plan(state: State) -> None:
        for _, net in [*nets(state.root)][:1]:
            drop_unneeded(net)

    @staticmethod
    def on_graph(graph):
        return graph.prune_unused()


@edit
class SelectConfigure:
    """Every Dense layer gets another activation, or every layer of a kind is frozen."""

    @staticmethod
    def draw(choose: Choices, state: State):
        kind, changes = choose.pick([
            ("Dense", {"activation": "sigmoid"}),
            ("Dense", {"trainable": False}),
            ("LayerNormalization", {"trainable": False}),
            ("Embedding", {"mask_zero": True}),
            ("Embedding", {"mask_zero": False}),
            ("Dropout", {"rate": 0.2}),
        ])  # fmt: skip
        found = [s.layer for s in state.layers() if s.layer.kind == kind]
        return {"kind": kind, "changes": changes} if found else None

    @staticmethod
    def on_plan(state: State, kind, changes) -> None:
        found = {id(s.layer): s.layer for s in state.layers() if s.layer.kind == kind}
        for layer in found.values():
            configure(state, layer, "fit", changes)

    @staticmethod
    def on_graph(graph, kind, changes):
        return graph.select(kind=kind).configure(**changes)


@edit
class SelectInsert:
    """Something after, or before, every call of every layer of a kind."""

    @staticmethod
    def draw(choose: Choices, state: State):
        kind = choose.pick(["Dense", "LayerNormalization", "Embedding", "Activation"])
        if not any(s.layer.kind == kind for s in state.layers()):
            return None
        if state.touched & RENAMING:  # Layers are told apart by their names here.
            return None
        before = kind != "Embedding" and choose.flag()
        return {"kind": kind, "before": before, "name": state.name()}

    @staticmethod
    def on_plan(state: State, kind, before, name) -> None:
        spots = [s for s in state.calls() if s.layer.kind == kind]
        for spot in spots:
            net, own = spot.net, spot.net.calls[spot.key].layer
            key = f"{name}_{own}_{net.calls_of(own).index(spot.key)}"
            net.layers[key] = Layer("Activation", {"activation": "tanh"})
            if before:
                (tensor,) = net.calls[spot.key].tensors()
                set_argument(net.calls[spot.key], 0, T(key))
            else:
                tensor = T(spot.key)
                net.redirect({tensor: T(key)})
            net.calls[key] = Call(key, [tensor])

    @staticmethod
    def on_graph(graph, kind, before, name):
        counts: dict[str, int] = {}

        def make(old):
            counts[old.name] = counts.get(old.name, -1) + 1
            return keras.layers.Activation("tanh", name=f"{name}_{old.name}_{counts[old.name]}")

        found = graph.select(kind=kind)
        return found.insert_before(make) if before else found.insert_after(make)


@edit
class Rewrite:
    """Every activation, or operation, becomes another layer."""

    @staticmethod
    def draw(choose: Choices, state: State):
        kinds = {"Activation", "relu"} & {s.layer.kind for s in state.layers()}
        if not kinds:
            return None
        kind = choose.pick(sorted(kinds))
        if sum(s.layer.kind == kind for s in state.calls()) > 1:  # Which is which is not told.
            return None
        return {"kind": kind, "name": state.name()}

    @staticmethod
    def on_plan(state: State, kind, name) -> None:
        found = [s for s in state.calls() if s.layer.kind == kind]
        for spot in found:
            net, key = spot.net, name
            call = net.calls.pop(spot.key)
            net.redirect({T(spot.key): T(key)})
            net.layers[key] = Layer("ReLU", {"negative_slope": 0.25})
            net.calls[key] = Call(key, call.args)
            net.forget_unused()

    @staticmethod
    def on_graph(graph, kind, name):
        patterns = {
            "Activation": lambda x: ramet.any_layer(keras.layers.Activation)(x),
            "relu": lambda x: ops.relu(x),
        }

        def new(x):
            return keras.layers.ReLU(negative_slope=0.25, name=name)(x)

        return ramet.rewrite(graph, patterns[kind], new)
