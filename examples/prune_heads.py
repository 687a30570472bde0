"""Remove attention heads: half of them by a criterion, then one by hand."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Prune the heads of an encoder, and show that a removed head is a masked one."""
    steps = keras.Input((6, 16), name="steps")
    x = layers.Dense(16, name="embed")(steps)
    x = layers.Add()([x, layers.MultiHeadAttention(4, 8, name="attention")(x, x)])
    model = keras.Model(steps, layers.Dense(2, name="head")(x), name="encoder")

    heads = ramet.compress.groups(model)["attention:heads"]
    print(heads)
    for member in heads.members:
        print(f"  {member.variable}, axis {member.axis}: {member.kind}")

    graph = ramet.compress.prune(model, ratio=0.5, only="attention:heads")
    half = graph.build()
    assert half.get_layer("attention").num_heads == 2
    by_hand = ramet.compress.prune_channels(model, {"attention:heads": [1]})
    print(graph.journal, by_hand.journal, sep="\n")

    masked = ramet.clone(model)
    attention = masked.get_layer("attention")
    for kernel in attention.get_weights()[::2]:
        assert 4 in kernel.shape, "every kernel has an axis of heads"
    weights = [w.copy() for w in attention.get_weights()]
    for w, axis in zip(weights, (1, 0, 1, 0, 1, 0, 0), strict=False):
        np.moveaxis(w, axis, 0)[1] = 0
    attention.set_weights(weights)
    data = np.random.default_rng(0).normal(size=(2, 6, 16)).astype("float32")
    expected, found = (keras.ops.convert_to_numpy(m(data)) for m in (masked, by_hand.build()))
    difference = np.abs(expected - found).max()
    assert difference < 1e-5, difference
    print(f"without head 1: {difference:.1g} from the model with that head masked")


if __name__ == "__main__":
    main()
