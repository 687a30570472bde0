"""Adapters: exact at the start, they alone train, and they are saved, loaded and merged."""

import re

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from adaptmodels import bits, data_for, images, losses, shake, texts
from ramet.layers import Adapted


@pytest.fixture(scope="module", params=[texts, images], ids=lambda make: make.__name__)
def model(request):
    return request.param()


@pytest.fixture(scope="module")
def graph(model):
    return ramet.adapt.lora(model, "*", rank=2, seed=1)


def test_the_start_is_exact(model, graph):
    x, before = data_for(model), bits(model)
    adapted = graph.build()
    assert np.array_equal(model.predict(x, verbose=0), adapted.predict(x, verbose=0))
    assert np.array_equal(*(keras.ops.convert_to_numpy(each(x)) for each in (model, adapted)))
    assert bits(model) == before
    kinds = {layer.name for layer in adapted.layers if isinstance(layer, Adapted)}
    assert kinds >= {"head"}
    assert all("/adapters/" in variable.path for variable in adapted.trainable_variables)
    assert len({variable.path for variable in adapted.variables}) == len(adapted.variables)


def test_training_goes_on_after_saving_as_without(model, graph, tmp_path):
    """What Keras's own adapters cannot do."""
    x = data_for(model)
    adapted = graph.build()
    adapted.compile(keras.optimizers.Adam(0.01), "mse")
    base = {v.path: np.array(v) for v in adapted.non_trainable_variables}
    first = losses(adapted, x)
    assert first[-1] < first[0]
    after = {v.path: np.array(v) for v in adapted.non_trainable_variables}
    assert all(np.array_equal(base[path], after[path]) for path in base if "seed" not in path)
    path = tmp_path / "adapted.keras"
    adapted.save(path)
    loaded, checked = keras.models.load_model(path), ramet.files.load(path)
    paths = [[v.path for v in each.trainable_variables] for each in (loaded, adapted)]
    assert paths[0] == paths[1]
    assert [v.trainable for v in loaded.variables] == [v.trainable for v in adapted.variables]
    expected = losses(adapted, x)
    assert losses(loaded, x) == expected
    assert losses(ramet.clone(checked), x) == expected


def test_merging_gives_the_base_with_other_kernels(model, graph):
    x = data_for(model)
    adapted = graph.build()
    shake(adapted)
    merged = ramet.adapt.merge(adapted).build()
    want, have = (each.predict(x, verbose=0) for each in (adapted, merged))
    assert np.abs(want - have).max() <= 1e-6 * np.abs(want).max()
    assert np.abs(want - model.predict(x, verbose=0)).max() > 1e-3
    assert str(merged.get_config()) == str(model.get_config())
    assert [type(layer) for layer in merged.layers] == [type(layer) for layer in model.layers]
    assert [v.path for v in merged.variables] == [v.path for v in model.variables]
    assert [v.trainable for v in merged.variables] == [v.trainable for v in model.variables]
    assert ramet.verify(model, merged, only="structure")
    assert bits(ramet.adapt.unmerge(merged, adapted).build()) == bits(model)
    assert bits(ramet.adapt.remove(adapted).build()) == bits(model)
    assert ramet.verify(model, ramet.adapt.remove(adapted).build())


@pytest.mark.sampled
def test_an_adapted_model_is_a_model_like_others(model, graph):
    adapted = graph.build()
    shake(adapted)
    assert ramet.verify(adapted, ramet.clone(adapted))
    again = ramet.trace(adapted).rename({"head": "tail"}).build()
    assert [v.path for v in again.trainable_variables][-1].startswith("tail/adapters/")
    assert ramet.diff(model, adapted)
    assert graph.transfer_report().of("brought")
    twin = keras.models.clone_model(adapted)
    assert [type(layer) for layer in twin.layers] == [type(layer) for layer in adapted.layers]


@pytest.mark.sampled
@pytest.mark.parametrize("variant", ["rslora", "dora"])
def test_variants(variant):
    model = texts()
    x = data_for(model)
    graph = ramet.adapt.lora(model, ["**/query", "hidden"], rank=4, alpha=2, variant=variant)
    adapted = graph.build()
    assert graph.journal[-1].promise == {"rslora": "exact", "dora": "equal"}[variant]
    start, base = (each.predict(x, verbose=0) for each in (adapted, model))
    assert np.allclose(start, base, rtol=1e-6, atol=1e-6)
    assert np.array_equal(start, base) or variant == "dora"
    adapted.compile(keras.optimizers.Adam(0.01), "mse")
    first = losses(adapted, x)
    assert first[-1] < first[0]
    merged = ramet.adapt.merge(adapted).build().predict(x, verbose=0)
    assert np.allclose(adapted.predict(x, verbose=0), merged, rtol=1e-6, atol=1e-6)


def dense(units=4, **options):
    x = keras.Input((6,), name="x")
    return keras.Model(x, layers.Dense(units, name="d", **options)(x), name="net")


X = np.random.default_rng(2).standard_normal((8, 6)).astype("float32")


def by_hand(model, x, scale):
    """Return what an adapted Dense layer computes, by the formula of the paper."""
    values = {v.name: np.array(v).astype("float64") for v in model.get_layer("d").variables}
    update = values["default_0_down"] @ values["default_0_up"]
    return x @ (values["kernel"] + scale * update) + values["bias"]


@pytest.mark.parametrize(("variant", "scale"), [("lora", 3 / 2), ("rslora", 3 / 2**0.5)])
def test_the_formula(variant, scale):
    adapted = ramet.adapt.lora(dense(), "d", rank=2, alpha=3, variant=variant).build()
    shake(adapted)
    assert np.allclose(adapted.predict(X, verbose=0), by_hand(adapted, X, scale), atol=1e-5)


def test_negative_zeros_stay():
    model = dense(use_bias=False)
    model.get_layer("d").kernel.assign(-np.zeros((6, 4)))
    adapted = ramet.adapt.lora(model, "d", rank=2, seed=0).build()
    layer = adapted.get_layer("d")
    assert np.signbit(np.array(ramet.adapt.merge(adapted).build().get_layer("d").kernel)).all()
    assert np.signbit(np.array(layer.kernel)).all()


@pytest.mark.sampled
def test_mixed_precision_merges_what_it_computes():
    model = dense(3, dtype="mixed_bfloat16")
    adapted = ramet.adapt.lora(model, "d", rank=2).build()
    assert adapted.get_layer("d").compute_dtype == "bfloat16"
    assert {v.dtype for v in adapted.trainable_variables} == {"float32"}
    shake(adapted)
    merged = ramet.adapt.merge(adapted).build()
    assert np.array_equal(adapted.predict(X, verbose=0), merged.predict(X, verbose=0))
    half = ramet.adapt.lora(dense(3, dtype="bfloat16"), "d", rank=2).build()
    assert {v.dtype for v in half.trainable_variables} == {"float32"}
    half.compile("sgd", "mse")
    assert np.isfinite(losses(half, X)).all()


def test_several_adapters():
    model = dense(3)
    one = ramet.adapt.lora(model, "d", rank=2, name="fr").build()
    shake(one)
    fr = one.predict(X, verbose=0)
    graph = ramet.adapt.lora(one, "d", rank=1, name="de")
    assert graph.journal[-1].promise == "changed"
    assert "; 'fr' is switched off" in str(graph.journal)
    two = graph.build()
    base = model.predict(X, verbose=0)
    assert np.array_equal(two.predict(X, verbose=0), base)
    assert [v.name for v in two.trainable_variables] == ["de_0_down", "de_0_up"]
    ramet.adapt.use(two, "fr")
    assert np.array_equal(two.predict(X, verbose=0), fr)
    assert [v.name for v in two.trainable_variables] == ["fr_0_down", "fr_0_up"]
    ramet.adapt.use(two, None)
    assert np.array_equal(two.predict(X, verbose=0), base)
    assert two.trainable_variables == []
    for variable, value in zip(two.get_layer("d").adapters.variables[4:], (1.0, 1.0), strict=False):
        variable.assign(np.full(variable.shape, value))
    ramet.adapt.use(two, "de")
    de = two.predict(X, verbose=0)
    ramet.adapt.use(two, {"fr": 0.5, "de": -2})
    assert np.allclose(
        two.predict(X, verbose=0), base + (fr - base) / 2 - 2 * (de - base), atol=1e-5
    )
    both = ramet.adapt.merge(two, ["fr", "de"]).build()
    assert np.allclose(both.predict(X, verbose=0), fr + de - base, atol=1e-5)


def test_a_switch_trains_others_with_a_new_optimizer():
    one = ramet.adapt.lora(dense(3), "d", rank=2, name="fr").build()
    two = ramet.adapt.lora(one, "d", rank=2, name="de").build()
    two.compile(keras.optimizers.Adam(0.05), "mse")
    losses(two, X)
    layer = two.get_layer("d").adapters
    fr = [np.array(v) for v in layer.variables if v.name.startswith("fr_0")]
    ramet.adapt.use(two, "fr")
    assert float(two.optimizer.learning_rate) == pytest.approx(0.05)
    de = [np.array(v) for v in layer.variables if v.name.startswith("de_0")]
    losses(two, X)
    now = {v.name: np.array(v) for v in layer.variables}
    assert not np.array_equal(now["fr_0_up"], fr[1])
    assert np.array_equal(now["de_0_down"], de[0])
    assert np.array_equal(now["de_0_up"], de[1])


@pytest.mark.sampled
def test_what_trains_besides(tmp_path):
    model = texts()
    graph = ramet.adapt.lora(model, "**/query", rank=2, train_also=["head", "block/norm"])
    adapted = graph.build()
    others = [v.path for v in adapted.trainable_variables if "/adapters/" not in v.path]
    assert sorted(others) == ["head/bias", "head/kernel", "norm/beta", "norm/gamma"]
    adapted.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    assert [v.path for v in loaded.trainable_variables] == [
        v.path for v in adapted.trainable_variables
    ]
    whole = ramet.adapt.lora(model, "hidden", rank=2, train_also="hidden").build()
    assert [v.name for v in whole.trainable_variables] == [
        *("kernel", "bias"),
        *("default_0_down", "default_0_up"),
    ]


@pytest.mark.sampled
def test_places():
    model = texts()

    def named(at):
        adapted = ramet.adapt.lora(model, at, rank=1).build()
        return {
            f"{layer.name}/{target.path}"
            for layer in (*adapted.layers, *adapted.get_layer("block").layers)
            if isinstance(layer, Adapted)
            for target in layer.adapters.entries[0].targets
        }

    assert named("block/mha/query") == {"mha/query/kernel"}
    assert named("**/query") == {"mha/query/kernel", "gqa/query/kernel"}
    assert named("query") == named("**/query")
    assert named(re.compile("^gru")) == {"gru/gru_cell/kernel", "gru/gru_cell/recurrent_kernel"}
    assert named("**/recurrent_kernel") == {
        "gru/gru_cell/recurrent_kernel",
        "both/forward_lstm/lstm_cell/recurrent_kernel",
        "both/backward_lstm/lstm_cell/recurrent_kernel",
    }
    assert named(["hidden", "embedding"]) == {"hidden/kernel", "embedding/embeddings"}
    graph = ramet.trace(model)
    selected = graph.select(name="h*")
    adapted = ramet.adapt.lora(graph, {selected: 2, "head": 3}).build()
    assert [v.shape[1] for v in adapted.trainable_variables[::2]] == [2, 3]


class Block(keras.layers.Layer):
    """A user's layer with layers inside."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.steps = [layers.Dense(units), layers.Dense(units, trainable=False)]

    def build(self, shape):
        for step in self.steps:
            step.build((*shape[:-1], self.units))

    def call(self, x):
        for step in self.steps:
            x = step(x)
        return x

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@pytest.mark.sampled
def test_layers_inside_a_users_layer(tmp_path):
    x = keras.Input((6,))
    model = keras.Model(x, layers.Dense(3, name="head")(Block(6, name="block")(x)))
    adapted = ramet.adapt.lora(model, "block", rank=2).build()
    assert len(adapted.trainable_variables) == 4
    shake(adapted)
    adapted.compile("sgd", "mse")
    losses(adapted, X)
    adapted.save(tmp_path / "a.keras")
    custom = {"Block": Block}
    loaded = keras.models.load_model(tmp_path / "a.keras", custom_objects=custom)
    assert np.array_equal(adapted.predict(X, verbose=0), loaded.predict(X, verbose=0))
    assert losses(adapted, X) == losses(loaded, X)
    with pytest.raises(ramet.RametError, match="Block"):
        ramet.files.load(tmp_path / "a.keras")
    merged = ramet.adapt.merge(adapted).build()
    flags = [v.trainable for v in merged.get_layer("block").variables]
    assert flags == [True, True, False, False]


@pytest.mark.sampled
def test_a_shared_layer_and_a_frozen_model():
    x = keras.Input((6,))
    shared = layers.Dense(6, name="shared")
    model = keras.Model(x, layers.Dense(3, name="head")(shared(shared(x))))
    model.trainable = False
    adapted = ramet.adapt.lora(model, "shared", rank=2).build()
    assert len(adapted.trainable_variables) == 2
    shake(adapted)
    merged = ramet.adapt.merge(adapted).build()
    assert np.allclose(merged.predict(X, verbose=0), adapted.predict(X, verbose=0), rtol=1e-6)
    assert merged.trainable_variables == []


def test_state_that_a_layer_changes_while_it_is_called():
    """Seeds move on, and losses are collected, though the kernels are read as others."""
    x = keras.Input((4, 6))
    y = layers.LSTM(4, dropout=0.5, recurrent_dropout=0.5, seed=3, name="lstm")(x)
    y = layers.Dense(3, activity_regularizer="l2", name="head")(y)
    model = keras.Model(x, y)
    adapted = ramet.adapt.lora(model, "*", rank=2).build()
    data = np.random.default_rng(3).standard_normal((8, 4, 6)).astype("float32")
    for _ in range(2):
        one, two = (
            keras.ops.convert_to_numpy(each(data, training=True)) for each in (model, adapted)
        )
        assert np.array_equal(one, two)
    assert len(adapted.losses) == len(model.losses) == 1
    adapted.compile(keras.optimizers.Adam(0.01), "mse")
    seed = next(v for v in adapted.variables if "seed" in v.path)
    before = np.array(seed)
    losses(adapted, data)
    assert not np.array_equal(before, np.array(seed))


def test_a_custom_training_loop_with_stateless_calls(backend):
    """Values that a caller maps are used, and gradients reach the factors."""
    adapted = ramet.adapt.lora(dense(3), "d", rank=2).build()
    shake(adapted)
    trainable = [keras.ops.zeros(v.shape) for v in adapted.trainable_variables]
    fixed = [v.value for v in adapted.non_trainable_variables]
    outputs, _ = adapted.stateless_call(trainable, fixed, keras.ops.convert_to_tensor(X))
    layer = adapted.get_layer("d")
    assert np.allclose(keras.ops.convert_to_numpy(outputs), X @ np.array(layer.kernel), atol=1e-5)
    if backend == "jax":
        import jax

        values = [v.value for v in adapted.trainable_variables]
        step = jax.jit(lambda t: adapted.stateless_call(t, fixed, X)[0].sum())
        assert all(np.abs(each).sum() > 0 for each in jax.grad(step)(values))


# --- what is refused ---


def refused(match, *args, error=ramet.errors.GraphError, model=None, **options):
    model = dense(3) if model is None else model
    before = bits(model), str(model.get_config())
    with pytest.raises(error, match=match):
        ramet.adapt.lora(model, *args, **options).build()
    assert (bits(model), str(model.get_config())) == before


@pytest.mark.sampled
def test_what_cannot_be_adapted():
    refused(r"nothing in graph 'net' .* is named by 'dd'; did you mean 'd'\?", "dd")
    refused(r"is named by 'zzz'; it has: d/kernel", "zzz")
    refused("only layers without a kernel", "norm", model=images())
    refused("a matrix of 6 x 3; its rank is 1 to 3", "d", rank=4, error=ramet.errors.OptionError)
    refused("rank 0 does not fit", {"d": 0}, error=ramet.errors.OptionError)
    refused("no layer of graph 'net' is named by train_also='y.*'", "d", rank=1, train_also="y*")
    refused("unknown variant='lor'", "d", variant="lor", error=ramet.errors.OptionError)
    refused("init must be one of", "d", init="zeros", error=ramet.errors.OptionError)
    refused("letters, digits, - and _, got 'a/b'", "d", name="a/b", error=ramet.errors.OptionError)
    refused("alpha must be a number", "d", rank=1, alpha="x", error=ramet.errors.OptionError)
    refused("alpha must be positive", "d", rank=1, alpha=0, error=ramet.errors.OptionError)
    refused("named by a glob", 3, error=ramet.errors.OptionError)
    refused("at names nothing; pass a glob", [], error=ramet.errors.OptionError)
    selected = ramet.trace(dense()).select(name="d")
    refused("which is not the one that is adapted", selected, rank=1)


@pytest.mark.sampled
def test_a_name_that_is_taken():
    adapted = ramet.adapt.lora(dense(), "d", rank=1, name="fr").build()
    refused("already has an adapter 'fr'", "d", rank=1, name="fr", model=adapted)
    with pytest.raises(ramet.errors.GraphError, match="already"):
        ramet.adapt.lora(ramet.adapt.lora(dense(), "d", rank=1), "d", rank=1)


@pytest.mark.sampled
def test_a_kernel_of_two_layers():
    x = keras.Input((6,))
    one, two = layers.Dense(6, name="one"), layers.Dense(6, name="two")
    model = keras.Model(x, two(one(x)))
    with two._open_name_scope():
        two._tracker.unlock()
        two._kernel = one._kernel
    refused("is also 'one/kernel'", "two", rank=1, model=model)


@pytest.mark.sampled
def test_other_edits_and_adapters():
    graph = ramet.adapt.lora(dense(), "d", rank=2)
    with pytest.raises(ramet.errors.StateError, match="adapt the model after its other edits"):
        graph.configure("d", units=7).build()
    with pytest.raises(ramet.errors.OptionError, match="cannot share"):
        graph.build(weights="share")
    configured = ramet.trace(dense()).configure("d", units=5)
    adapted = ramet.adapt.lora(configured, "d", rank=2).build()
    assert adapted.get_layer("d").adapters.entries[0].targets[0].shape == (6, 5)
    wider = ramet.trace(adapted).configure("d", activation="relu").build()
    assert np.array_equal(wider.predict(X, verbose=0), np.maximum(adapted.predict(X, verbose=0), 0))


@pytest.mark.sampled
def test_merging_and_unmerging_what_is_not_there():
    model = dense(3)
    adapted = ramet.adapt.lora(model, "d", rank=1).build()
    shake(adapted)
    for verb in (ramet.adapt.merge, ramet.adapt.remove):
        with pytest.raises(ramet.errors.GraphError, match="has no adapters; add one"):
            verb(model)
    with pytest.raises(ramet.errors.GraphError, match="no adapter 'fr'; it has: default"):
        ramet.adapt.merge(adapted, "fr")
    with pytest.raises(ramet.errors.GraphError, match="no adapter 'defau'; did you mean"):
        ramet.adapt.use(adapted, "defau")
    with pytest.raises(ramet.errors.OptionError, match="weight of adapter 'default'"):
        ramet.adapt.use(adapted, {"default": float("nan")})
    with pytest.raises(ramet.errors.ModelError, match="Keras model"):
        ramet.adapt.use(3, "fr")
    with pytest.raises(ramet.errors.StateError, match="is not what merging the adapters"):
        ramet.adapt.unmerge(dense(3), adapted)
    with pytest.raises(ramet.errors.GraphError, match="has no layer 'd', which was adapted"):
        ramet.adapt.unmerge(ramet.trace(model).rename({"d": "e"}), adapted)


@pytest.mark.one_backend
def test_a_hostile_config_of_an_adapted_layer(tmp_path):
    import json
    import zipfile

    adapted = ramet.adapt.lora(dense(), "d", rank=1).build()
    adapted.save(tmp_path / "good.keras")
    assert ramet.files.load(tmp_path / "good.keras").get_layer("d").adapters.entries
    with zipfile.ZipFile(tmp_path / "good.keras") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    layer = next(one for one in config["config"]["layers"] if one["name"] == "d")

    def load(change):
        kept = json.dumps(layer["config"])
        change(layer["config"])
        path = tmp_path / "bad.keras"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                text = json.dumps(config) if name == "config.json" else content
                archive.writestr(name, text)
        layer["config"] = json.loads(kept)
        ramet.files.load(path)

    evil = {"class_name": "get_file", "module": "keras.utils", "config": {"origin": "x"}}
    changes = {
        "of an unknown form": lambda c: c.update(vocabulary="/etc/passwd"),
        "which can run code": lambda c: c.update(base=evil),
        "cannot be loaded": lambda c: c.update(adapters=[{"name": "x"}]),
        "cannot be loaded:": lambda c: c["adapters"][0]["targets"][0].update(held="call"),
        "cannot be loaded.*kernel": lambda c: c["adapters"][0]["targets"][0].update(shape=[4, 6]),
        "add up": lambda c: c["adapters"][0]["targets"][0].update(rank=10**9),
    }
    for match, change in changes.items():
        with pytest.raises(ramet.errors.FileError, match=match):
            load(change)
