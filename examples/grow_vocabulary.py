"""Twenty new words for a language model: a longer Embedding, a wider head, the old weights kept."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Grow a vocabulary from 100 words to 120."""
    inputs = keras.Input((None,), dtype="int32", name="words")
    x = layers.Embedding(100, 16, name="embedding")(inputs)
    x = layers.GRU(16, return_sequences=True, name="gru")(x)
    model = keras.Model(inputs, layers.Dense(100, name="next_word")(x), name="language_model")

    graph = ramet.trace(model).configure("embedding", input_dim=120, weights="grow")
    graph = graph.configure("next_word", units=120, weights="grow")
    print(graph.journal)
    print(graph.transfer_report())
    grown = graph.build()

    rng = np.random.default_rng(0)
    known, new = rng.integers(0, 100, (4, 7)), rng.integers(100, 120, (4, 7))
    logits, before = (keras.ops.convert_to_numpy(each(known)) for each in (grown, model))
    difference = np.abs(logits[..., :100] - before).max()
    assert difference < 1e-5, f"the known words have other scores: {difference}"
    assert tuple(grown(new).shape) == (4, 7, 120), "the new words are not known"
    print(f"logits are now {logits.shape}; those of the 100 known words differ by {difference:.1g}")


if __name__ == "__main__":
    main()
