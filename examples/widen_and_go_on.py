"""Widen and deepen a trained network, and go on training where it was."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Train a small network, make it larger without losing what it learned, and train on."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(512, 8)).astype("float32")
    y = np.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    inputs = keras.Input((8,), name="features")
    hidden = layers.Dense(8, activation="relu", name="ffn")(inputs)
    model = keras.Model(inputs, layers.Dense(1, name="out")(hidden), name="small")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(x, y, epochs=20, verbose=0)
    before = model.evaluate(x, y, verbose=0)

    graph = ramet.compress.widen(model, "ffn", 32)
    branch = [layers.Dense(32, activation="relu", name="more"), layers.Dense(32, name="back")]
    graph = ramet.compress.deepen(graph, "ffn", branch)
    print(graph.journal)
    large = graph.build(name="large")
    print(f"{model.count_params()} parameters are now {large.count_params()}")

    start = large.evaluate(x, y, verbose=0)
    assert np.isclose(before, start, rtol=1e-4), f"the loss was {before} and is {start}"
    large.fit(x, y, epochs=20, verbose=0)
    after = large.evaluate(x, y, verbose=0)
    assert after < before, "what was added did not learn"
    print(f"loss {before:.3f}, after growing {start:.3f}, after training on {after:.3f}")


if __name__ == "__main__":
    main()
