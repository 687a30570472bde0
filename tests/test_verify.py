"""`verify` finds every kind of damage, and changes nothing while looking."""

import functools

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.comparing.running.samples import SIZES, make_sample


@functools.cache  # nothing here changes it, which is what these tests are about
def model() -> keras.Model:
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    other = keras.Input((None, 4), name="other")
    x = layers.Embedding(11, 4, mask_zero=True, name="embedding")(tokens)
    x = layers.LSTM(4, return_sequences=True, name="lstm")(x)
    x = layers.Dropout(0.5, seed=3, name="dropout")(x)
    shared = layers.Dense(4, activation="relu", name="shared")
    y = layers.GlobalAveragePooling1D(name="pool")(shared(other) * 2.0)
    x = layers.BatchNormalization(name="bn")(layers.GlobalMaxPooling1D(name="max")(shared(x)))
    made = keras.Model([tokens, other], {"out": layers.Add(name="add")([x, y])}, name="net")
    made.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
    data = [np.ones((2, 6), "int32"), np.ones((2, 3, 4), "float32")]
    made.fit(data, {"out": np.zeros((2, 4))}, verbose=0)
    return made


def test_a_clone_is_the_same():
    source = model()
    report = ramet.verify(source, ramet.clone(source, name="twin"))
    assert report.ok
    assert all(check.done for check in report.checks)
    report.raise_if_different()


def flip_a_bit(twin):
    kernel = twin.get_layer("shared").kernel
    changed = ops.convert_to_numpy(kernel).copy()
    changed.view("uint32").ravel()[0] ^= 1
    kernel.assign(changed)


DAMAGES = {
    "a bit of a weight": (flip_a_bit, "state"),
    "a seed": (lambda t: t.get_layer("dropout").seed_generator.state.assign([9, 9]), "state"),
    "a statistic": (lambda t: t.get_layer("bn").moving_mean.assign(np.ones(4)), "state"),
    "an optimizer slot": (lambda t: t.optimizer.variables[-1].assign_add(np.ones(4)), "state"),
    "a metric": (lambda t: t.metrics[0].variables[0].assign(7.0), "state"),
    "a frozen layer": (lambda t: setattr(t.get_layer("shared"), "trainable", False), "structure"),
    "a rate": (lambda t: setattr(t.get_layer("dropout"), "rate", 0.25), "structure"),
    "an activation": (
        lambda t: setattr(t.get_layer("shared"), "activation", keras.activations.tanh),
        "outputs",
    ),
    "an attribute": (lambda t: setattr(t.get_layer("bn"), "note", "mine"), "structure"),
    "a name": (lambda t: setattr(t.get_layer("bn"), "name", "bn2"), "structure"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(damage):
    source = model()
    twin = ramet.clone(source)
    change, aspect = DAMAGES[damage]
    change(twin)
    report = ramet.verify(source, twin)
    assert not report.ok
    assert not next(check for check in report.checks if check.name == aspect).ok
    with pytest.raises(ramet.DifferenceError, match=r"'net' and 'net' differ in .*; print"):
        report.raise_if_different()


def chain(*made) -> keras.Model:
    inputs = keras.Input((4,))
    x = inputs
    for layer in made:
        x = layer(x)
    return keras.Model(inputs, x)


def test_broken_sharing_is_found():
    one = layers.Dense(4, name="a")
    tied = chain(one, layers.ReLU(), one)
    untied = chain(layers.Dense(4, name="a"), layers.ReLU(), layers.Dense(4, name="b"))
    report = ramet.verify(tied, untied)
    assert {c.name for c in report.checks if not c.ok} >= {"structure", "sharing", "state"}


class Scale(layers.Layer):
    def call(self, x, by=1.0):
        return x * by


def test_other_wiring_and_constants_are_found():
    def scaled(by):
        inputs = keras.Input((4,), name="x")
        return keras.Model(inputs, Scale(name="scale")(inputs, by=by))

    def subtracted(*, turned):
        a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
        pair = [b, a] if turned else [a, b]
        return keras.Model([a, b], layers.Subtract(name="minus")(pair))

    for pair, line in (
        ((scaled(2.0), scaled(3.0)), "call 'scale' has by 2.0 and 3.0"),
        (
            (subtracted(turned=False), subtracted(turned=True)),
            "call 'minus' has inputs ['a', 'b'] and ['b', 'a']",
        ),
    ):
        report = ramet.verify(*pair)
        assert report.check("structure").differences == (line,)
        assert not report.check("outputs").ok


def test_other_wiring_inside_a_nested_model_is_found():
    def nested(*, turned):
        start = keras.Input((4,), name="start")
        sides = [layers.ReLU(name="relu")(start), layers.Softmax(name="softmax")(start)]
        inside = layers.Multiply(name="both")(sides[::-1] if turned else sides)
        outer = keras.Input((4,), name="outer")
        inner = keras.Model(start, inside, name="inner")
        around = keras.Sequential([keras.Input((4,), name="first"), inner], name="around")
        return keras.Model(outer, around(outer))

    found = ramet.verify(nested(turned=False), nested(turned=True))
    assert found.check("outputs").ok
    line = "call 'around/inner/both' has inputs ['relu', 'softmax'] and ['softmax', 'relu']"
    assert found.check("structure").differences == (line,)
    assert ramet.verify(nested(turned=True), nested(turned=True)).ok


def test_a_dropped_mask_is_found():
    def masked(on):
        tokens = keras.Input((6,), dtype="int32", name="t")
        x = layers.Embedding(5, 3, mask_zero=on, embeddings_initializer="ones", name="e")(tokens)
        return keras.Model(tokens, layers.GlobalAveragePooling1D(name="p")(x))

    report = ramet.verify(masked(True), masked(False))  # noqa: FBT003  the two cases
    assert not next(c for c in report.checks if c.name == "structure").ok


def test_neither_model_is_changed():
    source = model()
    twin = ramet.clone(source)
    state = [ops.convert_to_numpy(v).copy() for m in (source, twin) for v in m.variables]
    attributes = [sorted(vars(layer)) for layer in source.layers]
    losses = [list(layer._losses) for layer in source.layers]
    ramet.verify(source, twin)
    after = [ops.convert_to_numpy(v) for m in (source, twin) for v in m.variables]
    assert all(np.array_equal(a, b) for a, b in zip(state, after, strict=True))
    assert [sorted(vars(layer)) for layer in source.layers] == attributes
    assert [list(layer._losses) for layer in source.layers] == losses


def test_given_inputs_are_used():
    source = chain(layers.Lambda(lambda x: 1.0 / (x - 7.0)))
    other = chain(layers.Lambda(lambda x: 1.0 / (x - 7.0) + ops.cast(x > 100.0, "float32")))
    assert next(c for c in ramet.verify(source, other).checks if c.name == "outputs").ok
    report = ramet.verify(source, other, inputs=np.full((1, 4), 200.0, "float32"))
    assert not next(c for c in report.checks if c.name == "outputs").ok


def test_what_cannot_be_checked_is_said():
    report = ramet.verify(*(keras.Sequential([layers.Dense(2)], name="s") for _ in range(2)))
    verdicts = {check.name: check.verdict for check in report.checks}
    assert verdicts["outputs"] == verdicts["training"] == "not checked"
    assert "pass inputs" in str(report)


def test_the_table():
    source = chain(layers.Dense(2, name="d"))
    assert str(ramet.verify(source, ramet.clone(source, name="twin"))).splitlines()[4:-1] == [
        "│ structure │ same    │ 2 layers              │",
        "│ sharing   │ same    │ 2 layers, 2 variables │",
        "│ state     │ same    │ 2 variables           │",
        "│ outputs   │ same    │ on random inputs      │",
        "│ training  │ same    │ on random inputs      │",
    ]
    text = str(ramet.verify(source, ramet.clone(source, weights="fresh", seed=1)))
    assert "state      │ different │ variable 'd/kernel' differs in 8 of 8 values" in text


@pytest.mark.parametrize("bad", [None, keras.Model, layers.Dense(1)])
def test_only_models_are_compared(bad):
    with pytest.raises(ramet.ModelError, match="expected a Keras model"):
        ramet.verify(chain(layers.Dense(2)), bad)


# --- Made-up inputs ---


@pytest.mark.since_keras(3, 14)
def test_inputs_are_made_to_fit():
    tokens = keras.Input((None,), dtype="int32", name="t")
    image = keras.Input((None, None, 3), batch_size=3, name="i")
    flag = keras.Input((2,), dtype="bool", name="f")
    x = layers.Embedding(3, 4)(layers.Reshape((-1, 1))(tokens))
    made = keras.Model({"t": tokens, "i": image, "f": flag}, [x, image, flag])
    (found,) = make_sample([made], [ramet.trace(made)], SIZES[0], 0).args
    assert found["i"].shape == (3, 64, 64, 3)
    values = ops.convert_to_numpy(found["t"])
    assert values.max() == 2
    assert values.min() == 0
    assert ops.convert_to_numpy(found["f"]).dtype == bool


def test_open_dimensions_grow_until_the_model_takes_them():
    inputs = keras.Input((None, None, 1))
    x = inputs
    for _ in range(4):
        x = layers.Conv2D(1, 3, strides=2)(x)
    deep = keras.Model(inputs, x)
    report = ramet.verify(deep, ramet.clone(deep))
    assert report.ok
    assert all(check.done for check in report.checks)


def test_a_model_that_never_gives_the_same_is_not_called_different():
    class Noise(layers.Layer):
        calls = 0

        def call(self, x):
            type(self).calls += 1
            return x + type(self).calls

    noisy = chain(Noise())
    report = ramet.verify(noisy, ramet.clone(noisy))
    outputs = next(check for check in report.checks if check.name == "outputs")
    assert not outputs.done
    assert "gives different results from call to call" in outputs.scope


@pytest.mark.parametrize(("vocabulary", "batch"), [(3, 2), (50, 7), (100_000, 64)])
def test_every_word_of_a_small_vocabulary_occurs(vocabulary, batch):
    tokens = keras.Input((None,), dtype="int32", name="t")
    made = keras.Model(tokens, layers.Embedding(vocabulary, 2)(tokens))
    (data,) = make_sample([made], [ramet.trace(made)], SIZES[0], 0).args
    values = ops.convert_to_numpy(data)
    assert values.shape == (batch, SIZES[0])
    assert len({*values.ravel().tolist()}) == min(vocabulary, values.size)


def test_one_wrong_row_of_an_embedding_is_found():
    tokens = keras.Input((None,), dtype="int32", name="t")
    model = keras.Model(tokens, layers.Embedding(50, 2, name="words")(tokens))
    other = ramet.clone(model)
    table = ops.convert_to_numpy(other.get_layer("words").embeddings).copy()
    table[37] += 1.0
    other.get_layer("words").embeddings.assign(table)
    assert not ramet.verify(model, other, only="outputs").ok
