"""Remove a residual block from a MobileNetV2, and see what the model computes without it."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Replace the block between two sums with an identity; all other weights are kept."""
    model = keras.applications.MobileNetV2(
        (32, 32, 3), alpha=0.35, weights=None, classes=10, classifier_activation=None
    )
    start, end = "block_4_add", "block_5_add"
    graph = ramet.trace(model).replace((start, end), layers.Identity(name="block_5"))
    print(graph.journal)
    shallow = graph.build()

    # A residual block whose last scale is zero adds nothing: the same as removing it.
    silent = ramet.clone(model)
    gamma = silent.get_layer("block_5_project_BN").gamma
    gamma.assign(np.zeros(gamma.shape))
    images = np.random.default_rng(0).normal(size=(2, 32, 32, 3)).astype("float32")
    outputs = (keras.ops.convert_to_numpy(m(images)) for m in (model, silent, shallow))
    before, expected, found = outputs
    assert np.allclose(expected, found, rtol=1e-4, atol=0), "more than the block is gone"
    assert not np.allclose(before, found, rtol=1e-4, atol=0), "the block is still there"
    left = [layer.name for layer in shallow.layers if layer.name.startswith("block_5_")]
    assert not left, f"parts of the block are left: {left}"
    print(f"{len(model.layers)} layers are now {len(shallow.layers)}")
    print(f"{model.count_params():,} parameters are now {shallow.count_params():,}")


if __name__ == "__main__":
    main()
