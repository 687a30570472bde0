"""Fold every batch norm into the convolution before it: one layer instead of two."""

from typing import Any

import keras
import numpy as np
from keras import layers

import ramet


def conv_norm(x: Any) -> Any:
    """Match a convolution without bias or activation, and a batch norm."""
    conv = ramet.any_layer(layers.Conv2D, name="conv", use_bias=False, activation="linear")
    return layers.BatchNormalization(name="norm")(conv(x))


def one_conv(x: Any, match: dict[str, Any]) -> Any:
    """Replace both by a convolution with a bias, which computes the same."""
    conv, norm = match["conv"], match["norm"]
    gamma, beta, mean, variance = norm.get_weights()
    scale = gamma / np.sqrt(variance + norm.epsilon)
    folded = layers.Conv2D.from_config({**conv.get_config(), "use_bias": True})
    y = folded(x)
    folded.set_weights([conv.get_weights()[0] * scale, beta - mean * scale])
    return y


def main() -> None:
    """Fold the batch norms of a MobileNetV2, except those after depthwise convolutions."""
    model = keras.applications.MobileNetV2((32, 32, 3), 0.35, include_top=False, weights=None)
    rng = np.random.default_rng(0)
    for norm in ramet.trace(model).select(kind=layers.BatchNormalization).layers():
        norm.set_weights([rng.uniform(0.5, 2, w.shape) for w in norm.weights])  # as if trained
    graph = ramet.rewrite(model, conv_norm, one_conv)
    print(graph.journal)
    folded = graph.build()

    images = rng.normal(size=(2, 32, 32, 3)).astype("float32")
    expected, found = (keras.ops.convert_to_numpy(m(images)) for m in (model, folded))
    difference = np.abs(expected - found).max() / np.abs(expected).max()
    assert difference < 1e-5, f"folding changed the outputs by {difference}"
    fewer = len(model.layers) - len(folded.layers)
    assert fewer == 35, f"{fewer} layers are gone, not 35"
    print(f"{fewer} layers fewer; outputs differ by {difference:.1g} of the largest")


if __name__ == "__main__":
    main()
