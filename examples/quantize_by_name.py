"""Quantize what you name, after a look at what each layer costs."""

import keras
import numpy as np
from keras import layers

import ramet
from ramet import adapt


def main() -> None:
    """Measure every layer, quantize all but the worst, and train on."""
    x = keras.Input((32,), name="features")
    y = layers.Dense(64, activation="relu", name="first")(x)
    block = [keras.Input((64,)), layers.Dense(256, activation="relu", name="ffn_up")]
    y = keras.Sequential([*block, layers.Dense(64, name="ffn_down")], name="block")(y)
    model = keras.Model(x, layers.Dense(10, name="head")(y), name="net")
    rng = np.random.default_rng(0)
    data = rng.normal(size=(256, 32)).astype("float32")
    labels = data[:, :10].argmax(axis=1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(data, labels, epochs=20, verbose=0)

    costs = adapt.sensitivity(model, data, how=["int8", "int4", "prune"])
    print(costs)
    worst = costs.above(0.0, "int4")[:1]
    modes = {"**/ffn*": "int4", "*": "int8"}
    print(adapt.quantize(model, modes, skip=worst, explain=True))
    small = adapt.quantize(model, modes, skip=worst).build()

    scores = [each.evaluate(data, labels, verbose=0)[1] for each in (model, small)]
    assert scores[1] > scores[0] - 0.05, "quantizing cost more than measured"
    small.fit(data, labels, verbose=0)  # biases, and what was skipped, train on
    assert ramet.verify(small, ramet.clone(small))
    print(f"accuracy {scores[0]:.3f} in floats, {scores[1]:.3f} quantized")


if __name__ == "__main__":
    main()
