"""Freezing: what is frozen does not train, wherever its weights are, and the rest does."""

import keras
import numpy as np
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.sampled

X = np.random.default_rng(0).standard_normal((4, 5, 3)).astype("float32")


class Block(keras.layers.Layer):
    """A user's layer with layers inside, and a flag of one of them set by hand."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.first, self.second = (layers.Dense(units, name=name) for name in ("first", "second"))

    def build(self, shape):
        self.first.build(shape)
        self.second.build((*shape[:-1], self.units))

    def call(self, x):
        return self.second(self.first(x))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def model() -> keras.Model:
    """A model with composite layers, and a model inside."""
    x = keras.Input((5, 3), name="x")
    i = keras.Input((5, 4), name="i")
    inner = layers.Dense(4, name="enc_b")(layers.Dense(4, name="enc_a")(i))
    encoder = keras.Model(i, inner, name="enc")
    y = layers.Bidirectional(layers.LSTM(2, return_sequences=True, name="lstm"), name="bi")(x)
    y = encoder(y)
    y = layers.MultiHeadAttention(2, 2, name="mha")(y, y)
    y = layers.TimeDistributed(layers.Dense(4, name="inner"), name="td")(y)
    y = layers.BatchNormalization(name="bn")(Block(4, name="block")(y))
    return keras.Model(x, layers.Dense(2, name="head")(y), name="m")


def trained(model) -> set[str]:
    """Names the variables that a step of training changes."""
    before = {v.path: keras.ops.convert_to_numpy(v) for v in model.variables}
    model.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=True)
    shape = model.output_shape if isinstance(model.output_shape, tuple) else model.output_shape[0]
    y = np.ones((4, *shape[1:]), "float32")
    model.train_on_batch(X, y)
    return {
        v.path
        for v in model.variables
        if not np.array_equal(before[v.path], keras.ops.convert_to_numpy(v))
    }


def inside(name, model):
    """Names the variables of a layer at a path, by identity."""
    layer = model
    for step in name.split("/"):
        layer = layer.get_layer(step)
    return {v.path for v in layer.variables}


@pytest.fixture(scope="module")
def everything():
    return trained(model())


@pytest.mark.parametrize("at", ["bi", "enc", "enc/enc_a", "mha", "td", "block", "bn", "head"])
@pytest.mark.parametrize("how", ["freeze", "configure"])
def test_a_frozen_layer_does_not_train_and_the_rest_does(at, how, everything):
    source = model()
    graph = ramet.trace(source)
    graph = graph.freeze(at) if how == "freeze" else graph.configure(at, trainable=False)
    edited = graph.build()
    for old, new in zip(source.weights, edited.weights, strict=True):
        assert np.array_equal(*map(keras.ops.convert_to_numpy, (old, new)))
    frozen = inside(at, edited)
    assert frozen
    assert trained(edited) == everything - frozen
    assert len(source.trainable_weights) == len(model().trainable_weights)  # it is only read
    back = ramet.trace(edited).unfreeze(at).build()
    assert trained(back) == everything


def test_a_new_layer_in_a_frozen_model_trains():
    source = model()
    source.trainable = False
    graph = ramet.trace(source).replace("head", layers.Dense(3, name="new"))
    assert "was frozen as a whole" in str(graph.journal)
    edited = graph.build()
    assert trained(edited) == {"new/kernel", "new/bias"}
    assert edited.trainable
    assert not edited.get_layer("enc").trainable
    assert not source.trainable


def test_a_model_frozen_by_its_flag_alone():
    x = keras.Input((5, 3))
    source = keras.Model(x, layers.Dense(2, name="b")(layers.Dense(3, name="a")(x)))
    source._trainable = False
    edited = ramet.trace(source).insert_after("a", layers.Dense(3, name="new")).build()
    assert trained(edited) == {"new/kernel", "new/bias"}


def test_a_layer_without_weights_leaves_a_frozen_model_frozen():
    source = model()
    source.trainable = False
    graph = ramet.trace(source).insert_after("mha", layers.ReLU())
    assert not graph.journal.notes
    assert not graph.build().trainable


def test_the_last_word_counts():
    graph = ramet.trace(model())
    edited = graph.freeze().unfreeze("enc").freeze("enc/enc_a").build()
    assert trained(edited) == {"enc_b/kernel", "enc_b/bias"}
    new = graph.freeze().insert_after("enc/enc_a", layers.Dense(4, name="new")).build()
    assert trained(new) == {"new/kernel", "new/bias"}
    again = graph.freeze("enc").configure("enc/enc_a", activation="relu").build()
    assert not trained(again) & {"enc_a/kernel", "enc_b/kernel"}
    flat = graph.freeze("enc").flatten().build()
    assert not {path for path in trained(flat) if "enc_a" in path or "enc_b" in path}


def test_flags_of_inner_layers_survive_a_new_configuration():
    source = model()
    source.get_layer("block").first.trainable = False
    source.get_layer("bi").backward_layer.trainable = False
    graph = ramet.trace(source)
    edited = graph.configure("block", units=4).configure("bi", merge_mode="concat").build()
    assert not edited.get_layer("block").first.trainable
    assert edited.get_layer("block").second.trainable
    assert not edited.get_layer("bi").backward_layer.trainable
    # Keras leaves the outer name out of paths of a Bidirectional layer made from a config.
    steps = [{path.removeprefix("bi/") for path in trained(each)} for each in (edited, source)]
    assert steps[0] == steps[1]


def test_the_journal_says_that_what_takes_the_place_of_a_frozen_layer_trains():
    graph = ramet.trace(model()).freeze("bn")
    journal = graph.replace("bn", layers.GroupNormalization(2, name="gn")).journal
    assert "with GroupNormalization 'gn', which trains as the frozen one did not" in str(journal)
    assert "which trains" not in str(graph.replace("head", layers.Dense(2, name="h")).journal)


def test_selections_freeze():
    graph = ramet.trace(model()).select(kind=layers.Dense).freeze()
    assert "freeze 3 layers by kind=Dense" in str(graph.journal)
    assert not trained(graph.build()) & {"head/kernel", "enc_a/kernel", "enc_b/kernel"}
    live = ramet.trace(model()).freeze("head").select(where=lambda layer: not layer.trainable)
    assert [*live] == ["head"]


def test_freezing_is_saved(tmp_path):
    edited = ramet.trace(model()).freeze("bi").freeze("enc").build(name="frozen")
    expected = len(edited.trainable_weights)
    with keras.utils.custom_object_scope({"Block": Block}):
        edited.save(tmp_path / "m.keras")
        loaded = keras.models.load_model(tmp_path / "m.keras")
    assert len(loaded.trainable_weights) == expected


def test_functions_see_the_shapes_of_a_frozen_layer():
    net = model()
    graph = ramet.trace(net).freeze()
    wide = [*graph.select(where=lambda layer: layer.output.shape[-1] == 4)]
    assert wide == [*ramet.trace(net).select(where=lambda layer: layer.output.shape[-1] == 4)]
    adapted = graph.insert_after(
        "block", lambda old: layers.Dense(old.output.shape[-1], name=f"{old.name}_adapter")
    ).build()
    assert [v.path for v in adapted.trainable_weights] == [
        "block_adapter/kernel",
        "block_adapter/bias",
    ]
    assert net.get_layer("block").output.shape == (None, 5, 4)  # has one call still


LOSING = {
    "mha": lambda x: layers.MultiHeadAttention(2, 2, name="a")(x, x),
    "convlstm": lambda x: layers.ConvLSTM1D(2, 2, name="a")(layers.Reshape((5, 3, 1))(x)),
    "block": lambda x: Block(3, name="a")(x),
}
KEEPING = {
    "dense": lambda x: layers.Dense(3, name="a")(x),
    "td": lambda x: layers.TimeDistributed(layers.Dense(3), name="a")(x),
    "bi": lambda x: layers.Bidirectional(layers.LSTM(2), name="a")(x),
    "rnn": lambda x: layers.RNN([layers.LSTMCell(2), layers.GRUCell(3)], name="a")(x),
}


@pytest.mark.parametrize("kind", [*LOSING, *KEEPING])
def test_flags_that_keras_does_not_save_are_named(kind, tmp_path):
    x = keras.Input((5, 3), name="x")
    net = keras.Model(x, (LOSING | KEEPING)[kind](x))
    graph = ramet.trace(net).freeze("a")
    edited = graph.build()
    assert not edited.trainable_weights
    with keras.utils.custom_object_scope({"Block": Block}):
        edited.save(tmp_path / "m.keras")
        loaded = keras.models.load_model(tmp_path / "m.keras")
    noted = any("'a' will train again after saving" in note for note in graph.journal.notes)
    assert noted == (kind in LOSING) == bool(loaded.trainable_weights)
    assert not ramet.trace(net).unfreeze("a").journal.notes


def test_what_cannot_be_frozen():
    x = keras.Input((5, 3), name="x")
    graph = ramet.trace(keras.Model(x, keras.ops.relu(layers.Dense(2, name="a")(x))))
    with pytest.raises(ramet.GraphError, match=r"is an operation \(Relu\), which has no weights"):
        graph.freeze(graph.select(kind="Relu").one())
    with pytest.raises(ramet.OptionError, match="trainable of layer 'a' must be True or False"):
        graph.configure("a", trainable="no")
    with pytest.raises(ramet.OptionError, match="'a' cannot be frozen with weights='share'"):
        graph.freeze("a").build(weights="share")
    with pytest.raises(ramet.GraphError, match="no layer 'b' in graph"):
        graph.freeze("b")


def test_a_nested_model_that_was_frozen_is_told_of():
    x = keras.Input((4,), name="x")
    base = keras.Model(x, layers.Dense(4, name="b")(layers.Dense(4, name="a")(x)), name="base")
    base.trainable = False
    y = keras.Input((4,), name="y")
    graph = ramet.trace(keras.Model(y, layers.Dense(2, name="head")(base(y)), name="net"))
    told = "'base' was frozen as a whole: what edits add or unfreeze trains now"
    for edited in (
        graph.insert_after("base/a", layers.Dense(4, name="new")),
        graph.unfreeze("base/a"),
        graph.unfreeze(),
    ):
        assert told in str(edited.journal)
        assert len(edited.build().trainable_variables) > 2
    for edited in (graph.insert_after("base/a", keras.ops.relu), graph.freeze("base/a")):
        assert "as a whole" not in str(edited.journal)
        assert len(edited.build().trainable_variables) == 2


def test_verbs_look_at_a_graph_with_frozen_layers():
    """A frozen layer cannot share its variables: the source's would stop training too."""
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    y = layers.Embedding(9, 4, mask_zero=True, name="embedding")(tokens)
    y = layers.BatchNormalization(name="bn")(y)
    net = keras.Model(tokens, layers.Dense(2, name="head")(layers.LSTM(3, name="lstm")(y)))
    graph = ramet.trace(net).freeze("bn").insert_after("lstm", layers.Dense(3, name="new"))
    flow = ramet.masks(graph)
    assert flow.ok
    assert {use for tensor in flow.tensors for use in tensor.users} >= {"lstm"}
    data = keras.ops.convert_to_tensor(np.arange(20).reshape(4, 5) % 9)
    for training in (False, True):  # a frozen batch norm does not use the statistics of the batch
        values = [
            ramet.run(model, data, at="lstm", training=training) for model in (graph, graph.build())
        ]
        assert_same(*values)
    assert "new" in str(ramet.diff(net, graph))
    assert "new" in ramet.emit(graph)
    assert all(variable.trainable for variable in net.get_layer("bn").trainable_variables)
    assert len(net.trainable_variables) == 8


def assert_same(first, second):
    np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (first, second)))
