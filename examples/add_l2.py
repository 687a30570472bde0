"""Add L2 regularization to every kernel of an existing model, so that it takes effect."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Regularize all kernels of a MobileNetV2, except the depthwise ones."""
    model = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, include_top=False)
    graph = ramet.trace(model)
    kernels = graph.select(kind=layers.Conv2D)
    graph = kernels.configure(kernel_regularizer=keras.regularizers.L2(1e-4))
    print(kernels)
    print(graph.journal)

    regular = graph.build()
    found = float(sum(keras.ops.convert_to_numpy(loss) for loss in regular.losses))
    squares = (np.square(layer.get_weights()[0]).sum() for layer in kernels.layers())
    expected = 1e-4 * float(sum(squares))
    assert not model.losses, "the old model was changed"
    assert len(regular.losses) == len(kernels), "some kernels are not regularized"
    assert np.isclose(found, expected, rtol=1e-4), f"the loss is {found}, expected {expected}"
    images = np.random.default_rng(0).normal(size=(2, 32, 32, 3)).astype("float32")
    before, after = (keras.ops.convert_to_numpy(each(images)) for each in (model, regular))
    assert np.array_equal(before, after), "the outputs changed"
    print(f"losses: {len(model.losses)} before, {len(regular.losses)} now, {found:.3f} in all")


if __name__ == "__main__":
    main()
