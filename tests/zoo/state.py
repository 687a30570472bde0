"""Layers whose state is more than their config: LoRA, quantized, own containers, attributes."""

from __future__ import annotations

import collections
import dataclasses

import keras
import numpy as np
from keras import layers, ops

from zoo.base import case, floats, ints

Bounds = collections.namedtuple("Bounds", ["low", "high"])  # noqa: PYI024  the untyped kind is what users store


def _line(*parts, shape=(4,), dtype: str | None = None) -> keras.Model:
    """Chain layers in a functional model."""
    x = y = keras.Input(shape, dtype=dtype)
    for part in parts:
        y = part(y)
    return keras.Model(x, y)


def _wake(variable: keras.Variable) -> None:
    """Give a weight that starts at zero a value that shows."""
    variable.assign(np.linspace(-0.5, 0.5, int(np.prod(variable.shape))).reshape(variable.shape))


@case("state-lora_dense", inputs=floats(4), targets=floats(2))
def lora_dense() -> keras.Model:
    model = _line(layers.Dense(5, name="lora"), layers.Dense(2))
    model.get_layer("lora").enable_lora(2, lora_alpha=3)
    _wake(model.get_layer("lora").lora_kernel_b)
    return model


@case("state-lora_embedding", inputs=ints(9, 5), targets=floats(5, 2))
def lora_embedding() -> keras.Model:
    model = _line(layers.Embedding(9, 4, name="lora"), layers.Dense(2), shape=(5,), dtype="int32")
    model.get_layer("lora").enable_lora(2)
    _wake(model.get_layer("lora").lora_embeddings_b)
    return model


@case("state-lora_einsum_in_attention", inputs=floats(5, 4), targets=floats(5, 4))
def lora_einsum_in_attention() -> keras.Model:
    x = keras.Input((5, 4))
    attention = layers.MultiHeadAttention(2, 2)
    model = keras.Model(x, attention(x, x))
    for part in (attention.query_dense, attention.value_dense):
        part.enable_lora(2)
        _wake(part.lora_kernel_b)
    return model


def _quantized(mode: str) -> keras.Model:
    model = _line(
        layers.Embedding(9, 4),
        layers.Dense(4, activation="relu"),
        layers.EinsumDense("abc,cd->abd", output_shape=(None, 2), bias_axes="d"),
        shape=(5,),
        dtype="int32",
    )
    model.quantize(mode)
    return model


@case("state-quantized_int8", inputs=ints(9, 5), fresh=False)
def quantized_int8() -> keras.Model:
    return _quantized("int8")


@case("state-quantized_int4", inputs=ints(9, 5), fresh=False)
def quantized_int4() -> keras.Model:
    return _quantized("int4")


@case("state-quantized_float8", inputs=floats(4), targets=floats(2), fresh=False)
def quantized_float8() -> keras.Model:
    model = _line(layers.Dense(3), layers.Dense(2))
    model.quantize("float8")
    model.compile("adam", "mse")  # TensorFlow trains it in graph mode only
    return model


@case("state-quantized_int8_lora", inputs=floats(4), targets=floats(2), fresh=False)
def quantized_int8_lora() -> keras.Model:
    dense = layers.Dense(4)
    model = _line(dense, layers.Dense(2))
    dense.quantize("int8")
    dense.enable_lora(2)
    _wake(dense.lora_kernel_b)
    return model


class NoConfigLayer(keras.layers.Layer):
    """A layer with constructor arguments and no `get_config`, as most people write it."""

    def __init__(self, units, activation) -> None:
        super().__init__()
        self.units = units
        self.activation = activation

    def build(self, input_shape) -> None:
        self.w = self.add_weight(
            shape=(input_shape[-1], self.units), initializer="glorot_normal", name="w"
        )
        self.built_for = tuple(input_shape)

    def call(self, x):
        return self.activation(ops.matmul(x, self.w))


@case("state-layer_without_config", inputs=floats(4), targets=floats(3), saveable=False)
def layer_without_config() -> keras.Model:
    return _line(NoConfigLayer(3, lambda x: ops.tanh(2.0 * x)))


class Bag(keras.layers.Layer):
    """Layers and variables in nested containers of all kinds, each of them tracked by Keras."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.by_name = {"dense": layers.Dense(3), "more": {"drop": layers.Dropout(0.4)}}
        self.in_list = [layers.Dense(3), [layers.Dense(3)]]
        self.in_tuple = (layers.LayerNormalization(), self.in_list[0])
        self.in_order = collections.OrderedDict(last=layers.Dense(3), first=layers.Dense(3))
        self.weights_list = []

    def build(self, input_shape) -> None:
        self.weights_list = [
            self.add_weight(shape=(3,), initializer="random_normal", name=f"w{i}") for i in range(2)
        ]
        self.lookup = {"bias": self.add_weight(shape=(3,), initializer="zeros", name="bias")}
        self.by_name["dense"].build(input_shape)
        for layer in (*self.in_list[1], *self.in_tuple, *self.in_order.values()):
            layer.build((None, 3))

    def call(self, x, training=None):
        x = self.by_name["more"]["drop"](self.by_name["dense"](x), training=training)
        x = self.in_list[1][0](self.in_list[0](x))
        x = self.in_tuple[1](self.in_tuple[0](x))
        for layer in self.in_order.values():
            x = layer(x)
        return x * self.weights_list[0] + self.weights_list[1] + self.lookup["bias"]


@case("state-nested_containers", inputs=floats(4), targets=floats(3), custom_objects={"Bag": Bag})
def nested_containers() -> keras.Model:
    return _line(Bag())


class Counter(keras.layers.Layer):
    """Counts calls and keeps a running mean, without training."""

    def build(self, input_shape) -> None:
        self.calls = self.add_weight(
            shape=(), dtype="int32", initializer="zeros", trainable=False, name="calls"
        )
        self.mean = self.add_weight(
            shape=(input_shape[-1],), initializer="zeros", trainable=False, name="mean"
        )

    def call(self, x, training=None):
        if training:
            self.calls.assign_add(1)
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(x, axis=0))
        return x - self.mean

    def compute_output_shape(self, input_shape):
        return input_shape


@case(
    "state-updated_in_call",
    inputs=floats(4),
    targets=floats(2),
    custom_objects={"Counter": Counter},
)
def updated_in_call() -> keras.Model:
    model = _line(Counter(), layers.Dense(2))
    model(np.ones((2, 4), "float32"), training=True)
    return model


class OwnSeed(keras.layers.Layer):
    """Adds noise from generators of its own: one plain, two in a list."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.seed = keras.random.SeedGenerator(5)
        self.more = [keras.random.SeedGenerator(6), keras.random.SeedGenerator(7)]

    def call(self, x, training=None):
        if not training:
            return x
        for seed in (self.seed, *self.more):
            x = x + 0.1 * keras.random.normal(ops.shape(x), seed=seed)
        return x

    def compute_output_shape(self, input_shape):
        return input_shape


@case(
    "state-own_seed_generators",
    inputs=floats(4),
    targets=floats(2),
    custom_objects={"OwnSeed": OwnSeed},
)
def own_seed_generators() -> keras.Model:
    model = _line(OwnSeed(), layers.Dense(2))
    model(np.ones((2, 4), "float32"), training=True)  # the generators are no longer fresh
    return model


@dataclasses.dataclass
class Info:
    """Something a user hangs on a layer."""

    author: str
    scores: list[float]
    table: np.ndarray


@case("state-attributes_set_later", inputs=floats(4), targets=floats(2))
def attributes_set_later() -> keras.Model:
    model = _line(layers.Dense(3, name="marked"), layers.Dense(2))
    dense = model.get_layer("marked")
    dense.note = "hello"
    dense.history = [1, {"two": (3, 4)}]
    dense.array = np.arange(3.0)
    dense.tags = {"a", "b"}
    dense.bounds = Bounds(-1.0, np.ones(2))
    dense.info = Info("me", [0.5], np.zeros(2))
    model.best_epoch = 7
    model.info = {"dense": Info("you", [], np.ones(1))}
    return model


@case("state-changed_hyperparameters", inputs=floats(4), targets=floats(2))
def changed_hyperparameters() -> keras.Model:
    # Set after the build: they act at the next call, and the config follows.
    model = _line(layers.Dense(3, name="dense"), layers.Dropout(0.1, name="drop"), layers.Dense(2))
    model.get_layer("dense").activation = keras.activations.gelu
    model.get_layer("drop").rate = 0.6
    return model


class Owner(keras.layers.Layer):
    """Makes a variable that another layer uses too."""

    def build(self, input_shape) -> None:
        self.kernel = self.add_weight(
            shape=(input_shape[-1], 4), initializer="glorot_uniform", name="kernel"
        )

    def call(self, x):
        return ops.matmul(x, self.kernel)


class Borrower(keras.layers.Layer):
    """Uses a variable that it was given."""

    def __init__(self, variable, **kwargs) -> None:
        super().__init__(**kwargs)
        self.kernel = variable

    def call(self, x):
        return ops.matmul(x, ops.transpose(self.kernel))


@case("state-variable_shared_by_layers", inputs=floats(4), targets=floats(4), saveable=False)
def variable_shared_by_layers() -> keras.Model:
    owner = Owner()
    owner.build((None, 4))
    return _line(owner, layers.ReLU(), Borrower(owner.kernel))


class Dispatch(keras.layers.Layer):
    """Keeps bound methods of itself and of an inner layer."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.dense = layers.Dense(3)
        self.table = {"inner": self.dense.call}
        self.run = self.double

    def build(self, input_shape) -> None:
        self.dense.build(input_shape)

    def double(self, x):
        return 2.0 * self.table["inner"](x)

    def call(self, x):
        return self.run(x)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 3)


@case("state-bound_methods", inputs=floats(4), targets=floats(3), saveable=False)
def bound_methods() -> keras.Model:
    return _line(Dispatch())


class Parent(keras.layers.Layer):
    """Its child knows it: a cycle of references that Keras does not track."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.child = layers.Dense(3)
        object.__setattr__(self.child, "owner_box", _Box(self))

    def build(self, input_shape) -> None:
        self.child.build(input_shape)

    def call(self, x):
        return self.child(x) * self.child.owner_box.content.scale()

    def scale(self) -> float:
        return 0.5


class _Box:
    """Hides an object from Keras's trackers."""

    def __init__(self, content) -> None:
        self.content = content


@case("state-cycle_of_references", inputs=floats(4), targets=floats(3), saveable=False)
def cycle_of_references() -> keras.Model:
    return _line(Parent())


@case("state-untracked_variable", inputs=floats(4), targets=floats(4), saveable=False)
def untracked_variable() -> keras.Model:
    # A variable inside a plain object: Keras does not know that it belongs to the model.
    box = _Box(keras.Variable(np.full((4,), 2.0, "float32"), trainable=False))
    model = _line(layers.Dense(4), layers.Lambda(lambda x: x * box.content))
    model.layers[1].box = box
    return model
