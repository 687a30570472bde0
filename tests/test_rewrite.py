"""Patterns: ordinary functions of tensors, found and replaced."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet

pytestmark = pytest.mark.sampled

DATA = np.random.default_rng(0).standard_normal((2, 6, 6, 3)).astype("float32")


def array(value):
    return ops.convert_to_numpy(value)


def network() -> keras.Model:
    x = keras.Input((6, 6, 3), name="x")
    y = layers.Conv2D(4, 3, padding="same", use_bias=False, name="conv1")(x)
    y = layers.BatchNormalization(name="bn1", epsilon=0.01)(y)
    y = layers.ReLU(name="relu1")(y)
    z = layers.Conv2D(4, 1, name="conv2")(y)
    z = layers.BatchNormalization(name="bn2")(z)
    z = layers.ReLU(6.0, name="relu2")(z)
    y = layers.Add(name="add")([y, z])
    y = layers.GlobalAveragePooling2D(name="pool")(y)
    return keras.Model(x, layers.Dense(2, name="head")(y), name="net")


def warm(model):
    """Gives batch norms moving averages that matter."""
    rng = np.random.default_rng(1)
    for variable in model.non_trainable_variables:
        variable.assign(rng.uniform(0.5, 1.5, variable.shape))
    return model


def norm_relu(x):
    return layers.ReLU()(layers.BatchNormalization()(x))


def test_kinds_and_written_arguments_decide():
    graph = ramet.trace(network())

    def swish(x):
        return layers.Activation("silu")(layers.GroupNormalization(2)(x))

    both = ramet.rewrite(graph, norm_relu, swish)
    assert [entry.count for entry in both.journal] == [2]
    model = both.build()
    kinds = [type(layer).__name__ for layer in model.layers]
    assert kinds.count("GroupNormalization") == kinds.count("Activation") == 2
    assert "BatchNormalization" not in kinds
    one = ramet.rewrite(graph, lambda x: layers.ReLU(6.0)(layers.BatchNormalization()(x)), swish)
    assert len(one.journal) == 1
    assert "relu2" not in one.layers
    assert "relu1" in one.layers


def folded(x, match):
    """One convolution for a convolution and the batch norm after it."""
    conv, norm = match["conv"], match["norm"]
    scale = array(norm.gamma) / np.sqrt(array(norm.moving_variance) + norm.epsilon)
    bias = array(conv.bias) if conv.use_bias else 0.0
    config = {**conv.get_config(), "use_bias": True}
    new = layers.Conv2D.from_config(config)
    new.build(conv.get_build_config()["input_shape"])
    new.kernel.assign(array(conv.kernel) * scale)
    new.bias.assign((bias - array(norm.moving_mean)) * scale + array(norm.beta))
    return new(x)


def test_what_was_matched_can_be_kept_and_read():
    model = warm(network())

    def pattern(x):
        conv = ramet.any_layer(layers.Conv2D, name="conv")
        return layers.BatchNormalization(name="norm")(conv(x))

    edited = ramet.rewrite(model, pattern, folded).build()
    assert not [v for v in edited.layers if isinstance(v, layers.BatchNormalization)]
    assert [layer.name for layer in edited.layers][1] == "conv1"
    np.testing.assert_allclose(array(edited(DATA)), array(model(DATA)), atol=1e-5)


def test_several_inputs_and_either_order():
    graph = ramet.trace(network())
    edited = ramet.rewrite(
        graph, lambda a, b: layers.Add()([a, b]), lambda a, b: layers.Average()([a, b])
    )
    assert [layer.kind for layer in edited.layers.values()].count("Average") == 1

    def residual(x):
        y = layers.BatchNormalization()(ramet.any_layer(layers.Conv2D)(x))
        return layers.Add()([layers.ReLU(6.0)(y), x])  # the other way round than in the model

    straight = ramet.rewrite(graph, residual, lambda x: layers.Identity(name="skip")(x))
    assert "conv2" not in straight.layers
    straight.build()


def test_several_outputs():
    x = keras.Input((4,), name="x")
    a = layers.Dense(3, name="a")(x)
    b = layers.Dense(3, name="b")(x)
    model = keras.Model(x, layers.Concatenate(name="both")([a, b]))

    def pair(x):
        return layers.Dense(3)(x), layers.Dense(3)(x)

    def joint(x):
        wide = layers.Dense(6, name="wide")(x)
        return wide[:, :3], wide[:, 3:]

    edited = ramet.rewrite(model, pair, joint).build()
    assert [type(layer).__name__ for layer in edited.layers] == [
        "InputLayer",
        "Dense",
        "Concatenate",
    ]
    row = np.ones((2, 4), "float32")
    wide = array(edited.get_layer("wide")(row))
    np.testing.assert_allclose(array(edited(row)), wide, atol=1e-6)


def test_operations_are_matched_with_their_constants():
    x = keras.Input((4,), name="x")
    model = keras.Model(x, ops.relu(x * 2.0) + ops.relu(x * 3.0))
    edited = ramet.rewrite(model, lambda x: ops.relu(x * 2.0), lambda x: ops.tanh(x)).build()
    row = np.array([[1.0, -1.0, 2.0, 0.0]], "float32")
    np.testing.assert_allclose(
        array(edited(row)), np.tanh(row) + np.maximum(row * 3.0, 0), atol=1e-6
    )


def test_rewriting_ends_where_a_replacement_contains_its_pattern():
    def twice(x, match):
        return layers.ReLU()(match["re_lu"](x))

    def relu(x):
        return layers.ReLU(name="re_lu")(x)

    edited = ramet.rewrite(network(), relu, twice)
    assert [layer.kind for layer in edited.layers.values()].count("ReLU") == 4
    edited.build()


def test_nested_models_are_searched_too():
    body = keras.Sequential(
        [keras.Input((4,)), layers.Dense(4, name="one"), layers.ReLU(name="relu")], name="body"
    )
    x = keras.Input((4,), name="x")
    model = keras.Model(x, layers.ReLU(name="last")(body(body(x))))
    edited = ramet.rewrite(model, lambda x: layers.ReLU()(x), lambda x: layers.ELU()(x)).build()
    assert isinstance(edited.layers[-1], layers.ELU)
    inner = edited.get_layer("body")
    assert [type(layer).__name__ for layer in inner.layers] == ["Dense", "ELU"]
    row = np.ones((2, 4), "float32")
    dense = inner.get_layer("one")
    expected = ops.elu(ops.elu(dense(ops.elu(dense(row)))))
    np.testing.assert_allclose(array(edited(row)), array(expected), atol=1e-6)


def test_near_misses_are_explained():
    graph = ramet.trace(network())

    def other(x):
        return layers.ReLU(3.0)(layers.BatchNormalization()(x))

    told = ramet.rewrite(graph, other, norm_relu, explain=True)
    assert not told.matches
    assert {miss.place for miss in told.misses} == {"relu1", "relu2"}
    assert "'relu2' has max_value=6.0, not 3.0" in str(told)

    def conv_norm_relu(x):
        return layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(4, 3)(x)))

    told = ramet.rewrite(graph, conv_norm_relu, norm_relu, explain=True)
    assert "kernel_size=(1, 1), not (3, 3)" in str(told)
    assert told.matches == ("relu1",)
    told = ramet.rewrite(
        graph, lambda x: layers.Conv2D(4, 1)(layers.ReLU()(x)), norm_relu, explain=True
    )
    assert "'relu1' is also read by 'add', outside of the pattern" in str(told)


def test_what_cannot_be():
    graph = ramet.trace(network())
    with pytest.raises(
        ramet.GraphError, match=r"matches nowhere .* nearest miss: head.*explain=True"
    ):
        ramet.rewrite(graph, lambda x: layers.Dense(9)(x), norm_relu)
    assert ramet.rewrite(graph, lambda x: layers.Dense(9)(x), norm_relu, missing_ok=True) is graph
    with pytest.raises(ramet.GraphError, match="pattern returns 1 tensor and the replacement 2"):
        ramet.rewrite(graph, norm_relu, lambda x: (x, x))
    with pytest.raises(ramet.OptionError, match="must be a function, got a Dense"):
        ramet.rewrite(graph, layers.Dense(2), norm_relu)
    with pytest.raises(ramet.OptionError, match="has no parameters"):
        ramet.rewrite(graph, lambda: None, norm_relu)
    with pytest.raises(ramet.OptionError, match=r"cannot be called on any tensor of graph 'net'"):
        ramet.rewrite(graph, lambda x: layers.Conv3D(2, 1)(x), norm_relu)
    with pytest.raises(ZeroDivisionError) as caught:
        ramet.rewrite(graph, norm_relu, lambda x: x / (1 // 0))
    assert "replacement" in caught.value.__notes__[0]
    with pytest.raises(ramet.OptionError, match="needs a layer class"):
        ramet.any_layer(layers.Dense(2))


def test_the_source_is_untouched():
    model = warm(network())
    before = {layer.name: len(layer._inbound_nodes) for layer in model.layers}
    values = model.get_weights()
    edited = ramet.rewrite(model, norm_relu, lambda x: x).build()
    assert {layer.name: len(layer._inbound_nodes) for layer in model.layers} == before
    assert all(np.array_equal(a, b) for a, b in zip(values, model.get_weights(), strict=True))
    assert len(edited.layers) == len(model.layers) - 4
