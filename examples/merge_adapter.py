"""Adapt a network, save the adapter alone, and merge it into a plain model for deployment."""

from pathlib import Path
from tempfile import TemporaryDirectory

import keras
import numpy as np

import ramet


def main() -> None:
    """Train an adapter of a MobileNetV2, and deploy the network without it."""
    model = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=3)
    graph = ramet.adapt.lora(model, {"*_project": 2, "predictions": 3}, name="photos")
    adapted = graph.build()
    x = np.random.default_rng(0).random((16, 32, 32, 3), "float32")
    adapted.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy")
    adapted.fit(x, np.arange(16) % 3, epochs=1, verbose=0)
    print(graph.journal)

    with TemporaryDirectory() as folder:
        file = Path(folder) / "photos.safetensors"
        ramet.adapt.save(adapted, file)
        print(
            f"the adapter has {file.stat().st_size / 4 / model.count_params():.0%} of the weights"
        )
        merged = ramet.adapt.merge(ramet.adapt.load(model, file)).build()

    print(ramet.diff(model, merged, weights=True).title)
    assert np.allclose(merged.predict(x, verbose=0), adapted.predict(x, verbose=0), atol=1e-5)
    base = ramet.adapt.unmerge(merged, adapted).build()
    assert ramet.verify(base, model, only="state")
    print("merged, and taken out again without a trace")


if __name__ == "__main__":
    main()
