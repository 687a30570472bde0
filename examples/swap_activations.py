"""Give a MobileNetV2 another activation: select all its ReLUs, and replace them in one line."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Replace every ReLU with a hard swish; the weights stay the same."""
    model = keras.applications.MobileNetV2(
        (32, 32, 3), alpha=0.35, weights=None, classes=10, classifier_activation=None
    )
    relus = ramet.trace(model).select(kind=layers.ReLU)
    print(relus)

    graph = relus.replace(lambda old: layers.Activation("hard_swish", name=old.name))
    swish = graph.build()
    print(graph.journal)

    kinds = {type(swish.get_layer(name)).__name__ for name in relus}
    assert kinds == {"Activation"}, f"some ReLUs are left: {kinds}"
    assert isinstance(model.get_layer("Conv1_relu"), layers.ReLU), "the old model was changed"
    kept = zip(model.get_weights(), swish.get_weights(), strict=True)
    assert all(np.array_equal(old, new) for old, new in kept), "a weight was lost"

    images = np.random.default_rng(0).normal(size=(2, 32, 32, 3)).astype("float32")
    before, after = (keras.ops.convert_to_numpy(each(images)) for each in (model, swish))
    change = np.abs(after - before).max() / np.abs(before).max()
    assert change > 0.01, "the new activation has no effect"
    print(f"logits change by up to {change:.0%}; all {len(model.weights)} weights are the same")


if __name__ == "__main__":
    main()
