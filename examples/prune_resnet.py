"""Prune a residual network in three rounds, and train it in between."""

from typing import Any

import keras
import numpy as np
from keras import layers

import ramet


def block(x: Any, filters: int, name: str) -> Any:
    """Return a residual block: its output is added to its input, so both share their channels."""
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False, name=f"{name}_conv1")(x)
    y = layers.ReLU()(layers.BatchNormalization(name=f"{name}_norm1")(y))
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False, name=f"{name}_conv2")(y)
    y = layers.BatchNormalization(name=f"{name}_norm2")(y)
    return layers.ReLU()(layers.Add()([x, y]))


def main() -> None:
    """Halve the channels of a small ResNet, and compare what it costs."""
    image = keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(16, 3, padding="same", name="stem")(image)
    x = block(block(x, 16, "first"), 16, "second")
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(image, layers.Dense(4, name="classes")(x), name="resnet")
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(64, 8, 8, 3)), rng.integers(4, size=64)
    model.fit(images, labels, verbose=0)
    print(ramet.compress.groups(model))

    before = ramet.profile(model)
    for _ in range(3):
        model = ramet.compress.prune(model, ratio=0.2).build()
        model.fit(images, labels, verbose=0)

    after = ramet.profile(model)
    print(f"{before.macs:,} → {after.macs:,} MACs, {before.params:,} → {after.params:,} parameters")
    proof = ramet.prove(ramet.compress.prune(model, ratio=0.5))
    print(f"once more: {proof.edits[0].claim}")
    assert proof.ok
    assert after.macs < 0.35 * before.macs, "three rounds of 20 % leave about half of the channels"
    assert model.output_shape == (None, 4), "inputs and outputs stay"


if __name__ == "__main__":
    main()
