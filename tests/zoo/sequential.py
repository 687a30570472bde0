"""Sequential models, in all the ways they come to be."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers

from zoo.base import case, floats, unit


@case("sequential-with_input", inputs=floats(4), targets=floats(2))
def with_input() -> keras.Model:
    return keras.Sequential(
        [keras.Input((4,), name="in"), layers.Dense(3), layers.Dense(2)], name="seq"
    )


@case("sequential-built_by_call", inputs=floats(4), targets=floats(2))
def built_by_call() -> keras.Model:
    model = keras.Sequential(
        [layers.Dense(3, activation="relu"), layers.Dropout(0.5), layers.Dense(2)]
    )
    model(np.zeros((2, 4), "float32"))
    return model


@case("sequential-built_by_build", inputs=floats(4), targets=floats(2))
def built_by_build() -> keras.Model:
    model = keras.Sequential([layers.Dense(3), layers.Dense(2)])
    model.build((None, 4))
    return model


@case("sequential-added_later", inputs=floats(4), targets=floats(2))
def added_later() -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
    model(np.zeros((2, 4), "float32"))
    model.add(layers.LayerNormalization())
    model.add(layers.Dense(2))
    return model


@case("sequential-popped", inputs=floats(4), targets=floats(3))
def popped() -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(2, name="old_head")])
    model.pop()
    return model


@case("sequential-popped_and_replaced", inputs=floats(4), targets=floats(5))
def popped_and_replaced() -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(2, name="old_head")])
    model.pop()
    model.add(layers.Dense(5, name="new_head"))
    return model


@case("sequential-input_shape_argument", inputs=floats(4), targets=floats(2))
def input_shape_argument() -> keras.Model:
    return keras.Sequential([layers.Dense(3, input_shape=(4,)), layers.Dense(2)])


@case("sequential-nested", inputs=floats(4), targets=floats(2))
def nested() -> keras.Model:
    inner = keras.Sequential([layers.Dense(3), keras.Sequential([layers.Dense(3), layers.ReLU()])])
    return keras.Sequential([keras.Input((4,)), inner, layers.Dense(2)])


@case("sequential-same_layer_twice", inputs=floats(4), targets=floats(4))
def same_layer_twice() -> keras.Model:
    shared = layers.Dense(4, name="shared")
    inner = keras.Sequential([keras.Input((4,)), shared], name="inner")
    return keras.Sequential([keras.Input((4,)), shared, inner])


@case("sequential-weightless_unbuilt", inputs=unit(4, 4, 3))
def weightless_unbuilt() -> keras.Model:
    return keras.Sequential([layers.Rescaling(2.0, offset=-1.0), layers.Flatten()], name="prepare")


@case("sequential-weightless_built", inputs=unit(4, 4, 3))
def weightless_built() -> keras.Model:
    return keras.Sequential(
        [keras.Input((4, 4, 3)), layers.Rescaling(1 / 255), layers.AveragePooling2D(2)]
    )


@case("sequential-convolutional", inputs=unit(8, 8, 1), targets=floats(3))
def convolutional() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.DepthwiseConv2D(2),
            layers.SeparableConv2D(3, 2),
            layers.Flatten(),
            layers.Dropout(0.25),
            layers.Dense(3, activation="softmax"),
        ]
    )


@case("sequential-frozen", inputs=floats(4), targets=floats(2))
def frozen() -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(2)], trainable=True)
    model.layers[0].trainable = False
    return model


class TaggedSequential(keras.Sequential):
    """A Sequential subclass with something of its own."""

    def __init__(self, units: int, tag: str = "none") -> None:
        super().__init__([keras.Input((4,)), layers.Dense(units), layers.Dense(2)], name="tagged")
        self.tag = tag
        self.seen = []


@case("sequential-subclass", inputs=floats(4), targets=floats(2), saveable=False)
def subclass() -> keras.Model:
    model = TaggedSequential(3, tag="blue")
    model.seen.append("once")
    return model
