"""A feature pyramid: tap a residual network at three depths, and leave the head out."""

from typing import Any

import keras
import numpy as np
from keras import layers

import ramet


def stage(x: Any, filters: int, name: str) -> Any:
    """Halve the size, then add a residual block."""
    x = layers.Conv2D(filters, 3, 2, "same", activation="relu", name=f"{name}_down")(x)
    y = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"{name}_conv")(x)
    return layers.Add(name=f"{name}_out")([x, y])


def main() -> None:
    """Extract a model that returns a dict of feature maps."""
    inputs = x = keras.Input((32, 32, 3), name="image")
    for number, filters in enumerate((8, 16, 32), 1):
        x = stage(x, filters, f"stage{number}")
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    resnet = keras.Model(inputs, layers.Dense(10, name="head")(x), name="resnet")

    levels = {"fine": "stage1_out", "middle": "stage2_out", "coarse": "stage3_out"}
    graph = ramet.trace(resnet).extract(outputs=levels)
    print(graph.journal)
    pyramid = graph.build(name="pyramid")
    image = np.random.default_rng(0).normal(size=(1, 32, 32, 3)).astype("float32")
    features = pyramid.predict(image, verbose=0)
    sizes = {name: feature.shape[1] for name, feature in features.items()}
    print(sizes)
    assert sizes == {"fine": 16, "middle": 8, "coarse": 4}, "these are other levels"
    assert pyramid.layers[-1].name == "stage3_out", "the head is still there"

    # The rest of the network, on the coarse features, computes the same as the whole network.
    rest = ramet.trace(resnet).extract(inputs="stage3_out").build()
    found = rest.predict(features["coarse"], verbose=0)
    expected = resnet.predict(image, verbose=0)
    assert np.allclose(found, expected, atol=1e-5), "these are not the features of the network"


if __name__ == "__main__":
    main()
