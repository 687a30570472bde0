"""Fold the batch norms of a MobileNet away: fewer layers, the same outputs, less time."""

import tempfile
from pathlib import Path
from time import perf_counter

import keras
import numpy as np

import ramet
from ramet import files


def as_if_trained() -> keras.Model:
    """Build a MobileNet whose norms have statistics, as after training."""
    model = keras.applications.MobileNet((64, 64, 3), weights=None, classes=10)
    rng = np.random.default_rng(0)
    for norm in ramet.trace(model).select(kind="BatchNormalization").layers():
        norm.set_weights([rng.uniform(0.5, 1.5, w.shape) for w in norm.weights])
    return model


def seconds(*models: keras.Model) -> list[float]:
    """Return how long each model takes for a batch of images: the best of ten times."""
    images = np.random.default_rng(1).normal(size=(8, 64, 64, 3)).astype("float32")
    times: list[list[float]] = [[] for _ in models]
    for _ in range(10):
        for number, model in enumerate(models):
            start = perf_counter()
            keras.ops.convert_to_numpy(model(images))
            times[number].append(perf_counter() - start)
    return [min(each) for each in times]


def main() -> None:
    """Fold a model, prove it, save it, and time it."""
    model = as_if_trained()
    graph = ramet.compress.fold(model)
    print(graph.journal)
    folded = graph.build()
    assert ramet.verify(model, folded, only="outputs", rtol=1e-3, atol=1e-5)
    print(f"{len(model.layers)} layers before, {len(folded.layers)} after; the same outputs")
    with tempfile.TemporaryDirectory() as folder:
        files.save(folded, Path(folder) / "folded.keras")
    before, after = seconds(model, folded)
    print(f"{before * 1000:.0f} ms for 8 images before, {after * 1000:.0f} ms after")


if __name__ == "__main__":
    main()
