"""Compute in bfloat16, with the norms, the softmax and the head in float32."""

import keras
import numpy as np
from keras import layers

from ramet import adapt


def main() -> None:
    """Cast a small transformer block, look at what it changes, and train it."""
    x = keras.Input((8, 16), name="x")
    y = layers.MultiHeadAttention(2, 8, name="attention")(x, x)
    y = layers.LayerNormalization(name="norm")(layers.Add(name="sum")([x, y]))
    y = layers.Dense(32, activation="gelu", name="up")(y)
    y = layers.Dense(16, name="down")(y)
    y = layers.GlobalAveragePooling1D(name="pool")(y)
    model = keras.Model(x, layers.Dense(4, activation="softmax", name="out")(y), name="block")
    model.compile("adam", "sparse_categorical_crossentropy")
    rng = np.random.default_rng(0)
    data = rng.normal(size=(64, 8, 16)).astype("float32")
    labels = rng.integers(0, 4, 64)
    model.fit(data, labels, verbose=0)

    islands = ["norms", "softmax", "head"]
    print(adapt.cast(model, "*", "bfloat16", keep=islands, explain=True, data=data))
    half = adapt.cast(model, "*", "bfloat16", keep=islands).build()
    assert half.get_layer("up").kernel.dtype == "bfloat16"
    assert half.get_layer("norm").compute_dtype == "float32"
    assert half.output.dtype == "float32"
    half.fit(data, labels, verbose=0)
    print(f"{half.count_params()} parameters; 'up' is {half.get_layer('up').kernel.dtype}")


if __name__ == "__main__":
    main()
