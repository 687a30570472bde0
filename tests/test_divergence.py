"""Where two models part: the first call whose inputs agree and whose outputs do not."""

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet.comparing.running.run import Interpreter

pytestmark = pytest.mark.sampled


def random_graph(seed: int) -> keras.Model:
    """A random network of dense layers, sums and products, with skips and shared layers."""
    rng = np.random.default_rng(seed)
    x = keras.Input((4,), name="x")
    tensors, made = [x], []
    for number in range(int(rng.integers(4, 9))):
        given = [tensors[i] for i in rng.integers(0, len(tensors), 2)]
        kind = rng.integers(0, 4)
        if kind == 0:
            y = layers.Add(name=f"add{number}")(given)
        elif kind == 1 and made:
            y = made[int(rng.integers(0, len(made)))](given[0])
        else:
            made.append(layers.Dense(4, activation="tanh", name=f"dense{number}"))
            y = made[-1](given[0])
        tensors.append(y)
    made.append(layers.Dense(4, name="last"))
    y = made[-1](layers.Concatenate(name="all")(tensors[1:]))
    return keras.Model(x, y, name=f"random{seed}")


def first_use(model, name) -> str:
    """The first call of a layer, in data order."""
    calls = ramet.trace(model).calls.values()
    return next(call.name for call in calls if call.layer == name)


@pytest.mark.parametrize("start", range(0, 100 if keras.backend.backend() == "torch" else 40, 20))
def test_one_perturbed_layer_is_named_every_time(start):
    for seed in range(start, start + 20):
        model = random_graph(seed)
        twin = ramet.clone(model)
        dense = [layer for layer in twin.layers if isinstance(layer, layers.Dense)]
        victim = dense[seed % len(dense)]
        victim.kernel.assign(victim.kernel + 0.5)
        found = ramet.verify(model, twin).first_divergence
        assert found is not None, seed
        assert found.call == first_use(model, victim.name), (seed, found)
        assert (found.cause, found.detail) == ("weights", "kernel differs")
        assert "differs in" in found.difference


def masked() -> keras.Model:
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 3, mask_zero=True, name="embedding")(tokens)
    y = layers.GRU(3, return_sequences=True, name="gru")(x)
    y = layers.BatchNormalization(name="norm")(y)
    return keras.Model(tokens, layers.GlobalAveragePooling1D(name="pool")(y), name="masked")


TOKENS = np.array([[1, 2, 0, 0, 0], [3, 4, 5, 6, 7]])


def test_equal_models_do_not_diverge():
    model = masked()
    report = ramet.verify(model, ramet.clone(model))
    assert report.ok
    assert report.first_divergence is None


def test_causes_are_told_apart():
    model = masked()
    graph = ramet.trace(model)

    def found(other):
        return ramet.verify(model, other, inputs=TOKENS).first_divergence

    config = found(graph.configure("gru", activation="relu").build())
    assert (config.call, config.cause) == ("gru", "structure")
    kind = found(graph.replace("gru", layers.LSTM(3, return_sequences=True, name="gru")).build())
    assert (kind.call, kind.cause) == ("gru", "structure")
    state = ramet.clone(model)
    state.get_layer("norm").moving_mean.assign([1.0, 2.0, 3.0])
    assert (found(state).call, found(state).cause) == ("norm", "state")
    off = found(graph.configure("embedding", mask_zero=False).build())
    assert (off.call, off.cause) == ("gru", "mask")
    missing = found(graph.remove("norm").build())
    assert (missing.call, missing.cause) == ("norm", "structure")


def test_other_arguments_are_a_cause():
    x = keras.Input((3,), name="x")
    y = layers.Dense(3, name="y")(x)
    model = keras.Model(x, layers.Subtract(name="s")([x, y]))
    other = ramet.trace(model).rewire("s", 0, "y").rewire("s", 1, "x").build()
    found = ramet.verify(model, other).first_divergence
    assert (found.call, found.cause) == ("s", "arguments")


def test_the_path_leads_into_nested_models():
    inner_x = keras.Input((4,), name="inner_x")
    inner = layers.Dense(4, name="two")(layers.Dense(4, name="one")(inner_x))
    inner = keras.Model(inner_x, inner, name="inner")
    x = keras.Input((4,), name="x")
    model = keras.Model(x, layers.Dense(2, name="head")(inner(x)))
    twin = ramet.clone(model)
    twin.get_layer("inner").get_layer("two").bias.assign(np.ones(4))
    found = ramet.verify(model, twin).first_divergence
    assert found.call == "inner/two"
    assert found.detail == "bias differs"


def test_tolerances():
    model = masked()
    twin = ramet.clone(model)
    kernel = twin.get_layer("gru").weights[0]
    kernel.assign(kernel + 1e-6)
    assert not ramet.verify(model, twin).check("outputs").ok
    near = ramet.verify(model, twin, rtol=1e-3, atol=1e-4)
    assert near.check("outputs").ok
    assert near.first_divergence is None


def test_an_edited_graph_is_compared_where_no_edit_reaches():
    model = masked()
    graph = ramet.trace(model).configure("norm", epsilon=0.5)
    report = ramet.verify(model, graph)
    assert report.ok
    assert "configure 'norm'" in str(report)
    assert "that no edit reaches" in str(report)
    model.get_layer("gru").weights[0].assign(model.get_layer("gru").weights[0] * 2)
    other = ramet.verify(ramet.clone(model, weights="fresh", seed=1), graph)
    assert not other.ok
    assert other.first_divergence.call == "embedding"


def test_values_are_freed_when_no_longer_needed(monkeypatch):
    x = keras.Input((4,), name="x")
    y = x
    for number in range(30):
        y = layers.Dense(4, name=f"d{number}")(y)
    model = keras.Model(x, y)
    twin = ramet.clone(model)
    twin.get_layer("d29").bias.assign(np.ones(4))
    most = 0
    step = Interpreter.step

    def counted(self, call):
        nonlocal most
        most = max(most, len(self.values))
        return step(self, call)

    monkeypatch.setattr(Interpreter, "step", counted)
    assert ramet.verify(model, twin).first_divergence.call == "d29"
    assert 0 < most <= 3


def test_neither_model_is_changed():
    model = masked()
    twin = ramet.clone(model)
    twin.get_layer("gru").weights[0].assign(twin.get_layer("gru").weights[0] * 2)
    before = [m.get_weights() for m in (model, twin)]
    calls = [len(layer._inbound_nodes) for layer in model.layers]
    ramet.verify(model, twin)
    for values, m in zip(before, (model, twin), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(values, m.get_weights(), strict=True))
    assert [len(layer._inbound_nodes) for layer in model.layers] == calls
