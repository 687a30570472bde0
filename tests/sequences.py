"""Random plans of sequence models, as plain data, and two ways to run them.

A plan is made into a Keras model, or its layers are called by hand, one after the
other on concrete tensors and without any graph. Masks then flow as Keras attaches
them to tensors. That is what a model has to agree with, whatever was done to it.
"""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from hypothesis import strategies as st
from keras import layers, ops
from keras.src.backend.common.masking import get_keras_mask

TIME, FEATURES, VOCABULARY, LONGEST = 6, 3, 9, 14

# --- data ----------------------------------------------------------------------------

TOKENS = np.array([[1, 2, 3, 0, 0, 0], [4, 0, 0, 0, 0, 0], [5, 6, 0, 8, 2, 1]], "int32")


def _signal() -> np.ndarray:
    """Steps of zeros and of ones are what a Masking layer skips."""
    values = np.random.default_rng(1).standard_normal((3, TIME, FEATURES)).astype("float32")
    values[0, 4:] = values[1, 1:] = 0.0
    values[2, 2] = values[0, 1] = 1.0
    return values


SIGNAL = _signal()


def data_for(plan: "Plan", time: int = TIME) -> dict[str, np.ndarray]:
    """Makes a batch for each input of a plan; a longer one goes on from the start."""
    values = {"tokens": TOKENS, "signal": SIGNAL}
    steps = np.arange(time) % TIME
    return {name: values[name][:, steps] for name in plan.inputs}


# --- layers of our own ---------------------------------------------------------------


@keras.saving.register_keras_serializable("sequences")
class EverySecond(layers.Layer):
    """Skips every second step, also of its mask."""

    def call(self, x):
        return x[:, ::2] * 1.0

    def compute_mask(self, inputs, mask=None):
        del inputs
        return None if mask is None else mask[:, ::2]


@keras.saving.register_keras_serializable("sequences")
class TwoViews(layers.Layer):
    """Has two outputs, and Keras's own idea of their masks: only the first has one."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, x):
        return x * 2.0, x - 1.0


@keras.saving.register_keras_serializable("sequences")
class TwoMasks(TwoViews):
    """Has two outputs, with a mask on the second only."""

    def compute_mask(self, inputs, mask=None):
        del inputs
        return [None, mask]


@keras.saving.register_keras_serializable("sequences")
class Positive(layers.Layer):
    """Makes a mask of its own, from values; it needs none."""

    def call(self, x):
        return x + 0.5

    def compute_mask(self, inputs, mask=None):
        own = ops.any(ops.greater(inputs, 0.0), axis=-1)
        return own if mask is None else ops.logical_and(mask, own)


@keras.saving.register_keras_serializable("sequences")
class MaskedMean(layers.Layer):
    """Uses the mask itself, and gives none."""

    def call(self, x, mask=None):
        if mask is None:
            return ops.mean(x, axis=1)
        weight = ops.expand_dims(ops.cast(mask, x.dtype), -1)
        return ops.sum(x * weight, axis=1) / (ops.sum(weight, axis=1) + 1e-3)

    def compute_mask(self, inputs, mask=None):
        del inputs, mask


CUSTOM = {c.__name__: c for c in (EverySecond, TwoViews, TwoMasks, Positive, MaskedMean)}

OPERATIONS: dict[str, Callable[..., Any]] = {
    "tanh": ops.tanh,  # not `x * 0.5`, which Keras takes for a sparse tensor
    "flip": lambda x: ops.flip(x, axis=1),
    "is_known": lambda x: ops.not_equal(x, 5),
}

# --- plans ---------------------------------------------------------------------------

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """One output of a step, or an input of the plan."""

    step: str
    index: int = 0


@dataclass(frozen=True)
class Kind:
    """What a layer is: a class and its options, an operation, or a nested plan."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    plan: "Plan | None" = None

    @property
    def is_operation(self) -> bool:
        return self.name in OPERATIONS


@dataclass(frozen=True)
class Step:
    """One call of a layer."""

    name: str
    layer: str
    args: tuple[Any, ...]
    shapes: tuple[Shape, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def tensors(self) -> list[Tensor]:
        return keras.tree.flatten((self.args, self.kwargs))


@dataclass(frozen=True)
class Plan:
    """A model as data: inputs by name, layers by name, calls in order, outputs."""

    inputs: dict[str, Shape]
    layers: dict[str, Kind]
    steps: tuple[Step, ...]
    outputs: tuple[Tensor, ...]

    def shape(self, tensor: Tensor) -> Shape:
        if tensor.step in self.inputs:
            return self.inputs[tensor.step]
        return next(s.shapes[tensor.index] for s in self.steps if s.name == tensor.step)

    def __str__(self) -> str:
        lines = [f"{name}: {shape}" for name, shape in self.inputs.items()]
        for step in self.steps:
            kind = self.layers[step.layer]
            lines.append(
                f"{step.name} {step.shapes} = {step.layer}:{kind.name}{kind.options}"
                f"({_shown(step.args)}, {_shown(step.kwargs)})"
            )
            if kind.plan is not None:
                lines += ["    " + line for line in str(kind.plan).splitlines()]
        return "\n".join([*lines, f"return {_shown(self.outputs)}"])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: FBT001  Hypothesis's
        del cycle
        for line in str(self).splitlines():
            printer.text(line)
            printer.break_()


def _shown(tree: Any) -> Any:
    return keras.tree.map_structure(lambda t: f"{t.step}.{t.index}", tree)


# --- running -------------------------------------------------------------------------


def make_layer(name: str, kind: Kind) -> Any:
    """Makes a live layer; of a nested plan, a model."""
    if kind.is_operation:
        return OPERATIONS[kind.name]
    if kind.plan is not None:
        return make_model(kind.plan, name, sequential=kind.name == "sequential")
    options = dict(kind.options)
    if "wrapped" in options:
        inner, inner_options = options.pop("wrapped")
        options["layer"] = getattr(layers, inner)(**inner_options, name=f"{name}_inner")
    return (CUSTOM.get(kind.name) or getattr(layers, kind.name))(**options, name=name)


def make_model(plan: Plan, name: str = "net", *, sequential: bool = False) -> Any:
    """Makes a Keras model of a plan."""
    if sequential:
        (shape,) = plan.inputs.values()
        parts = [make_layer(step.layer, plan.layers[step.layer]) for step in plan.steps]
        return keras.Sequential([keras.Input(shape), *parts], name=name)
    inputs = {
        key: keras.Input(shape, dtype="int32" if len(shape) == 1 else "float32", name=key)
        for key, shape in plan.inputs.items()
    }
    live = {key: make_layer(key, kind) for key, kind in plan.layers.items()}
    values = run(plan, live, inputs)
    outputs = [values[tensor] for tensor in plan.outputs]
    if len(inputs) == 1:
        (inputs,) = inputs.values()
    return keras.Model(inputs, outputs[0] if len(outputs) == 1 else outputs, name=name)


def randomize(model: Any, seed: int = 0) -> Any:
    """Gives a model weights with which masks matter."""
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(0.1, 0.7, w.shape).astype("float32") for w in model.weights])
    for layer in model._flatten_layers():
        if isinstance(layer, layers.BatchNormalization):
            layer.moving_variance.assign(np.abs(layer.moving_variance.numpy()) + 0.5)
    return model


def plain_call(layer: Any, *args: Any, **kwargs: Any) -> Any:
    return layer(*args, **kwargs)


def run(
    plan: Plan,
    live: dict[str, Any],
    inputs: dict[str, Any],
    call: Callable[..., Any] = plain_call,
    misfits: list[str] | None = None,
) -> dict[Tensor, Any]:
    """Calls the layers of a plan one after the other.

    Args:
        plan: What to call.
        live: The layers by name. For a nested plan either a model, which is called as
            it is, or a dict of its layers, which are called one by one.
        inputs: A tensor for each input.
        call: Calls a layer.
        misfits: Gets a line for each mask that is not as long as what it masks.
    """
    values = {Tensor(name): value for name, value in inputs.items()}
    for step in plan.steps:
        args, kwargs = keras.tree.map_structure(values.__getitem__, (step.args, step.kwargs))
        if misfits is not None:
            misfits += [f"{step.name}: {found}" for found in _misfits(args, kwargs)]
        kind, layer = plan.layers[step.layer], live[step.layer]
        if isinstance(layer, dict):
            inner = dict(zip(kind.plan.inputs, args, strict=True))
            found = run(kind.plan, layer, inner, call, misfits)
            outputs = [found[tensor] for tensor in kind.plan.outputs]
        else:
            by = plain_call if kind.is_operation else call
            outputs = keras.tree.flatten(by(layer, *args, **kwargs))
        values |= {Tensor(step.name, index): value for index, value in enumerate(outputs)}
    return values


def _misfits(args: Any, kwargs: Any) -> Iterator[str]:
    pairs = [(x, get_keras_mask(x)) for x in keras.tree.flatten((args, kwargs))]
    if "mask" in kwargs:
        pairs.append((args[0], kwargs["mask"]))
    for tensor, mask in pairs:
        if mask is not None and tuple(mask.shape) != tuple(tensor.shape)[: len(mask.shape)]:
            yield f"{tuple(mask.shape)} for {tuple(tensor.shape)}"


def live_layers(plan: Plan, model: Any) -> dict[str, Any]:
    """Returns the layers of a model that was made of a plan, also of nested ones."""
    named = {layer.name: layer for layer in model.layers}
    found: dict[str, Any] = {}
    for name, kind in plan.layers.items():
        if kind.is_operation:
            found[name] = OPERATIONS[kind.name]
        else:
            nested = kind.plan is not None
            found[name] = live_layers(kind.plan, named[name]) if nested else named[name]
    return found


def new_layers(plan: Plan) -> dict[str, Any]:
    """Makes every layer of a plan; of nested ones, models."""
    return {name: make_layer(name, kind) for name, kind in plan.layers.items()}


def by_hand(plan: Plan, live: dict[str, Any], data: dict[str, Any], **options: Any) -> list[Any]:
    """Runs a plan on concrete tensors, and returns its outputs."""
    tensors = {name: ops.convert_to_tensor(value) for name, value in data.items()}
    values = run(plan, live, tensors, **options)
    return [values[tensor] for tensor in plan.outputs]


# --- drawing -------------------------------------------------------------------------


def _rnn(draw: Any, shape: Shape, *, unroll: bool) -> tuple[str, dict[str, Any], list[Shape]]:
    kind = draw(st.sampled_from(["LSTM", "GRU", "SimpleRNN"]))
    sequences, state = draw(st.booleans()), draw(st.integers(0, 3)) == 3
    options = {"units": FEATURES, "return_sequences": sequences, "unroll": unroll}
    if state:
        options["return_state"] = True
    if draw(st.integers(0, 4)) == 4:
        options["go_backwards"] = True
    states = [(FEATURES,)] * (state * (2 if kind == "LSTM" else 1))
    return kind, options, [(shape[0], FEATURES) if sequences else (FEATURES,), *states]


def _bidirectional(draw: Any, shape: Shape, *, unroll: bool):
    sequences, merge = draw(st.booleans()), draw(st.sampled_from(["concat", "sum"]))
    options = {"units": FEATURES, "return_sequences": sequences, "unroll": unroll}
    inner = draw(st.sampled_from(["LSTM", "GRU"]))
    width = FEATURES * (2 if merge == "concat" else 1)
    outer = {"wrapped": (inner, options), "merge_mode": merge}
    return "Bidirectional", outer, [(shape[0], width) if sequences else (width,)]


def _conv(draw: Any, shape: Shape):
    strides = draw(st.sampled_from([1, 2]))
    padding = draw(st.sampled_from(["same", "causal"]))
    options = {"filters": FEATURES, "kernel_size": 2, "strides": strides, "padding": padding}
    return "Conv1D", options, [(-(-shape[0] // strides), FEATURES)]


def _changes_time(draw: Any, shape: Shape):
    """Draws a layer that changes the number of steps; Keras drops the mask there."""
    time, width = shape
    kinds = [("ZeroPadding1D", {"padding": (1, 0)}, time + 1)]
    if time > 1:
        pool = draw(st.sampled_from(["MaxPooling1D", "AveragePooling1D"]))
        kinds.append((pool, {"pool_size": 2}, time // 2))
        kinds.append(
            ("Cropping1D", {"cropping": draw(st.sampled_from([(1, 0), (0, 1)]))}, time - 1)
        )
        kinds.append(("EverySecond", {}, -(-time // 2)))
    if time * 2 <= LONGEST:
        kinds.append(("UpSampling1D", {"size": 2}, time * 2))
    name, options, steps = draw(st.sampled_from(kinds))
    return name, options, [(steps, width)]


def _keeps_shape(draw: Any, shape: Shape):
    kinds = [
        ("Dropout", {"rate": 0.0}),
        ("LayerNormalization", {}),
        ("BatchNormalization", {}),
        ("Activation", {"activation": "tanh"}),
    ]
    name, options = draw(st.sampled_from(kinds))
    return name, options, [shape]


def _masking(draw: Any, shape: Shape):
    return "Masking", {"mask_value": draw(st.sampled_from([0.0, 1.0]))}, [shape]


def _dense(draw: Any, shape: Shape):
    if len(shape) > 1 and draw(st.booleans()):
        wrapped = ("Dense", {"units": FEATURES})
        return "TimeDistributed", {"wrapped": wrapped}, [(shape[0], FEATURES)]
    return "Dense", {"units": FEATURES}, [(*shape[:-1], FEATURES)]


def _pool(draw: Any, shape: Shape):
    kinds = ["GlobalAveragePooling1D", "GlobalMaxPooling1D", "MaskedMean"]
    return draw(st.sampled_from(kinds)), {}, [shape[1:]]


def _custom(draw: Any, shape: Shape):
    name = draw(st.sampled_from(["TwoViews", "TwoMasks", "Positive"]))
    return name, {}, [shape] * (1 if name == "Positive" else 2)


def _operation(draw: Any, shape: Shape):
    return draw(st.sampled_from(["tanh", "flip"])), {}, [shape]


def _reshape(draw: Any, shape: Shape):
    del draw
    return "Reshape", {"target_shape": (-1, 1)}, [(shape[0] * shape[1], 1)]


ON_SEQUENCES = {
    "masking": _masking,
    "rnn": _rnn,
    "bidirectional": _bidirectional,
    "conv": _conv,
    "time": _changes_time,
    "same": _keeps_shape,
    "dense": _dense,
    "pool": _pool,
    "custom": _custom,
    "operation": _operation,
    "reshape": _reshape,
}
IN_CHAINS = ("masking", "rnn", "bidirectional", "conv", "time", "same", "dense", "pool")


class _Drafter:
    """Draws one plan, and the nested ones with it."""

    def __init__(self, draw: Any, *, unroll: bool, count: list[int], depth: int = 0) -> None:
        self.draw = draw
        self.unroll = unroll
        self.count = count
        self.depth = depth
        self.inputs: dict[str, Shape] = {}
        self.layers: dict[str, Kind] = {}
        self.steps: list[Step] = []
        self.shapes: dict[Tensor, Shape] = {}
        self.states: list[tuple[str, list[Tensor]]] = []
        self.private: set[Tensor] = set()

    def add_input(self, name: str, shape: Shape) -> None:
        self.inputs[name] = shape
        self.shapes[Tensor(name)] = shape

    def add(self, name: str, options: Any, shapes: Any, *args: Any, plan=None, **kwargs: Any):
        """Adds a layer and its first call."""
        self.count[0] += 1
        key = f"{name.lower()}{self.count[0]}"
        self.layers[key] = Kind(name, options, plan)
        return self.call(key, shapes, args, kwargs)

    def call(self, key: str, shapes: Any, args: Any, kwargs: Any) -> list[Tensor]:
        """Adds a call of a layer."""
        name = f"{key}@{len(self.steps)}" if any(s.layer == key for s in self.steps) else key
        self.steps.append(Step(name, key, tuple(args), tuple(shapes), dict(kwargs)))
        made = [Tensor(name, index) for index in range(len(shapes))]
        self.shapes |= zip(made, shapes, strict=True)
        if self.layers[key].options.get("return_state"):
            self.states.append((self.layers[key].name, made[1:]))
        return made

    def of_rank(self, rank: int) -> list[Tensor]:
        """Lists the tensors of a rank, the latest first."""
        return [
            tensor
            for tensor, shape in reversed(self.shapes.items())
            if len(shape) == rank and shape[0] <= LONGEST and tensor not in self.private
        ]

    def pick(self, tensors: list[Tensor]) -> Tensor:
        return self.draw(st.sampled_from(tensors))

    # Steps of each kind; each returns whether there was anything to take.

    def embed(self) -> None:
        options = {"input_dim": VOCABULARY, "output_dim": FEATURES}
        options["mask_zero"] = self.draw(st.integers(0, 3)) > 0
        self.add("Embedding", options, [(TIME, FEATURES)], Tensor("tokens"))

    def unary(self, key: str) -> None:
        x = self.pick(self.of_rank(2))
        shape = self.shapes[x]
        if key not in ("rnn", "bidirectional"):
            self.add(*ON_SEQUENCES[key](self.draw, shape), x)
            return
        name, options, shapes = ON_SEQUENCES[key](self.draw, shape, unroll=self.unroll)
        self.add(name, options, shapes, x, **self.rnn_arguments(name, shape))

    def rnn_arguments(self, name: str, shape: Shape) -> dict[str, Any]:
        """Draws a mask of the author's own, or states that another layer left."""
        choice = self.draw(st.integers(0, 5))
        if choice == 5 and "tokens" in self.inputs and shape[0] == TIME:
            return {"mask": self.add("is_known", {}, [(TIME,)], Tensor("tokens"))[0]}
        states = [tensors for kind, tensors in self.states if kind == name]
        if choice == 4 and states:
            return {"initial_state": self.draw(st.sampled_from(states))}
        return {}

    def vector(self) -> None:
        vectors = self.of_rank(1)
        vectors = [v for v in vectors if v.step not in self.inputs and not self.is_mask(v)]
        if not vectors:
            return
        x = self.pick(vectors)
        if self.draw(st.booleans()):
            self.add(*_dense(self.draw, self.shapes[x]), x)
        else:
            times = self.draw(st.sampled_from([TIME, 2]))
            self.add("RepeatVector", {"n": times}, [(times, *self.shapes[x])], x)

    def is_mask(self, tensor: Tensor) -> bool:
        return tensor.step.startswith("is_known")

    def attend(self) -> None:
        query = self.pick(self.of_rank(2))
        width = self.shapes[query][1]
        value = self.pick([t for t in self.of_rank(2) if self.shapes[t][1] == width])
        name = self.draw(st.sampled_from(["Attention", "AdditiveAttention", "MultiHeadAttention"]))
        if name == "MultiHeadAttention":
            options = {"num_heads": 1, "key_dim": 2}
            own = [self.for_itself(query)]
            own.append(own[0] if value == query else self.for_itself(value))
            self.add(name, options, [self.shapes[query]], *own)
        else:
            self.add(name, {}, [self.shapes[query]], [query, value])

    def for_itself(self, tensor: Tensor) -> Tensor:
        """Makes a tensor with the same mask that no other step will read.

        MultiHeadAttention takes the masks off the tensors that it is given, so what
        reads them too depends on the order in which Keras happens to run a graph.
        """
        (made,) = self.add("UnitNormalization", {}, [self.shapes[tensor]], tensor)
        self.private.add(made)
        return made

    def merge(self) -> None:
        first = self.pick(self.of_rank(2))
        time, width = self.shapes[first]
        way = self.draw(st.sampled_from(["time", "features", "add"]))
        fits = {
            "time": lambda s: s[1] == width and s[0] + time <= LONGEST,
            "features": lambda s: s[0] == time,
            "add": lambda s: s == (time, width),
        }[way]
        others = [t for t in self.of_rank(2) if fits(self.shapes[t])]
        if not others:
            return
        second = self.pick(others)
        other = self.shapes[second]
        if way == "add":
            self.add("Add", {}, [other], [first, second])
        elif way == "time":
            self.add("Concatenate", {"axis": 1}, [(time + other[0], width)], [first, second])
        else:
            self.add("Concatenate", {"axis": -1}, [(time, width + other[1])], [first, second])

    def share(self) -> None:
        """Calls a layer again, on another tensor of the same shape."""
        steps = [
            s
            for s in self.steps
            if len(s.args) == 1
            and isinstance(s.args[0], Tensor)
            and not self.layers[s.layer].is_operation
            and len(self.shapes[s.args[0]]) == 2
        ]
        if steps:
            step = self.draw(st.sampled_from(steps))
            shape = self.shapes[step.args[0]]
            x = self.pick([t for t in self.of_rank(2) if self.shapes[t] == shape])
            self.call(step.layer, step.shapes, (x,), {})

    def nest(self) -> None:
        if self.depth > 1:
            return
        x = self.pick(self.of_rank(2))
        inner = _Drafter(self.draw, unroll=self.unroll, count=self.count, depth=self.depth + 1)
        self.count[0] += 1
        inner.add_input(f"inner{self.count[0]}", self.shapes[x])
        chain = self.draw(st.booleans())
        if chain:
            inner.chain()
        else:
            inner.steps_of_all_kinds(self.draw(st.integers(1, 3)))
        plan = inner.done()
        shapes = [plan.shape(tensor) for tensor in plan.outputs]
        self.add("sequential" if chain else "functional", {}, shapes, x, plan=plan)

    def chain(self) -> None:
        """Adds one layer after the other."""
        (x,) = self.shapes
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = [k for k in IN_CHAINS if len(self.shapes[x]) == 2 or k == "dense"]
            key = self.draw(st.sampled_from(kinds))
            options = {"unroll": self.unroll} if key in ("rnn", "bidirectional") else {}
            name, found, shapes = ON_SEQUENCES[key](self.draw, self.shapes[x], **options)
            found.pop("return_state", None)
            (x,) = self.add(name, found, shapes[:1], x)

    def steps_of_all_kinds(self, number: int) -> None:
        """Adds some steps, at least one of them on the inputs."""
        special = {
            "vector": self.vector,
            "attend": self.attend,
            "merge": self.merge,
            "share": self.share,
            "nest": self.nest,
        }
        self.unary(self.draw(st.sampled_from(["masking", "rnn", "same"])))
        keys = [*ON_SEQUENCES, "rnn", *special, "attend", "share", "nest"]
        for _ in range(number):
            key = self.draw(st.sampled_from(keys))
            if not self.of_rank(2):
                return
            (special.get(key) or (lambda key=key: self.unary(key)))()

    def done(self) -> Plan:
        """Ends with every tensor that nothing reads."""
        read = {tensor for step in self.steps for tensor in step.tensors()}
        inputs = {name: shape for name, shape in self.inputs.items() if Tensor(name) in read}
        ends = [
            tensor
            for step in self.steps
            for tensor in [Tensor(step.name, i) for i in range(len(step.shapes))]
            if tensor not in read
        ]
        return Plan(inputs, dict(self.layers), tuple(self.steps), tuple(ends))


@st.composite
def plans(draw: Any, *, unroll: bool | None = None, largest: int = 7) -> Plan:
    """Draws a plan of a model over tokens, a signal, or both."""
    if unroll is None:  # It is fast on JAX; on PyTorch, Keras cannot do it backwards with a mask.
        unroll = keras.backend.backend() != "torch" and draw(st.integers(0, 7)) > 0
    drafter = _Drafter(draw, unroll=unroll, count=[0])
    kinds = draw(st.sampled_from(["tokens", "signal", "both"]))
    if kinds != "signal":
        drafter.add_input("tokens", (TIME,))
        drafter.embed()
    if kinds != "tokens":
        drafter.add_input("signal", (TIME, FEATURES))
    drafter.steps_of_all_kinds(draw(st.integers(1, largest)))
    return drafter.done()


# --- edits of plans ------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A tensor of a plan or of one nested in it, with the name that ramet has for it."""

    path: tuple[str, ...]
    plan: Plan
    tensor: Tensor
    name: str


def places(plan: Plan, path: tuple[str, ...] = ()) -> Iterator[Place]:
    """Yields the outputs of the layers of a plan, then of those nested in it."""
    for step in plan.steps:
        calls = [s.name for s in plan.steps if s.layer == step.layer]
        number = f"#{calls.index(step.name) + 1}" if len(calls) > 1 else ""
        base = "/".join([*path, step.layer]) + number
        if not plan.layers[step.layer].is_operation:
            for index in range(len(step.shapes)):
                name = f"{base}.{index}" if len(step.shapes) > 1 else base
                yield Place(path, plan, Tensor(step.name, index), name)
    for key, kind in plan.layers.items():
        if kind.plan is not None:
            yield from places(kind.plan, (*path, key))


def layers_of(plan: Plan, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Kind]]:
    """Yields every layer of a plan by path."""
    for key, kind in plan.layers.items():
        yield (*path, key), kind
        if kind.plan is not None:
            yield from layers_of(kind.plan, (*path, key))


def edited(plan: Plan, path: tuple[str, ...], change: Callable[[Plan], Plan]) -> Plan:
    """Changes a plan, or one that is nested in it."""
    if not path:
        return change(plan)
    kind = plan.layers[path[0]]
    inner = dataclasses.replace(kind, plan=edited(kind.plan, path[1:], change))
    return dataclasses.replace(plan, layers={**plan.layers, path[0]: inner})


def with_kind(plan: Plan, key: str, kind: Kind) -> Plan:
    """Lets a layer be another."""
    return dataclasses.replace(plan, layers={**plan.layers, key: kind})


def redirected(plan: Plan, old: Tensor, new: Tensor, but: str = "") -> Plan:
    """Lets all readers of a tensor read another."""

    def put(tree: Any) -> Any:
        return keras.tree.map_structure(lambda t: new if t == old else t, tree)

    steps = [
        s
        if s.name == but
        else dataclasses.replace(s, args=tuple(put(list(s.args))), kwargs=put(s.kwargs))
        for s in plan.steps
    ]
    outputs = tuple(new if t == old else t for t in plan.outputs)
    return dataclasses.replace(plan, steps=tuple(steps), outputs=outputs)


def with_step_after(plan: Plan, at: Tensor, key: str, kind: Kind) -> Plan:
    """Puts a layer between a tensor and its readers."""
    position = 1 + next((i for i, s in enumerate(plan.steps) if s.name == at.step), -1)
    new = Step(key, key, (at,), ((),))
    steps = (*plan.steps[:position], new, *plan.steps[position:])
    plan = dataclasses.replace(with_kind(plan, key, kind), steps=steps)
    return redirected(plan, at, Tensor(key), but=key)


def without_layer(plan: Plan, key: str) -> Plan:
    """Takes a layer of one input and one output out, in all its calls."""
    for step in [s for s in plan.steps if s.layer == key]:
        current = next(s for s in plan.steps if s.name == step.name)
        plan = redirected(plan, Tensor(step.name), current.args[0])
        steps = tuple(s for s in plan.steps if s.name != step.name)
        plan = dataclasses.replace(plan, steps=steps)
    kinds = {name: kind for name, kind in plan.layers.items() if name != key}
    return dataclasses.replace(plan, layers=kinds)
