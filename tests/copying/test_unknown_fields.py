"""Private fields that only a new version of Keras has are copied, or refused: never wrong."""

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet import keras_internals as internals
from ramet.errors import CopyError


def compiled():
    x = keras.Input((3,), name="x")
    net = keras.Model(x, layers.Dense(2, name="dense")(x), name="net")
    net.compile("adam", "mse")
    net.train_on_batch(np.ones((4, 3)), np.ones((4, 2)))
    return net


OWNERS = {
    "Functional": lambda net: net,
    "Layer": lambda net: net.get_layer("dense"),
    "Tracker": lambda net: vars(net.get_layer("dense"))["_tracker"],
    "Variable": lambda net: net.get_layer("dense").kernel,
    "Optimizer": lambda net: net.optimizer,
    "Node": lambda net: internals.calls_of(net.get_layer("dense"))[0],
    "KerasTensor": lambda net: net.outputs[0],
}


@pytest.fixture
def unknown(monkeypatch):
    """A Keras with a field `_novel` that ramet does not know."""
    monkeypatch.setattr(internals, "unknown_fields", lambda: {"_novel": "Layer"})


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
@pytest.mark.parametrize(
    "field",
    [
        lambda x: id(x),
        lambda x: [1, (id(x),)],
        lambda x: {f"{id(x)}_ib-0"},
        lambda x: {"seen": {id(x): 1}},
    ],
    ids=["number", "list", "text", "dict"],
)
def test_an_id_in_an_unknown_field_is_refused(owner, field):
    net = compiled()
    vars(owner(net))["_novel"] = field(net.get_layer("dense"))
    with pytest.raises(
        CopyError, match="its private field '_novel', which is new in Keras"
    ) as error:
        ramet.clone(net)
    assert "holds the id of an object" in str(error.value)
    assert "install a newer ramet" in str(error.value)


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("name", ["Functional", "Layer", "Tracker", "Variable"])
def test_an_edited_model_is_checked_too(name):
    net = compiled()
    vars(OWNERS[name](net))["_novel"] = id(net.get_layer("dense"))
    edited = ramet.trace(net).insert_after("dense", layers.ReLU(name="relu"))
    with pytest.raises(CopyError, match="its private field '_novel'"):
        edited.build()


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_anything_else_in_an_unknown_field_is_copied(owner):
    net = compiled()
    dense = net.get_layer("dense")
    vars(owner(net))["_novel"] = [None, 3, 2**70, -1, "text 1234567890", {"layer": dense}, (dense,)]
    twin = ramet.clone(net)
    *plain, table, pair = vars(owner(twin))["_novel"]
    assert plain == [None, 3, 2**70, -1, "text 1234567890"]
    assert table["layer"] is pair[0] is twin.get_layer("dense")


@pytest.mark.usefixtures("unknown")
def test_a_shared_variable_keeps_its_id():
    net = compiled()
    dense = net.get_layer("dense")
    vars(dense)["_novel"] = {id(dense.kernel): "kernel"}
    twin = ramet.clone(net, weights="share").get_layer("dense")
    assert vars(twin)["_novel"] == {id(twin.kernel): "kernel"}


def test_on_a_tested_version_nothing_is_searched():
    if internals.unknown_fields():
        pytest.skip("this Keras is untested")
    net = compiled()
    vars(net.get_layer("dense"))["_novel"] = id(net)
    assert vars(ramet.clone(net).get_layer("dense"))["_novel"] == id(net)


class Counting(keras.optimizers.SGD):
    """An optimizer that finds something by the ids of variables, in fields of its own."""

    def build(self, variables):
        super().build(variables)
        self.steps = {id(variable): 0 for variable in variables}
        self.frozen = {id(variables[0])}

    def update_step(self, gradient, variable, learning_rate):
        if id(variable) not in self.frozen:
            super().update_step(gradient, variable, learning_rate)


def test_what_an_optimizer_keys_by_variables_is_keyed_by_the_copies():
    x = keras.Input((3,), name="x")
    net = keras.Model(x, layers.Dense(2, name="dense")(x))
    net.compile(Counting(0.5), "mse", run_eagerly=True)
    net.train_on_batch(np.ones((4, 3)), np.ones((4, 2)))
    twin = ramet.clone(net)
    kernel, bias = (id(variable) for variable in twin.trainable_variables)
    assert twin.optimizer.steps == {kernel: 0, bias: 0}
    assert twin.optimizer.frozen == {kernel}
    for each in (net, twin):
        each.train_on_batch(np.ones((4, 3)), np.ones((4, 2)))
    assert ramet.verify(net, twin, only="state")
