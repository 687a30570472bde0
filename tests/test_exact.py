"""The judges judged: each helper accepts two equal models and rejects a damaged twin."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import exact
from zoo import CASES

SINGLE = CASES["structure-single"]
EQUAL = [
    "compiled-sgd_momentum",
    "nesting-layer_shared_with_nested",
    "recurrent-embedding_mask_lstm",
    "state-own_seed_generators",
    "structure-nested_dict",
    "subclass-containers",
]


def twice(build: Callable[[], Any]) -> tuple[Any, Any]:
    """Build a model two times, with the same names and the same random numbers."""

    def once() -> Any:
        keras.backend.clear_session(free_memory=False)
        keras.utils.set_random_seed(3)
        return build()

    return once(), once()


def small(*, name: str = "hidden", seed: int = 1, optional: bool = False) -> keras.Model:
    x = keras.Input((3,), name="x", optional=optional)
    y = layers.Dropout(0.5, seed=seed, name="drop")(layers.Dense(4, name=name)(x))
    model = keras.Model(x, layers.Dense(2, name="out")(y), name="small")
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9, name="sgd"), "mse", metrics=["mae"])
    return model


def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(4, 3)).astype("float32"), rng.normal(size=(4, 2)).astype("float32")


@pytest.mark.parametrize("name", EQUAL)
def test_equal_models_pass(name: str, tmp_path: Path) -> None:
    case, (x, y) = CASES[name], CASES[name].data()
    a, b = twice(case.build)
    exact.assert_untouched(exact.fingerprint(a), exact.fingerprint(a))
    exact.assert_same_structure(a, b)
    exact.assert_same_state(a, b)
    exact.assert_same_sharing(a, b)
    exact.assert_disjoint(a, b)
    exact.assert_same_after_saving(a, b, tmp_path, case)
    exact.assert_same_inference(a, b, x)
    exact.assert_same_outputs(a, b, x)
    if y is not None:
        exact.assert_same_training(a, b, x, y)
    exact.assert_independent(a, b, x, y)


# --- untouched -----------------------------------------------------------------------

TOUCHES: dict[str, Callable[[Any], Any]] = {
    "a call of a layer": lambda m: m.get_layer("hidden")(keras.Input((3,), name="again")),
    "a flag": lambda m: setattr(m.get_layer("hidden"), "trainable", False),
    "an attribute": lambda m: setattr(m, "note", 1),
    "a weight": lambda m: m.get_layer("out").bias.assign([1.0, 0.0]),
    "a seed": lambda m: m.get_layer("drop").seed_generator.next(),
    "a slot": lambda m: m.optimizer.iterations.assign(9),
    "a metric": lambda m: m.metrics[0].update_state(3.0),
    "a compiled function": lambda m: m.make_predict_function(),
    "a name that Keras gave": lambda _: layers.Dense(1),
    "python's random numbers": lambda _: random.random(),
    "numpy's random numbers": lambda _: np.random.random(),  # noqa: NPY002  the global state is meant
}


@pytest.mark.parametrize("touch", TOUCHES)
def test_untouched_sees(touch: str) -> None:
    model = small()
    model.train_on_batch(*batch())
    before = exact.fingerprint(model)
    exact.assert_untouched(before, exact.fingerprint(model))
    TOUCHES[touch](model)
    with pytest.raises(AssertionError, match=r"changed|came or went"):
        exact.assert_untouched(before, exact.fingerprint(model))


# --- structure -----------------------------------------------------------------------


def chain(function: Callable[[Any, Any], Any]) -> keras.Model:
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    return keras.Model([a, b], function(a, b), name="chain")


WIRINGS: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "swapped arguments": (
        lambda a, b: layers.Subtract(name="s")([a + b, b]),
        lambda a, b: layers.Subtract(name="s")([a + b, a]),
        "of node",
    ),
    "a list for a tuple": (
        lambda a, b: layers.Add(name="s")([a, b]),
        lambda a, b: layers.Add(name="s")((a, b)),
        "arguments of node",
    ),
    "another constant": (
        lambda a, b: ops.add(a * 2.0, b),
        lambda a, b: ops.add(a * 3.0, b),
        "arguments of node",
    ),
    "another array": (
        lambda a, b: ops.add(ops.multiply(a, np.ones(3, "float32")), b),
        lambda a, b: ops.add(ops.multiply(a, np.zeros(3, "float32")), b),
        "arguments of node",
    ),
    "another keyword": (
        lambda a, b: layers.BatchNormalization(name="n")(a + b, training=False),
        lambda a, b: layers.BatchNormalization(name="n")(a + b),
        "keywords of node",
    ),
    "another class": (
        lambda a, b: layers.Add(name="s")([a, b]),
        lambda a, b: layers.Multiply(name="s")([a, b]),
        "the operations differ",
    ),
    "an operation more": (
        lambda a, b: layers.Add(name="s")([a, b]),
        lambda a, b: layers.ReLU(name="r")(layers.Add(name="s")([a, b])),
        "without a partner|differ|part",
    ),
    "another output structure": (lambda a, b: [a + b], lambda a, b: (a + b,), "output structure"),
    "another input as output": (
        lambda a, b: [a, a + b],
        lambda a, b: [b, a + b],
        "output structure",
    ),
}


@pytest.mark.parametrize("what", WIRINGS)
def test_same_structure_sees_wiring(what: str) -> None:
    one, other, message = WIRINGS[what]
    a, a2 = twice(lambda: chain(one))
    exact.assert_same_structure(a, a2)
    _, b = twice(lambda: chain(other))
    with pytest.raises(AssertionError, match=message):
        exact.assert_same_structure(a, b)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "other"}, "the operations differ"),
        ({"optional": True}, "inputs"),
        ({"seed": 2}, "seed|config"),
    ],
)
def test_same_structure_sees_options(changes: dict[str, Any], message: str) -> None:
    a, _ = twice(small)
    _, b = twice(lambda: small(**changes))
    with pytest.raises(AssertionError, match=message):
        exact.assert_same_structure(a, b)


DAMAGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a flag": (lambda m: setattr(m.get_layer("hidden"), "trainable", False), "trainable"),
    "a variable's flag": (
        lambda m: setattr(m.get_layer("hidden").bias, "trainable", False),
        "trainable",
    ),
    "an attribute more": (lambda m: setattr(m, "note", 1), "other attributes"),
    "an attribute of another type": (lambda m: setattr(m.get_layer("drop"), "rate", "0.5"), "rate"),
    "an attribute in the config": (lambda m: setattr(m.get_layer("drop"), "rate", 0.25), "config"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_same_structure_sees(damage: str) -> None:
    a, b = twice(small)
    change, message = DAMAGES[damage]
    change(b)
    with pytest.raises(AssertionError, match=message):
        exact.assert_same_structure(a, b)


def test_same_structure_sees_an_attribute_that_is_gone() -> None:
    a, b = twice(small)
    a.note = "kept"
    with pytest.raises(AssertionError, match="note"):
        exact.assert_same_structure(a, b)


def test_same_structure_sees_a_lost_mask() -> None:
    a, b = twice(CASES["recurrent-embedding_mask_lstm"].build)
    tensor = b.layers[1].output if isinstance(b.layers[1], layers.Embedding) else b.layers[2].output
    assert tensor._keras_mask is not None
    tensor._keras_mask = None
    with pytest.raises(AssertionError, match="masks of node"):
        exact.assert_same_structure(a, b)


def test_same_structure_sees_a_copied_enum_member() -> None:
    a, b = twice(CASES["compiled-losses_as_dict"].build)
    (_, metric), *_ = exact.objects(b, keras.metrics.AUC)
    member = metric.curve
    metric.curve = object.__new__(type(member))
    metric.curve.__dict__.update(member.__dict__)
    with pytest.raises(AssertionError, match="is a copy of"):
        exact.assert_same_structure(a, b)


def test_clone_model_is_not_the_same() -> None:
    a, _ = twice(CASES["nesting-layer_shared_with_nested"].build)
    b = keras.models.clone_model(a)
    b.set_weights([np.zeros(v.shape, v.dtype) for v in b.weights])
    with pytest.raises(AssertionError):
        exact.assert_same_sharing(a, b)
    with pytest.raises(AssertionError):
        exact.assert_same_state(a, b)


# --- state ---------------------------------------------------------------------------

STATES: dict[str, Callable[[Any], Any]] = {
    "the last bit of a weight": lambda m: m.get_layer("out").kernel.assign(
        np.nextafter(ops.convert_to_numpy(m.get_layer("out").kernel.value), np.float32(9))
    ),
    "a minus before a zero": lambda m: m.get_layer("out").bias.assign([-0.0, 0.0]),
    "a seed": lambda m: m.get_layer("drop").seed_generator.next(),
    "a slot": lambda m: m.optimizer.variables[-1].assign([3.0, 3.0]),
    "a metric": lambda m: m.metrics[0].update_state(3.0),
    "compiling": lambda m: m.compile(keras.optimizers.SGD(0.2, momentum=0.9, name="sgd"), "mae"),
}


@pytest.mark.parametrize("what", STATES)
def test_same_state_sees(what: str) -> None:
    a, b = twice(small)
    for model in (a, b):
        model.optimizer.build(model.trainable_variables)
    exact.assert_same_state(a, b)
    STATES[what](b)
    with pytest.raises(AssertionError):
        exact.assert_same_state(a, b)


# --- sharing -------------------------------------------------------------------------


def pair(*, shared: bool) -> keras.Model:
    x = keras.Input((3,), name="x")
    first = layers.Dense(3, name="first")
    second = first if shared else layers.Dense(3, name="first_")
    outer = keras.layers.Layer(name="holder")
    outer.build(None)
    model = keras.Model(x, first(x), name="pair")
    model.spare = [first, second]
    if not shared:
        second.build((None, 3))
    return model


def test_same_sharing_sees_a_split_layer() -> None:
    (a, a2), (b, _) = twice(lambda: pair(shared=True)), twice(lambda: pair(shared=False))
    exact.assert_same_sharing(a, a2)
    with pytest.raises(AssertionError, match=r"is the object at|part"):
        exact.assert_same_sharing(a, b)


def test_same_sharing_sees_a_split_variable() -> None:
    a, b = twice(small)
    for model in (a, b):
        model.best = {"kernel": model.get_layer("out").kernel}
    exact.assert_same_sharing(a, b)
    b.best = {"kernel": keras.Variable(b.get_layer("out").kernel.value)}
    with pytest.raises(AssertionError, match="best"):
        exact.assert_same_sharing(a, b)


def test_same_sharing_sees_a_method_bound_to_the_other_model() -> None:
    a, b = twice(small)
    vars(b.get_layer("hidden"))["build"] = vars(a.get_layer("hidden"))["build"]
    with pytest.raises(AssertionError, match="build"):
        exact.assert_same_sharing(a, b)


class Plain:
    """Something in which a copier may forget a Keras object."""

    def __init__(self, content: Any) -> None:
        self.content = content


LEAKS: dict[str, Callable[[Any, Any], Any]] = {
    "a layer": lambda a, b: setattr(b, "spare", a.get_layer("hidden")),
    "a variable in a dict": lambda a, b: setattr(b, "spare", {"v": a.get_layer("hidden").kernel}),
    "an object in an object": lambda a, b: setattr(b, "spare", Plain([Plain(a.optimizer)])),
    "a function's closure": lambda a, b: setattr(b, "spare", lambda x: x + a.get_layer("out")(x)),
    "a function's default": lambda a, b: setattr(b, "spare", lambda x, m=a.metrics[0]: (x, m)),
    "a bound method": lambda a, b: setattr(b, "spare", a.get_layer("out").call),
    "a seed generator": lambda a, b: setattr(b, "spare", (a.get_layer("drop").seed_generator,)),
    "a symbolic tensor": lambda a, b: setattr(b, "spare", Plain(a.output)),
    "a node": lambda a, b: b.layers[1]._inbound_nodes.append(a.layers[1]._inbound_nodes[0]),
    "a tracker": lambda a, b: setattr(b.layers[1], "_tracker", a.layers[1]._tracker),
    "a value": lambda a, b: setattr(
        b.get_layer("out").bias, "_value", a.get_layer("out").bias._value
    ),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_disjoint_sees(leak: str) -> None:
    a, b = twice(small)
    exact.assert_disjoint(a, b)
    LEAKS[leak](a, b)
    with pytest.raises(AssertionError, match="in common"):
        exact.assert_disjoint(a, b)


def test_disjoint_sees_a_variable_in_a_call() -> None:
    gain = keras.Variable(np.ones(3, "float32"))
    a, b = twice(lambda: chain(lambda x, y: ops.multiply(x, gain) + y))
    with pytest.raises(AssertionError, match="in common"):
        exact.assert_disjoint(a, b)


# --- behaviour -----------------------------------------------------------------------


def test_same_outputs_sees_other_weights() -> None:
    (a, b), (x, _) = twice(small), batch()
    b.get_layer("out").bias.assign([1e-3, 0.0])
    with pytest.raises(AssertionError, match="inference"):
        exact.assert_same_outputs(a, b, x)
    with pytest.raises(AssertionError, match="inference"):
        exact.assert_same_inference(a, b, x)


def test_same_outputs_sees_other_behaviour_in_training() -> None:
    (a, b), (x, _) = twice(small), batch()
    b.get_layer("drop").rate = 0.1
    with pytest.raises(AssertionError, match="training mode"):
        exact.assert_same_outputs(a, b, x)


def test_equal_arrays_take_nan_for_nan() -> None:
    exact.assert_equal_arrays([np.array([np.nan, 1])], [np.array([np.nan, 1])], "it")
    with pytest.raises(AssertionError, match="it, output 0"):
        exact.assert_equal_arrays([np.array([np.nan, 1])], [np.array([0, 1.0])], "it")
    with pytest.raises(AssertionError, match="float32 and float64"):
        exact.assert_equal_arrays(np.zeros(1, "float32"), np.zeros(1, "float64"), "it")


TRAININGS: dict[str, Callable[[Any], Any]] = {
    "another learning rate": lambda m: m.optimizer.learning_rate.assign(0.2),
    "a regularizer": lambda m: setattr(
        m.get_layer("out").kernel, "regularizer", keras.regularizers.L2(1)
    ),
    "a slot": lambda m: m.optimizer.variables[-1].assign([3.0, 3.0]),
}


@pytest.mark.parametrize("what", TRAININGS)
def test_same_training_sees(what: str) -> None:
    (a, b), (x, y) = twice(small), batch()
    for model in (a, b):
        model.train_on_batch(x, y)
    TRAININGS[what](b)
    with pytest.raises(AssertionError):
        exact.assert_same_training(a, b, x, y)


def test_independent_sees_a_shared_variable() -> None:
    (a, b), (x, y) = twice(small), batch()
    b.spare = [a.get_layer("out").bias]
    with pytest.raises(AssertionError, match="other values"):
        exact.assert_independent(a, b, x, y)


def test_independent_sees_a_shared_buffer() -> None:
    (a, b), (x, y) = twice(small), batch()
    for v, w in zip(a.variables, b.variables, strict=True):
        w._value = v._value
    # JAX and TensorFlow variables hold other things than PyTorch's, so they fail in their own way:
    # the other model changes, or it can no longer read what `fit` gave away.
    if keras.backend.backend() == "jax":
        a.fit(x, y, verbose=0)
        with pytest.raises(RuntimeError, match="deleted"):
            exact.snapshot(b)
    else:
        with pytest.raises(AssertionError, match="other values"):
            exact.assert_independent(a, b, x, y)


# --- files ---------------------------------------------------------------------------


def test_same_after_saving_sees_another_config(tmp_path: Path) -> None:
    a, b = twice(SINGLE.build)
    b.layers[1].activation = keras.activations.tanh
    with pytest.raises(AssertionError, match="saved configs differ"):
        exact.assert_same_after_saving(a, b, tmp_path, SINGLE)


def test_same_after_saving_sees_other_weights(tmp_path: Path) -> None:
    a, b = twice(SINGLE.build)
    b.layers[1].bias.assign(np.ones(4))
    with pytest.raises(AssertionError, match="different variables"):
        exact.assert_same_after_saving(a, b, tmp_path, SINGLE)


def test_same_after_saving_sees_that_one_cannot_be_saved(tmp_path: Path) -> None:
    a, b = twice(SINGLE.build)

    def refuse() -> None:
        raise NotImplementedError

    b.get_config = refuse
    with pytest.raises(AssertionError, match="saving raises"):
        exact.assert_same_after_saving(a, b, tmp_path, SINGLE)


def test_same_after_saving_sees_that_a_saveable_case_is_not(tmp_path: Path) -> None:
    case = dataclasses.replace(CASES["subclass-functional_no_config"], saveable=True)
    a, b = twice(case.build)
    with pytest.raises(AssertionError, match="should be saveable"):
        exact.assert_same_after_saving(a, b, tmp_path, case)
