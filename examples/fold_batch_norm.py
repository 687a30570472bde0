"""Fold every batch norm into the convolution before it: one layer instead of two."""

from typing import Any

import keras
import numpy as np
from keras import layers

import ramet


def conv_norm(x: Any) -> Any:
    """Is what to look for: a convolution without bias, and a batch norm."""
    x = ramet.any_layer(layers.Conv2D, use_bias=False, activation="linear")(x, name="conv")
    return layers.BatchNormalization(name="norm")(x)


def folded(x: Any, match: dict[str, Any]) -> Any:
    """Puts a convolution with bias there, which computes the same."""
    conv, norm = match["conv"], match["norm"]
    gamma, beta, mean, variance = norm.get_weights()
    scale = gamma / np.sqrt(variance + norm.epsilon)
    new = layers.Conv2D.from_config({**conv.get_config(), "use_bias": True})
    y = new(x)
    new.set_weights([conv.get_weights()[0] * scale, beta - mean * scale])
    return y


def main() -> None:
    """Folds the batch norms of a MobileNetV2."""
    model = keras.applications.MobileNetV2(
        (32, 32, 3), alpha=0.35, weights=None, classes=10, classifier_activation=None
    )
    graph = ramet.rewrite(model, conv_norm, folded)
    print(graph.journal[0])
    fast = graph.build()


if __name__ == "__main__":
    main()
