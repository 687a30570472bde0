"""Small models with kernels of every kind, and data for them, for the tests of adapters."""

from typing import Any

import keras
import numpy as np
from keras import layers

RANDOM = np.random.default_rng(0)
Y = RANDOM.standard_normal((8, 3)).astype("float32")


def texts() -> keras.Model:
    """A classifier of texts: an embedding with a mask, attention in a model inside, recurrence."""
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    i = keras.Input((None, 8), name="i")
    attended = layers.MultiHeadAttention(2, 4, name="mha")(i, i)
    block = keras.Model(i, layers.LayerNormalization(name="norm")(attended), name="block")
    x = layers.Embedding(7, 8, mask_zero=True, name="embedding")(tokens)
    x = block(x)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True, name="lstm"), name="both")(x)
    x = layers.GroupQueryAttention(4, 4, 2, name="gqa")(x, x)
    x = layers.GRU(4, name="gru")(x)
    x = layers.Dense(5, activation="relu", name="hidden")(x)
    return keras.Model(tokens, layers.Dense(3, name="head")(x), name="texts")


def images() -> keras.Model:
    """A network with every kind of convolution."""
    x = image = keras.Input((6, 6, 3), name="image")
    x = layers.Conv2D(4, 3, padding="same", activation="relu", name="conv")(x)
    x = layers.DepthwiseConv2D(3, depth_multiplier=2, name="depthwise")(x)
    x = layers.SeparableConv2D(6, 3, padding="same", name="separable")(x)
    x = layers.Conv2DTranspose(4, 2, name="transpose")(x)
    x = layers.Conv2D(4, 1, groups=2, name="grouped")(x)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    x = layers.EinsumDense("ab,cb->ac", 5, bias_axes="c", name="turned")(x)
    return keras.Model(image, layers.Dense(3, name="head")(x), name="images")


def data_for(model: keras.Model) -> np.ndarray:
    """Return inputs for one of these models."""
    if model.inputs[0].dtype == "int32":
        return np.array([[1, 2, 3, 0, 0], [4, 5, 6, 1, 2]] * 4, "int32")
    return RANDOM.standard_normal((8, *model.inputs[0].shape[1:])).astype("float32")


def bits(model: Any) -> list[bytes]:
    """Return the bits of all variables."""
    return [keras.ops.convert_to_numpy(variable).tobytes() for variable in model.variables]


def shake(model: Any) -> None:
    """Give the factors of all adapters some values."""
    random = np.random.default_rng(1)
    for variable in model.variables:
        factor = not variable.path.endswith(("_weight", "seed_generator_state"))
        if "/adapters/" in variable.path and factor:
            variable.assign(random.normal(0, 0.3, variable.shape))


def losses(model: Any, x: np.ndarray, epochs: int = 2) -> list[float]:
    """Train a compiled model, and return its losses."""
    options = {"epochs": epochs, "batch_size": 4, "shuffle": False, "verbose": 0}
    return model.fit(x, Y, **options).history["loss"]
