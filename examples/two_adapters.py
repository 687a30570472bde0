"""Teach one classifier two tasks by adapters, and switch between them."""

import keras
import numpy as np
from keras import layers

import ramet


def classifier() -> keras.Model:
    """Build a small transformer that classifies sequences of tokens."""
    tokens = keras.Input((8,), dtype="int32", name="tokens")
    x = layers.Embedding(20, 16, name="embedding")(tokens)
    attended = layers.MultiHeadAttention(2, 8, name="attention")(x, x)
    x = layers.LayerNormalization(name="norm")(layers.Add(name="sum")([x, attended]))
    x = layers.Dense(32, activation="relu", name="hidden")(x)
    x = layers.GlobalMaxPooling1D(name="pool")(x)
    return keras.Model(tokens, layers.Dense(2, activation="softmax", name="head")(x), name="net")


def train(model: keras.Model, x: np.ndarray, y: np.ndarray) -> None:
    """Train the adapter that is in use."""
    model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy")
    model.fit(x, y, epochs=15, verbose=0)


def main() -> None:
    """Train one adapter per task on the same frozen base."""
    x = np.random.default_rng(0).integers(0, 20, (256, 8))
    tasks = {"has_three": (x == 3).any(axis=1), "has_five": (x == 5).any(axis=1)}
    model = classifier()
    places = ["**/query", "**/value", "hidden", "head", "embedding"]
    adapted = model
    for name, labels in tasks.items():
        graph = ramet.adapt.lora(adapted, places, rank=2, name=name, seed=0)
        print(graph.journal)
        adapted = graph.build()
        train(adapted, x, labels)
    adapted.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    for name, labels in tasks.items():
        ramet.adapt.use(adapted, name)
        accuracy = adapted.evaluate(x, labels, verbose=0)[1]
        print(f"{name}: accuracy {accuracy:.2f}")
        assert accuracy > 0.8
    ramet.adapt.use(adapted, None)
    assert np.array_equal(adapted.predict(x, verbose=0), model.predict(x, verbose=0))


if __name__ == "__main__":
    main()
