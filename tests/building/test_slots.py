"""Optimizer slots after edits: training goes on as if nothing had happened where nothing did."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops, optimizers

import ramet
from ramet.graph import Graph

X = np.random.default_rng(0).normal(size=(8, 6)).astype("float32")
Y = np.random.default_rng(1).normal(size=(8, 2)).astype("float32")


class ByPath(optimizers.Optimizer):
    """Keeps its slots in a dict, and one number for all."""

    def build(self, variables: list[Any]) -> None:
        if not self.built:
            super().build(variables)
            self.sums = {v.path: self.add_variable_from_reference(v, "sum") for v in variables}
            self.total = self.add_variable((), name="total")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)  # on TensorFlow, the variable is its own
        slot = self.sums[self._trainable_variables[index].path]
        self.assign_add(slot, ops.cast(gradient, slot.dtype))
        self.assign_add(self.total, ops.cast(1, self.total.dtype))
        self.assign_sub(variable, ops.cast(learning_rate * slot, variable.dtype))


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optimizers.SGD(0.01, momentum=0.9, nesterov=True),
    "adam": lambda: optimizers.Adam(0.01, amsgrad=True),
    "adafactor": lambda: optimizers.Adafactor(0.01),
    "ftrl": lambda: optimizers.Ftrl(0.01),
    "lion": lambda: optimizers.Lion(0.01),
    "lamb": lambda: optimizers.Lamb(0.01),
    "muon": lambda: optimizers.Muon(0.01),
    "nadam": lambda: optimizers.Nadam(0.01),
    "averages": lambda: optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=2),
    "accumulated": lambda: optimizers.Adam(0.01, gradient_accumulation_steps=2),
    "scaled": lambda: optimizers.LossScaleOptimizer(
        optimizers.Adam(0.01), initial_scale=8.0, dynamic_growth_steps=2
    ),
    "custom": lambda: ByPath(0.01),
}

EXACT: dict[str, Callable[[Graph], Graph]] = {
    "several": lambda g: g.rename({"first": "start"}).flatten().insert_after("start", _same()),
    "configure": lambda g: (
        g.configure("encoder/inner", weights="grow").freeze("out").unfreeze("out")
    ),
    "replace": lambda g: g.replace("first", layers.Dense(4, activation="tanh", name="other")),
}


def _same() -> keras.Layer:
    return layers.Identity(name="same")


def trained(optimizer: Any) -> keras.Model:
    keras.utils.set_random_seed(0)
    x = keras.Input((6,), name="x")
    y = layers.Dense(4, activation="tanh", name="first")(x)
    shared = layers.Dense(4, name="shared")
    y = keras.Sequential([keras.Input((4,)), layers.Dense(4, name="inner")], name="encoder")(
        shared(shared(y))
    )
    model = keras.Model(x, layers.Dense(2, name="out")(y), name="net")
    model.compile(optimizer, "mse")
    for _ in range(3):
        model.train_on_batch(X, Y)
    return model


@pytest.mark.sampled
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_goes_on_as_if_nothing_had_happened(name: str) -> None:
    model = trained(OPTIMIZERS[name]())
    graphs = {edit: change(ramet.trace(model)) for edit, change in EXACT.items()}
    twins = {edit: graph.build() for edit, graph in graphs.items()}
    expected = [float(model.train_on_batch(X, Y)) for _ in range(3)]
    for edit, twin in twins.items():
        report = graphs[edit].transfer_report().optimizer
        assert "slots kept" in report, edit
        assert "new" not in report, (edit, report)
        assert [float(twin.train_on_batch(X, Y)) for _ in range(3)] == expected, edit


@pytest.mark.sampled
def test_slots_of_a_custom_optimizer_move_with_their_variables() -> None:
    model = trained(ByPath(0.01))
    old: Any = model.optimizer
    graph = ramet.trace(model).configure("first", units=6, weights="grow")
    graph = graph.configure("shared", units=6, weights="grow")
    graph = graph.configure("encoder/inner", weights="grow")
    report = graph.transfer_report().optimizer
    assert report == "bypath: 3 slots kept, 5 moved with their variables"
    new: Any = graph.build().optimizer
    before, now = (ops.convert_to_numpy(each.sums["first/kernel"]) for each in (old, new))
    assert (now[:, :4] == before).all()
    assert not now[:, 4:].any()
    assert float(new.total) == float(old.total)
