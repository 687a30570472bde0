"""From RGB to four channels, keeping the weights: a depth channel with zero weights."""

import keras
import numpy as np

import ramet


def main() -> None:
    """Widen the first convolution of a MobileNetV2."""
    model = keras.applications.MobileNetV2(
        (32, 32, 3), alpha=0.35, weights=None, classes=10, classifier_activation=None
    )
    graph = ramet.trace(model).with_inputs(shape=(32, 32, 4), name="rgbd")
    graph = graph.configure("Conv1", weights="grow", kernel_initializer="zeros")
    print(graph.journal)
    print(graph.transfer_report())

    wide = graph.build()
    assert wide.input_shape == (None, 32, 32, 4), f"it takes {wide.input_shape}"
    images = np.random.default_rng(0).normal(size=(2, 32, 32, 4)).astype("float32")
    outputs = (model(images[..., :3]), wide(images))
    expected, found = map(keras.ops.convert_to_numpy, outputs)
    assert np.allclose(expected, found, rtol=1e-4, atol=0), "the new channel has an effect"
    print("outputs are those of the RGB model, whatever the fourth channel holds")


if __name__ == "__main__":
    main()
