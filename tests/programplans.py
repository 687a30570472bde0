"""Plans of models as plain data, and the layers of a plan called by hand.

A plan knows nothing of ramet. `make_model` makes a Keras model of it; `Hand` calls the
same layers one after the other on concrete tensors, nested models inlined, so that masks
ride on tensors as Keras attaches them. What `Hand` computes is what an edited model must
compute.
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import layers, ops
from keras.src.backend.common.masking import get_keras_mask

import sequences

STEPS, WIDTH, VOCABULARY = 4, 3, 7

# --- data ----------------------------------------------------------------------------

TOKENS = np.array([[1, 2, 0, 0], [0, 0, 0, 0], [5, 0, 6, 1], [3, 4, 2, 6]], "int32")


def _signal() -> np.ndarray:
    """Steps of zeros and of ones are what a Masking layer skips."""
    values = np.random.default_rng(1).standard_normal((4, STEPS, WIDTH)).astype("float32")
    values[0, 2:] = values[1] = 0.0
    values[2, 1] = values[3, 0] = 1.0
    return values


ROWS = {"tokens": TOKENS, "signal": _signal(), "other": _signal()[::-1].copy()}


def batch(net: "Net", rows: tuple[int, int] = (0, 4)) -> dict[str, np.ndarray]:
    """Returns data for each input of a plan; longer inputs go on from the start."""
    found = {}
    for name, port in net.inputs.items():
        steps = np.arange(port.shape[0] or STEPS) % STEPS
        found[name] = ROWS[port.data][slice(*rows)][:, steps]
    return found


# --- layers and models of users ------------------------------------------------------


def known(cls: type) -> type:
    return keras.saving.register_keras_serializable("programs")(cls)


@known
class Block(layers.Layer):
    """Holds sublayers; has a config, and no idea of masks."""

    def __init__(self, width, init=0, **kwargs):
        super().__init__(**kwargs)
        self.width, self.init = width, init
        self.norm = layers.LayerNormalization(name="norm")
        self.dense = layers.Dense(
            width, kernel_initializer=initializer(init), bias_initializer=initializer(init + 1)
        )

    def build(self, shape):
        self.norm.build(shape)
        self.dense.build(shape)

    def call(self, x):
        return x + self.dense(self.norm(x))

    def compute_output_shape(self, shape):
        return shape

    def get_config(self):
        return {**super().get_config(), "width": self.width, "init": self.init}


@known
class MaskedBlock(Block):
    """Lets masks through."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.supports_masking = True


@known
class Louder(layers.Layer):
    """Differs in training, without chance."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, x, training=None):
        return x * 1.5 if training else x + 0.0


@known
class Roll(layers.Layer):
    """Makes other tokens of tokens, so that others are masked."""

    def call(self, x):
        return ops.mod(x + 1, VOCABULARY)


@known
class Plain(keras.Model):
    """A Functional subclass that adds nothing."""


@known
class Small(keras.Model):
    """A Functional subclass that makes its own graph and has its own config."""

    def __init__(self, width=WIDTH, name=None, **kwargs):
        inputs = keras.Input((None, WIDTH), name="start")
        start = {"kernel_initializer": initializer(0), "bias_initializer": initializer(1)}
        x = layers.Dense(width, activation="tanh", name="first", **start)(inputs)
        outputs = layers.Dense(width, name="second", **start)(x)
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)
        self.width = width

    def get_config(self):
        return {"width": self.width, "name": self.name}


CUSTOM = {c.__name__: c for c in (Block, MaskedBlock, Louder, Roll)} | sequences.CUSTOM
MODELS = {"Functional": keras.Model, "Plain": Plain, "Small": Small}

OPERATIONS: dict[str, Callable[..., Any]] = {
    "relu": ops.relu,
    "plus": lambda x: x + 1.0,
    "times": lambda x: x * 2.0,
    "later": lambda x: x[:, 1:],
    "flip": lambda x: ops.flip(x, axis=1),
    "is_known": lambda x: ops.not_equal(x, 5),
    "minus": lambda x, y: x - y,
}

# --- plans ---------------------------------------------------------------------------

_NUMBERS = itertools.count(1)


def number() -> int:
    """Returns a number that no other layer or plan has."""
    return next(_NUMBERS)


@dataclass(frozen=True)
class T:
    """One output of a call, or an input of the plan."""

    call: str
    out: int = 0


@dataclass
class Layer:
    """What a layer is: a class and its options, an operation, or a nested plan."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    init: int = 0
    """Seed of the initializers, so that fresh weights are known beforehand."""
    net: "Net | None" = None
    trainable: bool = True
    inherits: tuple[int, str] | None = None
    """The layer whose weights it takes over, and how."""
    uid: int = field(default_factory=number)

    @property
    def is_operation(self) -> bool:
        return self.kind in OPERATIONS

    def changed(self, policy: str, **changes: Any) -> "Layer":
        """Returns another layer that takes over the weights of this one."""
        new = copy.copy(self)
        new.uid, new.inherits = number(), (self.uid, policy)
        for key, value in changes.items():
            setattr(new, key, value)
        return new


@dataclass
class Call:
    """One call of a layer, by key."""

    layer: str
    args: list[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)
    trail: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """The call that it was before any edit, after those of the models that were around it."""

    def tensors(self) -> list[T]:
        return keras.tree.flatten((self.args, self.kwargs))


@dataclass(frozen=True)
class Port:
    """An input: its shape, its key in the model's inputs, and which data it gets."""

    shape: tuple[int | None, ...]
    data: str
    key: str


@dataclass
class Net:
    """A model as data: layers and calls by the names that ramet has for them."""

    name: str
    inputs: dict[str, Port]
    layers: dict[str, Layer]
    calls: dict[str, Call]
    outputs: Any
    kind: str = "Functional"
    uid: int = field(default_factory=number)

    def calls_of(self, key: str) -> list[str]:
        return [name for name, call in self.calls.items() if call.layer == key]

    def readers(self, tensor: T) -> list[str]:
        return [name for name, call in self.calls.items() if tensor in call.tensors()]

    def needed(self) -> list[str]:
        """Names the calls that the outputs need."""
        found: dict[str, None] = {}
        waiting = [t.call for t in keras.tree.flatten(self.outputs)]
        while waiting:
            name = waiting.pop()
            if name in self.calls and name not in found:
                found[name] = None
                waiting += [t.call for t in self.calls[name].tensors()]
        return [name for name in self.calls if name in found]

    def redirect(self, mapping: dict[T, T], but: str | None = None) -> None:
        """Lets the readers of some tensors read others."""

        def new(tree: Any) -> Any:
            return keras.tree.map_structure(lambda t: mapping.get(t, t), tree)

        for name, call in self.calls.items():
            if name != but:
                call.args, call.kwargs = new(call.args), new(call.kwargs)
        self.outputs = new(self.outputs)

    def rename_calls(self, names: dict[str, str]) -> None:
        """Gives calls other names, and inputs."""
        self.redirect(
            {T(old, i): T(new, i) for old, new in names.items() for i in range(4) if old != new}
        )
        self.calls = {names.get(name, name): call for name, call in self.calls.items()}
        self.inputs = {names.get(name, name): port for name, port in self.inputs.items()}

    def forget_unused(self) -> None:
        """Leaves out layers that have no call."""
        used = {call.layer for call in self.calls.values()}
        self.layers = {key: layer for key, layer in self.layers.items() if key in used}


def nets(root: Net, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Net]]:
    """Yields a plan and those nested in it, each once, with the way to each."""
    met: set[int] = set()
    waiting = [(path, root)]
    while waiting:
        path, net = waiting.pop(0)
        if net.uid not in met:
            met.add(net.uid)
            yield path, net
            used = {net.calls[name].layer for name in net.needed()}
            nested = [(k, v.net) for k, v in net.layers.items() if v.net is not None and k in used]
            waiting += [((*path, key), inner) for key, inner in nested]


def unified(root: Net) -> Net:
    """Makes layers and plans of one number one object again, as `repr` does not keep it."""
    known_layers: dict[int, Layer] = {}
    known_nets: dict[int, Net] = {root.uid: root}

    def visit(net: Net) -> None:
        for key, layer in net.layers.items():
            net.layers[key] = one = known_layers.setdefault(layer.uid, layer)
            if one.net is not None:
                first = one.net.uid not in known_nets
                one.net = known_nets.setdefault(one.net.uid, one.net)
                if first:
                    visit(one.net)

    visit(root)
    return root


def unique_name(name: str, taken: Any) -> str:
    """Returns a name, or `name#2`, `name#3`, ... if it is taken."""
    names = itertools.chain([name], (f"{name}#{i}" for i in itertools.count(2)))
    return next(n for n in names if n not in taken)


# --- live layers ---------------------------------------------------------------------

INITIALIZED = {
    "Dense": ("kernel", "bias"),
    "Conv1D": ("kernel", "bias"),
    "Embedding": ("embeddings",),
    "LSTM": ("kernel", "recurrent", "bias"),
    "GRU": ("kernel", "recurrent", "bias"),
    "SimpleRNN": ("kernel", "recurrent", "bias"),
    "MultiHeadAttention": ("kernel", "bias"),
}


COMPOSITE = {"Block", "MaskedBlock", "Bidirectional", "TimeDistributed", "MultiHeadAttention",
             "LSTM", "GRU", "SimpleRNN"}  # fmt: skip
"""Layers with parts. Frozen before they are built, they train their parts on TensorFlow, in
plain Keras too, so they are frozen when they are built."""


def initializer(seed: int) -> Any:
    return keras.initializers.RandomUniform(-0.7, 0.7, seed=seed)


def make_layer(layer: Layer, name: str) -> Any:
    """Makes a live layer that is not a model."""
    options = dict(layer.options)
    for number_, entry in enumerate(INITIALIZED.get(layer.kind, ())):
        options[f"{entry}_initializer"] = initializer(layer.init + number_)
    if layer.kind in ("Block", "MaskedBlock"):
        options["init"] = layer.init
    if "wrapped" in options:
        kind, inner = options.pop("wrapped")
        options["layer"] = make_layer(Layer(kind, inner, layer.init), f"{name}_inner")
    made = (CUSTOM.get(layer.kind) or getattr(layers, layer.kind))(**options, name=name)
    if not layer.trainable and layer.kind not in COMPOSITE:
        made.trainable = False
    return made


def make_model(net: Net, made: dict[int, Any] | None = None) -> Any:
    """Makes a Keras model of a plan."""
    made = {} if made is None else made
    if net.kind == "Small":
        return Small(name=net.name)
    for key, layer in net.layers.items():
        if layer.uid not in made and not layer.is_operation:
            live = make_layer(layer, key) if layer.net is None else make_model(layer.net, made)
            made[layer.uid] = live
    if net.kind == "Sequential":
        (port,) = net.inputs.values()
        parts = [made[net.layers[net.calls[name].layer].uid] for name in in_order(net)]
        (start,) = net.inputs
        return keras.Sequential([keras.Input(port.shape, name=start), *parts], name=net.name)
    inputs = {
        name: keras.Input(p.shape, dtype=str(ROWS[p.data].dtype), name=name)
        for name, p in net.inputs.items()
    }
    values: dict[T, Any] = {T(name): x for name, x in inputs.items()}
    for name in in_order(net):
        call = net.calls[name]
        args, kwargs = keras.tree.map_structure(values.__getitem__, (call.args, call.kwargs))
        layer = net.layers[call.layer]
        by = OPERATIONS[layer.kind] if layer.is_operation else made[layer.uid]
        found = keras.tree.flatten(by(*args, **kwargs))
        values |= {T(name, i): x for i, x in enumerate(found)}
    keyed = {net.inputs[name].key: x for name, x in inputs.items()}
    given = keyed if len(inputs) > 1 else next(iter(inputs.values()))
    outputs = keras.tree.map_structure(values.__getitem__, net.outputs)
    model = MODELS[net.kind](given, outputs, name=net.name)
    _name_operations(net, values)
    return model


def _name_operations(net: Net, values: dict[T, Any]) -> None:
    """Gives operations the names that Keras gave them."""
    names = {
        name: values[T(name)]._keras_history.operation.name
        for name, call in net.calls.items()
        if net.layers[call.layer].is_operation and T(name) in values
    }
    net.rename_calls(names)
    net.layers = {names.get(key, key): layer for key, layer in net.layers.items()}
    for name in names.values():
        net.calls[name].layer = name


def live_layers(net: Net, model: Any) -> Iterator[tuple[str, Layer, Any]]:
    """Yields the layers of a model beside those of its plan, nested ones too, with paths."""
    named = {layer.name: layer for layer in model.layers}
    used = {net.calls[name].layer for name in net.needed()}
    for key, layer in net.layers.items():
        if not layer.is_operation and key in used:
            assert key in named, f"no layer '{key}' in '{model.name}': {[*named]}"
            if layer.net is None:
                yield key, layer, named[key]
            else:
                for path, inner, live in live_layers(layer.net, named[key]):
                    yield f"{key}/{path}", inner, live


def random_weights(live: Any, seed: int) -> None:
    """Gives a layer or model weights with which masks and wires matter."""
    rng = np.random.default_rng(seed)
    for weight in live.weights:
        values = rng.normal(0.1, 0.7, weight.shape).astype("float32")
        weight.assign(np.abs(values) + 0.5 if weight.name == "moving_variance" else values)


# --- layers called by hand -----------------------------------------------------------


class Invalid(Exception):  # noqa: N818  no error, but a plan to be left alone
    """The layers of a plan cannot be called one after the other."""


class Hand:
    """Calls layers of its own, which have the values that a plan says."""

    def __init__(self) -> None:
        self.values: dict[int, list[np.ndarray]] = {}
        """The weights of the source's layers."""
        self._live: dict[int, Any] = {}
        self.found: dict[tuple[int, T], Any] = {}
        """What was computed last, by plan and tensor."""
        self.arity: dict[tuple[int, str], int] = {}
        self.memo: dict[Any, Any] | None = {}
        """What was computed, by layer and arguments; `None` to compute everything."""
        self.training: bool | None = None
        """Whether layers are called to be trained."""
        self._inputs: dict[Any, Any] = {}

    def learn(self, net: Net, model: Any) -> None:
        """Takes the weights of a model down."""
        for _, layer, live in live_layers(net, model):
            self.values[layer.uid] = live.get_weights()

    def live(self, layer: Layer) -> Any:
        """Returns the live layer, which must have been called."""
        return self._live[layer.uid]

    def outputs(self, net: Net, data: dict[str, Any]) -> list[Any]:
        """Calls everything that the outputs need, and returns them flat."""
        return self.run(net, {T(name): self._input(value) for name, value in data.items()})

    def _input(self, value: np.ndarray) -> Any:
        key = value.shape, value.tobytes()
        if key not in self._inputs:
            self._inputs[key] = ops.convert_to_tensor(value)
        return self._inputs[key]

    def run(self, net: Net, given: dict[T, Any]) -> list[Any]:
        for tensor, value in given.items():
            self.found[net.uid, tensor] = value
        values = dict(given)
        for name in in_order(net):
            for index, value in enumerate(self.call(net, name, values)):
                values[T(name, index)] = value
                self.found[net.uid, T(name, index)] = value
        return [values[tensor] for tensor in keras.tree.flatten(net.outputs)]

    def call(self, net: Net, name: str, values: dict[T, Any]) -> list[Any]:
        """Makes one call, and returns its outputs flat."""
        call = net.calls[name]
        layer = net.layers[call.layer]
        try:
            args, kwargs = keras.tree.map_structure(values.__getitem__, (call.args, call.kwargs))
        except KeyError as error:
            raise Invalid(f"{name} reads {error}") from error
        _check_masks(name, args, kwargs)
        if layer.net is not None:
            starts = (T(key) for key in layer.net.inputs)
            found = self.run(layer.net, dict(zip(starts, keras.tree.flatten(args), strict=True)))
        else:
            found = self._remembered(layer, args, kwargs)
        self.arity[net.uid, name] = len(found)
        return found

    def _remembered(self, layer: Layer, args: Any, kwargs: Any) -> list[Any]:
        """Calls a layer, or an operation, unless it was called on the same tensors before."""
        # Attention takes the masks off its arguments, which `check_fair` lets be these.
        if self.memo is None or layer.kind == "UnitNormalization":
            return self._called(layer, args, kwargs)
        what = layer.kind if layer.is_operation else layer.uid
        given = keras.tree.flatten((args, kwargs))
        key = what, str(keras.tree.map_structure(id, (args, kwargs)))
        if key not in self.memo:
            self.memo[key] = given, self._called(layer, args, kwargs)
        return self.memo[key][1]

    def _called(self, layer: Layer, args: Any, kwargs: Any) -> list[Any]:
        if layer.is_operation:
            return [OPERATIONS[layer.kind](*args)]
        if layer.uid not in self._live:
            live = make_layer(layer, f"hand_{layer.uid}")
            live(*args, **kwargs)
            self._settle(layer, live)
            live.trainable = layer.trainable
            self._live[layer.uid] = live
        live = self._live[layer.uid]
        if self.training and live._call_has_training_arg:
            kwargs = {"training": True, **kwargs}
        return keras.tree.flatten(live(*args, **kwargs))

    def _settle(self, layer: Layer, live: Any) -> None:
        """Gives a layer the weights that it has to have."""
        if layer.uid in self.values:
            live.set_weights(self.values[layer.uid])
        elif layer.inherits is not None:
            uid, policy = layer.inherits
            old = self._live.get(uid)
            if old is None:
                raise Invalid(f"nobody called layer {uid}, so its weights are not known")
            take_over(old, live, policy)


def in_order(net: Net) -> list[str]:
    """Names the calls that are needed, each after what it reads, else as they stand."""
    waiting, done = net.needed(), dict.fromkeys(net.inputs)
    while waiting:
        ready = (n for n in waiting if all(t.call in done for t in net.calls[n].tensors()))
        name = next(ready, None)
        if name is None:
            raise Invalid(f"{waiting} wait for each other, or for what is not there")
        done[name] = None
        waiting.remove(name)
    return [name for name in done if name in net.calls]


def _check_masks(name: str, args: Any, kwargs: Any) -> None:
    """Masks of another length than what they mask are not for us to judge."""
    pairs = [(x, get_keras_mask(x)) for x in keras.tree.flatten((args, kwargs))]
    if "mask" in kwargs:
        pairs.append((args[0], kwargs["mask"]))
    for tensor, mask in pairs:
        if mask is not None and tuple(mask.shape) != tuple(tensor.shape)[: len(mask.shape)]:
            raise Invalid(f"{name} gets a mask of another length")


GATES = {"LSTM": 4, "GRU": 3}
NORMS = {"BatchNormalization", "LayerNormalization"}
"""Classes whose weights of one name mean the same."""


def take_over(old: Any, new: Any, policy: str) -> None:
    """Gives a layer the weights of another, by role: a plain account of what ramet promises."""
    if policy == "fresh":
        return
    if type(old) is type(new) and len(old.weights) == len(new.weights):
        pairs = [*zip(old.weights, new.weights, strict=True)]
    elif not NORMS.issuperset({type(old).__name__, type(new).__name__}):
        return
    else:
        by_name = {w.name: w for w in old.weights}
        pairs = [(by_name[w.name], w) for w in new.weights if w.name in by_name]
    gates = GATES.get(type(new).__name__, 1)
    for before, after in pairs:
        values, start = (np.array(ops.convert_to_numpy(w.value)) for w in (before, after))
        if values.shape == start.shape:
            after.assign(values)
        elif policy != "fit" and values.ndim == start.ndim:
            after.assign(_overlaid(values, start, gates, repeat=policy == "tile"))


def _overlaid(old: np.ndarray, new: np.ndarray, gates: int, *, repeat: bool) -> np.ndarray:
    """Lays old values over new ones, gate by gate."""
    parts = []
    pairs = zip(np.split(old, gates, -1), np.split(new, gates, -1), strict=True)
    for before, after in pairs:
        if repeat:
            sizes = zip(after.shape, before.shape, strict=True)
            parts.append(before[np.ix_(*(np.arange(n) % had for n, had in sizes))])
        else:
            both = tuple(map(slice, np.minimum(before.shape, after.shape)))
            part = after.copy()
            part[both] = before[both]
            parts.append(part)
    return np.concatenate(parts, -1)


# --- training ------------------------------------------------------------------------


class ByHand(keras.Model):
    """Trains layers that are called by hand."""

    def __init__(self, net: Net, hand: Hand) -> None:
        super().__init__()
        self.plan, self.hand = (net,), (hand,)
        self.parts = [hand.live(layer) for layer in reachable(net)]
        self.built = True

    def call(self, inputs, training=None):
        (net,), (hand,) = self.plan, self.hand
        hand.training = training  # On JAX, Keras does not hand it on to the layers.
        try:
            found = hand.run(net, {T(name): inputs[name] for name in net.inputs})
        finally:
            hand.training = None
        return found if len(found) > 1 else found[0]


def reachable(net: Net) -> list[Layer]:
    """Lists the layers that are called and are neither models nor operations, each once."""
    found: dict[int, Layer] = {}
    for _, inner in nets(net):
        for name in inner.needed():
            layer = inner.layers[inner.calls[name].layer]
            if layer.net is None and not layer.is_operation:
                found.setdefault(layer.uid, layer)
    return [*found.values()]


def trained(net: Net) -> dict[int, bool]:
    """Tells for each layer whether its weights are trained: if no model around it is frozen."""
    found: dict[int, bool] = {}

    def visit(inner: Net, *, free: bool) -> None:
        for name in inner.needed():
            layer = inner.layers[inner.calls[name].layer]
            if layer.net is not None:
                visit(layer.net, free=free and layer.trainable)
            else:
                found[layer.uid] = found.get(layer.uid, False) or (free and layer.trainable)

    visit(net, free=True)
    return found
