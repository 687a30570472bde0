"""Optimizer slots of channels that were there before widening, and training that goes on."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from ramet.building.weights.slots import slots_of
from ramet.compress import widen

pytestmark = pytest.mark.sampled


def data(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def small():
    start = keras.Input((6,))
    x = layers.Dense(5, name="wide", use_bias=False)(start)
    x = layers.Activation("tanh")(layers.BatchNormalization(momentum=0.5)(x))
    return keras.Model(start, layers.Dense(4, name="head")(x)), data(8, 6)


def normed():
    start = keras.Input((6,))
    x = layers.RMSNormalization()(layers.Dense(5, name="wide")(start))
    return keras.Model(start, layers.Dense(4, name="head")(x)), data(8, 6)


def attending():
    start = keras.Input((3, 6))
    x = layers.MultiHeadAttention(2, 3, use_bias=False, name="mha")(start, start)
    return keras.Model(start, layers.Dense(4, name="head")(layers.Flatten()(x))), data(8, 3, 6)


def trained(model, x, optimizer, y):
    model.compile(optimizer, "mse")
    model.fit(x, y, epochs=1, batch_size=len(x), verbose=0)
    return model


def read(variables):
    return [None if each is None else ops.convert_to_numpy(each).copy() for each in variables]


OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.0),
    "averaged": lambda: keras.optimizers.Adam(0.0, use_ema=True),
    "adagrad": lambda: keras.optimizers.Adagrad(0.0, initial_accumulator_value=0),
    "sums": lambda: keras.optimizers.RMSprop(0.0, centered=True),
    "adamax": lambda: keras.optimizers.Adamax(0.0),
}


@pytest.mark.parametrize(
    ("make", "at", "size", "method", "optimizer"),
    [
        *((small, "wide", 12, method, "adam") for method in ("zeros", "copies")),
        (normed, "wide", 8, "averages", "adam"),
        (attending, "mha:key_dim", 5, "zeros", "adam"),
        (attending, "mha:key_dim", 5, "copies", "adam"),
        *(
            (small, "wide", 12, "copies", name)
            for name in ("averaged", "adagrad", "sums", "adamax")
        ),
    ],
)
def test_slots_are_those_of_the_gradients_that_the_wider_model_has(
    make, at, size, method, optimizer
):
    """A step of rate 0 changes slots and no weights: it is taken before widening, and after."""
    model, x = make()
    y = data(8, 4)
    graph = widen(trained(model, x, OPTIMIZERS[optimizer](), y), at, size, method=method)
    carried = {name: read(held) for name, held in slots_of(graph.build().optimizer).items()}
    other = trained(graph.build(), x, OPTIMIZERS[optimizer](), y)
    wanted = {name: read(held) for name, held in slots_of(other.optimizer).items()}
    before = slots_of(model.optimizer)
    compared = 0
    for name, slots in carried.items():
        for ours, theirs, old in zip(slots, wanted[name], before[name], strict=True):
            if ours is None:
                continue
            kept = tuple(map(slice, old.shape)) if method != "copies" else ...
            scale = np.abs(theirs).max()
            assert np.abs(ours[kept] - theirs[kept]).max() <= 1e-5 * scale + 1e-12, name
            compared += scale > 0
    assert compared > 3


def accumulator(model, path):
    index = [each.path for each in model.trainable_variables].index(path)
    return ops.convert_to_numpy(slots_of(model.optimizer)["_accumulators"][index])


def test_new_channels_start_as_the_optimizer_would_and_the_report_says_so():
    model, x = small()
    trained(model, x, keras.optimizers.Adagrad(0.1), data(8, 4))
    graph = widen(model, "wide", 9)
    report = graph.transfer_report()
    assert report.optimizer == "adagrad: 1 slots kept, 4 moved with their variables"
    assert {each.path for each in report.of("grown")} > {"wide/kernel", "head/kernel"}
    old, grown = (accumulator(each, "wide/kernel") for each in (model, graph.build()))
    assert (grown[:, :5] == old).all()
    assert (grown[:, 5:] == np.float32(0.1)).all()


def test_what_is_scaled_starts_over_where_it_is_not_known_how_slots_go_with_gradients():
    class Own(keras.optimizers.Adam):
        pass

    model, x = small()
    trained(model, x, Own(0.1), data(8, 4))
    for method, is_kept in (("zeros", True), ("copies", False)):
        wide = widen(model, "wide", 10, method=method).build()
        slots = slots_of(wide.optimizer)["_momentums"]
        index = [each.path for each in wide.trainable_variables].index("wide/kernel")
        old = ops.convert_to_numpy(slots_of(model.optimizer)["_momentums"][index])
        slot = ops.convert_to_numpy(slots[index])
        assert (slot[:, :5] == old).all() == is_kept
        assert is_kept or (slot == 0).all()
