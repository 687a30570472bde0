"""What does an edit save? Two profiles side by side, before anything is built for good.

`ramet.profile` counts multiply-accumulates, weights and memory, call by call. It takes edited
graphs too, so that a plan can be priced before it is carried out.
"""

import keras
from keras import layers

import ramet


def network() -> keras.Model:
    """Build a small image classifier with a wide block."""
    image = keras.Input((64, 64, 3), name="image")
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu", name="stem")(image)
    x = layers.Conv2D(128, 3, padding="same", activation="relu", name="wide")(x)
    x = layers.Conv2D(64, 3, strides=2, padding="same", activation="relu", name="down")(x)
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(image, layers.Dense(10, name="head")(x), name="network")


def main() -> None:
    """Replace the most expensive convolution with a separable one, and see what that saves."""
    graph = ramet.trace(network())
    before = ramet.profile(graph)
    print(before)
    costliest = before.top(1)[0].path
    assert costliest == "wide"

    def separable(old: layers.Conv2D) -> keras.Layer:
        return layers.SeparableConv2D(
            old.filters, old.kernel_size, padding=old.padding, activation=old.activation
        )

    edited = graph.replace(costliest, separable, weights="fresh")
    after = ramet.profile(edited)
    comparison = before.against(after)
    print(comparison)
    assert comparison.macs_ratio < 0.5, "the edit saves too little"
    assert after.params == edited.build().count_params()


if __name__ == "__main__":
    main()
