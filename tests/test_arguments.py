"""What the messages about wrong arguments say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet import _arguments as arguments
from ramet.graph import Call, Graph, Ref, Selection, Spec

pytestmark = pytest.mark.one_backend  # Arguments are checked before a backend is used.


@pytest.fixture(scope="module")
def model() -> keras.Model:
    x = keras.Input((4,), name="x")
    return keras.Model(x, layers.Dense(4, name="dense")(x), name="model")


def deep() -> list[Any]:
    tree: list[Any] = []
    for _ in range(3000):
        tree = [tree]
    return tree


DEEP = "nested more than 200 levels deep; pass a flatter"

MESSAGES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda m: ramet.trace(m).select(name=0), r"name, a glob, must be a string, got 0"),
    (lambda m: ramet.trace(m).select(regex=b"x"), r"regex must be a string, got b'x'"),
    (lambda m: ramet.trace(m).select(where=1), r"where must be a function of a layer, got 1"),
    (
        lambda m: ramet.trace(m).select(where=layers.Dense),
        r"where must be a function of a layer, got the class Dense",
    ),
    (
        lambda m: ramet.trace(m).select(where=lambda: True),
        r"where must be a function of a layer, but cannot be called with 1 argument; give it",
    ),
    (
        lambda m: ramet.trace(m).select(where=lambda _: np.ones(2)),
        r"where must return True or False, got an? ndarray",
    ),
    (lambda m: ramet.trace(m).select(missing_ok=1), r"missing_ok must be True or False, got 1"),
    (
        lambda m: ramet.trace(m).select(name="*")[5],
        r"a selection of 1 layer has no number 5; count from 0",
    ),
    (lambda m: ramet.trace(m).select(name="*")["a"], r"the number of a path must be an integer"),
    (lambda m: ramet.trace(m).flatten(0), r"a place in a graph is named by a string, got 0"),
    (lambda m: ramet.trace(m).flatten(Ref("x")), r"got a Ref; pass the name of its call, 'x'"),
    (lambda m: ramet.trace(m).rename({}), r"no layer of graph 'model' is named to rename"),
    (lambda m: ramet.trace(m).rename(["a"]), r"names must be a dict of old and new names"),
    (lambda m: ramet.trace(m).rename({1: "a"}), r"old and new names, but has the key 1"),
    (lambda m: ramet.trace(m).prefix("a/"), r"a prefix must be a string without '/', got 'a/'"),
    (lambda m: ramet.trace(m).replace(None, None), r"named by a string, got None"),
    (lambda m: ramet.trace(m).rewire("dense", None, "x"), r"must be an integer, got None"),
    (lambda m: ramet.trace(m).with_inputs(shape=None), r"must be a tuple of sizes .* got None"),
    (
        lambda m: ramet.trace(m).with_inputs(shape=("a",)),
        r"keras.Input does not accept .*shape=\('a',\): ",
    ),
    (lambda m: ramet.trace(m).with_inputs(sparse=0), r"sparse of an input must be True or False"),
    (lambda m: ramet.trace(m).add_output(None), r"named by a string, got None"),
    (lambda m: ramet.trace(m).extract(inputs=[]), r"named by a string, got None"),
    (lambda m: ramet.trace(m).extract(outputs=deep()), DEEP),
    (lambda m: ramet.trace(m).remove("dense", reconnect=deep()), f"reconnect is {DEEP}"),
    (lambda m: ramet.trace(m).configure("dense", units=deep()), f"units of 'dense' is {DEEP}"),
    (lambda m: ramet.trace(m).configure("dense", weights="fitt"), r"weights='fitt'.*mean 'fit'"),
    (
        lambda m: ramet.trace(m).insert_after("dense", lambda _: {1: 1, "a": 1}),
        r"returns a structure that Keras cannot read|returned a int; let it",
    ),
    (lambda m: ramet.trace(m).text(derived=0), r"derived must be True or False, got 0"),
    (lambda m: ramet.trace(m).journal.text(full=0), r"full must be True or False, got 0"),
    (lambda m: ramet.trace(m).parts("names"), r"which='names'; expected one of 'layers', 'calls'"),
    (lambda m: ramet.trace(m).changed(nam="x"), r"a Graph has no field 'nam'; did you mean 'name'"),
    (lambda m: ramet.trace(m).changed(journal=1), r"must be a Journal, got 1"),
    (lambda m: ramet.clones(m, -1), r"n must be a number of copies, 0 to 100,000, got -1"),
    (lambda m: ramet.clones(m, 10**30), r"0 to 100,000, got 10{30}"),
    (lambda m: ramet.clones(m, 10**5000), r"0 to 100,000, got a huge int"),
    (lambda m: ramet.clone(m, weights="fresh", seed="1"), r"seed must be an integer, got '1'"),
    (lambda m: ramet.clone_model(m, recursive=1), r"recursive must be True or False, got 1"),
    (
        lambda m: ramet.clone_model(m, clone_function=layers.Dense(1)),
        r"clone_function must be a function of a layer, got a Dense",
    ),
    (
        lambda m: ramet.clone_model(m, input_tensors={1: 1, "a": 1}),
        r"input_tensors has a structure that Keras cannot read|must be symbolic Keras tensors",
    ),
    (lambda m: ramet.diff(m, m, weights=None), r"weights must be True or False, got None"),
    (lambda m: ramet.emit(m, names="exakt"), r"names='exakt'; .* did you mean 'exact'"),
    (lambda m: ramet.merge([m], inputs=1), r"unknown inputs=1; expected one of 'shared'"),
    (lambda m: ramet.merge([m], outputs=[{1}]), r"the name of a model in outputs must be a string"),
    (lambda m: ramet.merge([m], name=""), r"name must be a string without '/', got ''"),
    (lambda m: ramet.rewrite(m, 1, 2, explain=1), r"explain must be True or False, got 1"),
    (
        lambda m: ramet.rewrite(m, lambda _: m.input, lambda x: x),
        r"it uses 'x', which is none of its parameters",
    ),
    (lambda _: ramet.any_layer("Dense", name=1), r"name must be a string without '/', got 1"),
    (lambda _: ramet.any_layer("Dense", units=deep()), f"constraint units is {DEEP}"),
    (lambda m: ramet.run(m, None), r"data must be an array, or a structure of them, got None"),
    (lambda m: ramet.run(m, [[1.0]]), r"but holds 1.0; convert it with numpy.array"),
    (
        lambda m: ramet.run(m, {1: 1, "a": 1}),
        r"data has a structure that Keras cannot read|but holds 1; convert",
    ),
    (lambda m: ramet.run(m, np.ones((1, 5))), r"cannot be called on data of shape \(1, 5\): "),
    (lambda m: ramet.run(m, np.ones((1, 4)), training=None), r"training must be True or False"),
    (
        lambda m: ramet.run(m, np.ones((1, 4)), each=lambda place: None),  # noqa: ARG005 its parameters are counted
        r"each must be a function of a place and its outputs, but cannot be called with 2",
    ),
    (
        lambda m: ramet.run(m, np.ones((1, 4)), each=lambda *_: object()),
        r"each returned an object for 'dense', which is not a tensor; return values like",
    ),
    (lambda m: ramet.show(m, to=0), r"to must be the path of a file, got 0"),
    (lambda m: ramet.show(m, to="a\0b.svg"), r"to must be the path of a file, got 'a\\x00b.svg'"),
    (lambda _: ramet.files.load(None), r"path must be the path of a file, got None"),
    (lambda _: ramet.files.load("x" * 9999), r"there is no file 'x{299}\.\.\."),
    (lambda _: ramet.files.load("x.keras", custom_objects=1), r"custom_objects must be a dict of"),
    (lambda m: ramet.files.save(m, 1), r"path must be the path of a file, got 1"),
    (lambda _: ramet.files.save(1, "x.keras"), r"expected a Keras model, got 1"),
    (lambda _: ramet.files.save_text("x", "x" * 9999), r"cannot be written: .*name too long"),
    (lambda _: ramet.files.save_text(1, "x.txt"), r"text must be a string, got 1"),
    (
        lambda _: ramet.files.check_target(Path("x.txt"), suffixes=[".txt"]),
        r"suffixes must be a tuple of strings, got a list",
    ),
    (lambda m: ramet.verify(m, m, only="state").check("nope"), r"unknown aspect='nope'; expected"),
    (lambda m: ramet.diff(m, m).of("confg"), r"unknown kind='confg'; .*did you mean 'config'"),
    (lambda m: ramet.trace(m).transfer_report().of(1), r"unknown status=1; expected one of 'kept'"),
    (lambda m: ramet.masks(m).text(every=1), r"every must be True or False, got 1"),
    (lambda _: Ref(0), r"the call of a Ref must be a string, got 0"),
    (lambda _: Ref("x", "0"), r"the index of a Ref must be an integer, got '0'"),
    (lambda _: Call(1, None, (), {}, ()), r"the name of a call must be a string, got 1"),
    (lambda _: Call("c", 1, (), {}, ()), r"the layer of call 'c' must be a string, got 1"),
    (lambda _: Call("c", None, 1, {}, ()), r"the args of call 'c' must be a tuple, got 1"),
    (lambda _: Call("c", None, (), 1, ()), r"the kwargs of call 'c' must be a dict, got 1"),
    (lambda _: Call("c", None, (), {}, [1]), r"outputs of call 'c' must be a tuple of Specs"),
    (
        lambda _: Call("c", None, (), {}, (), derived=1),
        r"of call .c. must be a frozenset",
    ),
    (lambda _: Call("c", None, (deep(),), {}, ()), DEEP),
    (lambda _: Graph(1, {}, {}, [], []), r"the name of a graph must be a string, got 1"),
    (lambda _: Graph("g", 1, {}, [], []), r"the layers of graph 'g' must be a dict of layers"),
    (
        lambda _: Graph("g", {}, {"a": 1}, [], []),
        r"graph 'g' holds Calls by name, got 1 under 'a'",
    ),
    (lambda _: Selection(1, (), "x", missing_ok=True), r"a selection is of a Graph, got 1"),
    (
        lambda m: Selection(ramet.trace(m), ["x"], "x", missing_ok=True),
        r"paths must be a tuple of strings, got a list",
    ),
]


@pytest.mark.parametrize(("call", "message"), MESSAGES)
def test_message(
    call: Callable[[Any], Any],
    message: str,
    model: keras.Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ramet.RametError, match=message):
        call(model)
    assert not [*tmp_path.iterdir()]


def test_values_are_shown_short() -> None:
    shown = {
        "None": None,
        "1.5": 1.5,
        "'a'": "a",
        "an empty list": [],
        "a dict": {"a": 1},
        "an object": object(),
        "the class object": object,
        "a huge int": 10**5000,
        f"{'x' * 60!r}...": "x" * 61,
    }
    assert {arguments.shown(value): value for value in shown.values()} == shown


def test_a_list_that_contains_itself_is_too_deep() -> None:
    tree: list[Any] = []
    tree += [tree, tree]
    with pytest.raises(ramet.OptionError, match=DEEP):
        arguments.check_depth(tree, "it")
    arguments.check_depth([[[{"a": (1, [])}]]], "it")


def test_what_is_right_is_accepted() -> None:
    arguments.check_function(max, "f", 1, "it")  # built-in, without a signature
    arguments.check_function(print, "f", 2, "it")
    arguments.check_function(keras.ops.relu, "f", 1, "it")
    arguments.check_count(np.int64(3), "n must be a number", 3)
    assert arguments.checked_path(Path("a"), "p") == arguments.checked_path("a", "p") == Path("a")
    assert Spec((1,), "float32", "x").known
