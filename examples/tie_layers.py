"""Tie two layers, so that they train as one; untie them, so that each trains on its own."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Tie the encoders of two towers, train, untie them, and train on."""
    inputs = [keras.Input((8,), name=name) for name in ("question", "answer")]
    codes = [layers.Dense(4, name=f"encode_{each.name}")(each) for each in inputs]
    towers = keras.Model(inputs, layers.Dot(axes=1, name="score")(codes), name="towers")
    towers.compile("sgd", "mse")
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(32, 8)).astype("float32") for _ in range(2)]
    target = rng.normal(size=(32, 1)).astype("float32")

    graph = ramet.trace(towers).share("encode_question", "encode_answer")
    print(graph)
    tied = graph.build()
    tied.fit(data, target, verbose=0)
    assert len(tied.weights) == 2, f"expected one kernel and one bias, found {len(tied.weights)}"
    scores = tied.predict(data, verbose=0)
    swapped = tied.predict(data[::-1], verbose=0)
    assert np.allclose(scores, swapped, atol=1e-5), "question and answer are encoded differently"

    graph = ramet.trace(tied).unshare("encode_question")
    print(graph.journal)
    free = graph.build()
    assert np.allclose(scores, free.predict(data, verbose=0), atol=1e-5), "untying changed it"
    free.fit(data, target, verbose=0)
    first, second = (layer.get_weights()[0] for layer in free.layers if layer.weights)
    assert not np.allclose(first, second, atol=1e-6), "they still train as one"
    print(f"tied: {len(tied.weights)} weights; untied: {len(free.weights)}, which train apart")


if __name__ == "__main__":
    main()
