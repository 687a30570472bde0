"""Layers that no output needs any more: the new model has nothing of them, on any backend."""

from collections.abc import Callable
from typing import Any

import h5py
import keras
import numpy as np
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.sampled

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


def encoder() -> Any:
    x = keras.Input((4,), name="x")
    a = layers.Dense(4, name="a")(x)
    c = layers.Dense(4, name="c")(layers.Dense(4, name="b")(a))
    return keras.Model(x, layers.Add(name="s")([a, c]), name="enc")


def chain() -> Any:
    dense = [layers.Dense(4, name=name) for name in "abc"]
    return keras.Sequential([keras.Input((4,), name="x"), *dense], name="enc")


def around(make: Callable[[], Any]) -> Any:
    start = keras.Input((4,), name="in")
    return keras.Model(start, layers.Dense(2, name="head")(make()(start)), name="outer")


EDITS = {
    "reconnect": lambda g, at: g.remove(f"{at}c", reconnect=f"{at}a"),
    "rewire": lambda g, at: g.rewire(f"{at}c", 0, f"{at}x"),
    "block": lambda g, at: g.replace((f"{at}a", f"{at}c"), layers.ReLU(name="r")),
    "remove": lambda g, at: g.remove(f"{at}b"),
    "share": lambda g, at: g.share(f"{at}a", f"{at}b"),
}


def backend_paths(model: Any, tmp_path: Any) -> int:
    """Returns how many variables the backend finds in a model by its own ways."""
    if keras.backend.backend() == "torch":
        return len({id(parameter) for parameter in model.parameters()})
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        path = tf.train.Checkpoint(model=model).write(str(tmp_path / "checkpoint"))
        found = tf.train.list_variables(path)
        return sum("VARIABLE_VALUE" in name for name, _ in found)
    return len(model.weights)


def saved_count(model: Any, tmp_path: Any) -> int:
    model.save_weights(tmp_path / "model.weights.h5")
    found: list[str] = []
    with h5py.File(tmp_path / "model.weights.h5") as file:
        file.visititems(lambda name, at: found.append(name) if hasattr(at, "shape") else None)
    return len(found)


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("make", [encoder, chain])
@pytest.mark.parametrize("nested", [False, True, "given", "unshared"])
def test_nothing_is_left_behind(
    make: Any, edit: str, nested: Any, backend: str, tmp_path: Any
) -> None:
    model = around(make) if nested else make()
    graph, at = ramet.trace(model), "enc/" if nested else ""
    if nested == "given":
        graph = ramet.trace(around(lambda: layers.ReLU(name="first"))).insert_after("first", make())
    elif nested == "unshared":
        start, inner = keras.Input((4,), name="in"), make()
        twice = keras.Model(start, inner(inner(start)), name="twice")
        graph, at = ramet.trace(twice).unshare("enc"), "enc_1/"
    made = EDITS[edit](graph, at).build()
    inner = made.get_layer(at[:-1]) if at else made
    names = {layer.name for layer in inner.layers}
    gone = {"reconnect": {"b", "c"}, "rewire": {"b"}, "block": {"b", "c"}}.get(edit, {"b"})
    if (make, edit) == (chain, "rewire"):
        gone = {"a", "b"}
    assert names.isdisjoint(gone)
    count = 2 * (3 - len(gone))
    assert len(inner.weights) == count
    count += {False: 0, True: 2, "given": 2, "unshared": 6}[nested]
    assert len(made.weights) == count
    # PyTorch's list goes by path, and two models with layers of the same names have the same.
    by_path = len({weight.path for weight in made.weights})
    assert backend_paths(made, tmp_path) == (by_path if backend == "torch" else count)
    assert saved_count(made, tmp_path) == count
    made.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    found, want = (keras.ops.convert_to_numpy(each(X)) for each in (again, made))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_a_nested_model_is_compiled_again_without_what_is_gone() -> None:
    model = around(encoder)
    inner = model.get_layer("enc")
    inner.compile("adam", "mse")
    inner.fit(X, X, verbose=0)
    made = ramet.trace(model).remove("enc/c", reconnect="enc/a").build().get_layer("enc")
    assert made.compiled
    assert made.optimizer is not inner.optimizer
    made.fit(X, X, verbose=0)
    # A step and a rate, and two moments for each of two weights.
    assert len(made.optimizer.variables) == 2 + 2 * 2
    made = ramet.trace(model).insert_after("head", layers.ReLU()).build().get_layer("enc")
    assert len(made.optimizer.variables) == 2 + 2 * 6


def test_pytorch_lists_layers_under_their_new_names(backend: str) -> None:
    model = around(encoder)
    if backend == "torch":
        assert [*model.named_parameters()]
        made = ramet.trace(model).flatten().rename({"head": "tail"}).build()
        found = {name.rpartition(".")[2] for name, _ in made.named_parameters()}
        assert found == {weight.path for weight in made.weights}
        by_id = {id(value) for _, value in made.named_parameters()}
        assert by_id == {id(weight.value) for weight in made.weights}
