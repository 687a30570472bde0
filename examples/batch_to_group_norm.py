"""Batch norm to group norm, for batches that are too small for statistics."""

import keras
import numpy as np
from keras import layers

import ramet


def group_norm(old: layers.BatchNormalization) -> layers.GroupNormalization:
    """Return a GroupNormalization with the name of a BatchNormalization."""
    return layers.GroupNormalization(groups=4, epsilon=old.epsilon, name=old.name)


def main() -> None:
    """Replace every batch norm: the output for an image no longer depends on the others."""
    model = keras.Sequential([keras.Input((16, 16, 3))])
    for number in (1, 2):
        model.add(layers.Conv2D(16, 3, name=f"conv{number}"))
        model.add(layers.BatchNormalization(name=f"norm{number}"))
        model.add(layers.ReLU(name=f"relu{number}"))
        model.get_layer(f"norm{number}").gamma.assign(np.linspace(0.5, 1.5, 16))  # as if trained
    graph = ramet.trace(model).select(kind=layers.BatchNormalization).replace(group_norm)
    print(graph.journal)
    print(graph.transfer_report())

    grouped = graph.build()
    for name in ("norm1", "norm2"):
        gamma = keras.ops.convert_to_numpy(grouped.get_layer(name).gamma)
        assert np.allclose(gamma, np.linspace(0.5, 1.5, 16)), "gamma was not taken over"
    images = np.random.default_rng(0).normal(size=(8, 16, 16, 3)).astype("float32")
    changes = []
    for net in (model, grouped):
        outputs = (net(x, training=True)[:1] for x in (images[:1], images))
        alone, together = map(keras.ops.convert_to_numpy, outputs)
        changes.append(np.abs(alone - together).max())
    assert changes[1] < 1e-5 < changes[0], f"an image still depends on its batch: {changes}"
    print("seven more images in the batch change the output of the first by up to")
    print(f"{changes[0]:.2g} with batch norm, {changes[1]:.2g} with group norm")


if __name__ == "__main__":
    main()
