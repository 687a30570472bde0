"""A feature pyramid: tap a residual network at three depths, and leave the head out."""

from typing import Any

import keras
import numpy as np
from keras import layers

import ramet


def stage(x: Any, filters: int, name: str) -> Any:
    """Halves the size, then adds a residual block."""
    x = layers.Conv2D(filters, 3, 2, "same", activation="relu", name=f"{name}_down")(x)
    y = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"{name}_conv")(x)
    return layers.Add(name=f"{name}_out")([x, y])


def main() -> None:
    """Extracts a model that gives a dict of feature maps."""
    inputs = x = keras.Input((64, 64, 3), name="image")
    for number, filters in enumerate((8, 16, 32, 64), 1):
        x = stage(x, filters, f"stage{number}")
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    resnet = keras.Model(inputs, layers.Dense(10, name="head")(x), name="resnet")

    graph = ramet.trace(resnet).extract(
        outputs={"fine": "stage2_out", "middle": "stage3_out", "coarse": "stage4_out"}
    )
    print(graph.journal)
    pyramid = graph.build(name="pyramid")
    image = np.random.default_rng(0).normal(size=(1, 64, 64, 3)).astype("float32")
    levels = pyramid(image)
    shapes = {name: tuple(feature.shape[1:]) for name, feature in levels.items()}
    print(shapes)
    assert shapes == {"fine": (16, 16, 16), "middle": (8, 8, 32), "coarse": (4, 4, 64)}
    assert pyramid.count_params() == resnet.count_params() - 650, "the head is still there"

    # The rest of the network, on the coarse features, gives what the whole network gives.
    rest = ramet.trace(resnet).extract(inputs="stage4_out").build()
    found, expected = map(keras.ops.convert_to_numpy, (rest(levels["coarse"]), resnet(image)))
    assert np.allclose(found, expected, atol=1e-6), "these are not the features of the network"


if __name__ == "__main__":
    main()
