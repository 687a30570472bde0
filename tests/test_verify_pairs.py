"""`verify` of models that are made otherwise: what belongs together, and what every line says."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from verifypairs import check_pair, pairs

pytestmark = [pytest.mark.sampled, pytest.mark.filterwarnings("ignore")]


def chain(*parts, name="net") -> keras.Model:
    inputs = keras.Input((4,), name="x")
    x = inputs
    for layer in parts:
        x = layer(x)
    return keras.Model(inputs, x, name=name)


def two_layers(*, dropout: bool = False) -> keras.Model:
    between = [layers.Dropout(0.5, name="drop", seed=1)] if dropout else []
    return chain(layers.Dense(5, activation="relu", name="a"), *between, layers.Dense(3, name="b"))


def with_weights_of(model: keras.Model, source: keras.Model) -> keras.Model:
    for layer in source.layers:
        if layer.weights:
            model.get_layer(layer.name).set_weights(layer.get_weights())
    return model


def nested() -> keras.Model:
    start = keras.Input((4,), name="start")
    inside = layers.Dense(4, name="two")(layers.Dense(4, name="one")(start))
    inner = keras.Model(start, inside, name="inner")
    x = keras.Input((4,), name="x")
    return keras.Model(x, layers.Dense(2, name="head")(inner(x)), name="outer")


def lines(report, name) -> tuple[str, ...]:
    return report.check(name).differences


# --- what belongs together -----------------------------------------------------------


def test_a_model_with_one_more_dropout_has_the_same_outputs():
    model = two_layers()
    other = with_weights_of(two_layers(dropout=True), model)
    report = ramet.verify(model, other)
    assert lines(report, "structure") == ("layer 'drop' (Dropout) is in the second model only",)
    assert lines(report, "state") == ("variable 'drop/seed' is in the second model only",)
    assert report.check("outputs").ok
    assert not report.check("training").ok
    found = report.first_divergence
    assert (found.call, found.cause, found.training) == ("drop", "structure", True)
    assert ramet.verify(model, other, only=("outputs", "sharing")).ok


def test_an_inlined_model_is_the_same_function():
    model = nested()
    flat = ramet.trace(model).flatten()
    line = "nested model 'inner' of the first model is inlined in the second"
    built = ramet.verify(model, flat.build())
    assert lines(built, "structure") == (line,)
    assert all(built.check(each).ok for each in ("sharing", "state", "outputs", "training"))
    graph = ramet.verify(model, flat)
    assert graph.ok
    assert graph.check("structure").expected == (line,)
    assert graph.check("structure").verdict == "expected"
    assert "the same but for the edits" in graph.title
    back = ramet.verify(flat.build(), model)
    assert lines(back, "structure") == (line.replace("first", "2nd").replace("second", "first")
                                        .replace("2nd", "second"),)  # fmt: skip


def test_names_that_keras_counts_are_one_line():
    def made():
        inputs = keras.Input((4,))
        return keras.Model(inputs, layers.Dense(3)(layers.Dense(5)(inputs)))

    model, other = made(), made()
    other.set_weights(model.get_weights())
    report = ramet.verify(model, other)
    (line,) = lines(report, "structure")
    assert line.startswith("3 automatic names differ: e.g. 'input_layer")
    assert ramet.verify(model, other, only=("sharing", "state", "outputs", "training")).ok
    named = ramet.trace(model).rename({model.layers[1].name: "mine"}).build()
    renamed = f"layer '{model.layers[1].name}' has name '{model.layers[1].name}' and 'mine'"
    assert lines(ramet.verify(model, named), "structure") == (renamed,)


def test_numbers_that_somebody_chose_are_names():
    first, second = (chain(layers.Dense(3, name=f"block_{n}")) for n in (1, 2))
    found = lines(ramet.verify(first, second), "structure")
    assert found == ("layer 'block_1' has name 'block_1' and 'block_2'",)


class Net(keras.Model):
    """A model without a graph, whose attributes are set in any order."""

    def __init__(self, *, turned: bool = False, scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        parts = {"a": layers.Dense(5, activation="relu"), "b": layers.Dense(3)}
        for name in sorted(parts, reverse=turned):
            setattr(self, name, parts[name])
        self._scale = scale

    def call(self, x):
        return self.b(self.a(x)) * self._scale


def called(net: Net, source: keras.Model) -> Net:
    net(np.zeros((1, 4), "float32"))
    for name in ("a", "b"):
        getattr(net, name).set_weights(source.get_layer(name).get_weights())
    return net


def test_models_without_graphs_are_paired_by_attributes():
    model = two_layers()
    first, second = called(Net(), model), called(Net(turned=True), model)
    report = ramet.verify(first, second)
    assert report.check("state").ok
    assert report.check("outputs").ok
    second.b.bias.assign(np.ones(3))
    report = ramet.verify(first, second)
    (line,) = lines(report, "state")
    assert line.startswith("variable 'b/bias' differs in 3 of 3 values")
    assert (report.first_divergence.call, report.first_divergence.detail) == ("b", "bias differs")
    scaled = ramet.verify(first, called(Net(scale=2.0), model)).first_divergence
    assert scaled is None or "_scale" in scaled.detail
    assert "the model has _scale 1.0 and 2.0" in str(
        lines(ramet.verify(first, called(Net(scale=2.0), model)), "structure")
    )


def test_a_model_with_a_graph_and_one_without():
    model = two_layers()
    net = called(Net(), model)
    for pair in ((model, net), (net, model)):
        assert ramet.verify(*pair, only="outputs").ok
        report = ramet.verify(*pair)
        assert report.check("state").ok
        assert any("has a graph" in line for line in lines(report, "structure"))


def test_shared_layers_are_named():
    one = layers.Dense(4, name="a")
    tied = chain(one, layers.ReLU(name="relu"), one)
    untied = chain(layers.Dense(4, name="a"), layers.ReLU(name="relu"), layers.Dense(4, name="b"))
    assert lines(ramet.verify(tied, untied), "sharing") == (
        "layer 'a' is one in the first model, and 2 in the second: 'a', 'b'",
    )
    assert lines(ramet.verify(untied, tied), "sharing") == (
        "layer 'a' is one in the second model, and 2 in the first: 'a', 'b'",
    )


# --- state ---------------------------------------------------------------------------


def trained() -> keras.Model:
    model = two_layers()
    model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
    model.fit(np.ones((2, 4)), np.zeros((2, 3)), verbose=0)
    return model


def test_slots_are_named_by_their_variables_and_metrics_by_name():
    model = trained()
    twin = ramet.clone(model)
    twin.optimizer._momentums[1].assign(np.ones(5))
    twin.optimizer.iterations.assign(9)
    twin.metrics[1].variables[0].assign(7.0)
    found = lines(ramet.verify(model, twin), "state")
    starts = (
        "metric 'm",
        "optimizer variable 'iterations' differs in 1 of 1",
        "optimizer variable 'momentums of a/bias' differs in 5 of 5",
    )
    assert len(found) == len(starts)
    assert all(line.startswith(start) for line, start in zip(found, starts, strict=True)), found
    assert "/total' differs in 1 of 1" in found[0]


def test_what_a_call_updates_is_named_and_tolerated():
    def normalized(momentum):
        return chain(layers.BatchNormalization(momentum=momentum, name="bn"))

    report = ramet.verify(normalized(0.9), normalized(0.8), only="training")
    assert [line.split(" differs")[0] for line in lines(report, "training")] == [
        "updated variable 'bn/moving_mean'",
        "updated variable 'bn/moving_variance'",
    ]
    assert ramet.verify(normalized(0.9), normalized(0.9 + 1e-7), only="training", atol=1e-4).ok


def test_compilation_is_named():
    model = trained()
    twin = ramet.clone(model)
    twin.compile(keras.optimizers.Adam(0.2), "mae", metrics=["mae"])
    found = lines(ramet.verify(model, twin), "structure")
    assert "the model was compiled with loss 'mse' and 'mae'" in found
    assert any("compiled with optimizer.learning_rate 0.1" in line for line in found), found


# --- attributes ----------------------------------------------------------------------


class Block(layers.Layer):
    """A custom layer with a private number, a list, and two layers inside."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._by = 2.0
        self.offsets = [0.0, 1.0]
        self.first, self.last = layers.Dense(4), layers.Dense(4)

    def build(self, shape):
        self.first.build(shape)
        self.last.build(shape)

    def call(self, x):
        return self.last(ops.sin(self.first(x)) * self._by) + sum(self.offsets)


def scaled(by, default=0.0):
    def function(x, add=default):
        return x * by + add

    return chain(layers.Lambda(function, name="lambda"))


def change(layer, name, value):
    setattr(layer, name, value)


CHANGED = {
    "private": (lambda b: change(b, "_by", 3.0), "block", {"_by", "2.0", "3.0"}),
    "list": (lambda b: change(b, "offsets", [0.0, 2.0]), "block", {"offsets", "[0.0,", "2.0]"}),
    "function": (
        lambda b: change(b.first, "activation", keras.activations.relu),
        "block/first",
        {"activation", "linear", "relu"},
    ),
    "weight": (lambda b: b.last.bias.assign(np.ones(4)), "block/last", {"bias", "differs"}),
}


@pytest.mark.parametrize("what", CHANGED)
def test_what_was_set_by_hand_is_found_by_the_call_that_parts(what):
    model = chain(layers.Dense(4, name="before"), Block(name="block"), layers.ReLU(name="after"))
    twin = ramet.clone(model)
    damage, call, words = CHANGED[what]
    damage(twin.get_layer("block"))
    for pair in ((model, twin), (twin, model)):
        found = ramet.verify(*pair).first_divergence
        assert found.call == call
        assert words <= {*found.detail.split()}, found


def test_functions_are_compared_by_what_they_take_from_around():
    assert ramet.verify(scaled(2.0), scaled(2.0)).ok
    for other, text in (
        (scaled(3.0), "closure 'by' of function 2.0 and 3.0"),
        (scaled(2.0, 1.0), "default of 'add' of function 0.0 and 1.0"),
    ):
        report = ramet.verify(scaled(2.0), other)
        assert lines(report, "structure") == (f"layer 'lambda' has {text}",)
        assert (report.first_divergence.call, report.first_divergence.detail) == ("lambda", text)


def test_cells_and_dtypes_and_seeds_are_found():
    def recurrent(**options):
        inputs = keras.Input((3, 2), name="x")
        cell = layers.GRUCell(2, kernel_initializer="ones", name="cell", **options)
        return keras.Model(inputs, layers.RNN(cell, name="rnn")(inputs), name="net")

    found = ramet.verify(recurrent(), recurrent(activation="relu")).first_divergence
    assert (found.call, found.detail) == ("rnn", "cell: activation tanh and relu")
    first, second = (
        chain(layers.Dense(4, name="d", kernel_initializer="ones", dtype=dtype))
        for dtype in ("float32", "mixed_bfloat16")
    )
    report = ramet.verify(first, second)
    assert "layer 'd' has dtype 'float32' and 'mixed_bfloat16'" in lines(report, "structure")
    assert report.first_divergence.call == "d"
    seeded = [
        chain(layers.Dense(4, name="d", kernel_initializer="ones"),
              layers.Dropout(0.5, seed=seed, name="drop"))
        for seed in (1, 2)
    ]  # fmt: skip
    report = ramet.verify(*seeded)
    assert report.check("outputs").ok
    found = report.first_divergence
    assert (found.call, found.training) == ("drop", True)


# --- failures, choices, and what is compared -----------------------------------------


class Fails(layers.Layer):
    broken = False

    def call(self, x):
        if self.broken:
            message = "boom"
            raise ValueError(message)
        return x


def test_the_layer_that_fails_is_named():
    model = chain(layers.Dense(4, name="a"), Fails(name="fails"))
    twin = ramet.clone(model)
    twin.get_layer("fails").broken = True
    expected = "model fails in layer 'fails': ValueError: boom"
    assert lines(ramet.verify(model, twin), "outputs") == (f"the second {expected}",)
    assert lines(ramet.verify(twin, model), "outputs") == (f"the first {expected}",)
    data = np.ones((2, 4), "float32")
    assert lines(ramet.verify(model, twin, inputs=data), "outputs") == (f"the second {expected}",)
    assert ramet.verify(model, twin).first_divergence.call == "fails"
    with pytest.raises(ValueError, match="boom"):
        ramet.verify(twin, twin, inputs=data)


def test_outputs_are_named():
    def headed(**heads):
        inputs = keras.Input((4,), name="x")
        made = {key: layers.Dense(1, name=name, kernel_initializer="ones")(inputs)
                for key, name in heads.items()}  # fmt: skip
        return keras.Model(inputs, made, name="net")

    report = ramet.verify(headed(one="p", two="q"), headed(one="p", three="q"))
    assert lines(report, "outputs") == (
        "output 'two' is in the first model only",
        "output 'three' is in the second model only",
    )
    first = two_layers()
    report = ramet.verify(first, ramet.clone(first, weights="fresh", seed=3))
    assert lines(report, "outputs")[0].startswith("output 'b' differs in 6 of 6 values")


def test_a_choice_of_aspects():
    model = two_layers()
    twin = ramet.clone(model, weights="fresh", seed=1)
    report = ramet.verify(model, twin, only="structure")
    assert [check.name for check in report.checks] == ["structure"]
    assert report.ok
    assert not ramet.verify(model, twin, only="state").ok
    chosen = ramet.verify(model, twin, only=["outputs", "structure"])
    assert [check.name for check in chosen.checks] == ["structure", "outputs"]
    with pytest.raises(ramet.RametError, match=r"unknown only='output'; .* mean 'outputs'\?"):
        ramet.verify(model, twin, only="output")
    with pytest.raises(ramet.RametError, match="leaves nothing to compare"):
        ramet.verify(model, twin, only=())


def test_tolerance_is_the_same_in_both_orders():
    first, second = (
        chain(layers.Dense(4, name="d", kernel_initializer=keras.initializers.Constant(value)))
        for value in (1.0, 1.1)
    )
    for rtol, ok in ((0.092, True), (0.09, False)):
        for pair in ((first, second), (second, first)):
            assert ramet.verify(*pair, only="outputs", rtol=rtol).ok is ok


def test_graphs_and_paths_on_both_sides(tmp_path):
    model = nested()
    graph = ramet.trace(model)
    path = tmp_path / "model.keras"
    model.save(path)
    for pair in ((graph, model), (graph, graph), (str(path), path), (graph, path), (path, model)):
        assert ramet.verify(*pair, only=("state", "outputs")).ok
    edited = graph.configure("head", activation="relu")
    for pair in ((model, edited), (edited, model), (graph, edited), (edited, path)):
        report = ramet.verify(*pair)
        assert report.ok, report
        assert report.check("structure").verdict == "expected"
        assert not ramet.verify(*pair, only="structure").ok
    other = ramet.clone(model, weights="fresh", seed=1)
    assert not ramet.verify(edited, other).ok
    assert ramet.verify(edited, edited).ok


# --- random pairs --------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4, 9))
def test_random_pairs(seed):
    for what, first, second, given in pairs(seed):
        report = check_pair(first, second, given)
        check_kind(what, report)


def check_kind(what, report):
    """What must be said of a clone, of the same code, and of an inlined model."""
    if what == "clone":
        assert report.ok, report
    if what in ("rebuilt", "flat"):
        word = {"rebuilt": " automatic name", "flat": " is inlined in "}[what]
        assert report.check("outputs").ok, report
        assert all(word in line for line in lines(report, "structure")), report
        # Seeds that nobody chose are drawn anew.
        assert all("/seed'" in line for line in lines(report, "state")), report
