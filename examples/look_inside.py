"""What does a model compute on the way? Look at any tensor, and switch units off.

`ramet.run` gives the values at places inside a model, nested ones too, and lets a function
see the outputs of every call, or put others in their place. The model is not changed.
"""

import keras
import numpy as np
from keras import layers, ops

import ramet


def matcher() -> keras.Model:
    """Build a model that calls one encoder on two images."""
    image = keras.Input((16, 16, 3), name="image")
    x = layers.Conv2D(6, 3, activation="relu", name="conv")(image)
    x = layers.BatchNormalization(name="norm")(x)
    encoder = keras.Model(image, layers.GlobalAveragePooling2D(name="pool")(x), name="encoder")
    first, second = keras.Input((16, 16, 3), name="first"), keras.Input((16, 16, 3), name="second")
    x = layers.Subtract(name="difference")([encoder(first), encoder(second)])
    return keras.Model([first, second], layers.Dense(1, name="score")(x), name="matcher")


def main() -> None:
    """Find the channel of the encoder that matters most for a score."""
    model = matcher()
    photos = list(np.random.default_rng(0).normal(size=(2, 1, 16, 16, 3)).astype("float32"))

    for place, value in ramet.run(model, photos, at="*").items():
        print(f"{place:18} {tuple(value.shape)}  mean {float(ops.mean(value)):+.3f}")
    maps, score = ramet.run(model, photos, at=["encoder#2/conv", "score"])
    assert np.array_equal(ops.convert_to_numpy(score), ops.convert_to_numpy(model(photos)))
    assert tuple(maps.shape) == (1, 14, 14, 6)

    def without(channel: int) -> float:
        keep = np.arange(6) != channel

        def switch_off(place: str, value: object) -> object:
            return value * ops.cast(keep, "float32") if place.endswith("/conv") else None

        return float(ops.squeeze(ramet.run(model, photos, each=switch_off)))

    changes = [abs(without(channel) - float(ops.squeeze(score))) for channel in range(6)]
    assert max(changes) > 0, "no channel counts"
    print(f"channel {int(np.argmax(changes))} counts most: {max(changes):.4f} of the score")


if __name__ == "__main__":
    main()
