"""Serve a trained recurrent model step by step: a stateful twin for one sequence at a time."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Makes a stateful model for batches of one step out of a stateless one."""
    rng = np.random.default_rng(0)
    sequences = rng.normal(size=(32, 12, 3)).astype("float32")
    inputs = keras.Input((None, 3), name="sequence")
    x = layers.LSTM(8, return_sequences=True, name="lstm")(inputs)
    x = layers.GRU(8, return_sequences=True, name="gru")(x)
    model = keras.Model(inputs, layers.Dense(1, name="next")(x), name="forecast")
    model.compile("adam", "mse")
    model.fit(sequences, sequences.cumsum(axis=1)[..., :1], epochs=2, verbose=0)

    graph = ramet.trace(model).with_inputs(batch_size=1, shape=(1, 3))
    graph = graph.select(kind=layers.RNN).configure(stateful=True)
    print(graph.journal)
    stepper = graph.build(name="stepper")
    print(f"{model.input_shape} is now {stepper.input_shape}")

    sequence = sequences[:1]
    whole = model.predict(sequence, verbose=0)
    steps = [stepper.predict(sequence[:, t : t + 1], verbose=0) for t in range(12)]
    difference = np.abs(np.concatenate(steps, axis=1) - whole).max()
    assert difference < 1e-5, f"step by step is not the whole sequence: {difference}"
    again = stepper.predict(sequence[:, :1], verbose=0)
    assert not np.allclose(again, whole[:, :1]), "there is no state"
    print(f"12 steps, one by one, differ from the whole sequence by {difference:.1g}")


if __name__ == "__main__":
    main()
