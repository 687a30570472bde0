"""Two classifiers with the same layer names, made into one averaged model on one input."""

import keras
import numpy as np
from keras import layers

import ramet


def classifier(name: str, width: int) -> keras.Model:
    """Builds a classifier; all have the same names of layers."""
    inputs = keras.Input((6,), name="features")
    x = layers.Dense(width, activation="relu", name="hidden")(inputs)
    return keras.Model(inputs, layers.Dense(3, activation="softmax", name="head")(x), name=name)


def main() -> None:
    """Merges two classifiers and averages what they give."""
    small, large = classifier("small", 8), classifier("large", 32)
    scores = [keras.Input((3,), name=f"scores{number}") for number in (1, 2)]
    average = keras.Model(scores, layers.Average(name="average")(scores), name="vote")

    graph = ramet.chain(ramet.merge([small, large]), average, name="ensemble")
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
