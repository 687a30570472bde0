"""Cut a model into stages of equal cost, to run on several devices one after the other.

Each stage outputs what the next one takes: tensors that skip a stage are handed on, and masks
travel with the tensors that carry them.
"""

import keras
import numpy as np
from keras import layers, ops

import ramet


def tagger() -> keras.Model:
    """Build a model of sequences whose masks and skip connections cross every cut."""
    tokens = keras.Input((12,), dtype="int32", name="tokens")
    x = layers.Embedding(50, 16, mask_zero=True, name="embedding")(tokens)
    for number in range(3):
        y = layers.LSTM(16, return_sequences=True, name=f"lstm{number}")(x)
        x = layers.Add(name=f"sum{number}")([x, layers.Dropout(0.1, name=f"drop{number}")(y)])
    x = layers.MultiHeadAttention(2, 8, name="attention")(x, x)
    return keras.Model(tokens, layers.Dense(5, name="tags")(x), name="tagger")


def main() -> None:
    """Cut a tagger into three, and show that the parts compute what the model computes."""
    model = tagger()
    stages = ramet.trace(model).stages(3, by="macs")
    for stage in stages:
        print(stage.journal[-1], "-", ramet.profile(stage).title)

    words = np.random.default_rng(0).integers(0, 50, (4, 12)).astype("int32")
    values = words
    for stage in stages:  # each on a device of its own
        values = stage.build()(values)
    assert bool(ops.all(values == model(words))), "the stages compute something else"
    total = ramet.profile(model).macs
    assert sum(ramet.profile(stage).macs for stage in stages) == total
    print(f"together they take the {total:,} MACs of the model, and return the same bits")


if __name__ == "__main__":
    main()
