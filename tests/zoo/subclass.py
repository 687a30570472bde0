"""Subclasses: of Functional models, and of `keras.Model` without a graph."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers, ops

from zoo.base import case, floats, unit


class Classifier(keras.Model):
    """A functional model with constructor arguments of its own and a full config."""

    def __init__(self, width: int, classes: int = 2, *, depth: int = 1, **kwargs) -> None:
        x = keras.Input((4,), name="x")
        y = x
        for i in range(depth):
            y = layers.Dense(width, activation="relu", name=f"hidden_{i}")(y)
        super().__init__(x, layers.Dense(classes, name="logits")(y), **kwargs)
        self.width, self.classes, self.depth = width, classes, depth

    def get_config(self):
        return {
            "width": self.width,
            "classes": self.classes,
            "depth": self.depth,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):  # noqa: ARG003  Keras passes it
        return cls(**config)


@case(
    "subclass-functional_own_config",
    inputs=floats(4),
    targets=floats(2),
    custom_objects={"Classifier": Classifier},
)
def functional_own_config() -> keras.Model:
    return Classifier(3, depth=2, name="clf")


class Tapped(keras.Model):
    """Keeps tensors of its graph, tensors of tensors, and a layer outside the graph."""

    def __init__(self, width, /, scale=1.0) -> None:
        x = keras.Input((4,), name="x")
        hidden = layers.Dense(width, name="hidden")(x)
        y = layers.Dense(2, name="out")(hidden * scale)
        super().__init__(x, y, name="tapped")
        self.hidden_tensor = hidden
        self.taps = {"in": x, "all": [hidden, y]}
        self.extra = layers.Dense(2, name="extra")
        self.extra.build((None, width))
        self.note = ("made", {"by": "hand"})


@case("subclass-functional_keeps_tensors", inputs=floats(4), targets=floats(2), saveable=False)
def functional_keeps_tensors() -> keras.Model:
    return Tapped(3, scale=0.5)


class WithLoss(keras.Model):
    """A functional model whose loss adds a term and feeds a metric of its own."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.norm_tracker = keras.metrics.Mean(name="norm")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, **kwargs):
        loss = super().compute_loss(x, y, y_pred, sample_weight, **kwargs)
        self.norm_tracker.update_state(ops.mean(ops.abs(y_pred)))
        return loss + 0.01 * ops.mean(ops.square(y_pred))


@case(
    "subclass-functional_compute_loss",
    inputs=floats(4),
    targets=floats(2),
    custom_objects={"WithLoss": WithLoss},
)
def functional_compute_loss() -> keras.Model:
    x = keras.Input((4,))
    return WithLoss(inputs=x, outputs=layers.Dense(2)(layers.Dropout(0.5)(x)))


class NoConfig(keras.Model):
    """A functional subclass that never thought of saving."""

    def __init__(self, sizes, callback) -> None:
        x = keras.Input((4,))
        y = x
        for size in sizes:
            y = callback(layers.Dense(size)(y))
        super().__init__(inputs=x, outputs=y)
        self.sizes = sizes
        self.callback = callback


@case("subclass-functional_no_config", inputs=floats(4), targets=floats(2), saveable=False)
def functional_no_config() -> keras.Model:
    return NoConfig([3, 2], ops.tanh)


class Plain(keras.Model):
    """The subclass of the Keras tutorials."""

    def __init__(self, width: int = 3, **kwargs) -> None:
        super().__init__(**kwargs)
        self.width = width
        self.hidden = layers.Dense(width, activation="relu")
        self.dropout = layers.Dropout(0.5)
        self.out = layers.Dense(2)

    def build(self, input_shape) -> None:
        self.hidden.build(input_shape)
        self.out.build((*input_shape[:-1], self.width))

    def call(self, x, training=None):
        return self.out(self.dropout(self.hidden(x), training=training))

    def get_config(self):
        return {**super().get_config(), "width": self.width}


@case("subclass-plain", inputs=floats(4), targets=floats(2), custom_objects={"Plain": Plain})
def plain() -> keras.Model:
    model = Plain(5, name="plain")
    model(np.zeros((1, 4), "float32"))
    return model


class Containers(keras.Model):
    """Layers in lists, dicts, tuples, and lists of dicts; one layer in two of them."""

    def __init__(self) -> None:
        super().__init__()
        shared = layers.Dense(4, name="shared")
        self.stack = [layers.Dense(4), shared, layers.LayerNormalization()]
        self.heads = {"a": layers.Dense(2), "b": keras.Sequential([layers.Dense(2), layers.ReLU()])}
        self.pair = (shared, layers.Dropout(0.3))
        self.deep = [{"first": layers.Dense(4)}, {"second": [layers.Dense(4)]}]

    def call(self, x, training=None):
        for layer in self.stack:
            x = layer(x)
        for layer in self.pair:
            x = layer(x, training=training) if isinstance(layer, layers.Dropout) else layer(x)
        x = self.deep[1]["second"][0](self.deep[0]["first"](x))
        return {"a": self.heads["a"](x), "b": self.heads["b"](x)}


@case(
    "subclass-containers",
    inputs=floats(4),
    targets={"a": floats(2), "b": floats(2)},
    saveable=False,
)
def containers() -> keras.Model:
    model = Containers()
    model(np.zeros((2, 4), "float32"))
    return model


class ModelsInAttributes(keras.Model):
    """A functional encoder, a Sequential decoder, and a model cut from the encoder."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        x = keras.Input((4,))
        hidden = layers.Dense(3, activation="relu")(x)
        self.encoder = keras.Model(x, layers.Dense(2)(hidden), name="encoder")
        self.peek = keras.Model(x, hidden, name="peek")
        self.decoder = keras.Sequential([keras.Input((2,)), layers.Dense(3), layers.Dense(4)])

    def call(self, x):
        return self.decoder(self.encoder(x)) + ops.mean(self.peek(x))


@case(
    "subclass-models_in_attributes",
    inputs=floats(4),
    targets=floats(4),
    custom_objects={"ModelsInAttributes": ModelsInAttributes},
)
def models_in_attributes() -> keras.Model:
    model = ModelsInAttributes()
    model(np.zeros((2, 4), "float32"))
    return model


class InClosure(keras.Model):
    """Keeps a function that closes over one of its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = layers.Dense(3)
        inner, factor = self.inner, 2.0
        self.apply_inner = lambda x: inner(x) * factor
        self.out = layers.Dense(2)

    def call(self, x):
        return self.out(self.apply_inner(x))


@case("subclass-layer_in_closure", inputs=floats(4), targets=floats(2), saveable=False)
def layer_in_closure() -> keras.Model:
    model = InClosure()
    model(np.zeros((2, 4), "float32"))
    return model


class OwnWeights(keras.Model):
    """Weights made in the constructor, some by `add_weight`, one a bare variable."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = self.add_weight(shape=(4, 2), initializer="glorot_uniform", name="kernel")
        self.temperature = keras.Variable(1.5, name="temperature")
        self.steps = self.add_weight(
            shape=(), dtype="int32", initializer="zeros", trainable=False, name="steps"
        )

    def call(self, x, training=None):
        if training:
            self.steps.assign_add(1)
        return ops.matmul(x, self.kernel) / self.temperature


@case("subclass-own_weights", inputs=floats(4), targets=floats(2), fresh=False, saveable=False)
def own_weights() -> keras.Model:
    model = OwnWeights()
    model(np.zeros((2, 4), "float32"))
    return model


class Sampling(keras.layers.Layer):
    """Draws from a normal distribution, with a seed generator of its own."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(11)

    def call(self, inputs):
        mean, log_var = inputs
        noise = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_var) * noise


class VAE(keras.Model):
    """The variational autoencoder of the Keras examples, small, with `add_loss`."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.encode = layers.Dense(4, activation="relu")
        self.mean, self.log_var = layers.Dense(2), layers.Dense(2)
        self.sampling = Sampling()
        self.decode = keras.Sequential([layers.Dense(4, activation="relu"), layers.Dense(6)])

    def call(self, x):
        hidden = self.encode(x)
        mean, log_var = self.mean(hidden), self.log_var(hidden)
        self.add_loss(-0.5 * ops.mean(1 + log_var - ops.square(mean) - ops.exp(log_var)))
        return self.decode(self.sampling([mean, log_var]))


@case("subclass-vae_add_loss", inputs=unit(6), targets=unit(6), saveable=False)
def vae() -> keras.Model:
    model = VAE()
    model(np.zeros((2, 6), "float32"))
    return model


class OwnMetrics(keras.Model):
    """Its own loss trackers beside the compiled ones, as in the custom `train_step` guides."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(2)
        self.trackers = {
            "mean": keras.metrics.Mean(name="mean_out"),
            "sum": keras.metrics.Sum(name="sum_out"),
        }
        self.single = keras.metrics.Mean(name="single")

    def call(self, x):
        return self.dense(x)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        for tracker in self.trackers.values():
            tracker.update_state(y_pred)
        self.single.update_state(ops.max(y_pred))
        logs = super().compute_metrics(x, y, y_pred, sample_weight)
        return {**logs, "single": self.single.result()}


@case("subclass-own_metrics", inputs=floats(4), targets=floats(2), saveable=False)
def own_metrics() -> keras.Model:
    model = OwnMetrics()
    model(np.zeros((2, 4), "float32"))
    model.trackers["mean"].update_state([1.0, 3.0])
    return model


class Twins(keras.Model):
    """An online and a target network, as reinforcement learning has them."""

    def __init__(self) -> None:
        super().__init__()
        self.online = keras.Sequential(
            [keras.Input((4,)), layers.Dense(3), layers.Dense(2)], name="online"
        )
        self.target = keras.Sequential(
            [keras.Input((4,)), layers.Dense(3), layers.Dense(2)], name="target"
        )
        self.target.trainable = False
        self.target.set_weights(self.online.get_weights())

    def call(self, x):
        return self.online(x) - 0.5 * self.target(x)


@case("subclass-target_network", inputs=floats(4), targets=floats(2), saveable=False)
def target_network() -> keras.Model:
    model = Twins()
    model(np.zeros((2, 4), "float32"))
    return model


class Inner(keras.Model):
    """A subclassed model to be used inside a graph."""

    def __init__(self, units: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.dense = layers.Dense(units, activation="tanh")
        self.norm = layers.BatchNormalization()

    def call(self, x, training=None):
        return self.norm(self.dense(x), training=training)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@case(
    "subclass-plain_inside_functional",
    inputs=floats(4),
    targets=floats(2),
    custom_objects={"Inner": Inner},
)
def plain_inside_functional() -> keras.Model:
    x = keras.Input((4,))
    inner = Inner(4, name="inner")
    return keras.Model(x, layers.Dense(2)(inner(inner(x))))
