"""Insert Dropout into a Sequential: it stays a Sequential, stays compiled, and trains on."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Insert Dropout after every hidden Dense of a trained model."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 8)).astype("float32")
    y = x[:, :3].argmax(axis=1)
    hidden = [layers.Dense(16, activation="relu", name=f"hidden{i}") for i in range(3)]
    model = keras.Sequential(
        [keras.Input((8,)), *hidden, layers.Dense(3, activation="softmax", name="head")]
    )
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    model.fit(x, y, epochs=2, verbose=0)

    graph = ramet.trace(model)
    graph = graph.select(name="hidden*").insert_after(
        lambda old: layers.Dropout(0.3, name=f"{old.name}_dropout")
    )
    print(graph.journal)
    dropped = graph.build()

    assert type(dropped) is keras.Sequential, f"it became a {type(dropped).__name__}"
    assert len(dropped.layers) == 7, f"expected 7 layers, found {len(dropped.layers)}"
    before, after = (keras.ops.convert_to_numpy(each(x)) for each in (model, dropped))
    assert np.array_equal(before, after), "Dropout changed what the model predicts"
    losses = dropped.fit(x, y, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0], f"it does not train: {losses}"
    print(f"a Sequential of {len(dropped.layers)} layers; predictions are the same")
    print(f"it trains on: loss {losses[0]:.3f} to {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
