"""Surgery: one part changes, everything else is what it was."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet

pytestmark = pytest.mark.sampled

DATA = np.random.default_rng(0).standard_normal((4, 8, 8, 3)).astype("float32")


def array(value):
    return keras.tree.map_structure(ops.convert_to_numpy, value)


def same(found, expected):
    flat = [keras.tree.flatten(array(each)) for each in (found, expected)]
    assert len(flat[0]) == len(flat[1])
    for a, b in zip(*flat, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def parts(model):
    return {layer.name: layer for layer in model.layers}


def residual() -> keras.Model:
    """A small residual network with a head."""
    x = keras.Input((8, 8, 3), name="image")
    y = layers.Conv2D(4, 3, padding="same", name="stem")(x)
    for block in ("a", "b"):
        z = layers.Conv2D(4, 3, padding="same", name=f"{block}_conv")(y)
        z = layers.BatchNormalization(name=f"{block}_norm")(z)
        z = layers.ReLU(name=f"{block}_relu")(z)
        y = layers.Add(name=f"{block}_add")([y, z])
    y = layers.GlobalAveragePooling2D(name="pool")(y)
    return keras.Model(x, layers.Dense(3, name="head")(y), name="residual")


def by_hand(model, x, *, relu="{}_relu", norm="{}_norm"):
    """The layers of a residual network, called one by one."""
    at = parts(model)
    y = at["stem"](x)
    for block in ("a", "b"):
        z = at[norm.format(block)](at[f"{block}_conv"](y))
        y = at[f"{block}_add"]([y, at[relu.format(block)](z)])
    return at["head"](at["pool"](y))


def weights_by_path(model):
    return {variable.path: array(variable.value) for variable in model.variables}


def kept(model, edited, *, but=()):
    """Checks that all variables but some are what they were."""
    old, new = weights_by_path(model), weights_by_path(edited)
    for path, value in old.items():
        if path.split("/")[0] not in but:
            assert np.array_equal(new[path], value), path


# --- one layer, or many ---


def test_replace_one_layer():
    model = residual()
    edited = ramet.trace(model).replace("a_relu", layers.PReLU(name="a_prelu")).build()
    at = parts(edited)
    assert "a_relu" not in at
    at["a_relu"] = at["a_prelu"]
    kept(model, edited)
    expected = by_hand_with(at, DATA)
    same(edited(DATA), expected)
    assert [layer.name for layer in edited.layers] == [
        layer.name if layer.name != "a_relu" else "a_prelu" for layer in model.layers
    ]


def by_hand_with(at, x):
    y = at["stem"](x)
    for block in ("a", "b"):
        z = at[f"{block}_relu"](at[f"{block}_norm"](at[f"{block}_conv"](y)))
        y = at[f"{block}_add"]([y, z])
    return at["head"](at["pool"](y))


def test_replace_every_layer_of_a_kind():
    model = residual()
    selected = ramet.trace(model).select(kind=layers.BatchNormalization)
    assert [*selected] == ["a_norm", "b_norm"]
    graph = selected.replace(lambda old: layers.GroupNormalization(2, name=old.name))
    edited = graph.build()
    assert [entry.count for entry in graph.journal] == [2]
    same(edited(DATA), by_hand(edited, DATA))
    kept(model, edited, but=("a_norm", "b_norm"))
    assert isinstance(parts(edited)["b_norm"], layers.GroupNormalization)


def test_replace_takes_weights_over_by_role_and_shape():
    model = residual()
    new = layers.Conv2D(4, 3, padding="same", activation="tanh", name="new")
    edited = ramet.trace(model).replace("a_conv", new).build()
    for old, got in zip(parts(model)["a_conv"].weights, parts(edited)["new"].weights, strict=True):
        assert np.array_equal(array(old), array(got))
    fresh = ramet.trace(model).replace("a_conv", new, weights="fresh").build()
    assert not np.array_equal(
        array(parts(fresh)["new"].kernel), array(parts(model)["a_conv"].kernel)
    )
    assert not new.built  # what is given to an edit stays as it was


def test_insert_after_before_and_on_one_edge():
    model = residual()
    graph = ramet.trace(model)
    after = graph.insert_after("a_add", layers.Rescaling(2.0, name="twice")).build()
    before = graph.insert_before("pool", layers.Rescaling(2.0, name="twice")).build()
    edge = graph.insert_on("b_add", 0, layers.Rescaling(2.0, name="twice")).build()
    at = parts(model)
    y = at["a_add"]([at["stem"](DATA), block(at, "a", at["stem"](DATA))])

    def rest(at, y):
        return at["head"](at["pool"](y))

    same(after(DATA), rest(at, at["b_add"]([2 * y, block(at, "b", 2 * y)])))
    same(before(DATA), rest(at, 2 * at["b_add"]([y, block(at, "b", y)])))
    same(edge(DATA), rest(at, at["b_add"]([2 * y, block(at, "b", y)])))


def block(at, name, y):
    return at[f"{name}_relu"](at[f"{name}_norm"](at[f"{name}_conv"](y)))


def test_remove_and_reconnect():
    model = residual()
    graph = ramet.trace(model)
    at = parts(model)
    edited = graph.remove("a_relu").build()
    y = at["stem"](DATA)
    y = at["a_add"]([y, at["a_norm"](at["a_conv"](y))])
    same(edited(DATA), at["head"](at["pool"](at["b_add"]([y, block(at, "b", y)]))))
    bypass = graph.remove("a_add", reconnect="stem").build()
    assert not [layer.name for layer in bypass.layers if layer.name.startswith("a_")]
    y = at["stem"](DATA)
    same(bypass(DATA), at["head"](at["pool"](at["b_add"]([y, block(at, "b", y)]))))


def test_rewire_an_argument():
    model = residual()
    at = parts(model)
    edited = ramet.trace(model).rewire("b_add", 0, "stem").build()
    y = at["stem"](DATA)
    z = at["a_add"]([y, block(at, "a", y)])
    same(edited(DATA), at["head"](at["pool"](at["b_add"]([y, block(at, "b", z)]))))


def test_replace_a_block():
    model = residual()
    at = parts(model)
    graph = ramet.trace(model).replace(
        ("a_add", "b_add"), layers.Conv2D(4, 1, name="one", kernel_initializer="ones")
    )
    edited = graph.build()
    y = at["a_add"]([at["stem"](DATA), block(at, "a", at["stem"](DATA))])
    same(edited(DATA), at["head"](at["pool"](parts(edited)["one"](y))))
    assert "4 calls between 'a_add' and 'b_add'" in str(graph.journal)
    with pytest.raises(ramet.GraphError, match="'stem' lies inside the block, but 'a_add' outside"):
        ramet.trace(model).replace(("image", "a_conv"), layers.Conv2D(4, 1))


# --- configuration ---


def test_configure_takes_effect_and_keeps_weights():
    model = residual()
    graph = ramet.trace(model)
    edited = graph.configure("head", activation="softmax", kernel_regularizer="l2").build()
    same(edited(DATA), ops.softmax(model(DATA)))
    kept(model, edited)
    assert len(edited.losses) == 1
    frozen = graph.select(kind=layers.Conv2D).configure(trainable=False).build()
    assert [w.path for w in frozen.trainable_weights] == [
        w.path for w in model.trainable_weights if "conv" not in w.path and "stem" not in w.path
    ]
    half = graph.configure("head", dtype="mixed_float16").build()
    assert half.outputs[0].dtype == "float16"
    assert parts(half)["head"].kernel.dtype == "float32"


def test_return_sequences_and_stateful():
    x = keras.Input((5, 2), name="x")
    model = keras.Model(x, layers.GRU(3, name="gru")(x))
    data = np.random.default_rng(1).standard_normal((1, 5, 2)).astype("float32")
    whole = ramet.trace(model).configure("gru", return_sequences=True).build()
    same(whole(data)[:, -1], model(data))
    graph = ramet.trace(model).with_inputs(shape=(1, 2), batch_size=1)
    steps = graph.configure("gru", stateful=True).build()
    for step in range(5):
        last = steps(data[:, step : step + 1])
    same(last, model(data))


@pytest.mark.parametrize(("policy", "fourth"), [("grow", None), ("tile", 0)])
def test_more_input_channels(policy, fourth):
    model = residual()
    graph = ramet.trace(model).with_inputs(shape=(8, 8, 4)).configure("stem", weights=policy)
    edited = graph.build()
    kernel, old = (array(parts(m)["stem"].kernel) for m in (edited, model))
    assert np.array_equal(kernel[:, :, :3], old)
    if fourth is not None:
        assert np.array_equal(kernel[:, :, 3], old[:, :, fourth])
    statuses = {t.path: t.status for t in graph.transfer_report().transfers}
    assert statuses["stem/kernel"] == "grown"
    assert statuses["stem/bias"] == "kept"
    assert statuses["head/kernel"] == "kept"
    kept(model, edited, but=("stem",))


def test_a_wider_head_and_a_larger_vocabulary():
    tokens = keras.Input((4,), dtype="int32", name="tokens")
    y = layers.Flatten(name="flat")(layers.Embedding(5, 2, name="words")(tokens))
    model = keras.Model(tokens, layers.Dense(3, name="head")(y))
    graph = ramet.trace(model).configure("words", input_dim=9, weights="grow")
    graph = graph.configure("head", units=6, weights="grow")
    edited = graph.build()
    assert edited(np.array([[8, 1, 2, 3]])).shape == (1, 6)
    same(edited(np.array([[4, 1, 2, 3]]))[:, :3], model(np.array([[4, 1, 2, 3]])))
    report = graph.transfer_report()
    assert {t.path: t.status for t in report.transfers} == {
        "words/embeddings": "grown",
        "head/kernel": "grown",
        "head/bias": "grown",
    }
    assert "3 grown" in str(report)
    cut = ramet.trace(edited).configure("head", units=2, weights="grow")
    assert [t.status for t in cut.transfer_report().transfers] == ["kept", "cut", "cut"]
    fresh = ramet.trace(edited).configure("head", units=2).transfer_report()
    assert [t.path for t in fresh.of("fresh")] == ["head/kernel", "head/bias"]


# --- names, parts, sharing, nesting ---


def test_rename_and_prefix():
    model = residual()
    graph = ramet.trace(model).rename({"head": "logits", "a_conv": "b_conv", "b_conv": "a_conv"})
    edited = graph.build()
    same(edited(DATA), model(DATA))
    assert parts(edited)["logits"].kernel.path == "logits/kernel"
    same(parts(edited)["b_conv"].kernel, parts(model)["a_conv"].kernel)
    prefixed = ramet.trace(model).prefix("left_").build()
    assert {layer.name for layer in prefixed.layers} == {f"left_{n}" for n in parts(model)}
    assert prefixed.inputs[0].name == "left_image"
    assert all(path.startswith("left_") for path in weights_by_path(prefixed))
    same(prefixed(DATA), model(DATA))


def test_extract_features_and_add_outputs():
    model = residual()
    graph = ramet.trace(model)
    tapped = graph.extract(outputs={"low": "a_add", "high": "b_add"}).build()
    assert [*tapped.output] == ["low", "high"]
    assert "head" not in parts(tapped)
    tail = graph.extract(inputs="b_add").build()
    same(tail(tapped(DATA)["high"]), model(DATA))
    both = graph.add_output("a_add").build()
    same(both(DATA), [model(DATA), tapped(DATA)["low"]])


def nested() -> keras.Model:
    body = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(4, activation="relu", name="one"),
            layers.Dropout(0.5, name="drop"),
            layers.Dense(4, name="two"),
        ],
        name="body",
    )
    x = keras.Input((4,), name="x")
    y = layers.Add(name="add")([body(x), body(body(x), training=True)])
    return keras.Model(x, layers.Dense(2, name="head")(y), name="nested")


ROW = np.random.default_rng(2).standard_normal((3, 4)).astype("float32")


def test_flatten_keeps_sharing_and_call_arguments():
    model = nested()
    graph = ramet.trace(model).flatten()
    assert not any(layer.graph for layer in graph.layers.values())
    flat = graph.build()
    assert " ".join(parts(flat)) == "x body_one body_drop body_two add head"
    assert len(flat.weights) == len(model.weights)
    training = [
        call.kwargs.get("training") for call in graph.calls.values() if call.layer == "body_drop"
    ]
    assert training.count(True) == 1
    assert parts(flat)["body_one"].kernel.path == "body_one/kernel"


def test_taps_inside_nested_models():
    body = keras.Sequential(
        [keras.Input((4,)), layers.Dense(4, name="one"), layers.Dense(3, name="two")], name="body"
    )
    x = keras.Input((4,), name="x")
    model = keras.Model(x, layers.Dense(2, name="head")(body(x)), name="outer")
    graph = ramet.trace(model)
    tapped = graph.extract(outputs=["body/one", "head"]).build()
    same(tapped(ROW), [body.get_layer("one")(ROW), model(ROW)])
    more = graph.add_output("body/two").build()
    same(more(ROW), [model(ROW), body(ROW)])
    tail = graph.extract(inputs="body/one").build()
    same(tail(body.get_layer("one")(ROW)), model(ROW))


def test_edits_inside_nested_models_reach_every_use():
    model = nested()
    edited = ramet.trace(model).configure("body/one", activation="tanh").build()
    body = parts(edited)["body"]
    assert isinstance(body, keras.Sequential)
    assert [layer.name for layer in body.layers] == ["one", "drop", "two"]
    inside = parts(body)

    def run(x):
        return inside["two"](inside["one"](x))

    shallow = ramet.trace(model).configure("body/one", activation="tanh").remove("body/drop")
    edited = shallow.build()
    inside = parts(parts(edited)["body"])
    at = parts(edited)
    same(edited(ROW), at["head"](at["add"]([run(ROW), run(run(ROW))])))
    assert len(edited.weights) == len(model.weights)


def test_unshare_and_share():
    x = keras.Input((4,), name="x")
    shared = layers.Dense(4, name="shared")
    model = keras.Model(x, shared(shared(x)), name="twice")
    graph = ramet.trace(model)
    untied = graph.unshare("shared")
    apart = untied.build()
    assert [layer.name for layer in apart.layers] == ["x", "shared", "shared_1"]
    assert len(apart.weights) == 4
    same(apart(ROW), model(ROW))
    parts(apart)["shared_1"].kernel.assign(parts(apart)["shared_1"].kernel * 2)
    assert not np.array_equal(
        array(parts(apart)["shared"].kernel), array(parts(apart)["shared_1"].kernel)
    )
    tied = ramet.trace(apart).share("shared", "shared_1").build()
    assert len(tied.weights) == 2
    same(tied(ROW), model(ROW))
    one = graph.replace("shared#2", layers.Dense(4, name="other")).build()
    assert [layer.name for layer in one.layers] == ["x", "shared", "other"]


def test_a_layer_in_outer_and_nested_graphs_is_one_layer():
    dense = layers.Dense(4, name="dense")
    inner_in = keras.Input((4,), name="inner_x")
    inner = keras.Model(inner_in, layers.ReLU(name="relu")(dense(inner_in)), name="inner")
    x = keras.Input((4,), name="x")
    model = keras.Model(x, inner(dense(x)), name="outer")
    edited = ramet.trace(model).configure("dense", activation="tanh").build()
    assert parts(edited)["dense"] is parts(parts(edited)["inner"])["dense"]
    assert len(edited.weights) == 2
    at = parts(edited)["dense"]
    same(edited(ROW), ops.relu(at(at(ROW))))
    other = ramet.trace(model).replace("inner/dense", layers.Dense(4, name="new")).build()
    assert parts(other)["new"] is parts(parts(other)["inner"])["new"]


def test_merge_and_chain():
    a, b = residual(), residual()
    graph = ramet.merge([a, b], name="both")
    merged = graph.build()
    same(merged(DATA), [a(DATA), b(DATA)])
    assert merged.name == "both"
    assert "'stem' of 'residual_2' is now 'residual_2_stem'" in str(graph.journal)
    average = graph.insert_after("head", layers.Identity(name="i")).build()
    same(average(DATA), [a(DATA), b(DATA)])
    separate = ramet.merge([a, b], inputs="separate").build()
    same(separate([DATA, 2 * DATA]), [a(DATA), b(2 * DATA)])
    c = keras.Sequential([keras.Input((3,)), layers.Dense(2, name="head")], name="c")
    chained = ramet.chain(a, c).build()
    same(chained(DATA), c(a(DATA)))
    with pytest.raises(ramet.GraphError, match="cannot share inputs"):
        ramet.merge([a, c])


# --- what the model is besides its graph ---


def test_sequential_stays_sequential_while_it_is_a_chain():
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dense(3, name="a"), layers.Dense(2, name="b")], name="seq"
    )
    model.compile("adam", "mse")
    edited = ramet.trace(model).insert_after("a", layers.Dropout(0.2, name="drop")).build()
    assert type(edited) is keras.Sequential
    assert [layer.name for layer in edited.layers] == ["a", "drop", "b"]
    assert edited.compiled
    edited.fit(ROW, np.zeros((3, 2)), verbose=0)
    branched = ramet.trace(model).add_output("a").build()
    assert not isinstance(branched, keras.Sequential)
    assert not branched.compiled


class Named(keras.Model):
    """A Functional subclass that holds its layers in attributes."""

    def __init__(self):
        x = keras.Input((4,), name="x")
        body, head = layers.Dense(4, name="body"), layers.Dense(2, name="head")
        super().__init__(x, head(body(x)), name="named")
        self.body, self.head, self.note = body, head, {"kept": [1, 2]}


def test_a_subclass_keeps_its_attributes():
    model = Named()
    edited = ramet.trace(model).replace("head", layers.Dense(5, name="wide")).build()
    assert edited.head is edited.get_layer("wide")
    assert edited.body is edited.get_layer("body")
    assert edited.note == {"kept": [1, 2]}
    assert edited.note is not model.note
    assert {v.path for v in edited.variables} == {
        "body/kernel", "body/bias", "wide/kernel", "wide/bias",
    }  # fmt: skip


@pytest.mark.parametrize("weights", ["copy", "share", "fresh"])
def test_weights_of_an_edited_graph(weights):
    model = residual()
    graph = ramet.trace(model).replace("a_relu", layers.PReLU(name="a_prelu"))
    edited = graph.build(weights=weights, seed=3 if weights == "fresh" else None)
    old, new = parts(model)["stem"].kernel, parts(edited)["stem"].kernel
    assert (old is new) == (weights == "share")
    assert np.array_equal(array(old), array(new)) == (weights != "fresh")
    if weights == "fresh":
        again = graph.build(weights="fresh", seed=3)
        for a, b in zip(edited.get_weights(), again.get_weights(), strict=True):
            assert np.array_equal(a, b)
        assert not np.array_equal(array(old), array(new))


def test_a_graph_is_built_twice_and_nothing_is_shared():
    model = residual()
    graph = ramet.trace(model).insert_after("a_add", layers.Dense(4, name="mix"))
    first, second = graph.build(), graph.build()
    before = [model.get_weights(), second.get_weights()]
    first.compile("sgd", "mse")
    first.fit(DATA, np.ones((4, 3)), verbose=0)
    for kept_before, other in zip(before, (model, second), strict=True):
        for a, b in zip(kept_before, other.get_weights(), strict=True):
            assert np.array_equal(a, b)
    second.compile("sgd", "mse")
    second.fit(DATA, np.ones((4, 3)), verbose=0)


def test_an_edited_model_is_saved_cloned_and_edited_again(tmp_path):
    edited = ramet.trace(residual()).insert_after("a_add", layers.Dense(4, name="mix")).build()
    edited.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    same(loaded(DATA), edited(DATA))
    assert ramet.verify(edited, ramet.clone(edited)).ok
    again = ramet.trace(edited).remove("mix").build()
    same(again(DATA), by_hand(again, DATA))


def test_the_source_is_untouched():
    model = residual()
    calls = {layer.name: len(layer._inbound_nodes) for layer in model.layers}
    before = model.get_weights()
    graph = ramet.trace(model)
    text = str(graph)
    graph.replace("a_relu", layers.PReLU()).with_inputs(shape=(16, 16, 3)).build()
    with pytest.raises(ramet.GraphError):
        graph.with_inputs(shape=(8, 8, 7)).build()
    assert {layer.name: len(layer._inbound_nodes) for layer in model.layers} == calls
    assert str(graph) == text
    assert not graph.journal
    for a, b in zip(before, model.get_weights(), strict=True):
        assert np.array_equal(a, b)


# --- selections ---


def test_selections():
    graph = ramet.trace(residual())
    convs = graph.select(kind=layers.Conv2D)
    assert len(convs) == 3
    assert [*(convs - graph.select(name="b_*"))] == ["stem", "a_conv"]
    assert [*(convs & graph.select(regex="^b_"))] == ["b_conv"]
    assert [*(graph.select(name="pool") | graph.select(kind="Dense"))] == ["pool", "head"]
    assert (
        graph.select(where=lambda layer: getattr(layer, "filters", 0) == 4, name="s*").one()
        == "stem"
    )
    assert "stem" in convs
    assert "3 layers" in repr(convs)
    inner = ramet.trace(nested())
    assert [*inner.select(name="body/*", kind=layers.Dense)] == ["body/one", "body/two"]
    assert [*inner.select(kind=layers.Dense)] == ["body/one", "body/two", "head"]


def test_selections_that_cannot_be():
    graph = ramet.trace(residual())
    nothing = graph.select(name="conv9*")
    with pytest.raises(ramet.GraphError, match=r"no layer of graph .* is selected by name="):
        nothing.remove()
    assert graph.select(name="conv9*", missing_ok=True).remove() is graph
    with pytest.raises(ramet.GraphError, match=r"expected one layer .* found 3"):
        graph.select(kind=layers.Conv2D).one()
    with pytest.raises(ramet.OptionError, match=r"2 places .* lambda old: PReLU"):
        graph.select(kind=layers.ReLU).replace(layers.PReLU())
    with pytest.raises(ramet.OptionError, match="not a regular expression"):
        graph.select(regex="(")
    with pytest.raises(ramet.OptionError, match="kind must be a class"):
        graph.select(kind=3)
    with pytest.raises(ramet.GraphError, match="graphs of two selections differ"):
        graph.select(name="a*") | graph.remove("a_relu").select(name="b*")


# --- errors: what, where, remedy ---


def test_names_that_do_not_exist():
    graph = ramet.trace(residual())
    with pytest.raises(
        ramet.GraphError,
        match=r"no layer 'a_reul' in graph 'residual' \(12 layers\); did you mean 'a_relu'",
    ):
        graph.replace("a_reul", layers.PReLU())
    with pytest.raises(ramet.GraphError, match=r"no layer 'one' .* did you mean 'body/one'"):
        ramet.trace(nested()).remove("one")
    with pytest.raises(ramet.GraphError, match=r"has no tensor at argument 2; it takes 0 .*, 1 "):
        graph.rewire("a_add", 2, "stem")
    with pytest.raises(ramet.OptionError, match="'activaton'; did you mean 'activation'"):
        graph.configure("head", activaton="relu")
    with pytest.raises(ramet.GraphError, match=r"has no input 'imgae'; did you mean 'image'"):
        graph.with_inputs({"imgae": keras.Input((8, 8, 3))})


def test_names_that_are_ambiguous_or_taken():
    x = keras.Input((4,), name="x")
    shared = layers.Dense(4, name="shared")
    graph = ramet.trace(keras.Model(x, shared(shared(x)), name="twice"))
    with pytest.raises(ramet.GraphError, match="2 times; name one call: shared#1, shared#2"):
        graph.insert_after("shared", layers.ReLU())
    with pytest.raises(ramet.GraphError, match="already has a layer 'x'"):
        graph.replace("shared", layers.Dense(4, name="x"))
    with pytest.raises(ramet.GraphError, match="already has a layer 'x'"):
        graph.rename({"shared": "x"})
    auto = graph.insert_after("shared#1", layers.Dense(4)).insert_after("shared#2", layers.Dense(4))
    assert len(auto.build().layers) == 4
    with pytest.raises(ramet.OptionError, match="without '/'"):
        graph.rename({"shared": "a/b"})


def test_automatic_names_make_way():
    first, second = layers.Dropout(0.1), layers.Dropout(0.1)
    second.name = first.name
    model = keras.Sequential([keras.Input((4,)), first, layers.Dense(2, name="d")])
    graph = ramet.trace(model).insert_after("d", second)
    edited = graph.build()
    assert len({layer.name for layer in edited.layers}) == 3
    assert f"'{edited.layers[-1].name}'" in str(graph.journal)


def test_edits_that_cannot_work():
    graph = ramet.trace(residual())
    with pytest.raises(ramet.GraphError, match=r"form a cycle"):
        graph.rewire("stem", 0, "a_add")
    with pytest.raises(ramet.GraphError, match=r"'a_add' has 2 input tensors .* reconnect"):
        graph.remove("a_add")
    with pytest.raises(ramet.GraphError, match="no outputs are named"):
        graph.extract(outputs=[])
    with pytest.raises(ramet.GraphError, match=r"input 'image' .* cannot be removed"):
        graph.remove("image")
    with pytest.raises(ramet.GraphError, match="takes 2 tensors; use insert_on"):
        graph.insert_before("a_add", layers.ReLU())
    with pytest.raises(ramet.OptionError, match="must be a Keras layer, got a int"):
        graph.replace("head", 3)
    with pytest.raises(ramet.OptionError, match="got the class Dense"):
        graph.replace("head", layers.Dense)
    with pytest.raises(ramet.OptionError, match="unknown weights='keep'"):
        graph.replace("head", layers.Dense(3), weights="keep")
    with pytest.raises(ramet.GraphError, match="is a GlobalAveragePooling2D, not a model"):
        graph.flatten("pool")
    with pytest.raises(ramet.GraphError, match="'head' is called once"):
        graph.unshare("head")
    with pytest.raises(ramet.GraphError, match="is a Conv2D and 'head' a Dense"):
        graph.share("stem", "head")
    with pytest.raises(ramet.GraphError, match="still depends on input 'image'"):
        graph.extract(inputs="a_relu")


def test_a_shape_that_does_not_fit_is_blamed_on_the_edit():
    graph = ramet.trace(residual()).rename({"pool": "gap"})
    graph = graph.insert_after("a_conv", layers.MaxPooling2D(2, name="half"))
    with pytest.raises(ramet.GraphError) as caught:
        graph.build()
    message = str(caught.value)
    for word in ("'a_add'", "(None, 8, 8, 4), (None, 4, 4, 4)", "where it took", "edit 2", "half"):
        assert word in message, message


def test_a_layer_of_another_model_is_copied_and_the_journal_says_so():
    other = residual()
    layer = parts(other)["head"]
    graph = ramet.trace(residual()).replace("head", layer)
    assert "a copy: it is used elsewhere too" in str(graph.journal)
    edited = graph.build()
    assert parts(edited)["head"] is not layer
    same(parts(edited)["head"].kernel, layer.kernel)
    assert len(layer._inbound_nodes) == 1


def test_the_journal_is_the_dry_run():
    graph = ramet.trace(residual())
    assert str(graph.journal) == "no edits"
    edited = graph.remove("a_relu").rename({"head": "logits"})
    assert str(edited.journal).splitlines() == [
        "1. remove 'a_relu' (ReLU) [changed]",
        "2. rename 'head' to 'logits' [exact]",
    ]
    assert "?" in str(edited)
    assert "?" not in str(graph)
    assert not graph.journal


def test_a_cut_below_an_edit():
    model = residual()
    graph = ramet.trace(model).replace("a_relu", layers.PReLU(name="act", alpha_initializer="ones"))
    graph = graph.insert_after("a_add", layers.Conv2D(6, 1, name="wide")).freeze("stem")
    graph = graph.insert_after("wide", layers.Conv2D(4, 1, name="narrow"))
    whole = graph.build()
    head, tail = graph.split("narrow")
    assert "split" in str(head.journal) or "extract" in str(head.journal)
    for part in (head.build(), tail.build()):
        assert all(layer.name in {each.name for each in whole.layers} for layer in part.layers[1:])
    halves = head.build(), tail.build()
    by_hand = parts(halves[1]) | parts(halves[0])
    same(halves[1](halves[0](DATA)), through(by_hand, DATA))
    assert not halves[0].get_layer("stem").trainable
    tip = graph.extract(inputs="wide", outputs="head").build()
    assert tip.input_shape == (None, 8, 8, 6)


def through(at, x):
    y = at["stem"](x)
    y = at["a_add"]([y, at["act"](at["a_norm"](at["a_conv"](y)))])
    y = at["narrow"](at["wide"](y))
    return at["head"](at["pool"](at["b_add"]([y, block(at, "b", y)])))
