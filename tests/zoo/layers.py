"""Layers with something special in them: wrappers, regularizers, functions, dtypes, tying."""

from __future__ import annotations

import functools

import keras
import numpy as np
from keras import layers, ops

from zoo.base import case, floats, ints


def _line(*parts, shape=(4,), dtype: str | None = None) -> keras.Model:
    """Chain layers in a functional model."""
    x = y = keras.Input(shape, dtype=dtype)
    for part in parts:
        y = part(y)
    return keras.Model(x, y)


@case("layers-spectral_normalization", inputs=floats(4), targets=floats(2))
def spectral_normalization() -> keras.Model:
    return _line(layers.SpectralNormalization(layers.Dense(3), power_iterations=2), layers.Dense(2))


@case("layers-causal_attention", inputs=floats(5, 4), targets=floats(5, 4))
def causal_attention() -> keras.Model:
    x = keras.Input((5, 4))
    return keras.Model(x, layers.MultiHeadAttention(2, 3, dropout=0.2)(x, x, use_causal_mask=True))


@case("layers-attention_mask", inputs=[floats(5, 4), ints(2, 5, 5)], targets=floats(5, 4))
def attention_mask() -> keras.Model:
    x, mask = keras.Input((5, 4)), keras.Input((5, 5), dtype="int32")
    y = layers.MultiHeadAttention(2, 3)(x, x, attention_mask=ops.cast(mask, "bool"))
    return keras.Model([x, mask], y)


@case("layers-grouped_query_attention", inputs=floats(5, 4), targets=floats(5, 4))
def grouped_query_attention() -> keras.Model:
    x = keras.Input((5, 4))
    return keras.Model(x, layers.GroupQueryAttention(2, 4, 2)(x, x))


@case("layers-einsum_dense", inputs=floats(3, 4), targets=floats(3, 2, 2))
def einsum_dense() -> keras.Model:
    return _line(
        layers.EinsumDense("abc,cde->abde", output_shape=(None, 2, 2), bias_axes="de"), shape=(3, 4)
    )


@case("layers-normalizations", since=(3, 14), inputs=floats(4), targets=floats(4))
def normalizations() -> keras.Model:
    model = _line(
        layers.BatchNormalization(momentum=0.8, renorm=False),
        layers.GroupNormalization(2),
        layers.LayerNormalization(scale=False),
        layers.RMSNormalization(),
        layers.BatchNormalization(center=False, name="bn2"),
    )
    model(np.random.default_rng(0).normal(size=(8, 4)).astype("float32"), training=True)
    return model


@case("layers-noise", inputs=floats(4), targets=floats(2))
def noise() -> keras.Model:
    return _line(
        layers.Dropout(0.3),
        layers.GaussianNoise(0.1),
        layers.GaussianDropout(0.1, seed=4),
        layers.AlphaDropout(0.2),
        layers.Dense(2),
    )


@case("layers-spatial_dropout", inputs=floats(5, 4), targets=floats(5, 2))
def spatial_dropout() -> keras.Model:
    return _line(layers.SpatialDropout1D(0.4, seed=1), layers.Dense(2), shape=(5, 4))


class SeededNoise(keras.layers.Layer):
    """Adds noise from a generator that it was given."""

    def __init__(self, generator, **kwargs) -> None:
        super().__init__(**kwargs)
        self.generator = generator

    def call(self, x, training=None):
        return x + keras.random.normal(ops.shape(x), seed=self.generator) if training else x

    def compute_output_shape(self, input_shape):
        return input_shape


@case("layers-shared_seed_generator", inputs=floats(4), targets=floats(4), saveable=False)
def shared_seed_generator() -> keras.Model:
    # Two layers draw from one generator in turn.
    generator = keras.random.SeedGenerator(21)
    return _line(SeededNoise(generator), layers.Dense(4), SeededNoise(generator))


@case("layers-regularizers", inputs=floats(4), targets=floats(2))
def regularizers() -> keras.Model:
    return _line(
        layers.Dense(
            3,
            kernel_regularizer=keras.regularizers.L1L2(1e-3, 1e-2),
            bias_regularizer="l2",
            activity_regularizer=keras.regularizers.L2(1e-2),
            kernel_constraint=keras.constraints.MaxNorm(0.5),
        ),
        layers.ActivityRegularization(l1=0.01),
        layers.Dense(2, kernel_regularizer=keras.regularizers.OrthogonalRegularizer(0.01)),
    )


@case("layers-weight_regularizer_set_later", inputs=floats(4), targets=floats(2))
def weight_regularizer_set_later() -> keras.Model:
    model = _line(layers.Dense(3, name="first"), layers.Dense(2))
    model.get_layer("first").kernel.regularizer = keras.regularizers.L2(0.1)
    return model


@case("layers-seeded_initializer", inputs=floats(4), targets=floats(2))
def seeded_initializer() -> keras.Model:
    start = keras.initializers.HeNormal(seed=3)
    return _line(
        layers.Dense(4, kernel_initializer=start), layers.Dense(2, kernel_initializer=start)
    )


@case("layers-lambda_numpy_closure", inputs=floats(4), targets=floats(4), saveable=False)
def lambda_numpy_closure() -> keras.Model:
    table = np.linspace(0.5, 1.5, 4).astype("float32")
    return _line(layers.Dense(4), layers.Lambda(lambda x: ops.multiply(x, table)))


@case("layers-lambda_plain", inputs=floats(4), targets=floats(4))
def lambda_plain() -> keras.Model:
    return _line(layers.Dense(4), layers.Lambda(lambda x, k: x * k, arguments={"k": 3.0}))


@case("layers-lambda_variable_closure", inputs=floats(4), targets=floats(4), saveable=False)
def lambda_variable_closure() -> keras.Model:
    offset = keras.Variable(np.full((4,), 0.25, "float32"), trainable=False)
    return _line(layers.Dense(4), layers.Lambda(lambda x: x + offset))


@case("layers-lambda_layer_closure", inputs=floats(4), targets=floats(4), saveable=False)
def lambda_layer_closure() -> keras.Model:
    # Weight tying by hand: the function reads the kernel of another layer of the model.
    dense = layers.Dense(3, use_bias=False, name="tied")
    return _line(dense, layers.Lambda(lambda x: ops.matmul(x, ops.transpose(dense.kernel))))


_MODULE_VARIABLE: list[keras.Variable] = []


def _add_module_variable(x):
    return x + _MODULE_VARIABLE[0]


@case("layers-lambda_module_variable", inputs=floats(4), targets=floats(4), saveable=False)
def lambda_module_variable() -> keras.Model:
    if not _MODULE_VARIABLE:
        _MODULE_VARIABLE.append(keras.Variable(np.full((4,), 0.5, "float32"), trainable=False))
    return _line(layers.Dense(4), layers.Lambda(_add_module_variable))


def leaky(x, slope: float):
    """Activate with a slope given by `functools.partial`."""
    return ops.maximum(x, slope * x)


@case("layers-partial_activation", inputs=floats(4), targets=floats(3), saveable=False)
def partial_activation() -> keras.Model:
    return _line(layers.Dense(4, activation=functools.partial(leaky, slope=0.2)), layers.Dense(3))


@case("layers-function_activation", inputs=floats(4), targets=floats(3), saveable=False)
def function_activation() -> keras.Model:
    return _line(
        layers.Dense(4, activation=lambda x: leaky(x, 0.3)),
        layers.Activation(ops.tanh),
        layers.Dense(3),
    )


@case("layers-layer_as_activation", inputs=floats(4), targets=floats(3))
def layer_as_activation() -> keras.Model:
    return _line(layers.Dense(4, activation=layers.LeakyReLU(0.1)), layers.PReLU(), layers.Dense(3))


@case("layers-frozen", inputs=floats(4), targets=floats(2))
def frozen() -> keras.Model:
    model = _line(layers.Dense(3), layers.BatchNormalization(), layers.Dense(2))
    model.layers[1].trainable = False
    model.layers[2].trainable = False
    return model


@case("layers-model_not_trainable", inputs=floats(4))
def model_not_trainable() -> keras.Model:
    model = _line(layers.Dense(3), layers.BatchNormalization(), layers.Dense(2))
    model.trainable = False
    return model


@case("layers-one_weight_frozen", inputs=floats(4), targets=floats(2))
def one_weight_frozen() -> keras.Model:
    model = _line(layers.Dense(3, name="half"), layers.Dense(2))
    model.get_layer("half").bias.trainable = False
    return model


@case("layers-mixed_bfloat16", inputs=floats(4), targets=floats(2))
def mixed_bfloat16() -> keras.Model:
    return _line(
        layers.Dense(3, dtype="mixed_bfloat16"),
        layers.LayerNormalization(dtype="bfloat16"),
        layers.Dense(2, dtype="float32"),
    )


@case("layers-mixed_float16", inputs=floats(4), targets=floats(2))
def mixed_float16() -> keras.Model:
    return _line(layers.Dense(3, dtype="mixed_float16"), layers.Dense(2, dtype="float32"))


@case("layers-float64", inputs=floats(4), targets=floats(2), backends=("tensorflow", "torch"))
def float64() -> keras.Model:
    return _line(
        layers.Dense(3, dtype="float64"), layers.Dense(2, dtype="float64"), dtype="float64"
    )


@case("layers-dtype_policy_map", inputs=floats(4), targets=floats(2))
def dtype_policy_map() -> keras.Model:
    policies = keras.dtype_policies.DTypePolicyMap(default_policy="float32")
    policies["half"] = keras.DTypePolicy("mixed_bfloat16")
    return _line(
        layers.Dense(3, dtype=policies, name="half"), layers.Dense(2, dtype=policies, name="full")
    )


@case("layers-tied_reversible_embedding", inputs=ints(9, 5), targets=floats(5, 9))
def tied_reversible_embedding() -> keras.Model:
    x = keras.Input((5,), dtype="int32")
    embedding = layers.ReversibleEmbedding(9, 4)
    return keras.Model(x, embedding(layers.Dense(4)(embedding(x)), reverse=True))


@case("layers-untied_reversible_embedding", since=(3, 14), inputs=ints(9, 5), targets=floats(5, 9))
def untied_reversible_embedding() -> keras.Model:
    x = keras.Input((5,), dtype="int32")
    embedding = layers.ReversibleEmbedding(
        9, 4, tie_weights=False, mask_zero=True, logit_soft_cap=5.0
    )
    return keras.Model(x, embedding(embedding(x), reverse=True))


class TiedHead(keras.layers.Layer):
    """Uses the table of an embedding that another part of the model owns."""

    def __init__(self, embedding, **kwargs) -> None:
        super().__init__(**kwargs)
        self.embedding = embedding

    def call(self, x):
        return ops.matmul(x, ops.transpose(self.embedding.embeddings))


@case("layers-tied_by_attribute", inputs=ints(9, 5), targets=floats(5, 9), saveable=False)
def tied_by_attribute() -> keras.Model:
    embedding = layers.Embedding(9, 4, name="table")
    return _line(embedding, layers.Dense(4), TiedHead(embedding), shape=(5,), dtype="int32")


@case("layers-remat", inputs=floats(4), targets=floats(2), backends=("jax", "torch"))
def remat() -> keras.Model:
    with keras.RematScope(mode="full"):
        first = layers.Dense(3, activation="relu")
    return _line(first, layers.Dense(2))


@case("layers-convolutions", inputs=floats(6, 6, 2), targets=floats(6, 6, 1))
def convolutions() -> keras.Model:
    return _line(
        layers.Conv2D(4, 3, padding="same", groups=2),
        layers.Conv2DTranspose(3, 2, strides=2),
        layers.Cropping2D(3),
        layers.UpSampling2D(),
        layers.ZeroPadding2D(1),
        layers.Conv2D(1, 3, padding="valid", dilation_rate=(2, 2)),
        layers.Resizing(6, 6),
        shape=(6, 6, 2),
    )
