"""`fold` of odd models: sums of sums, training inside, weights tied by hand, layers of size 1."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from foldmodels import Norm, difference, trained
from ramet.compress import fold, foldable


def normed(x: Any, *sizes: Any, **options: Any) -> list[Any]:
    """Return convolutions of one tensor, each with a norm."""
    return [
        Norm()(layers.Conv2D(x.shape[-1], size, padding="same", use_bias=False, **options)(x))
        for size in sizes
    ]


def test_sums_of_sums_become_one_convolution() -> None:
    x = keras.Input((9, 8, 3))
    a, b, c, d = normed(x, 3, 1, 3, 5)
    asymmetric = normed(x, (1, 3), (3, 1), (4, 1), groups=3)
    strided = normed(x, 3, 1, 5, strides=2)
    deep = [layers.DepthwiseConv2D(n, padding="same", dilation_rate=2)(x) for n in (3, 5, 1)]
    normal = Norm()(x)
    beside, above = layers.Conv2D(3, 1)(normal), layers.Conv2D(3, 1, padding="same")(normal)
    outputs = {
        "plus": a + (b + c) + d + x,
        "sum": sum(asymmetric),
        "normed": Norm()(Norm()(strided[0] + strided[1]) + strided[2]),
        "depthwise": Norm()(Norm()(deep[0] + deep[1] + x) + deep[2]),
        "above": Norm()(beside + above + Norm()(normal)) * 2.0,
    }
    model = trained(keras.Model(x, outputs))
    graph = fold(model)
    kinds = [layer.kind for layer in graph.layers.values() if not layer.is_input]
    assert sorted(kinds) == ["Conv2D"] * 4 + ["DepthwiseConv2D"]
    folded = graph.build()
    assert {name: d for name, d in difference(model, folded).items() if d > 2e-6} == {}
    assert not foldable(folded), "folded again, nothing changes"


def test_a_norm_below_a_sum_with_its_own_input_is_folded_after_the_sum() -> None:
    x = keras.Input((6, 6, 3))
    model = trained(keras.Model(x, Norm()(layers.Add()([layers.Conv2D(3, 1)(x), x]))))
    graph = fold(model)
    assert len(graph.layers) == 2
    assert difference(model, graph.build())[""] < 2e-6


def test_a_sum_that_overflows_float16_is_kept() -> None:
    x = keras.Input((6, 6, 3))
    parts = [layers.Conv2D(3, 1, dtype="mixed_float16")(x) for _ in range(2)]
    model = trained(keras.Model(x, layers.Add(dtype="mixed_float16")(parts)))
    for layer in model.layers[1:3]:
        layer.kernel.assign(np.full(layer.kernel.shape, 4e4))
    assert not fold(model).journal


def test_models_that_are_called_in_training_keep_their_norms() -> None:
    inside = keras.Input((6, 6, 3))
    norm = Norm(name="norm")(layers.Conv2D(3, 1)(inside))
    block = keras.Model(inside, layers.Dropout(0.5)(norm), name="block")
    middle = keras.Input((6, 6, 3))
    outer = keras.Model(middle, block(middle), name="outer")
    x = keras.Input((6, 6, 3))
    model = trained(keras.Model(x, outer(x, training=True)))
    assert not fold(model, inference_only=True).journal
    (kept,) = foldable(model).kept
    assert kept.place == "outer/block/norm"
    assert kept.reason == "it is called with training=True, or a model around it is"
    called = trained(keras.Model(x, outer(x, training=False)))
    assert len(foldable(called, inference_only=True).folded) == 2


def test_weights_that_are_tied_by_hand_are_kept() -> None:
    x = keras.Input((6, 6, 3))
    first, second = layers.Conv2D(3, 1, name="first"), layers.Conv2D(3, 1, name="second")
    first.build((None, 6, 6, 3))
    second.build((None, 6, 6, 3))
    vars(second)["_kernel"] = first._kernel
    model = trained(keras.Model(x, [Norm(name="norm")(first(x)), second(x)]))
    assert not fold(model).journal
    assert "'first' shares its weights with another layer" in foldable(model).kept[0].reason


def test_layers_with_adapters_are_kept_until_these_are_merged() -> None:
    x = keras.Input((6, 6, 3))
    model = trained(keras.Model(x, Norm(name="norm")(layers.Conv2D(4, 3, name="conv")(x))))
    graph = ramet.adapt.lora(model, ["conv"], rank=2)
    (kept,) = foldable(graph.build()).kept
    assert "the kernels of 'conv' have adapters; merge them into it first" in kept.reason
    for unbuilt in (graph, ramet.adapt.merge(graph.build())):
        reason = foldable(unbuilt).kept[0].reason
        assert "an edit changes the weights of 'conv' on build; build the graph" in reason
    merged = ramet.adapt.merge(graph).build()
    assert difference(merged, fold(merged).build())[""] < 2e-6


def idle() -> list[Any]:
    return [
        layers.ZeroPadding2D(0),
        layers.Cropping2D(((0, 0), (0, 0))),
        layers.UpSampling2D(1),
        layers.UpSampling2D(1, interpolation="bilinear"),
        layers.Reshape((6, 4, 2)),
        layers.Reshape((8, 6)),
        layers.Reshape((48,)),
        layers.Flatten(),
        layers.Reshape((-1, 4, 2)),
    ]


@pytest.mark.sampled
def test_layers_of_size_one_and_reshapes_that_are_undone_are_dropped() -> None:
    x = keras.Input((6, 4, 2))
    y = layers.ReLU()(x)
    for layer in idle():
        y = layer(y)
    first = layers.Flatten(data_format="channels_first", name="moves")(layers.ReLU()(y))
    back = layers.Reshape((6, 4, 2), name="keeps")(first)
    open_axes = keras.Input((None, None, 4))
    opened = layers.Reshape((-1, 4), name="open")(open_axes)
    model = keras.Model([x, open_axes], [layers.ReLU()(back), layers.ReLU()(opened)])
    graph = fold(model)
    left = [
        name for name, layer in graph.layers.items() if layer.kind not in ("InputLayer", "ReLU")
    ]
    assert sorted(left) == ["keeps", "moves", "open"]
    assert graph.journal[-1].promise == "equal"
    samples = [
        np.random.default_rng(0).normal(size=(2, *s)).astype("f4") for s in [(6, 4, 2), (3, 2, 4)]
    ]
    for before, after in zip(model(samples), graph.build()(samples), strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (before, after)))
