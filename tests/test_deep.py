"""Long chains and deep nests: nothing walks them on Python's stack.

Keras does, so a chain is constructed with more room, and all else is done without.
"""

import collections
import functools
import re
import sys
import threading
import time

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet import keras_internals as internals
from ramet._show import text_of
from ramet.backends.values import to_numpy

pytestmark = pytest.mark.one_backend

LENGTH = 5000
LEVELS = 300
LIMIT = 1000
"""Python's own limit."""


@pytest.fixture(autouse=True)
def _little_room():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(LIMIT)
    yield
    found = sys.getrecursionlimit()
    sys.setrecursionlimit(before)
    assert found == LIMIT


def link(number):
    """A layer of a chain; few have weights, so that a backend is quick to make them."""
    if number % 100 == 0:
        return layers.Dense(4, name=f"dense{number}")
    return layers.Activation("tanh", name=f"link{number}")


@pytest.fixture(scope="module")
def chain():
    with internals.deep_recursion(LENGTH):
        start = tensor = keras.Input((4,), name="start")
        for number in range(LENGTH):
            tensor = link(number)(tensor)
        return keras.Model(start, layers.Add(name="sum")([start, tensor]), name="chain")


@pytest.fixture(scope="module")
def graph(chain):
    return ramet.trace(chain)


@pytest.fixture(scope="module")
def copy(chain):
    return ramet.clone(chain)


@pytest.fixture(scope="module")
def edited(graph):
    graph = graph.insert_after("link2501", layers.Identity(name="new"))
    graph = graph.remove("link2502").rename({"link2503": "renamed"})
    return graph.configure("dense2600", trainable=False)


@pytest.fixture(scope="module")
def built(edited):
    return edited.build()


def same_weights(first, second):
    return all(
        np.array_equal(to_numpy(a), to_numpy(b))
        for a, b in zip(first.weights, second.weights, strict=True)
    )


def test_a_long_chain_is_read(graph):
    assert len(graph.calls) == LENGTH + 2
    assert len(str(graph).splitlines()) == LENGTH + 4


def test_profiles_and_stages_take_seconds(graph):
    begun = time.perf_counter()
    profile = ramet.profile(graph, batch=2)
    assert profile.macs == LENGTH // 100 * 2 * 4 * 4
    stages = graph.stages(5, by="params")
    assert [sum(c.kind == "Dense" for c in ramet.profile(s).calls) for s in stages] == [10] * 5
    assert time.perf_counter() - begun < 60


def test_a_long_chain_is_copied_and_the_copy_is_the_same(chain, copy):
    assert same_weights(chain, copy)
    report = ramet.verify(chain, copy)
    assert report.ok, report
    assert report.complete, report


def test_a_long_chain_on_the_same_weights(chain):
    view = ramet.clone(chain, weights="share")
    assert all(a is b for a, b in zip(chain.weights, view.weights, strict=True))


def test_a_long_chain_with_fresh_weights(chain):
    member = ramet.clone(chain, weights="fresh", seed=1)
    assert len(member.layers) == len(chain.layers)
    assert not same_weights(chain, member)


def test_a_long_chain_is_edited(chain, built):
    names = [layer.name for layer in built.layers]
    at = names.index("link2501")
    assert names[at : at + 4] == ["link2501", "new", "renamed", "link2504"]
    assert len(built.layers) == len(chain.layers)
    assert not built.get_layer("dense2600").trainable
    assert same_weights(chain, built)


def test_two_long_chains_are_compared(chain, copy, built):
    assert not ramet.diff(chain, copy)
    start = time.thread_time()
    found = {(entry.kind, entry.where) for entry in ramet.diff(chain, built)}
    assert time.thread_time() - start < 60
    assert ("config", "dense2600") in found
    assert len(found) <= 4  # one for each edit, as few as can be


def test_a_long_chain_is_shown(chain):
    assert f"{LENGTH + 2} calls" in text_of(chain)
    assert ramet.masks(chain).ok


def test_a_part_of_a_long_chain(graph):
    part = graph.extract(outputs=["link4001"]).build()
    assert len(part.layers) == 4003


def test_a_long_sequential_model():
    with internals.deep_recursion(LENGTH):
        model = keras.Sequential([keras.Input((4,)), *map(link, range(LENGTH))])
    copy = ramet.clone(model)
    assert isinstance(copy, keras.Sequential)
    assert len(copy.layers) == LENGTH
    assert same_weights(model, copy)
    assert ramet.trace(copy).calls.keys() == ramet.trace(model).calls.keys()


def test_one_layer_called_often():
    with internals.deep_recursion(LENGTH):
        start = tensor = keras.Input((4,))
        layer = layers.Dense(4, name="layer")
        for _ in range(2 * LIMIT):
            tensor = layer(tensor)
        model = keras.Model(start, tensor)
    copy = ramet.clone(model)
    assert len(copy.weights) == 2
    assert len(ramet.trace(copy).calls) == 2 * LIMIT + 1


@pytest.fixture(scope="module")
def nest():
    """Models inside each other; Keras alone could not call the outermost one."""
    with internals.deep_recursion(LEVELS * 10):
        start = keras.Input((4,), name="start")
        model = keras.Model(start, layers.Dense(4, name="innermost")(start), name="model0")
        for level in range(1, LEVELS):
            start = keras.Input((4,), name="start")
            end = layers.Activation("tanh", name="end")(model(start))
            model = keras.Model(start, end, name=f"model{level}")
        return model


def test_a_deep_nest_is_copied_and_the_copy_is_the_same(nest):
    for copy in (ramet.clone(nest), ramet.trace(nest).rename({"end": "last"}).build()):
        assert same_weights(nest, copy)
    report = ramet.verify(nest, ramet.clone(nest))
    assert report.ok, report
    assert report.complete, report


def test_a_deep_nest_in_other_modes(nest):
    view = ramet.clone(nest, weights="share")
    assert all(a is b for a, b in zip(nest.weights, view.weights, strict=True))
    assert not same_weights(nest, ramet.clone(nest, weights="fresh", seed=1))


def test_a_deep_nest_is_shown_and_compared(nest):
    copy = ramet.clone(nest)
    inner = copy
    for _ in range(LEVELS - 1):
        inner = next(layer for layer in inner.layers if isinstance(layer, keras.Model))
    assert not ramet.diff(nest, copy)
    inner.weights[1].assign(np.ones(4))
    assert [entry.kind for entry in ramet.diff(nest, copy)] == ["weights"]
    assert "model298" in text_of(nest)
    assert ramet.masks(nest).ok
    assert len(str(ramet.trace(nest)).splitlines()) > LEVELS


def test_a_deep_nest_that_does_not_fit_on_a_small_stack_is_an_error(nest):
    errors = []

    def use():
        for verb in (ramet.trace, lambda model: ramet.verify(model, model)):
            try:
                verb(nest)
            except ramet.RametError as error:
                errors.append(str(error))

    before = threading.stack_size(512 << 10)
    try:
        thread = threading.Thread(target=use)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    sentence = r"models are nested 300 levels deep, and 4\d fit on the stack of this thread \(5\d\d"
    assert len([error for error in errors if re.match(sentence, error)]) == 2


Nested = collections.namedtuple("Nested", "held")  # noqa: PYI024 made at run time


class Held:
    def __init__(self, held):
        self.held = held


@pytest.mark.parametrize("size", [256 << 10, 512 << 10, 8 << 20])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: [value],
        Held,
        lambda value: collections.deque([value]),
        lambda value: functools.partial(print, value),
        lambda value: collections.OrderedDict(a=value),
        lambda value: Nested(value),
    ],
)
def test_what_a_layer_holds_may_be_nested_too_deeply_for_a_small_stack(wrap, size):
    held = [1]
    for _ in range(900):
        held = wrap(held)
    layer = layers.Dense(2, name="dense")
    vars(layer)["held"] = held
    model = keras.Sequential([keras.Input((2,)), layer])
    found = []

    def clone():
        with internals.deep_recursion(LENGTH):
            try:
                found.append(ramet.clone(model))
            except ramet.RametError as error:
                found.append(error)

    before = threading.stack_size(size)
    try:
        thread = threading.Thread(target=clone)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    if size < 1 << 20:
        assert isinstance(found[0], ramet.errors.DepthError)
        assert "on the stack of this thread" in str(found[0])
        assert found[0].__notes__ == ["while copying attribute 'held' of 'dense'"]
    else:
        # An object that is copied by its state counts twice.
        assert isinstance(found[0], (keras.Model, ramet.errors.DepthError))
