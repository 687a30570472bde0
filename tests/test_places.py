"""Places: names, paths into nested models, one call of several, one output of several."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet.graph import Ref

pytestmark = pytest.mark.sampled

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


def encoder(name: str = "enc") -> Any:
    """x -> a -> b, and a + b."""
    x = keras.Input((4,), name="x")
    a = layers.Dense(4, name="a")(x)
    b = layers.Dense(4, name="b")(a)
    return keras.Model(x, layers.Add(name="c")([a, b]), name=name)


def outer(name: str = "outer", *, encoders: int = 1) -> Any:
    """An encoder, called once or several times one after the other, and a head."""
    start = keras.Input((4,), name="in")
    inner, tensor = encoder(), start
    for _ in range(encoders):
        tensor = inner(tensor)
    return keras.Model(start, layers.Dense(2, name="head")(tensor), name=name)


def deep() -> Any:
    """A model in a model in a model."""
    start = keras.Input((4,), name="in")
    return keras.Model(start, layers.Dense(2, name="last")(outer()(start)), name="deep")


def run(model: Any, x: Any = X) -> Any:
    return keras.tree.map_structure(keras.ops.convert_to_numpy, model(x))


def same(first: Any, second: Any) -> None:
    keras.tree.map_structure(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6),
        first,
        second,
    )


def test_split_inside_a_nested_model() -> None:
    for model, at in ((outer(), "enc/a"), (deep(), "outer/enc/a"), (deep(), "outer/enc")):
        head, tail = ramet.trace(model).split(at)
        same(run(tail.build(), head.build()(X)), run(model))


def test_a_block_inside_a_nested_model_is_replaced() -> None:
    model = deep()
    new = ramet.trace(model).replace(("outer/enc/a", ["outer/enc/c"]), layers.ReLU(name="instead"))
    made = new.build()
    inner = made.get_layer("outer").get_layer("enc")
    assert [layer.name for layer in inner.layers] == ["x", "a", "instead"]
    source = model.get_layer("outer").get_layer("enc")
    same(run(inner), keras.ops.convert_to_numpy(keras.ops.relu(source.get_layer("a")(X))))
    assert "between 'outer/enc/a' and 'outer/enc/c'" in str(new.journal)


def test_a_block_lies_in_one_graph() -> None:
    graph = ramet.trace(outer())
    with pytest.raises(
        ramet.GraphError, match="'head' is in 'outer' and 'enc/a' in 'enc'; flatten"
    ):
        graph.replace(("enc/a", "head"), layers.ReLU())
    made = graph.flatten().replace(("enc_a", "head"), layers.Dense(2, name="z")).build()
    assert [layer.name for layer in made.layers] == ["in", "enc_a", "z"]


def test_what_a_block_hides_may_not_be_an_output() -> None:
    x = keras.Input((4,), name="x")
    a = layers.Dense(4, name="a")(x)
    b = layers.Dense(4, name="b")(a)
    model = keras.Model(x, [b, layers.Dense(4, name="c")(b)], name="m")
    with pytest.raises(ramet.GraphError, match="'b' lies inside the block, but is an output of"):
        ramet.trace(model).replace(("a", "c"), layers.ReLU())
    new = ramet.trace(model).replace(("b", "c"), layers.ReLU(name="z")).build()
    same(run(new)[0], run(model)[0])
    with pytest.raises(ramet.OptionError, match="a tensor at either end"):
        ramet.trace(model).replace(("a", []), layers.ReLU())


@pytest.mark.parametrize("to", ["enc/b", "b", Ref("b"), Ref("enc/b")], ids=str)
def test_remove_and_rewire_name_tensors_by_path_or_beside(to: Any) -> None:
    model = outer()
    enc, head = model.get_layer("enc"), model.get_layer("head")
    b = enc.get_layer("b")(enc.get_layer("a")(X))
    made = ramet.trace(model).remove("enc/c", reconnect=to).build()
    same(run(made), keras.ops.convert_to_numpy(head(b)))
    made = ramet.trace(model).rewire("enc/c", 0, to).build()
    same(run(made), keras.ops.convert_to_numpy(head(b + b)))


def test_an_edit_is_made_in_one_graph() -> None:
    graph = ramet.trace(deep())
    for edit in (
        lambda: graph.remove("outer/enc/c", reconnect="outer/head"),
        lambda: graph.rewire("outer/enc/b", 0, Ref("outer/head")),
    ):
        with pytest.raises(
            ramet.GraphError, match="'outer/head' is a tensor of graph 'outer', not"
        ):
            edit()
    with pytest.raises(ramet.GraphError, match=r"no layer 'last' in graph 'enc' .*has: x, a, b, c"):
        graph.rewire("outer/enc/b", 0, "last")


def test_a_model_inside_another_is_flattened() -> None:
    model = deep()
    made = ramet.trace(model).flatten("outer/enc").build()
    names = [layer.name for layer in made.get_layer("outer").layers]
    assert names == ["in", "enc_a", "enc_b", "enc_c", "head"]
    same(run(made), run(model))
    with pytest.raises(ramet.GraphError, match="'outer/head' of graph 'deep' is a Dense, not"):
        ramet.trace(model).flatten("outer/head")


@pytest.mark.parametrize("place", ["enc/a", "enc/a#1", "enc/a.0", "enc#1/a", Ref("enc/a")], ids=str)
def test_a_tensor_inside_is_tapped_by_any_of_its_names(place: Any) -> None:
    model = outer()
    want = keras.ops.convert_to_numpy(model.get_layer("enc").get_layer("a")(X))
    same(run(ramet.trace(model).add_output(place).build()), [run(model), want])
    same(run(ramet.trace(model).extract(outputs=place).build()), want)
    assert ramet.trace(model).insert_after(place, layers.ReLU(name="r")).build()


def test_tensors_of_several_graphs_are_tapped_at_once() -> None:
    model = deep()
    enc = model.get_layer("outer").get_layer("enc")
    wanted = [run(enc), run(model.get_layer("outer")), run(enc, X), X]
    places = ["outer/enc", "outer", "outer/enc/c", "outer/enc/x"]
    same(run(ramet.trace(model).extract(outputs=places).build()), wanted)
    part = ramet.trace(model).extract(inputs="outer/enc/x", outputs=["outer", "outer/head"])
    same(run(part.build()), [wanted[1], wanted[1]])


def test_one_call_of_a_nested_model_is_named() -> None:
    model = outer(encoders=2)
    enc = model.get_layer("enc")
    graph = ramet.trace(model)
    first, second = enc.get_layer("a")(X), enc.get_layer("a")(enc(X))
    made = graph.extract(outputs=["enc#1/a", "enc#2/a", "enc#2/x"]).build()
    same(run(made), [keras.ops.convert_to_numpy(t) for t in (first, second, enc(X))])
    message = "'enc' of graph 'outer' is called 2 times.*name one: enc#1/a, enc#2/a"
    with pytest.raises(ramet.GraphError, match=message):
        graph.add_output("enc/a")
    message = r"'enc#2' is one of 2 calls.*name 'enc/a' to edit.*unshare\('enc'\)"
    for edit in (
        lambda: graph.insert_after("enc#2/a", layers.ReLU()),
        lambda: graph.configure("enc#2/a", activation="relu"),
        lambda: graph.rename({"enc#2/a": "z"}),
    ):
        with pytest.raises(ramet.GraphError, match=message):
            edit()
    made = graph.unshare("enc").insert_after("enc_1/a", layers.ReLU(name="r")).build()
    names = [[layer.name for layer in made.get_layer(n).layers] for n in ("enc", "enc_1")]
    assert names == [["x", "a", "b", "c"], ["x", "a", "r", "b", "c"]]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("enc/aa", r"no layer 'aa' in graph 'enc' \(4 layers\); did you mean 'enc/a'\?"),
        ("enk/a", r"no nested model 'enk' in graph 'outer' \(7 layers\); did you mean 'enc'\?"),
        ("head/a", "'head' of graph 'outer' is a Dense, not a nested model"),
        ("a", r"no layer 'a' in graph 'outer' \(7 layers\); did you mean 'enc/a'\?"),
        ("enc/", r"no layer '' in graph 'enc' \(4 layers\); it has: x, a, b, c"),
        ("enc/zz", r"no layer 'zz' in graph 'enc' \(4 layers\); it has: x, a, b, c"),
        (Ref("enc/a", 1), r"call 'a' of graph 'enc' has 1 output, so there is no Ref\('a', 1\)"),
        ("enc/a.1", "call 'a' of graph 'enc' has 1 output, so there is no 'a.1'"),
        ("head#3", "no layer 'head#3' in graph 'outer'.*did you mean 'head'"),
    ],
    ids=str,
)
def test_an_unknown_place_is_told_where_it_was_looked_for(place: Any, message: str) -> None:
    graph = ramet.trace(outer())
    edits = (
        lambda: graph.insert_after(place, layers.ReLU()),
        lambda: graph.add_output(place),
        lambda: graph.extract(outputs=[place]),
        lambda: graph.split(place),
        lambda: graph.replace((place, "head"), layers.ReLU()),
    )
    for edit in edits:
        with pytest.raises(ramet.GraphError, match=message):
            edit()


NAMES = ["net_0.35_32", "net.1", "net#2", "net 2", "nét"]


def saved(model: Any, tmp_path: Any) -> Any:
    model.save(tmp_path / "model.keras")
    return keras.saving.load_model(tmp_path / "model.keras")


@pytest.mark.parametrize("name", NAMES)
def test_nested_models_with_odd_names(name: str, tmp_path: Any) -> None:
    start = keras.Input((4,), name="in")
    model = keras.Model(start, layers.Dense(2, name="head")(encoder(name)(start)), name="outer")
    graph, want = ramet.trace(model), run(model)
    a = keras.ops.convert_to_numpy(model.get_layer(name).get_layer("a")(X))
    tapped = graph.add_output(f"{name}/a").build()
    for made in (tapped, ramet.clone(tapped), saved(tapped, tmp_path)):
        same(run(made), [want, a])
    flat = graph.flatten().build()
    assert not any("." in layer.name for layer in flat.layers)
    assert not any("." in weight.path for weight in flat.weights)
    for made in (flat, ramet.clone(flat), saved(flat, tmp_path)):
        same(run(made), want)
    # Also in a model made of its tensors, whose weights Keras then lists by path.
    same(run(keras.Model(flat.inputs, flat.outputs)), want)
    for edit in (
        lambda: graph.insert_after(name, layers.Activation("linear")),
        lambda: graph.insert_after(f"{name}/a", layers.Activation("linear")),
        lambda: graph.configure(f"{name}/a", activation="linear"),
        lambda: graph.rename({name: "other.name#1"}),
    ):
        same(run(saved(edit().build(), tmp_path)), want)
    head, tail = graph.split(name)
    same(run(tail.build(), head.build()(X)), want)


@pytest.mark.parametrize("name", NAMES)
def test_models_with_odd_names_are_put_together(name: str, tmp_path: Any) -> None:
    first, second = encoder(name), encoder(name)
    merged = ramet.merge([first, second], inputs="shared").build()
    for made in (merged, ramet.clone(merged), saved(merged, tmp_path)):
        same(run(made), [run(first), run(second)])
    chained = ramet.chain(first, second).build()
    for made in (chained, ramet.clone(chained), saved(chained, tmp_path)):
        same(run(made), run(second, run(first)))


ODD = ["block.1", "block.1.2", ".5", "block.", "a#2", "a#1", "a b", "ä", "1"]


@pytest.mark.parametrize("name", ODD)
def test_layers_with_odd_names(name: str) -> None:
    x = keras.Input((4,), name="x")
    # PyTorch cannot hold weights under a name with a dot.
    y = layers.Activation("tanh", name=name)(layers.Dense(4, name="block")(x))
    model = keras.Model(x, layers.Dense(2, name="head")(y), name="m")
    graph, want = ramet.trace(model), run(model)
    for edit in (
        lambda: graph.insert_after(name, layers.Activation("linear")),
        lambda: graph.insert_before(name, layers.Activation("linear")),
        lambda: graph.configure(name, activation="tanh"),
        lambda: graph.replace(name, layers.Activation("tanh", name="z")),
        lambda: graph.rewire("head", 0, name),
        lambda: graph.rewire("head", 0, f"{name}.0"),
        lambda: graph.rename({name: "z"}),
        lambda: graph.replace((name, "head"), layers.Dense(2, name="d")).replace(
            (name, "d"), model.layers[-1]
        ),
    ):
        same(run(edit().build()), want)
    head, tail = graph.split(name)
    same(run(tail.build(), head.build()(X)), want)
    assert [layer.name for layer in graph.remove(name).build().layers] == ["x", "block", "head"]


def test_a_layer_called_like_an_output_or_a_call_wins() -> None:
    x = keras.Input((4,), name="x")
    block = layers.Activation("tanh", name="a")
    y = layers.Activation("relu", name="a#2")(block(block(x)))
    y = layers.Activation("sigmoid", name="a.0")(y)
    graph = ramet.trace(keras.Model(x, y, name="m"))
    kinds = {"a#2": "relu", "a.0": "sigmoid", "a#1": "tanh"}
    for place, kind in kinds.items():
        made = graph.extract(outputs=place).build()
        assert made.layers[-1].activation is getattr(keras.activations, kind)
    assert graph.replace("a#2", layers.ReLU(name="r")).layers.keys() == {"x", "a", "r", "a.0"}
    assert graph.remove("a#2").layers.keys() == {"x", "a", "a.0"}
    assert graph.extract(outputs=Ref("a")).build().layers[-1].name == "a"


def test_names_that_pytorch_cannot_have(backend: str) -> None:
    graph = ramet.trace(outer())
    edits = (
        lambda: graph.rename({"head": "q.1"}),
        lambda: graph.prefix("q.1"),
        lambda: graph.replace("head", layers.Dense(2, name="q.1")),
        lambda: graph.insert_after("head", layers.Dense(2, name="q.1")),
    )
    for edit in edits:
        if backend == "torch":
            with pytest.raises(ramet.RametError, match="weights under a name with a dot"):
                edit().build()
        else:
            edit().build()


def test_a_model_with_more_outputs_can_be_saved(tmp_path: Any) -> None:
    model = outer()
    model.compile("sgd", "mse")
    made = ramet.trace(model).add_output("enc").build()
    assert not made.compiled
    same(run(saved(made, tmp_path)), run(made))
