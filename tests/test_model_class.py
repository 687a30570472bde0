"""The class of an edited model: what is saved is what was built."""

import keras
import numpy as np
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.sampled

X = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")


@keras.saving.register_keras_serializable("model_class")
class Backbone(keras.Model):
    """Makes its graph in its constructor, and is saved by the arguments of that."""

    def __init__(self, units=4, **kwargs):
        x = keras.Input((3,), name="x")
        body = layers.Dense(units, name="body")
        super().__init__(x, layers.Dense(2, name="head")(body(x)), **kwargs)
        self.body, self.units = body, units

    def get_config(self):
        return {"units": self.units, "name": self.name}


@keras.saving.register_keras_serializable("model_class")
class Unconfigured(keras.Model):
    """The same without a `get_config`: Keras remembers the arguments by itself."""

    def __init__(self, units=4):
        x = keras.Input((3,), name="x")
        super().__init__(x, layers.Dense(2, name="head")(layers.Dense(units, name="body")(x)))


@keras.saving.register_keras_serializable("model_class")
class Stacked(keras.Sequential):
    """A Sequential model that makes its layers in its constructor."""

    def __init__(self, units=4, **kwargs):
        parts = [layers.Dense(units, name="body"), layers.Dense(2, name="head")]
        super().__init__([keras.Input((3,), name="x"), *parts], **kwargs)


@keras.saving.register_keras_serializable("model_class")
class Trained(Backbone):
    """A backbone that trains in its own way."""

    def compute_loss(self, *args, **kwargs):
        return 2.0 * super().compute_loss(*args, **kwargs)


@keras.saving.register_keras_serializable("model_class")
class Open(keras.Model):
    """Takes a graph like any Functional model, and says one thing more."""

    def __init__(self, *args, scale=1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.scale = scale

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


def numbers(model, x=X):
    return keras.ops.convert_to_numpy(model(x))


def saved(model, folder):
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


def edited(graph, at="body"):
    return graph.insert_after(at, layers.Dense(4, activation="tanh", name="new"))


@pytest.mark.parametrize("kind", [Backbone, Unconfigured, Stacked])
def test_a_class_that_makes_its_own_graph_becomes_a_plain_one(kind, tmp_path):
    source = kind()
    graph = edited(ramet.trace(source))
    assert f"becomes a plain {kind.__mro__[1].__name__.replace('Model', 'Functional')}" in str(
        graph.journal
    )
    built = graph.build()
    loaded = saved(built, tmp_path)
    assert loaded.get_layer("new")
    assert np.array_equal(numbers(loaded), numbers(built))
    assert not np.array_equal(numbers(built), numbers(source))
    assert type(ramet.clone(source)) is kind  # a copy that nobody edited stays what it is


def test_attributes_stay():
    built = edited(ramet.trace(Backbone(units=4))).build()
    assert built.units == 4
    assert built.body is built.get_layer("body")


@pytest.mark.parametrize("edit", ["insert", "rename", "freeze"])
def test_nested_ones_too(edit, tmp_path):
    x = keras.Input((3,))
    source = keras.Model(x, layers.Dense(1, name="top")(Backbone(name="base")(x)))
    graph = ramet.trace(source)
    graph = {
        "insert": lambda: edited(graph, "base/body"),
        "rename": lambda: graph.rename({"base/body": "other"}),
        "freeze": lambda: graph.freeze("base/body"),
    }[edit]()
    assert "'base' becomes a plain Functional model" in str(graph.journal)
    built = graph.build()
    loaded = saved(built, tmp_path)
    assert np.array_equal(numbers(loaded), numbers(built))
    names = [layer.name for layer in loaded.get_layer("base").layers]
    assert names == [layer.name for layer in built.get_layer("base").layers]
    assert len(loaded.trainable_weights) == len(built.trainable_weights)


def test_a_nested_one_that_nobody_edited_keeps_its_class():
    x = keras.Input((3,))
    source = keras.Model(x, layers.Dense(1, name="top")(Backbone(name="base")(x)))
    graph = ramet.trace(source).insert_after("top", layers.ReLU())
    assert not graph.journal.notes
    assert type(graph.build().get_layer("base")) is Backbone


def test_a_class_that_trains_in_its_own_way_stays_and_refuses_to_be_saved(tmp_path):
    graph = edited(ramet.trace(Trained()))
    assert "stays a Trained, and cannot be saved" in str(graph.journal)
    built = graph.build()
    assert type(built) is Trained
    for model in (built, ramet.clone(built), ramet.trace(built).rename({"body": "b"}).build()):
        with pytest.raises(
            ramet.FileError, match=r"cannot be saved: its graph was edited.*extract"
        ):
            model.save(tmp_path / "model.keras")
    plain = graph.extract().build()
    assert np.array_equal(numbers(saved(plain, tmp_path)), numbers(built))
    built.save_weights(tmp_path / "some.weights.h5")


def test_a_class_that_takes_any_graph_keeps_its_class(tmp_path):
    x = keras.Input((3,), name="x")
    source = Open(x, layers.Dense(2, name="head")(layers.Dense(4, name="body")(x)), scale=3.0)
    graph = edited(ramet.trace(source))
    assert not graph.journal.notes
    loaded = saved(graph.build(), tmp_path)
    assert type(loaded) is Open
    assert loaded.scale == 3.0
    assert loaded.get_layer("new")


def test_notes_of_a_sequential_model_that_branches():
    source = keras.Sequential([keras.Input((3,)), layers.Dense(4, name="a"), layers.Dense(2)])
    graph = ramet.trace(source)
    assert not graph.insert_after("a", layers.ReLU()).journal.notes
    assert "becomes a Functional model" in str(graph.add_output("a").journal)


def test_the_journal_says_what_becomes_of_the_optimizer():
    source = Backbone()
    source.compile("adam", "mse")
    graph = ramet.trace(source)
    assert "stays compiled" in str(edited(graph).journal)
    assert "not compiled: it has other outputs" in str(graph.add_output("body").journal)
    assert "is not compiled, though" in str(graph.extract(outputs="body").journal)
    other = keras.Sequential([keras.Input((3,)), layers.Dense(2, name="other")], name="other")
    for joined in (ramet.merge([other, source]), ramet.chain(ramet.clone(source), source)):
        assert "is not compiled, though" in str(joined.journal)
    assert not ramet.merge([other], inputs="separate").journal.notes
    assert not edited(graph).build().optimizer.built


@pytest.mark.parametrize("compiled", [False, True])
def test_a_model_with_one_more_output_can_be_saved_and_fitted(compiled, tmp_path):
    x = keras.Input((3,), name="x")
    source = keras.Model(x, layers.Dense(2, name="head")(layers.Dense(4, name="body")(x)))
    if compiled:
        source.compile("sgd", "mse")
    built = ramet.trace(source).add_output("body").build()
    assert not built.compiled
    loaded = saved(built, tmp_path)
    for old, new in zip(built(X), loaded(X), strict=True):
        assert np.array_equal(*map(keras.ops.convert_to_numpy, (old, new)))
    built.compile("sgd", ["mse", "mse"])
    built.fit(X, [np.zeros((4, 2)), np.zeros((4, 4))], verbose=0)
