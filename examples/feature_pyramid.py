"""A feature pyramid: tap a ResNet50 at four depths, and leave out what no level needs."""

import keras
import numpy as np

import ramet

LEVELS = {f"C{level}": f"conv{level}_block{last}_out" for level, last in
          ((2, 3), (3, 4), (4, 6), (5, 3))}  # fmt: skip


def main() -> None:
    """Extracts a model that gives a dict of feature maps."""
    resnet = keras.applications.ResNet50(
        weights=None, classifier_activation=None, input_shape=(64, 64, 3)
    )
    graph = ramet.trace(resnet).extract(outputs=LEVELS)
    print(graph.journal)
    pyramid = graph.build(name="pyramid")

    image = np.random.default_rng(0).normal(size=(1, 64, 64, 3)).astype("float32")
    levels = pyramid(image)
    for name, feature in levels.items():
        print(f"{name}: {tuple(feature.shape)}")
    strides = [64 // levels[name].shape[1] for name in LEVELS]
    assert strides == [4, 8, 16, 32], f"strides are {strides}"
    names = {layer.name for layer in pyramid.layers}
    assert not names & {"avg_pool", "predictions"}, "the head is still there"

    # The features are those that the classifier computes.
    top = ramet.trace(resnet).extract(inputs=LEVELS["C5"]).build()
    found, expected = map(keras.ops.convert_to_numpy, (top(levels["C5"]), resnet(image)))
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    assert difference < 1e-4, f"top(C5) is not what the model gives: {difference}"


if __name__ == "__main__":
    main()
