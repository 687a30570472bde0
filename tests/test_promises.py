"""What edits promise: the strongest that is true, and never more."""

import keras
import pytest
from keras import layers

import ramet
from ramet._words import PROMISES, weakest


def net() -> keras.Model:
    x = keras.Input((8, 8, 3), name="x")
    y = layers.Conv2D(4, 3, name="conv")(x)
    y = layers.BatchNormalization(name="bn")(y)
    y = layers.ReLU(name="relu")(y)
    y = layers.Dropout(0.3, name="drop")(y)
    y = layers.Activation("linear", name="line")(y)
    y = layers.GlobalAveragePooling2D(name="pool")(y)
    twice = layers.Dense(4, name="twice")
    return keras.Model(x, layers.Dense(2, name="head")(twice(twice(y))), name="net")


EDITS = {
    "exact": [
        lambda g: g.rename({"conv": "c"}),
        lambda g: g.prefix("p_"),
        lambda g: g.insert_after("relu", layers.Identity()),
        lambda g: g.insert_before("head", layers.Activation("linear")),
        lambda g: g.remove("line"),
        lambda g: g.replace("line", layers.Identity()),
        lambda g: g.configure("conv", kernel_initializer="zeros"),
        lambda g: g.configure("conv", filters=4),
        lambda g: g.add_output("relu"),
        lambda g: g.extract(outputs="relu"),
        lambda g: g.with_inputs(batch_size=4),
        lambda g: g.with_inputs(shape=(None, None, 3)),
        lambda g: g.prune_unused(),
        lambda g: g.rewire("relu", 0, "bn"),
        lambda g: ramet.chain(g),
    ],
    "equal": [
        lambda _: ramet.trace(
            keras.Sequential([keras.Input((3, 2)), layers.GRU(2, name="gru")])
        ).configure("gru", unroll=False, use_cudnn=False),
    ],
    "inference-equal": [
        lambda g: g.freeze(),
        lambda g: g.unfreeze("conv"),
        lambda g: g.insert_after("relu", layers.SpatialDropout2D(0.5)),
        lambda g: g.insert_before("head", layers.ActivityRegularization(0.1)),
        lambda g: g.insert_after("bn", layers.Activation("linear", activity_regularizer="l2")),
        lambda g: g.remove("drop"),
        lambda g: g.replace("drop", layers.GaussianNoise(0.1)),
        lambda g: g.select(regex="drop|line").remove(),
        lambda g: g.configure("conv", kernel_regularizer="l2", bias_constraint="non_neg"),
        lambda g: g.configure("bn", momentum=0.9, trainable=False),
        lambda g: g.configure("drop", rate=0.1),
        lambda g: g.unshare("twice"),
        lambda g: g.extract(inputs="relu"),
        lambda g: ramet.merge([g, g]),
    ],
    "changed": [
        lambda g: g.insert_after("conv", layers.ReLU()),
        lambda g: g.insert_after("conv", keras.ops.relu),
        lambda g: g.insert_after("relu", layers.Dropout(0.5, dtype="float16")),
        lambda g: g.insert_after("relu", layers.Identity(dtype="float64")),
        lambda g: g.remove("relu"),
        lambda g: g.remove("drop", reconnect="bn"),
        lambda g: g.replace("relu", layers.Dropout(0.1)),
        lambda g: g.replace("drop", layers.ReLU()),
        lambda g: g.configure("line", activation="relu").remove("line"),
        lambda g: g.configure("drop", dtype="float16").remove("drop"),
        lambda g: g.configure("bn", epsilon=0.9),
        lambda g: g.configure("conv", kernel_regularizer="l2", weights="fresh"),
        lambda g: g.configure("conv", kernel_regularizer="l2", dtype="float16"),
        lambda g: g.configure("conv", weights="grow"),
        lambda g: g.rewire("relu", 0, "conv"),
        lambda g: g.with_inputs(shape=(9, 9, 3)),
        lambda g: g.with_inputs(dtype="float16"),
        lambda g: ramet.merge([g, g], outputs=layers.Average()),
        lambda g: g.replace(("conv", "relu"), layers.Conv2D(4, 1)),
    ],
}


@pytest.mark.parametrize("promise", [*EDITS])
def test_every_edit_promises_the_strongest_that_is_true(promise):
    graph = ramet.trace(net())
    for number, edit in enumerate(EDITS[promise]):
        edited = edit(graph)
        assert edited.journal[-1].promise == promise, (number, str(edited.journal))
        assert str(edited.journal).endswith(f"[{promise}]")


def test_an_edit_of_many_places_promises_the_weakest_of_its_parts():
    entry = ramet.trace(net()).select(name="[rdl]*").remove().journal[-1]
    assert {part.promise for part in entry.parts} == {"exact", "inference-equal", "changed"}
    assert entry.promise == entry.to_dict()["promise"] == "changed"
    text = ramet.trace(net()).select(name="[rdl]*").remove().journal.text(full=True)
    assert "remove 'line' (Activation) [exact]" in text
    assert weakest([]) == "exact"
    assert [weakest([one, "equal"]) for one in PROMISES] == ["equal", "equal", *PROMISES[2:]]


def branches(kind, **options) -> keras.Model:
    """A model in which two layers, or two calls of one, do not depend on each other."""
    x = keras.Input((3, 4), name="x")
    first = layers.Dense(4, name="first")(x)
    both = kind(x), kind(first)
    inner = keras.Model(x, layers.Add(name="sum")(both), name="inner")
    start = keras.Input((3, 4), name="start")
    return keras.Model(start, layers.Dense(2, name="head")(inner(start)), name="outer", **options)


class Counts(layers.Layer):
    """A layer that counts its calls."""

    def build(self, shape):
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)
        super().build(shape)

    def call(self, x):
        self.count.assign_add(1.0)
        return x * self.count


@pytest.mark.parametrize(
    ("make", "promise"),
    [
        (lambda: layers.Dense(4), "exact"),
        (lambda: layers.BatchNormalization(), "inference-equal"),
        (lambda: layers.Dropout(0.5), "inference-equal"),
        (lambda: layers.GRU(4, return_sequences=True, stateful=True), "changed"),
        (Counts, "changed"),
    ],
)
def test_where_the_order_of_calls_matters_less_is_promised(make, promise):
    layer = make()
    if isinstance(layer, layers.GRU):
        x = keras.Input(batch_shape=(2, 3, 4), name="x")
        inner = keras.Model(x, layers.Add(name="sum")([layer(x), layer(layers.ReLU()(x))]))
        inner.name = "inner"
        graph = ramet.trace(keras.Model(x, layers.Dense(2)(inner(x))))
    else:
        graph = ramet.trace(branches(layer))
    assert graph.flatten().journal[-1].promise == promise
    inserted = graph.insert_after("inner/sum", layers.Identity())
    assert inserted.journal[-1].promise == promise


def test_dropouts_one_after_the_other_keep_their_order():
    x = keras.Input((4,), name="x")
    inner = keras.Model(x, layers.Dropout(0.1)(layers.Dropout(0.2)(x)), name="inner")
    graph = ramet.trace(keras.Model(x, layers.Dropout(0.3)(inner(x))))
    assert graph.flatten().journal[-1].promise == "exact"


class Doubled(keras.Model):
    """A model with a graph, and a `call` of its own."""

    def call(self, inputs, training=None, mask=None):
        return super().call(inputs, training=training, mask=mask) * 2


def test_a_call_of_ones_own_may_do_anything_with_the_graph():
    x = keras.Input((4,), name="x")
    own = Doubled(x, layers.Dense(4, name="dense")(x), name="own")
    graph = ramet.trace(keras.Model(x, own(x)))
    assert graph.flatten().journal[-1].promise == "changed"
    assert ramet.trace(own).extract(outputs="dense").journal[-1].promise == "changed"
    assert ramet.trace(own).rename({"dense": "d"}).journal[-1].promise == "changed"


def test_layers_of_users_promise_no_more_than_is_known():
    @keras.saving.register_keras_serializable("test_promises")
    class Own(layers.Dense):
        pass

    x = keras.Input((4,), name="x")
    graph = ramet.trace(keras.Model(x, Own(4, name="own")(x)))
    assert graph.configure("own", kernel_regularizer="l2").journal[-1].promise == "changed"
    assert graph.configure("own", trainable=False).journal[-1].promise == "inference-equal"


def test_shared_layers_without_weights_promise_more():
    x = keras.Input((4,), name="x")
    parts = [layers.ReLU(name="a"), layers.ReLU(name="b"), layers.Dense(4, name="c")]
    y = parts[2](parts[1](parts[0](x)))
    graph = ramet.trace(keras.Model(x, layers.Dense(4, name="d")(y)))
    assert graph.share("a", "b").journal[-1].promise == "exact"
    assert graph.share("a", "b").unshare("a").journal[-1].promise == "exact"
    assert graph.share("c", "d").journal[-1].promise == "changed"


def test_joined_models_of_layers_that_train_as_they_infer_are_exact():
    def small(name):
        x = keras.Input((4,), name="x")
        return keras.Model(x, layers.Dense(4, name="dense")(x), name=name)

    one, other = small("one"), small("other")
    assert ramet.merge([one, other]).journal[-1].promise == "exact"
    assert ramet.chain(one, other).journal[-1].promise == "exact"
    assert ramet.merge([one, one]).journal[-1].promise == "inference-equal"
    half = keras.Input((4,), name="x", dtype="float16")
    last = keras.Model(half, keras.ops.add(half, half), name="last")
    assert ramet.chain(one, last).journal[-1].promise == "changed"
