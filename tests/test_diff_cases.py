"""What people do to models, and the lines that say it: no more, and each of them true."""

from pathlib import Path
from typing import Any

import keras
import pytest
from keras import layers, ops

import ramet
from difftruth import Truth
from ramet.results.diff import Entry

pytestmark = pytest.mark.filterwarnings("ignore")


def told(first: Any, second: Any, **options: Any) -> list[tuple[str, str]]:
    found = ramet.diff(first, second, **options)
    models = [m.build() if isinstance(m, ramet.Graph) else m for m in (first, second)]
    Truth(*models, found).check(names=False)  # Keras counts names on.
    return [(entry.kind, entry.where) for entry in found]


def dense(name: str, units: int = 4, **options: Any) -> layers.Layer:
    """A layer with weights that its name decides, so that the same code makes the same model."""
    seed = sum(map(ord, name))
    start = keras.initializers.GlorotUniform(seed)
    return layers.Dense(units, name=name, kernel_initializer=start, **options)


def chain(*steps: Any) -> keras.Model:
    start = x = keras.Input((4,), name="x")
    for step in steps:
        x = step(x)
    return keras.Model(start, x, name="chain")


def convolutions() -> keras.Model:
    """A model in which Keras makes up all names but that of the input."""
    start = x = keras.Input((8, 8, 3), name="image")
    for _ in range(3):
        x = layers.Conv2D(4, 3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(start, layers.Dense(5)(x), name="convolutions")


def of(model: keras.Model, kind: Any) -> list[str]:
    return [layer.name for layer in model.layers if isinstance(layer, kind)]


@pytest.mark.parametrize("weights", [True, False])
def test_transfer_learning(weights):
    model = convolutions()
    block, head = of(model, layers.Conv2D)[1], model.layers[-1].name
    new = layers.Dense(2, name="new_head")
    graph = ramet.trace(model).freeze().replace(head, new).rename({block: "block"})
    assert told(model, graph.build(), weights=weights) == [
        ("config", "convolutions"),
        ("renamed", block),
        ("replaced", head),
    ]


def test_a_frozen_base_is_said_of_the_base():
    def make(units: int, *, frozen: bool) -> keras.Model:
        start = keras.Input((4,), name="start")
        base = keras.Model(start, dense("two")(dense("one")(start)), name="base")
        base.trainable = not frozen
        x = keras.Input((4,), name="x")
        return keras.Model(x, dense(f"head{units}", units)(base(x)), name="m")

    found = told(make(3, frozen=False), make(5, frozen=True))
    assert found == [("config", "base"), ("replaced", "head3")]


@pytest.mark.parametrize("weights", [True, False])
def test_the_same_edit_everywhere(weights):
    model = convolutions()
    graph = ramet.trace(model)
    for name in of(model, layers.ReLU):
        graph = graph.insert_after(name, layers.Dropout(0.1))
    found = told(model, graph.build(), weights=weights)
    assert [kind for kind, _ in found] == ["added"] * 3
    graph = ramet.trace(model)
    norms = of(model, layers.BatchNormalization)
    for name in norms:
        graph = graph.replace(name, layers.GroupNormalization(2))
    found = told(model, graph.build(), weights=weights)
    assert found == [("replaced", name) for name in norms]


def skips(*, gone: int = -1, extra: int = -1) -> keras.Model:
    """Blocks with skip connections, one of which is missing or doubled."""
    start = x = keras.Input((4,), name="x")
    for number in range(4):
        before = x
        y = layers.Dense(4, kernel_initializer=keras.initializers.GlorotUniform(number))(x)
        y = layers.ReLU()(y)
        x = y if number == gone else layers.Add()([x, y])
        x = layers.Add()([x, before]) if number == extra else x
    return keras.Model(start, x, name="skips")


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("weights", [True, False])
def test_skip_connections(number, weights):
    model = skips()
    adds = of(model, layers.Add)
    assert told(model, skips(gone=number), weights=weights) == [("removed", adds[number])]
    more = skips(extra=number)
    found = told(model, more, weights=weights)
    assert [kind for kind, _ in found] == ["added"]
    assert found[0][1] in of(more, layers.Add)


def test_a_layer_at_the_start_of_a_sequential_model():
    model = keras.Sequential([keras.Input((4,)), *(layers.Dense(4) for _ in range(3))])
    model.add(layers.Dense(2))
    more = keras.Sequential([keras.Input((4,)), layers.LayerNormalization(), *model.layers])
    assert told(model, more) == [("added", more.layers[0].name)]
    assert told(more, model) == [("removed", more.layers[0].name)]


def test_inputs_and_outputs():
    def make(*, more: bool) -> keras.Model:
        a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
        x = dense("stem")(a)
        x = layers.Add(name="add")([x, b]) if more else x
        ends = {"main": dense("head")(x)}
        ends |= {"aux": dense("aux", 2)(x)} if more else {}
        return keras.Model([a, b] if more else [a], ends, name="m")

    found = told(make(more=False), make(more=True))
    assert sorted(found) == [
        ("added", "add"),
        ("added", "aux"),
        ("added", "b"),
        ("outputs", "outputs"),
    ]


def test_shapes_below_a_wider_layer_follow():
    def make(units: int) -> keras.Model:
        return chain(dense("a"), dense("b", units), layers.ReLU(name="r"), dense("c"))

    assert told(make(4), make(6)) == [("config", "b")]


def test_one_option_of_one_layer():
    def make(**options: Any) -> keras.Model:
        return chain(dense("a"), dense("b", **options), dense("c"))

    for options in ({"dtype": "mixed_bfloat16"}, {"use_bias": False}, {"kernel_regularizer": "l2"}):
        assert told(make(), make(**options)) == [("config", "b")]


class Scaled(layers.Layer):
    """A layer with a sublayer, a loss, and a config that Keras makes."""

    def __init__(self, units=4, factor=1.0, activation="relu", **options):
        super().__init__(**options)
        self.factor = factor
        start = keras.initializers.GlorotUniform(3)
        self.inner = layers.Dense(units, activation=activation, kernel_initializer=start)

    def build(self, shape):
        self.inner.build(shape)

    def call(self, x):
        y = self.inner(x) * self.factor
        self.add_loss(ops.sum(y))
        return y


def test_layers_of_users():
    def make(**options: Any) -> keras.Model:
        return chain(dense("a"), Scaled(name="s", **options), dense("b"))

    assert told(make(), make()) == []
    for options in ({"factor": 2.0}, {"activation": "tanh"}):
        assert told(make(), make(**options)) == [("config", "s")]


def test_layers_whose_parts_were_built_for_another_shape():
    def make(steps: int) -> keras.Model:
        start = keras.Input((steps, 3), name="x")
        return keras.Model(start, layers.Bidirectional(layers.GRU(2), name="both")(start))

    model = make(4)
    longer = ramet.trace(model).with_inputs(shape=(5, 3)).build()
    again = make(5)
    again.set_weights(model.get_weights())
    for new, old in zip(again.variables, longer.variables, strict=True):
        new.assign(old)  # Seeds, too.
    assert told(longer, again) == []
    assert told(model, again) == [("config", "x")]


class Halves(layers.Layer):
    """A layer with two outputs."""

    def call(self, x):
        return x[:, :2], x[:, 2:]

    def compute_output_shape(self, shape):
        return (shape[0], 2), (shape[0], shape[1] - 2)


def test_outputs_that_change_places():
    def make(*, swapped: bool = False, joined: bool = False) -> keras.Model:
        start = keras.Input((4,), name="x")
        a, b = Halves(name="halves")(start)
        a, b = (b, a) if swapped else (a, b)
        a, b = dense("left")(a), dense("right")(b)
        return keras.Model(start, layers.Concatenate(name="c")([b, a] if joined else [a, b]))

    assert told(make(), make()) == []
    assert told(make(), make(swapped=True)) == [("arguments", "left"), ("arguments", "right")]
    assert told(make(), make(joined=True)) == [("arguments", "c")]


def test_functions():
    def closed(factor: float) -> keras.Model:
        return chain(dense("a"), layers.Lambda(lambda x: x * factor, name="f"))

    assert told(closed(2.0), closed(2.0)) == []
    assert told(closed(2.0), closed(3.0)) == [("config", "f")]
    functions = [lambda x: x * 2]
    functions += [lambda x: x * 2, lambda x: x * 3]  # The first again, on another line.
    first, again, other = (chain(layers.Lambda(f, name="f")) for f in functions)
    assert told(first, again) == []
    assert told(first, other) == [("config", "f")]


def test_constants_of_operations():
    def make(factor: float) -> keras.Model:
        start = keras.Input((4,), name="x")
        return keras.Model(start, dense("h")(ops.relu(dense("a")(start)) * factor))

    assert told(make(2.0), make(2.0)) == []
    (entry,) = ramet.diff(make(2.0), make(3.0))
    assert (entry.kind, entry.text) == ("arguments", "is called on 2.0, now 3.0")


def siamese() -> keras.Model:
    start = keras.Input((4,), name="start")
    encoder = keras.Model(start, dense("two")(dense("one")(start)), name="encoder")
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    return keras.Model([a, b], layers.Add(name="add")([encoder(a), encoder(b)]), name="siamese")


def test_an_encoder_that_is_used_twice():
    model = siamese()
    apart = ramet.trace(model).unshare("encoder").build()
    assert told(model, apart) == [("sharing", "encoder#2")]
    twin = apart.get_layer("encoder_1").get_layer("one")
    twin.bias.assign(twin.bias + 1)
    found = ramet.diff(model, apart)
    texts = {entry.where: entry.text for entry in found}
    assert texts["encoder/one"].endswith(" in 'encoder_1/one'")
    assert len(found) == 2
    half = ramet.trace(model).replace("encoder#2", layers.ReLU(name="r")).flatten().build()
    assert told(model, half) == [("inlined", "encoder"), ("replaced", "encoder")]


def test_one_of_two_equal_calls_becomes_another_layer():
    start = keras.Input((4,), name="x")
    shared = dense("shared")
    model = keras.Model(start, {"a": shared(start), "b": shared(start)})
    other = ramet.trace(model).replace("shared#2", layers.ReLU(name="r")).freeze("shared").build()
    assert told(model, other) == [("config", "shared"), ("sharing", "shared#2")]
    assert told(other, model) == [("config", "shared"), ("sharing", "r")]


def test_an_inlined_layer_is_split_and_one_half_is_trained():
    model = siamese()
    apart = ramet.trace(model).flatten().unshare("encoder_one").build()
    assert told(model, apart) == [("inlined", "encoder"), ("sharing", "encoder#2/one")]
    twin = apart.get_layer("encoder_one_1")
    twin.bias.assign(twin.bias + 1)
    assert told(model, apart) == [("inlined", "encoder"), ("sharing", "encoder#2/one")]


@keras.saving.register_keras_serializable("cases")
class Pair(keras.Model):
    """A model with a graph and a config of its own."""

    def __init__(self, name=None, **options):
        start = keras.Input((4,), name="begin")
        super().__init__(start, dense("two")(dense("one")(start)), name=name, **options)

    def get_config(self):
        return {"name": self.name}


@pytest.mark.parametrize("edit", ["nothing", "frozen", "bias", "one use less"])
def test_models_around_a_model_that_stays(edit):
    start = keras.Input((4,), name="start")
    pair = Pair(name="pair")
    ends = [layers.ReLU(name="r")(pair(start)), pair(pair(start))]
    outer = keras.Model(start, ends, name="outer")
    x = keras.Input((4,), name="x")
    model = keras.Model(x, outer(outer(x)[0]), name="m")
    graph = ramet.trace(model).flatten("outer")
    expected = [("inlined", "outer")]
    expected += [("removed", f"outer/pair#{number}") for number in (2, 3)]  # Nothing read them.
    if edit == "frozen":
        graph = graph.freeze("outer_pair/one")
        expected += [("class", "outer/pair"), ("config", "outer/pair/one")]
    elif edit == "bias":
        graph = graph.configure("outer_pair/one", use_bias=False)
        expected += [("class", "outer/pair"), ("config", "outer/pair/one")]
    elif edit == "one use less":
        graph = graph.remove("outer_r#2", reconnect="outer_r#1")
        expected += [("removed", "outer#2/pair"), ("removed", "outer#2/r")]
    assert sorted(told(model, graph.build())) == sorted(expected)


def test_outputs_change_places_while_all_is_renamed_and_a_model_is_edited():
    start = keras.Input((4,), name="x")
    ends = [Pair(name="pair")(start), layers.UnitNormalization(name="unit")(start)]
    model = keras.Model(start, ends, name="m")
    graph = ramet.trace(model).extract(outputs=["unit", "pair"]).prefix("p_")
    graph = graph.insert_after("p_pair/one", layers.LayerNormalization(name="norm"))
    expected = [("renamed", name) for name in ("pair", "unit", "x")]
    expected += [("added", "p_pair/norm"), ("class", "pair"), ("outputs", "outputs")]
    assert sorted(told(model, graph)) == sorted(expected)


def test_a_layer_inside_of_a_model_and_beside_it_is_compared_once():
    shared = dense("shared")
    start = keras.Input((4,), name="start")
    inner = keras.Model(start, shared(start), name="inner")
    x = keras.Input((4,), name="x")
    model = keras.Model(x, shared(inner(x)), name="outer")
    twin = ramet.clone(model)
    twin.get_layer("shared").bias.assign(ops.ones(4))
    assert told(model, twin) == [("weights", "shared")]


def sliced() -> keras.Model:
    start = keras.Input((6, 4), name="x")
    return keras.Model(start, dense("h")(start[:, 1:, ::2]), name="sliced")


@pytest.mark.parametrize("make", [siamese, convolutions, skips, sliced])
def test_files_and_copies(make, tmp_path: Path):
    model = make()
    model.save(tmp_path / "m.keras")
    assert told(model, keras.models.load_model(tmp_path / "m.keras")) == []
    assert told(model, ramet.clone(model)) == []
    assert told(model, keras.models.clone_model(model), weights=False) == []


FALSE = {
    "a layer that is not there": (("added", "nowhere", "Dense"), "no 'nowhere'"),
    "another class": (("removed", "b", "ReLU"), "ReLU"),
    "a name that is not there": (("renamed", "b", "now 'z'"), "no 'z'"),
    "weights that agree": (("weights", "a", "kernel differs in 1 of 16 values, by 1"), "kernel"),
    "too little": (None, "which no line says"),
}


@pytest.mark.parametrize("case", FALSE)
def test_the_judge_of_lines_can_fail(case):
    first, second = (chain(dense("a"), dense("b", use_bias=bias)) for bias in (True, False))
    line, message = FALSE[case]
    entries = [] if line is None else [Entry(*line)]
    with pytest.raises(AssertionError, match=message):
        Truth(first, second, entries).check()
