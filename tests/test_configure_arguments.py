"""Constructor arguments that a config leaves out: they can be changed, and are not lost."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet

pytestmark = pytest.mark.sampled

RANDOM = np.random.default_rng(0)


def array(value):
    return ops.convert_to_numpy(value)


LORA = {
    "Dense": (lambda: layers.Dense(6, name="layer"), (4, 5)),
    "EinsumDense": (
        lambda: layers.EinsumDense("abc,cd->abd", (None, 6), bias_axes="d", name="layer"),
        (4, 5),
    ),
    "Conv1D": (lambda: layers.Conv1D(6, 3, name="layer"), (4, 5)),
    "Conv2D": (lambda: layers.Conv2D(6, 2, name="layer"), (4, 4, 5)),
    "Embedding": (lambda: layers.Embedding(9, 6, name="layer"), (4,)),
}


@pytest.mark.parametrize("kind", LORA)
def test_a_rank_is_given_to_a_layer_that_had_none(kind):
    make, shape = LORA[kind]
    x = keras.Input(shape, name="x", dtype="int32" if kind == "Embedding" else "float32")
    model = keras.Model(x, layers.Flatten(name="flat")(make()(x)), name="net")
    data = RANDOM.integers(0, 9, (2, *shape))
    data = data if kind == "Embedding" else RANDOM.standard_normal((2, *shape)).astype("float32")
    made = ramet.trace(model).configure("layer", lora_rank=2).build()
    old, new = model.get_layer("layer"), made.get_layer("layer")
    assert new.lora_enabled
    assert new.lora_rank == 2
    assert not old.lora_enabled
    # The second factor is zero at first, so what the layer computes is what it was.
    np.testing.assert_array_equal(array(made(data)), array(model(data)))
    trained = {v.name for v in new.trainable_variables}
    assert {name for name in trained if "lora" in name} == {
        name.name for name in new.variables if "lora" in name.name
    }
    assert len([name for name in trained if "lora" in name]) == 2
    assert not {"kernel", "embeddings"} & trained
    for variable in new.variables:
        if variable.name.endswith("_b"):
            variable.assign(np.ones(variable.shape, "float32"))
    assert not np.allclose(array(made(data)), array(model(data)))
    again = ramet.trace(made).rename({"layer": "other"}).configure("other", trainable=False).build()
    np.testing.assert_array_equal(array(again(data)), array(made(data)))


def test_ranks_for_a_selection_train_only_what_they_bring():
    x = keras.Input((4,), name="x")
    y = layers.Dense(4, name="a")(x)
    model = keras.Model(x, layers.Dense(2, name="b", use_bias=False)(y), name="net")
    made = ramet.trace(model).select(kind=layers.Dense).configure(lora_rank=1, lora_alpha=4).build()
    assert made.get_layer("a").lora_alpha == 4
    more = ramet.trace(made).configure("a", lora_alpha=8).build()
    assert [more.get_layer(name).lora_alpha for name in ("a", "b")] == [8, 4]
    assert sorted(v.path for v in made.trainable_variables) == [
        "a/bias",
        "a/lora_kernel_a",
        "a/lora_kernel_b",
        "b/lora_kernel_a",
        "b/lora_kernel_b",
    ]
    row = RANDOM.standard_normal((3, 4)).astype("float32")
    np.testing.assert_array_equal(array(made(row)), array(model(row)))
    made.compile("sgd", "mse")
    kernel = array(made.get_layer("a").variables[0]).copy()
    made.fit(row, np.ones((3, 2), "float32"), epochs=2, verbose=0)
    np.testing.assert_array_equal(array(made.get_layer("a").variables[0]), kernel)


class Scaled(layers.Layer):
    """A layer whose config leaves an argument out."""

    def __init__(self, scale, extra=None, **kwargs):
        super().__init__(**kwargs)
        self.scale, self.extra = scale, extra

    def call(self, inputs):
        return inputs * self.scale + (self.extra or 0.0)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


class Hidden(Scaled):
    """A layer that keeps something else under the name of an argument."""

    def __init__(self, scale, extra=None, **kwargs):
        super().__init__(scale, **kwargs)
        self.extra = None if extra is None else extra * 2.0


class Derived(Scaled):
    """A layer that hands arguments on to its base."""

    def __init__(self, *, more=1.0, **kwargs):
        super().__init__(scale=2.0, **kwargs)
        self.more = more

    def get_config(self):
        config = super().get_config()
        config.pop("scale")
        return config

    def call(self, inputs):
        return super().call(inputs) * self.more


def of(layer) -> keras.Model:
    x = keras.Input((3,), name="x")
    return keras.Model(x, layer(x), name="net")


ROW = np.array([[1.0, 2.0, 3.0]], "float32")


def test_an_argument_that_no_config_tells_can_be_changed():
    graph = ramet.trace(of(Scaled(3.0, name="s")))
    made = graph.configure("s", extra=1.0).build()
    np.testing.assert_allclose(array(made(ROW)), ROW * 3.0 + 1.0)
    both = graph.configure("s", extra=1.0).configure("s", scale=2.0).build()
    np.testing.assert_allclose(array(both(ROW)), ROW * 2.0 + 1.0)
    derived = ramet.trace(of(Derived(name="s"))).configure("s", extra=1.0, more=2.0).build()
    np.testing.assert_allclose(array(derived(ROW)), (ROW * 2.0 + 1.0) * 2.0)


def test_an_argument_that_no_config_tells_is_not_lost():
    made = ramet.trace(of(Scaled(3.0, extra=5.0, name="s"))).configure("s", scale=2.0).build()
    np.testing.assert_allclose(array(made(ROW)), ROW * 2.0 + 5.0)
    plain = layers.Dense(2, name="d", activity_regularizer="l2")
    made = ramet.trace(of(plain)).configure("d", activation="relu").build()
    assert made.get_layer("d").activity_regularizer is not None
    lost = ramet.trace(of(Hidden(3.0, extra=5.0, name="s"))).configure("s", scale=2.0)
    with pytest.raises(ramet.OptionError, match=r"its config does not hold 'extra'; write it in"):
        lost.build()


def test_what_no_constructor_accepts():
    graph = ramet.trace(of(layers.Dense(2, name="d")))
    with pytest.raises(
        ramet.OptionError, match=r"no argument 'lora_rnk'; did you mean 'lora_rank'"
    ):
        graph.configure("d", lora_rnk=2)
    with pytest.raises(ramet.OptionError, match=r"no argument 'extras'.* It has: .*scale, extra"):
        ramet.trace(of(Scaled(2.0, name="s"))).configure("s", extras=2)


def grown(old, **changes):
    """A layer of a model given other arguments, with what reads it grown to fit."""
    x = keras.Input((5, 4))
    model = keras.Model(x, layers.Dense(2, name="head")(old(x)))
    graph = ramet.trace(model).configure(old.name, weights="grow", **changes)
    return model, graph.configure("head", weights="grow").build()


AROUND = {
    "TimeDistributed": (lambda: layers.TimeDistributed(layers.Dense(3)), "layer", layers.Dense),
    "RNN": (lambda: layers.RNN(layers.GRUCell(3)), "cell", layers.GRUCell),
    "Spectral": (lambda: layers.SpectralNormalization(layers.Dense(3)), "layer", layers.Dense),
}


@pytest.mark.parametrize("kind", AROUND)
def test_a_layer_around_a_layer_is_given_another(kind):
    make, argument, part = AROUND[kind]
    given = part(5)
    model, made = grown(make(), **{argument: given})
    before, after = (array(each.layers[1].weights[0]) for each in (model, made))
    assert after.shape[-1] > before.shape[-1]
    np.testing.assert_array_equal(after[:, :3], before[:, :3])
    assert not given.built  # It stays the caller's.


def test_a_bidirectional_makes_its_backward_layer_of_the_new_one():
    model, made = grown(
        layers.Bidirectional(layers.GRU(3), name="both"), layer=layers.GRU(5, name="new")
    )
    both = made.get_layer("both")
    assert (both.forward_layer.units, both.backward_layer.units) == (5, 5)
    assert both.backward_layer.go_backwards
    assert made(np.ones((2, 5, 4), "float32")).shape == (2, 2)
    for which in ("forward_layer", "backward_layer"):
        old, new = (array(getattr(m.get_layer("both"), which).cell.kernel) for m in (model, made))
        np.testing.assert_array_equal(new.reshape(4, 3, 5)[..., :3], old.reshape(4, 3, 3))


def test_a_bidirectional_keeps_a_backward_layer_that_somebody_chose():
    backward = layers.LSTM(3, go_backwards=True)
    both = layers.Bidirectional(layers.GRU(3), backward_layer=backward, name="both")
    model, made = grown(both, layer=layers.GRU(3, activation="relu"))
    old, new = (m.get_layer("both").backward_layer for m in (model, made))
    assert isinstance(new, layers.LSTM)
    np.testing.assert_array_equal(array(new.cell.kernel), array(old.cell.kernel))


def test_a_layer_that_is_given_as_an_argument_brings_no_weights():
    x = keras.Input((4, 3))
    source = keras.Model(x, layers.TimeDistributed(layers.Dense(3), name="td")(x))
    given = layers.Dense(3, name="given")
    given.build((None, 3))
    with pytest.raises(
        ramet.OptionError, match="'given', which is passed as layer of layer 'td', has weights"
    ):
        ramet.trace(source).configure("td", layer=given)


SCALE = 3.0
"""A global that a lambda below reads: pickled code would not find it."""


@pytest.mark.parametrize("way", ["configure", "clone_model"])
def test_a_lambda_keeps_its_function(way):
    x = keras.Input((4,), name="x")
    offset = np.float32(2)
    y = layers.Lambda(lambda t: t * SCALE + offset, output_shape=(4,), name="scaled")(x)
    model = keras.Model(x, layers.Dense(2, name="dense")(y))
    if way == "configure":
        twin = ramet.trace(model).configure("scaled", weights="grow").build()
    else:
        twin = ramet.clone_model(model, call_function=lambda layer, *a, **k: layer(*a, **k))
        twin.set_weights(model.get_weights())
    assert twin.get_layer("scaled").function is model.get_layer("scaled").function
    data = ops.ones((1, 4))
    assert np.array_equal(array(twin(data)), array(model(data)))


class Louder(layers.Layer):
    """Leaves its config to Keras, which derives it from the arguments if they are plain."""

    def __init__(self, factor=2.0, **options):
        super().__init__(**options)
        self.factor = factor

    def call(self, x):
        return x * self.factor


class FromAttributes(layers.Layer):
    """Can only be re-created from its attributes."""

    def __init__(self, units, by=keras.ops.tanh, **options):
        super().__init__(**options)
        self.units, self.by = units, by
        self.dense = layers.Dense(units, dtype=self.dtype_policy)

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x):
        return self.by(self.dense(x))

    def get_config(self):
        by = keras.saving.serialize_keras_object(self.by)
        return {**super().get_config(), "units": self.units, "by": by}

    @classmethod
    def from_config(cls, config):
        raise ValueError(f"{config['by']} is not registered")


def test_a_layer_without_a_config_of_its_own_has_one_after_its_dtype_was_changed():
    x = keras.Input((3,))
    model = keras.Model(x, Louder(3.0, name="louder")(x))
    policy = keras.DTypePolicy("mixed_bfloat16")
    new = ramet.trace(model).configure("louder", dtype=policy).build().get_layer("louder")
    assert new.dtype_policy == policy
    twin = Louder.from_config(new.get_config())
    assert (twin.factor, twin.dtype_policy) == (3.0, policy)


def test_a_layer_made_from_its_attributes_keeps_its_dtype_policy():
    x = keras.Input((3,))
    model = keras.Model(x, FromAttributes(3, dtype="mixed_bfloat16", name="block")(x))
    block = ramet.trace(model).configure("block", units=5).build().get_layer("block")
    assert block.dtype_policy.name == block.dense.dtype_policy.name == "mixed_bfloat16"
