"""`profile` of models that ramet changed: adapted, quantized, folded, pruned.

Hand counts, and on PyTorch its own counter of what ran.
"""

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet


def counted_by_torch(model: keras.Model, batch: int) -> int:
    """Return the multiply-accumulates that a call ran, as PyTorch counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    inputs = [
        np.ones((batch, *x.shape[1:]), "int32" if "int" in x.dtype else "float32")
        for x in model.inputs
    ]
    with FlopCounterMode(display=False) as counter:
        model(inputs if len(inputs) > 1 else inputs[0])
    return int(counter.get_total_flops()) // 2


def check(model: keras.Model, macs: int, backend: str, batch: int = 3) -> None:
    """Check the count of a model against one by hand, and against PyTorch's."""
    profile = ramet.profile(model, batch=batch)
    assert not profile.uncounted
    assert profile.macs == macs
    if backend == "torch":
        assert counted_by_torch(model, batch) == macs


def test_adapters_multiply_their_factors_once_in_every_call(backend: str) -> None:
    x = keras.Input((9, 9, 4))
    outputs = [
        layers.Conv2D(6, 3, name="conv")(x),
        layers.SeparableConv2D(5, 3, name="separable")(x),
        layers.TimeDistributed(layers.Dense(3), name="each")(x),
    ]
    model = keras.Model(x, outputs)
    base = 49 * 6 * 36 + 49 * (36 + 4 * 5) + 81 * 4 * 3
    check(model, 3 * base, backend)
    names = ["conv", "separable", "each"]
    graph = ramet.adapt.lora(model, names, rank=2)
    # The kernels as matrices: 36 x 6, 9 x 4, 4 x 5 and 4 x 3.
    update = 36 * 2 * 6 + 9 * 2 * 4 + 4 * 2 * 5 + 4 * 2 * 3
    check(graph.build(), 3 * base + update, backend)
    assert ramet.profile(graph, batch=3).macs == 3 * base + update
    both = ramet.adapt.lora(graph.build(), ["conv"], rank=3, name="second", variant="dora")
    check(both.build(), 3 * base + update + 36 * 3 * 6, backend)
    check(ramet.adapt.merge(graph).build(), 3 * base, backend)


def test_adapters_inside_attention_and_recurrent_layers(backend: str) -> None:
    x = keras.Input((5, 8))
    attention = layers.MultiHeadAttention(2, 3, name="attention")(x, x)
    model = keras.Model(x, attention)
    adapted = ramet.adapt.lora(model, ["attention"], rank=2).build()
    more = ramet.profile(adapted).macs - ramet.profile(model).macs
    assert more == 4 * 8 * 2 * 6
    model = keras.Model(x, layers.LSTM(4, name="lstm")(x))
    base, update = 5 * (8 + 4) * 16, (8 + 4) * 2 * 16
    adapted = ramet.adapt.lora(model, ["lstm"], rank=2).build()
    assert ramet.profile(adapted, batch=3).macs == 3 * base + update
    if backend == "torch":
        assert counted_by_torch(adapted, 3) == 3 * base + update


@pytest.mark.sampled
def test_adapters_of_quantized_layers_multiply_the_inputs(backend: str) -> None:
    x = keras.Input((8,))
    dense = keras.Model(x, layers.Dense(6, name="layer")(x))
    rows = keras.Input((5, 8))
    heads = layers.EinsumDense("abc,chd->abhd", (5, 2, 3), name="layer")(rows)
    heads = keras.Model(rows, heads)
    words = keras.Input((7,), dtype="int32")
    words = keras.Model(words, layers.Embedding(10, 6, name="layer")(words))
    expected: list[tuple[Any, int]] = [
        (dense, 3 * (8 * 6 + 2 * (8 + 6))),
        (heads, 3 * 5 * (48 + 48 + 6 * 3) + 8 * 2 * 6),
        (words, 3 * 7 * 2 * 6),
    ]
    for model, macs in expected:
        quantized = ramet.adapt.quantize(model, {"*": "int8"}).build()
        check(ramet.adapt.lora(quantized, ["layer"], rank=2).build(), macs, backend)


def test_folded_and_pruned_models(backend: str) -> None:
    x = keras.Input((8, 8, 3))
    y = layers.BatchNormalization()(layers.Conv2D(4, 3, use_bias=False)(x))
    y = layers.Conv2D(4, 1, padding="same")(y) + layers.Conv2D(4, 3, padding="same")(y)
    model = keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling2D()(y)))
    first, last = 36 * 27 * 4, 4 * 3
    check(model, 3 * (first + 36 * (16 + 144) + last), backend)
    check(ramet.compress.fold(model).build(), 3 * (first + 36 * 144 + last), backend)
    pruned = ramet.compress.prune(model, ratio=0.5)
    check(pruned.build(), 3 * (first // 2 + 36 * (4 + 36) + last // 2), backend)
