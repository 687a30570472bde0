"""Fresh weights of layers that their own configs do not describe."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.backends.values import to_numpy


def fresh(model):
    twin = ramet.clone(model, weights="fresh", seed=3)
    again = ramet.clone(model, weights="fresh", seed=3)
    for first, second in zip(twin.weights, again.weights, strict=True):
        assert np.array_equal(to_numpy(first), to_numpy(second))
    return twin


@pytest.mark.parametrize(
    "layer", [lambda: layers.Dense(3), lambda: layers.EinsumDense("ab,bc->ac", 3)]
)
def test_a_layer_quantized_to_float8(layer):
    model = keras.Sequential([keras.Input((4,)), layer()])
    model.quantize("float8")
    for variable in model.weights:
        variable.assign(ops.full(variable.shape, 5.0))
    twin = fresh(model)
    new = keras.Sequential([keras.Input((4,)), layer()])
    new.quantize("float8")
    for mine, theirs in zip(twin.weights, new.weights, strict=True):
        assert mine.name == theirs.name
        if mine.name != "kernel":
            assert np.array_equal(to_numpy(mine), to_numpy(theirs)), mine.name
        else:
            assert not np.any(to_numpy(mine) == 5)


class Without(keras.Model):
    """A Functional model with a weight of its own, whose constructor takes nothing."""

    def __init__(self):
        start = keras.Input((4,))
        super().__init__(start, layers.Dense(2)(start), name="without")
        self.temperature = self.add_weight(shape=(), initializer="ones", name="temperature")


class Between(keras.Model):
    """One whose constructor takes its graph."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.temperature = self.add_weight(shape=(), initializer="ones", name="temperature")


def between():
    start = keras.Input((4,))
    return Between(start, layers.Dense(2)(start))


@pytest.mark.parametrize("make", [Without, between])
def test_a_functional_model_with_a_weight_of_its_own(make):
    model = make()
    for variable in model.weights:
        variable.assign(ops.full(variable.shape, 5.0))
    twin = fresh(model)
    assert type(twin) is type(model)
    assert float(to_numpy(twin.temperature)) == 1
    assert not np.any(to_numpy(twin.layers[-1].kernel) == 5)


class Biased(layers.Layer):
    """A layer that nothing describes: it has no config and creates its weight at once."""

    def __init__(self, initializer, owner=None, **options):
        super().__init__(**options)
        self.bias = owner.bias if owner else self.add_weight(shape=(3,), initializer=initializer)

    def call(self, x):
        return x + self.bias

    def get_config(self):
        raise NotImplementedError


@keras.saving.register_keras_serializable(package="fresh")
class Block(layers.Layer):
    """A layer around two of them, of which one has the weight of the other; it has a config."""

    def __init__(self, value=2.0, **options):
        super().__init__(**options)
        self.value = value
        self.first = Biased(keras.initializers.Constant(value))
        self.second = Biased(None, owner=self.first)

    def call(self, x):
        return self.second(self.first(x))

    def get_config(self):
        return {**super().get_config(), "value": self.value}


def test_a_layer_without_a_config_is_found_in_the_layer_around_it():
    block = Block()
    model = keras.Sequential([keras.Input((3,)), block])
    block.first.bias.assign([7.0, 7.0, 7.0])
    twin = fresh(model).layers[0]
    assert twin.second.bias is twin.first.bias is not block.first.bias
    assert to_numpy(twin.first.bias).tolist() == [2, 2, 2]


def test_what_nothing_describes_is_refused():
    model = keras.Sequential([keras.Input((3,)), Biased("ones", name="biased")])
    with pytest.raises(ramet.errors.StateError, match=r"layer 'biased' .* cannot have fresh"):
        ramet.clone(model, weights="fresh")
