"""Batch norm to group norm, for batches too small for statistics."""

import keras
import numpy as np
from keras import layers

import ramet


def small_resnet() -> keras.Model:
    """Builds a residual network with batch norm."""
    inputs = keras.Input((16, 16, 3), name="image")
    x = stem = layers.Conv2D(16, 3, padding="same", name="stem")(inputs)
    for number in (1, 2):
        x = layers.BatchNormalization(name=f"norm{number}")(x)
        x = layers.ReLU(name=f"relu{number}")(x)
        x = layers.Conv2D(16, 3, padding="same", name=f"conv{number}")(x)
    x = layers.GlobalAveragePooling2D(name="pool")(layers.Add(name="add")([stem, x]))
    return keras.Model(inputs, layers.Dense(4, name="head")(x), name="resnet")


def group_norm(old: layers.BatchNormalization) -> layers.GroupNormalization:
    """Makes a GroupNormalization out of a BatchNormalization, under its name."""
    return layers.GroupNormalization(groups=4, epsilon=old.epsilon, name=old.name)


def main() -> None:
    """Replaces every batch norm; what one image gives no longer depends on the others."""
    model = small_resnet()
    gammas = [layer for layer in model.layers if isinstance(layer, layers.BatchNormalization)]
    for layer in gammas:
        layer.gamma.assign(np.linspace(0.5, 1.5, 16))  # as if it were trained
    graph = ramet.trace(model).select(kind=layers.BatchNormalization).replace(group_norm)
    print(graph.journal)
    print(graph.transfer_report())

    grouped = graph.build()
    for old in gammas:
        new = keras.ops.convert_to_numpy(grouped.get_layer(old.name).gamma)
        assert np.allclose(new, np.linspace(0.5, 1.5, 16)), "gamma was not taken over"
    images = np.random.default_rng(0).normal(size=(8, 16, 16, 3)).astype("float32")
    for norm, net in {"batch": model, "group": grouped}.items():
        outputs = (net(x, training=True)[:1] for x in (images[:1], images))
        alone, together = map(keras.ops.convert_to_numpy, outputs)
        change = np.abs(alone - together).max()
        print(f"{norm} norm: 7 more images in the batch change the first one's output by {change:.1g}")
    assert change < 1e-5, f"an image still depends on its batch: {change}"


if __name__ == "__main__":
    main()
