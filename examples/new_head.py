"""Transfer learning: freeze the body, add a new head, and see which weights are fresh."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Replace the head of a classifier of 10 classes by one for 3, on a frozen body."""
    model = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=10)
    head = layers.Dense(3, activation="softmax", name="animals")
    graph = ramet.trace(model).replace("predictions", head, weights="fresh")
    body = graph.select(where=lambda layer: layer.weights) - graph.select(name="animals")
    graph = body.configure(trainable=False)
    report = graph.transfer_report()
    print(report)
    tuned = graph.build()
    fresh = [transfer.path for transfer in report.of("fresh")]
    assert fresh == ["animals/kernel", "animals/bias"], f"fresh are {fresh}"
    trained = [weight.path for weight in tuned.trainable_weights]
    assert trained == fresh, f"trainable are {trained}"

    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(8, 32, 32, 3)).astype("float32"), rng.integers(0, 3, 8)
    tuned.compile("adam", "sparse_categorical_crossentropy")
    tuned.fit(images, labels, verbose=0)
    pairs = zip(model.get_weights()[:-2], tuned.get_weights()[:-2], strict=True)
    assert all(np.array_equal(old, new) for old, new in pairs), "training moved the frozen body"
    print(f"after training: {len(trained)} weights moved, {len(tuned.weights) - 2} did not")


if __name__ == "__main__":
    main()
