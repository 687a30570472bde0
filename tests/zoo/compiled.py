"""Compiled models: optimizers with slots, losses, metrics, and training options."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers, losses, metrics, ops, optimizers

from zoo.base import Draw, case, floats, one_hot


def _net(outputs: int = 2) -> keras.Model:
    x = keras.Input((4,))
    y = layers.Dense(3, activation="relu")(x)
    return keras.Model(x, layers.Dense(outputs, name="out")(layers.Dropout(0.2)(y)))


def _two_heads() -> keras.Model:
    x = keras.Input((4,))
    y = layers.Dense(3)(x)
    return keras.Model(
        x,
        {
            "value": layers.Dense(1, name="value")(y),
            "kind": layers.Dense(3, activation="softmax", name="kind")(y),
        },
    )


_TWO = floats(2)


def _trained(model: keras.Model, targets: Draw = _TWO, *, traced: bool = False) -> keras.Model:
    """Take two steps, so that the optimizer and the metrics have something to remember.

    On TensorFlow, tracing takes most of the time to make such a model. One case has its traced
    function; the others are as if they had been trained and compiled again.
    """
    rng, eagerly = np.random.default_rng(2), model.run_eagerly
    if keras.backend.backend() == "tensorflow" and not traced:
        model.run_eagerly = True
    for _ in range(2):
        model.train_on_batch(floats(4)(rng), targets(rng))
    if model.run_eagerly != eagerly:
        model.run_eagerly, model.train_function = eagerly, None
    return model


@case("compiled-sgd_momentum", inputs=floats(4), targets=floats(2))
def sgd_momentum() -> keras.Model:
    model = _net()
    model.compile(optimizers.SGD(0.05, momentum=0.9, nesterov=True), loss="mse", metrics=["mae"])
    return _trained(model, traced=True)


@case("compiled-adam_not_built", inputs=floats(4), targets=floats(2))
def adam_not_built() -> keras.Model:
    model = _net()
    model.compile("adam", "mse")
    return model


@case("compiled-adam_trained", inputs=floats(4), targets=floats(2))
def adam_trained() -> keras.Model:
    model = _net()
    model.compile(optimizers.Adam(0.01, amsgrad=True), loss="mse")
    return _trained(model)


@case("compiled-adamw_exclusions", inputs=floats(4), targets=floats(2))
def adamw_exclusions() -> keras.Model:
    model = _net()
    optimizer = optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_list=[model.layers[1].kernel], var_names=["bias"])
    model.compile(optimizer, loss="mse")
    return _trained(model)


@case("compiled-ema", inputs=floats(4), targets=floats(2))
def ema() -> keras.Model:
    model = _net()
    model.compile(
        optimizers.Adam(0.01, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=2), loss="mse"
    )
    return _trained(model)


@case("compiled-gradient_accumulation", inputs=floats(4), targets=floats(2))
def gradient_accumulation() -> keras.Model:
    model = _net()
    model.compile(optimizers.Adam(0.01, gradient_accumulation_steps=3), loss="mse")
    return _trained(model)


@case("compiled-loss_scale", inputs=floats(4), targets=floats(2))
def loss_scale() -> keras.Model:
    model = _net()
    model.compile(
        optimizers.LossScaleOptimizer(optimizers.SGD(0.01, momentum=0.5), initial_scale=64.0),
        loss="mse",
    )
    return _trained(model)


@case("compiled-schedule", inputs=floats(4), targets=floats(2))
def schedule() -> keras.Model:
    model = _net()
    rate = optimizers.schedules.CosineDecay(0.1, 10, warmup_target=0.2, warmup_steps=2)
    model.compile(optimizers.RMSprop(rate), loss="huber")
    return _trained(model)


@case("compiled-clipnorm", inputs=floats(4), targets=floats(2))
def clipnorm() -> keras.Model:
    model = _net()
    model.compile(optimizers.Adagrad(0.1, clipnorm=0.5), loss="mae")
    return _trained(model)


@case("compiled-learning_rate_changed", inputs=floats(4), targets=floats(2))
def learning_rate_changed() -> keras.Model:
    model = _net()
    model.compile(optimizers.Nadam(0.1), loss="mse")
    model.optimizer.learning_rate = 0.003
    return _trained(model)


@case("compiled-lion_and_constraint", inputs=floats(4), targets=floats(2))
def lion_and_constraint() -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2, kernel_constraint="non_neg")])
    model.compile(optimizers.Lion(0.01), loss="log_cosh")
    return _trained(model)


@case("compiled-multi_optimizer", since=(3, 15), inputs=floats(4), targets=floats(2))
def multi_optimizer() -> keras.Model:
    model = _net()
    choice = optimizers.OptimizerMap(optimizers.Adam(0.01))
    choice["out/.*"] = optimizers.SGD(0.1, momentum=0.9)
    model.compile(optimizers.MultiOptimizer(choice), loss="mse")
    return _trained(model)


@case("compiled-losses_as_dict", inputs=floats(4), targets={"value": floats(1), "kind": one_hot(3)})
def losses_as_dict() -> keras.Model:
    model = _two_heads()
    model.compile(
        "adam",
        loss={"value": "mse", "kind": losses.CategoricalCrossentropy(label_smoothing=0.1)},
        loss_weights={"value": 0.3, "kind": 2.0},
        metrics={"value": ["mae"], "kind": ["accuracy", metrics.AUC(num_thresholds=5)]},
        weighted_metrics={"value": [metrics.RootMeanSquaredError()]},
    )
    return _trained(model, lambda rng: {"value": floats(1)(rng), "kind": one_hot(3)(rng)})


@case("compiled-losses_as_list", inputs=floats(4), targets=[floats(1), floats(2)])
def losses_as_list() -> keras.Model:
    x = keras.Input((4,))
    y = layers.Dense(3)(x)
    model = keras.Model(x, [layers.Dense(1)(y), layers.Dense(2)(y)])
    model.compile(
        "sgd",
        loss=["mse", None],
        loss_weights=[0.5, 1.0],
        metrics=[["mae"], [metrics.MeanSquaredError()]],
    )
    return model


def tilted(y_true, y_pred):
    """Weigh positive and negative errors differently."""
    error = ops.subtract(y_true, y_pred)
    return ops.mean(ops.maximum(0.8 * error, -0.2 * error), axis=-1)


@case(
    "compiled-loss_function", inputs=floats(4), targets=floats(2), custom_objects={"tilted": tilted}
)
def loss_function() -> keras.Model:
    model = _net()
    model.compile("adam", loss=tilted, metrics=[tilted])
    return _trained(model)


@case("compiled-loss_closure", inputs=floats(4), targets=floats(2), saveable=False)
def loss_closure() -> keras.Model:
    # The loss reads a weight of the model, as with a learnt temperature.
    model = _net()
    out, factor = model.get_layer("out"), 0.1

    def loss(y_true, y_pred):
        return ops.mean(ops.square(y_true - y_pred), axis=-1) + factor * ops.sum(
            ops.square(out.kernel)
        )

    model.compile("sgd", loss=loss)
    return model


class Focal(keras.losses.Loss):
    """A loss class with a parameter."""

    def __init__(self, power: float = 2.0, name: str = "focal", **kwargs) -> None:
        super().__init__(name=name, **kwargs)
        self.power = power

    def call(self, y_true, y_pred):
        return ops.mean(ops.abs(y_true - y_pred) ** self.power, axis=-1)

    def get_config(self):
        return {**super().get_config(), "power": self.power}


class Largest(keras.metrics.Metric):
    """A metric with a variable and a counter of its own."""

    def __init__(self, name: str = "largest", **kwargs) -> None:
        super().__init__(name=name, **kwargs)
        self.top = self.add_variable(shape=(), initializer="zeros", name="top")
        self.inner = keras.metrics.Mean(name="inner")

    def update_state(self, y_true, y_pred, sample_weight=None):  # noqa: ARG002  Keras's signature
        self.top.assign(ops.maximum(self.top, ops.max(ops.cast(y_pred, "float32"))))
        self.inner.update_state(y_pred)

    def result(self):
        return self.top + self.inner.result()


@case(
    "compiled-loss_and_metric_classes",
    inputs=floats(4),
    targets=floats(2),
    custom_objects={"Focal": Focal, "Largest": Largest},
)
def loss_and_metric_classes() -> keras.Model:
    model = _net()
    model.compile("adam", loss=Focal(1.5), metrics=[Largest()])
    return _trained(model)


@case(
    "compiled-steps_per_execution",
    inputs=floats(4),
    targets=floats(2),
    backends=("jax", "tensorflow"),
)
def steps_per_execution() -> keras.Model:
    model = _net()
    model.compile("adam", "mse", steps_per_execution=2)
    return model


@case("compiled-run_eagerly", inputs=floats(4), targets=floats(2))
def run_eagerly() -> keras.Model:
    model = _net()
    model.compile(optimizers.Adam(0.02), "mse", run_eagerly=True)
    return _trained(model)


@case("compiled-after_fit", inputs=floats(4), targets=floats(2))
def after_fit() -> keras.Model:
    # fit leaves a history, a stop flag and compiled functions on the model.
    model = _net()
    model.compile("adam", "mse", metrics=["mae"])
    rng = np.random.default_rng(3)
    model.fit(floats(4)(rng), floats(2)(rng), epochs=2, verbose=0)
    model.predict(floats(4)(rng), verbose=0)
    return model


@case("compiled-frozen_then_compiled", inputs=floats(4), targets=floats(2))
def frozen_then_compiled() -> keras.Model:
    model = _net()
    model.layers[1].trainable = False
    model.compile(optimizers.Adam(0.01), "mse")
    return _trained(model)


@case("compiled-compiled_then_frozen", inputs=floats(4), targets=floats(2))
def compiled_then_frozen() -> keras.Model:
    # The optimizer has slots for a layer that is no longer trained.
    model = _net()
    model.compile(optimizers.SGD(0.01, momentum=0.9), "mse")
    _trained(model)
    model.layers[1].trainable = False
    model.compile(model.optimizer, "mse")
    model.layers[1].trainable = True
    return model


@case("compiled-nested", inputs=floats(4), targets=floats(2))
def nested() -> keras.Model:
    # An inner model that was compiled and trained on its own.
    inner = _net()
    inner.compile("adam", "mse", metrics=["mae"])
    _trained(inner)
    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(2)(inner(x)))
    model.compile(optimizers.Adam(0.01), "mse")
    return _trained(model)


class GAN(keras.Model):
    """Two networks, two optimizers, and a `train_step` of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.Sequential(
            [keras.Input((2,)), layers.Dense(3, activation="relu"), layers.Dense(4)]
        )
        self.discriminator = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(1)])
        self.seed_generator = keras.random.SeedGenerator(1337)
        self.d_tracker = keras.metrics.Mean(name="d_loss")
        self.g_tracker = keras.metrics.Mean(name="g_loss")

    def compile(self, d_optimizer, g_optimizer, loss_fn) -> None:
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

    def call(self, x):
        return self.discriminator(x)

    def _both_losses(self, real):
        noise = keras.random.normal((ops.shape(real)[0], 2), seed=self.seed_generator)
        fake = self.generator(noise)
        scores = self.discriminator(ops.concatenate([fake, real], axis=0))
        count = ops.shape(real)[0]
        labels = ops.concatenate([ops.ones((count, 1)), ops.zeros((count, 1))], axis=0)
        return self.loss_fn(labels, scores), self.loss_fn(
            ops.zeros((count, 1)), self.discriminator(fake)
        )

    def train_step(self, data):
        real = data[0] if isinstance(data, (list, tuple)) else data
        d_weights, g_weights = (
            self.discriminator.trainable_weights,
            self.generator.trainable_weights,
        )
        if keras.backend.backend() == "torch":
            self.zero_grad()
            d_loss, g_loss = self._both_losses(real)
            d_loss.backward(retain_graph=True, inputs=[v.value for v in d_weights])
            g_loss.backward(inputs=[v.value for v in g_weights])
            d_grads, g_grads = ([v.value.grad for v in w] for w in (d_weights, g_weights))
            import torch

            with torch.no_grad():
                self.d_optimizer.apply(d_grads, d_weights)
                self.g_optimizer.apply(g_grads, g_weights)
        else:
            import tensorflow as tf

            with tf.GradientTape(persistent=True) as tape:
                d_loss, g_loss = self._both_losses(real)
            self.d_optimizer.apply(tape.gradient(d_loss, d_weights), d_weights)
            self.g_optimizer.apply(tape.gradient(g_loss, g_weights), g_weights)
        self.d_tracker.update_state(d_loss)
        self.g_tracker.update_state(g_loss)
        return {"d_loss": self.d_tracker.result(), "g_loss": self.g_tracker.result()}


@case(
    "compiled-gan",
    inputs=floats(4),
    targets=floats(1),
    backends=("tensorflow", "torch"),
    saveable=False,
)
def gan() -> keras.Model:
    model = GAN()
    model(np.zeros((2, 4), "float32"))
    model.compile(
        optimizers.Adam(0.01), optimizers.SGD(0.1), losses.BinaryCrossentropy(from_logits=True)
    )
    return _trained(model, floats(1))
