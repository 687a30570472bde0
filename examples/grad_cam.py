"""Where does a classifier look? Flatten the backbone inside it, and tap its feature maps.

With average pooling before the head, a class's map is the feature maps weighted by the
head's kernel: CAM, which is what Grad-CAM gives for such a model, without gradients.
"""

import keras
import numpy as np
from keras import layers

import ramet


def classifier() -> keras.Model:
    """Build a classifier around a backbone that is a nested model."""
    image = keras.Input((32, 32, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, activation="relu", name="conv1")(image)
    x = layers.Conv2D(16, 3, strides=2, activation="relu", name="conv2")(x)
    backbone = keras.Model(image, x, name="backbone")
    inputs = keras.Input((32, 32, 3), name="photo")
    x = layers.GlobalAveragePooling2D(name="pool")(backbone(inputs))
    return keras.Model(inputs, layers.Dense(5, name="head")(x), name="classifier")


def main() -> None:
    """Compute the map of the class that a classifier predicts."""
    model = classifier()
    flat = ramet.trace(model).flatten()
    print(flat)
    tapped = flat.extract(outputs={"maps": "backbone_conv2", "scores": "head"}).build()

    photo = np.random.default_rng(0).normal(size=(1, 32, 32, 3)).astype("float32")
    outputs = tapped.predict(photo, verbose=0)
    maps, scores = outputs["maps"][0], outputs["scores"][0]
    kernel, bias = tapped.get_layer("head").get_weights()
    found = int(scores.argmax())
    cam = maps @ kernel[:, found]

    expected = model.predict(photo, verbose=0)[0, found]
    assert np.isclose(cam.mean() + bias[found], expected, atol=1e-5), "not the map of this class"
    y, x = np.unravel_index(cam.argmax(), cam.shape)
    print(f"class {found}: a map of {cam.shape}, highest at row {y}, column {x}")


if __name__ == "__main__":
    main()
