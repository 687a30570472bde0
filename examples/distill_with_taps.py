"""Train a small student on its data and on what a big teacher computes inside."""

import keras
import numpy as np
from keras import layers

import ramet
from ramet import adapt


def network(width: int, name: str) -> keras.Model:
    """Return a classifier with a nested model, whose parts can be tapped too."""
    x = keras.Input((16,), name="x")
    body = [keras.Input((16,)), layers.Dense(width, activation="relu", name="wide")]
    y = keras.Sequential([*body, layers.Dense(width, name="code")], name="body")(x)
    model = keras.Model(x, layers.Dense(3, name="logits")(y), name=name)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    return model


def main() -> None:
    """Teach a student inside and at its outputs, and take it out."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(128, 16)).astype("float32")
    labels = data[:, :3].argmax(axis=1)
    teacher, student = network(64, "teacher"), network(8, "student")
    teacher.fit(data, labels, epochs=10, verbose=0)

    pairs = {"body/code": "body/code", "logits": "logits"}
    losses = ["mse", keras.distillation.LogitsDistillation(temperature=2.0)]
    both = adapt.taps(teacher, student, pairs, losses=losses, weights=[0.1, 1.0]).build()
    print(f"trained: {', '.join(v.path for v in both.trainable_variables)}")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    both.compile(keras.optimizers.Adam(0.01), loss)
    history = both.fit(data, labels, epochs=10, verbose=0).history["loss"]
    assert history[-1] < history[0], "the student learns"

    trained = ramet.trace(both).extract(outputs="logits").build()
    assert trained.count_params() == student.count_params()
    print(f"the student has {trained.count_params()} of {teacher.count_params()} parameters")


if __name__ == "__main__":
    main()
