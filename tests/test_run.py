"""`ramet.run`: the values of a model's tensors are those that the model computes, bit for bit."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import maskmodels
import ramet
from exact import (
    as_tensors,
    assert_equal_arrays,
    assert_untouched,
    fingerprint,
    reset_chance,
)
from ramet.tracing.trace import has_graph
from zoo import Case, sample_for_backend

pytestmark = pytest.mark.sampled

BACKEND = keras.backend.backend()


def array(value):
    return np.array(ops.convert_to_numpy(value))


def arrays(tree):
    return [array(value) for value in keras.tree.flatten(tree)]


def assert_same(ours, theirs, what="values"):
    assert_equal_arrays(arrays(ours), arrays(theirs), what)


class Seen(list):
    """A hook that keeps the places that it sees."""

    def __call__(self, place, _):
        self.append(place)


def images(count=2, size=8):
    return np.random.default_rng(3).normal(size=(count, size, size, 3)).astype("float32")


def encoder():
    x = keras.Input((8, 8, 3), name="image")
    y = layers.Conv2D(4, 3, name="conv")(x)
    y = layers.BatchNormalization(name="norm")(y)
    y = layers.Dropout(0.5, name="drop")(layers.GlobalAveragePooling2D(name="pool")(y))
    return keras.Model(x, y, name="encoder")


class Split(layers.Layer):
    """Has two outputs."""

    def call(self, x):
        return ops.split(x, 2, axis=-1)


def siamese():
    """Two calls of one nested model, a layer with two outputs, a shared layer."""
    inner = encoder()
    a, b = keras.Input((8, 8, 3), name="a"), keras.Input((8, 8, 3), name="b")
    x = layers.Concatenate(name="both")([inner(a), inner(b)])
    first, second = Split(name="split")(x)
    head = layers.Dense(3, name="head")
    return keras.Model(
        [a, b], [head(first), layers.ReLU(name="relu")(head(second))], name="siamese"
    )


def data():
    first = images(4)
    return [first[:2], first[2:]]


# --- equal to a call ---


@pytest.mark.parametrize("case", sample_for_backend(BACKEND), ids=lambda case: case.name)
def test_a_run_is_a_call_and_changes_nothing(case: Case):
    model, x = case.build(), case.data()[0]
    for training in (False, True):
        reset_chance()
        before = fingerprint(model)
        plain = arrays(ramet.run(model, as_tensors(x), training=training))
        tapped = plain
        if has_graph(model):
            seen = Seen()
            tapped = arrays(ramet.run(model, as_tensors(x), training=training, each=seen))
            assert seen or len(ramet.trace(model).calls) == len(model.inputs)
        assert_untouched(before, fingerprint(model))
        called = arrays(model(as_tensors(x), training=training))
        assert_equal_arrays(plain, called, f"training={training}")
        assert_equal_arrays(tapped, called, f"training={training}, with a hook")


@pytest.mark.parametrize("build", maskmodels.CLEAN, ids=lambda build: build.__name__)
def test_masks_flow_as_keras_has_them(build):
    model = build()
    x = [
        np.array([[3, 4, 0, 2, 0], [1, 0, 0, 0, 0]])[:, : tensor.shape[1]].astype("int32")
        if "int" in tensor.dtype and len(tensor.shape) == 2 and tensor.shape[1] == 5
        else np.random.default_rng(1)
        .integers(0, 2, [2, *(size or 5 for size in tensor.shape[1:])])
        .astype(tensor.dtype)
        for tensor in model.inputs
    ]
    x = x if len(x) > 1 else x[0]
    expected = model(x)
    values = ramet.run(model, x, at="*")
    assert values
    assert_same(ramet.run(model, x, each=lambda *_: None), expected)


def test_values_inside_equal_those_of_the_parts_called_by_hand():
    model, (a, b) = siamese(), data()
    inner = model.get_layer("encoder")
    conv, pool = inner.get_layer("conv"), inner.get_layer("pool")
    found = ramet.run(
        model, [a, b], at={"one": "encoder#1/conv", "two": ["encoder#2/pool", "encoder#2"]}
    )
    assert found.keys() == {"one", "two"}
    assert_same(found["one"], conv(a))
    assert_same(found["two"][0], pool(inner.get_layer("norm")(conv(b), training=False)))
    assert_same(found["two"][1], inner(b))
    joined = np.concatenate([array(inner(a)), array(inner(b))], axis=-1)
    split = ramet.run(model, [a, b], at=("split.0", "split.1"))
    assert isinstance(split, tuple)
    assert_equal_arrays(arrays(split), [joined[:, :4], joined[:, 4:]], "halves")
    assert_same(ramet.run(model, [a, b], at=["head#1", "relu"]), model([a, b]))
    assert_same(ramet.run(model, [a, b], at=["a", "encoder#2/image"]), [a, b])


def test_a_mask_on_the_data_goes_in_with_it():
    x = keras.Input((5, 3), name="x")
    inner = keras.Sequential([keras.Input((5, 3)), layers.LSTM(2, name="lstm")], name="inner")
    model = keras.Model(x, inner(x))
    values = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(2, 5, 3)), "float32")
    bare = ramet.run(model, values, at="inner/lstm")
    values = ops.convert_to_tensor(array(values))
    masked = layers.Masking()(ops.concatenate([values[:, :2], ops.zeros((2, 3, 3))], axis=1))
    expected = model(masked)
    assert not np.array_equal(array(bare), array(expected))
    assert_same(ramet.run(model, masked, at="inner/lstm"), expected)
    assert_same(ramet.run(model, masked), expected)


def test_calls_that_draw_from_one_generator_draw_in_the_order_of_keras():
    seed = keras.random.SeedGenerator(7)

    class Noise(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.seed = seed

        def call(self, x):
            return x + keras.random.normal(ops.shape(x), seed=self.seed)

    x = keras.Input((3,), name="x")
    late = Noise(name="late")(layers.Dense(3)(layers.Dense(3)(x)))
    early = Noise(name="early")(x)
    model = keras.Model(x, [late, early, Noise(name="last")(late)])
    ones = np.ones((2, 3), "float32")
    ours = arrays(ramet.run(model, ones, each=lambda *_: None))
    assert_equal_arrays(ours, arrays(model(ones)), "drawn")


# --- places ---


def test_a_glob_gives_a_dict_whose_keys_are_places():
    model, x = siamese(), data()
    found = ramet.run(model, x, at="*")
    assert [*found] == [
        *("encoder#1", "encoder#1/conv", "encoder#1/norm", "encoder#1/pool", "encoder#1/drop"),
        *("encoder#2", "encoder#2/conv", "encoder#2/norm", "encoder#2/pool", "encoder#2/drop"),
        *("both", "split.0", "split.1", "head#1", "head#2", "relu"),
    ]
    for place, value in found.items():
        assert_same(ramet.run(model, x, at=place), value, place)
    assert [*ramet.run(model, x, at="encoder#2/*o*")] == [
        "encoder#2/conv",
        "encoder#2/norm",
        "encoder#2/pool",
        "encoder#2/drop",
    ]
    assert [*ramet.run(model, x, at="split*")] == ["split.0", "split.1"]
    assert [*ramet.run(model, x, at="s*.1")] == ["split.1"]


def test_a_name_with_the_signs_of_a_glob_is_found_as_it_is():
    x = keras.Input((3,))
    model = keras.Model(x, layers.Dense(2, name="d[1]")(layers.Dense(2, name="d1")(x)))
    ones = np.ones((2, 3), "float32")
    assert_same(ramet.run(model, ones, at="d[1]"), model(ones))


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("hed", r"no layer 'hed' in graph 'siamese' .*did you mean 'head'"),
        ("encoder#2/cnv", r"no layer 'cnv' in graph 'encoder' .*did you mean 'encoder#2/conv'"),
        ("conv", r"no layer 'conv' in graph 'siamese' .*did you mean 'encoder/conv'"),
        ("encoder#3/conv", r"no nested model 'encoder#3' in graph 'siamese'"),
        ("both/conv", r"'both' of graph 'siamese' is a Concatenate"),
        ("head", r"'head' of graph 'siamese' is called 2 times; name one call: head#1, head#2"),
        (
            "encoder/conv",
            r"'encoder' of graph 'siamese' is called 2 times.*: encoder#1/conv, encoder#2/conv",
        ),
        ("split", r"has 2 outputs; name one: 'split.0', 'split.1'"),
        ("split.2", r"has 2 outputs, so there is no 'split.2'"),
        ("z*", r"no call of graph 'siamese' is matched by 'z\*'"),
    ],
)
def test_a_place_that_is_none_or_several(at, told):
    with pytest.raises(ramet.GraphError, match=told):
        ramet.run(siamese(), data(), at=[at])


def test_a_place_is_named():
    model = encoder()
    with pytest.raises(ramet.OptionError, match="named by a string, got a Conv2D; pass its name"):
        ramet.run(model, images(), at=model.get_layer("conv"))
    with pytest.raises(ramet.OptionError, match="each must be a function"):
        ramet.run(model, images(), each="conv")


def test_a_place_may_be_a_ref():
    model, x = siamese(), data()
    assert_same(ramet.run(model, x, at=ramet.Ref("split", 1)), ramet.run(model, x, at="split.1"))
    with pytest.raises(ramet.GraphError, match=r"has 2 outputs, so there is no Ref"):
        ramet.run(model, x, at=ramet.Ref("split", 2))


def test_an_empty_list_of_places_has_no_values():
    assert ramet.run(encoder(), images(), at=[]) == []
    assert ramet.run(encoder(), images(), at={}) == {}


def test_a_call_that_only_serves_a_mask_is_shown_where_it_is_run():
    t = keras.Input((5,), dtype="int32", name="t")
    x = layers.Embedding(9, 3, mask_zero=True, name="words")(t)
    model = keras.Model(t, layers.LSTM(2, name="lstm")(x), name="net")
    rows = np.array([[3, 4, 0, 2, 0]], "int32")
    derived = next(n for n in ramet.trace(model).calls if n.startswith("not_equal"))
    assert_same(ramet.run(model, rows, at=derived), rows != 0)
    assert derived not in ramet.run(model, rows, at="*")
    seen = Seen()
    ramet.run(model, rows, each=seen)
    assert seen == ["words", "lstm"]


def test_a_mask_that_keras_keeps_outside_of_the_graph_is_not_computed():
    t = keras.Input((5,), dtype="int32", name="t")
    model = keras.Model(t, layers.Embedding(9, 3, mask_zero=True, name="words")(t), name="net")
    derived = next(n for n in ramet.trace(model).calls if n.startswith("not_equal"))
    with pytest.raises(ramet.GraphError, match="is not computed: it only serves a mask"):
        ramet.run(model, np.array([[3, 0, 0, 0, 0]], "int32"), at=derived)


# --- hooks ---


def test_each_sees_every_call_and_may_replace_its_outputs():
    model, x = siamese(), data()
    seen = {}

    def silence(path, value):
        seen[path] = value
        return ops.zeros_like(value) if path == "encoder#2/pool" else None

    outputs = ramet.run(model, x, each=silence)
    assert [*seen][:5] == [
        "encoder#1/conv",
        "encoder#1/norm",
        "encoder#1/pool",
        "encoder#1/drop",
        "encoder#1",
    ]
    assert len(seen["split"]) == 2
    assert not array(seen["encoder#2"]).any()
    assert array(seen["encoder#1"]).any()
    bias = array(model.get_layer("head").bias)
    assert_same(outputs[1], np.zeros((2, 3), "float32") + np.maximum(bias, 0))


def test_values_are_those_that_the_hook_put_there():
    x = images()
    found = ramet.run(
        encoder(),
        x,
        at=["pool", "drop"],
        each=lambda path, value: np.ones(value.shape) if path == "pool" else None,
    )
    for value in found:
        assert array(value).dtype == "float32"
        assert (array(value) == 1).all()


def test_one_of_several_outputs_is_replaced():
    model, x = siamese(), data()

    def half(path, value):
        return [None, value[1] + 1.0] if path == "split" else None

    found = ramet.run(model, x, at=["split.0", "split.1"], each=half)
    plain = ramet.run(model, x, at=["split.0", "split.1"])
    assert_same(found[0], plain[0])
    assert_same(found[1], plain[1] + 1.0)


def test_a_replacement_keeps_the_mask_and_stays_its_owners():
    t = keras.Input((5,), dtype="int32", name="t")
    x = layers.Embedding(9, 3, mask_zero=True, name="words")(t)
    model = keras.Model(t, layers.GlobalAveragePooling1D(name="mean")(x))
    rows = np.array([[3, 4, 0, 0, 0]], "int32")
    put = ops.convert_to_tensor(np.arange(15, dtype="float32").reshape(1, 5, 3))
    outputs = ramet.run(model, rows, each=lambda p, _: put if p == "words" else None)
    assert_equal_arrays([array(outputs)], [array(put)[:, :2].mean(axis=1)], "masked mean")
    assert getattr(put, "_keras_mask", None) is None


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (lambda v: v[:1], r"value of shape \(1, 4\) for 'pool', whose shape is \(2, 4\)"),
        (lambda v: [v, v], "another structure for 'pool'"),
    ],
)
def test_a_replacement_has_to_fit(other, told):
    with pytest.raises(ramet.OptionError, match=told):
        ramet.run(encoder(), images(), each=lambda p, v: other(v) if p == "pool" else None)


def test_an_exception_of_a_hook_leaves_the_model_as_it_was():
    model, x = siamese(), data()
    before = fingerprint(model)

    def fails(path, _):
        if path == "encoder#2/conv":
            raise KeyError(path)

    with pytest.raises(KeyError):
        ramet.run(model, x, each=fails, training=True)
    assert_untouched(before, fingerprint(model))
    assert_same(ramet.run(model, x), model(x))


# --- what can be run ---


def test_graphs_are_run_as_traced_and_as_edited():
    model, x = encoder(), images()
    graph = ramet.trace(model)
    assert_same(ramet.run(graph, x, at="pool"), ramet.run(model, x, at="pool"))
    edited = graph.insert_after("conv", layers.ReLU(name="relu")).rename({"pool": "average"})
    before = fingerprint(model)
    found = ramet.run(edited, x, at=["relu", "average"])
    assert_untouched(before, fingerprint(model))
    conv = array(ramet.run(model, x, at="conv"))
    assert_equal_arrays([array(found[0])], [np.maximum(conv, 0)], "relu")
    assert_same(found[1], edited.build()(x))
    with pytest.raises(ramet.GraphError, match="no layer 'pool' in graph 'encoder'"):
        ramet.run(edited, x, at="pool")


def test_a_layer_that_an_edit_brings_in_has_the_same_weights_in_every_run():
    graph, x = ramet.trace(encoder()), images()
    edited = graph.insert_after("pool", layers.Dense(4, name="new"))
    assert_same(ramet.run(edited, x, at="new"), ramet.run(edited, x, at="new"))


def test_edits_inside_a_nested_model_are_run():
    model, x = siamese(), data()
    edited = ramet.trace(model).insert_after("encoder/conv", layers.ReLU(name="relu"))
    for number, value in enumerate(x, 1):
        conv = array(model.get_layer("encoder").get_layer("conv")(value))
        found = ramet.run(edited, x, at=f"encoder#{number}/relu")
        assert_equal_arrays([array(found)], [np.maximum(conv, 0)], "relu")


def test_a_sequential_model_is_run():
    model = keras.Sequential([keras.Input((3,)), layers.Dense(4, name="a"), layers.Dense(2)])
    ones = np.ones((2, 3), "float32")
    assert_same(ramet.run(model, ones, at="a"), model.get_layer("a")(ones))
    graph = ramet.trace(model)
    model.add(layers.Dense(1))
    with pytest.raises(ramet.GraphError, match="was rebuilt after it had been traced"):
        ramet.run(graph, ones)


def test_a_model_without_weights_is_refused():
    model = keras.Sequential([layers.Dense(2)], name="net")
    with pytest.raises(ramet.StateError, match="'net' has not been built, so it has no weights"):
        ramet.run(model, np.ones((2, 3), "float32"))


def test_a_model_without_a_graph_has_outputs_only():
    class Own(keras.Model):
        def __init__(self):
            super().__init__(name="own")
            self.dense = layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    model, ones = Own(), np.ones((2, 3), "float32")
    expected = model(ones)
    assert_same(ramet.run(model, ones), expected)
    with pytest.raises(ramet.ModelError, match=r"'own' \(Own\) has no graph"):
        ramet.run(model, ones, at="dense")


class Doubled(keras.Model):
    """Runs its graph, and more."""

    def call(self, x, training=None, mask=None):
        return super().call(x, training=training, mask=mask) * 2.0


class Ignored(keras.Model):
    """Does not run its graph."""

    def call(self, x):
        return self.get_layer("dense")(x) * 3.0


class Twice(keras.Model):
    """Runs its graph twice."""

    def call(self, x):
        return super().call(super().call(x))


def own(kind):
    x = keras.Input((3,), name="x")
    inner = kind(x, layers.Dense(3, name="dense")(x), name="inner")
    y = keras.Input((3,), name="y")
    return keras.Model(y, inner(y), name="outer")


def test_a_call_method_of_ones_own_is_what_runs():
    ones = np.ones((2, 3), "float32")
    for kind in (Doubled, Ignored, Twice):
        model = own(kind)
        expected = model(ones)
        assert_same(ramet.run(model, ones, each=lambda *_: None), expected, kind.__name__)
        assert_same(ramet.run(model, ones, at="inner"), expected, kind.__name__)
    doubled = own(Doubled)
    assert_same(ramet.run(doubled, ones, at="inner/dense") * 2.0, doubled(ones))
    with pytest.raises(ramet.GraphError, match="'inner/dense' of graph 'outer' is not computed"):
        ramet.run(own(Ignored), ones, at="inner/dense")
    with pytest.raises(ramet.GraphError, match="'inner/dense' of 'outer' is computed several"):
        ramet.run(own(Twice), ones, at="inner/dense")


def test_a_model_that_a_layer_calls_inside_is_not_mistaken_for_the_nested_one():
    """TimeDistributed calls a model that the graph calls as well."""
    inner = encoder()
    x, y = keras.Input((8, 8, 3), name="x"), keras.Input((2, 8, 8, 3), name="y")
    out = [inner(x), layers.TimeDistributed(inner, name="steps")(y)]
    model, one = keras.Model([x, y], out), images(2)
    batch = [one, np.stack([one, one + 1.0], axis=1)]
    seen = Seen()
    outputs = ramet.run(model, batch, each=seen)
    assert_same(outputs, model(batch))
    assert sorted(seen) == sorted(
        ["encoder/conv", "encoder/norm", "encoder/pool", "encoder/drop", "encoder", "steps"]
    )
    assert_same(ramet.run(model, batch, at="encoder/conv"), inner.get_layer("conv")(one))


def test_many_levels_of_models_are_run():
    model = keras.Sequential([keras.Input((2,)), layers.Dense(2, name="core")], name="m0")
    for level in range(1, 40):
        x = keras.Input((2,))
        model = keras.Model(x, model(x), name=f"m{level}")
    ones = np.ones((1, 2), "float32")
    place = "/".join([*(f"m{level}" for level in range(38, -1, -1)), "core"])
    assert_same(ramet.run(model, ones, at=place), model(ones))


def test_training_is_what_it_says():
    model, x = encoder(), images()
    reset_chance()
    dropped = array(ramet.run(model, x, at="drop", training=True))
    assert (dropped == 0).any()
    assert not (array(ramet.run(model, x, at="drop")) == 0).any()
