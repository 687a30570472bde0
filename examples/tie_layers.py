"""Tie two layers, so that they train as one; untie them, so that each goes its own way."""

from typing import Any

import keras
import numpy as np
from keras import layers

import ramet


def two_towers() -> keras.Model:
    """Builds a model that encodes a question and an answer, each with its own layer."""
    question, answer = (keras.Input((8,), name=name) for name in ("question", "answer"))
    left = layers.Dense(4, name="encode_question")(question)
    right = layers.Dense(4, name="encode_answer")(answer)
    score = layers.Dot(axes=1, name="score")([left, right])
    return keras.Model([question, answer], score, name="towers")


def train(model: keras.Model, data: Any, target: Any) -> None:
    """Trains for an epoch."""
    model.compile("sgd", "mse")
    model.fit(data, target, verbose=0)


def main() -> None:
    """Ties the two encoders, trains, unties them, and trains on."""
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(32, 8)).astype("float32") for _ in range(2)]
    target = rng.normal(size=(32, 1)).astype("float32")

    graph = ramet.trace(two_towers()).share("encode_question", "encode_answer")
    tied = graph.build()
    print(ramet.trace(tied))
    train(tied, data, target)
    assert len(tied.weights) == 2, f"expected one kernel and one bias, found {len(tied.weights)}"
    same = tied.predict(data, verbose=0), tied.predict(data[::-1], verbose=0)
    assert np.allclose(*same, atol=1e-5), "the towers are not the same"

    graph = ramet.trace(tied).unshare("encode_question")
    print(graph.journal)
    free = graph.build()
    assert np.allclose(free.predict(data, verbose=0), same[0], atol=1e-5), "untying changed it"
    train(free, data, target)
    one, two = (layer.get_weights()[0] for layer in free.layers if layer.weights)
    assert not np.array_equal(one, two), "the encoders still train as one"
    print(f"tied: {len(tied.weights)} weights; untied: {len(free.weights)}, which train apart")


if __name__ == "__main__":
    main()
