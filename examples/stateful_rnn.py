"""Serve a trained recurrent model step by step: a stateful twin for one sequence at a time."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Turn a stateless model into a stateful one for batches of one step."""
    rng = np.random.default_rng(0)
    sequences = rng.normal(size=(32, 12, 3)).astype("float32")
    inputs = keras.Input((None, 3), name="sequence")
    x = layers.LSTM(8, return_sequences=True, name="lstm")(inputs)
    model = keras.Model(inputs, layers.Dense(1, name="next")(x), name="forecast")
    model.compile("adam", "mse")
    model.fit(sequences, sequences.cumsum(axis=1)[..., :1], epochs=2, verbose=0)

    graph = ramet.trace(model).with_inputs(batch_size=1, shape=(1, 3))
    graph = graph.select(kind=layers.RNN).configure(stateful=True)
    print(graph.journal)
    stepper = graph.build(name="stepper")
    print(f"{model.input_shape} is now {stepper.input_shape}")

    sequence = sequences[:1]
    whole = keras.ops.convert_to_numpy(model(sequence))
    # Not predict(): on JAX, that of any Keras model forgets the state.
    steps = keras.ops.concatenate([stepper(sequence[:, t : t + 1]) for t in range(12)], axis=1)
    difference = np.abs(keras.ops.convert_to_numpy(steps) - whole).max()
    assert difference < 1e-5, f"step by step is not the whole sequence: {difference}"
    again = keras.ops.convert_to_numpy(stepper(sequence[:, :1]))
    assert not np.allclose(again, whole[:, :1]), "there is no state"
    print(f"12 steps, one by one, differ from the whole sequence by {difference:.1g}")


if __name__ == "__main__":
    main()
