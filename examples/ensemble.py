"""Merge two classifiers with the same layer names into one model that averages them."""

import keras
import numpy as np
from keras import layers

import ramet


def classifier(name: str, width: int) -> keras.Model:
    """Build a classifier; all have the same layer names."""
    inputs = keras.Input((6,), name="features")
    x = layers.Dense(width, activation="relu", name="hidden")(inputs)
    return keras.Model(inputs, layers.Dense(3, activation="softmax", name="head")(x), name=name)


def main() -> None:
    """Merge two classifiers and average their outputs."""
    small, large = classifier("small", 8), classifier("large", 32)
    graph = ramet.merge([small, large], outputs=layers.Average(name="vote"), name="ensemble")
    print(graph)
    print(graph.journal)
    ensemble = graph.build()

    x = np.random.default_rng(0).normal(size=(5, 6)).astype("float32")
    expected = (small.predict(x, verbose=0) + large.predict(x, verbose=0)) / 2
    difference = np.abs(ensemble.predict(x, verbose=0) - expected).max()
    assert len(ensemble.inputs) == 1, "the two do not share their input"
    assert difference < 1e-6, f"the ensemble is not the average: {difference}"
    print(f"it differs from the average of the two by {difference:.1g}")


if __name__ == "__main__":
    main()
