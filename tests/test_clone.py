"""`clone` and `clone_model` as a user meets them: options, errors, and odd company."""

import io
import random
import threading

import keras
import numpy as np
import pytest
from benchmarks.measure import peak_growth
from keras import layers, ops

import ramet


def mlp(**kwargs) -> keras.Model:
    inputs = keras.Input((3,))
    hidden = layers.Dense(4, activation="relu")(inputs)
    return keras.Model(inputs, layers.Dense(2)(layers.Dropout(0.5)(hidden)), **kwargs)


DATA = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
TARGETS = np.zeros((4, 2), "float32")


def values(model: keras.Model) -> list[np.ndarray]:
    return [ops.convert_to_numpy(v) for v in model.variables]


def assert_equal(first, second) -> None:
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a, b)


# --- Options ---


def test_name_renames_the_model_alone():
    model = mlp(name="online")
    twin = ramet.clone(model, name="target")
    assert (model.name, twin.name) == ("online", "target")
    assert [v.path for v in twin.variables] == [v.path for v in model.variables]


def test_share_puts_new_layers_on_the_same_variables():
    model = mlp()
    twin = ramet.clone(model, weights="share")
    assert all(a is b for a, b in zip(model.variables, twin.variables, strict=True))
    assert not {id(a) for a in model.layers} & {id(b) for b in twin.layers}
    twin.compile("sgd", "mse")
    twin.fit(DATA, TARGETS, verbose=0)
    assert np.array_equal(model.predict(DATA, verbose=0), twin.predict(DATA, verbose=0))
    model.compile("sgd", "mse")
    model.fit(DATA, TARGETS, verbose=0)
    assert np.array_equal(model.predict(DATA, verbose=0), twin.predict(DATA, verbose=0))


def test_sharing_weights_does_not_share_the_optimizer():
    model = mlp()
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.fit(DATA, TARGETS, verbose=0)
    twin = ramet.clone(model, weights="share")
    before = values(model.optimizer)
    twin.fit(DATA, TARGETS, verbose=0)
    assert_equal(before, values(model.optimizer))
    assert int(ops.convert_to_numpy(twin.optimizer.iterations)) == 2


def test_fresh_is_new_and_reproducible():
    model = mlp()
    first, second = (ramet.clone(model, weights="fresh", seed=3) for _ in range(2))
    other = ramet.clone(model, weights="fresh", seed=4)
    assert_equal(values(first), values(second))
    for kernel in (0, 2):
        assert not np.array_equal(values(first)[kernel], values(model)[kernel])
        assert not np.array_equal(values(first)[kernel], values(other)[kernel])


def test_fresh_follows_the_global_seed():
    model = mlp()
    drawn = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        drawn.append([values(ramet.clone(model, weights="fresh")) for _ in range(2)])
    for first, second in zip(*drawn, strict=True):
        assert_equal(first, second)
    assert not np.array_equal(drawn[0][0][0], drawn[0][1][0])


def test_fresh_with_a_seed_leaves_random_numbers_alone():
    model = mlp()
    state, counters = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002  the global one
    name = keras.backend.get_uid("probe")
    ramet.clone(model, weights="fresh", seed=1)
    assert random.getstate() == state
    assert np.array_equal(np.random.get_state()[1], counters)  # noqa: NPY002  the same
    assert keras.backend.get_uid("probe") == name + 1


def test_fresh_starts_optimizer_and_metrics_anew():
    model = mlp()
    model.compile(keras.optimizers.Adam(0.25), "mse", metrics=["mae"])
    model.fit(DATA, TARGETS, verbose=0)
    twin = ramet.clone(model, weights="fresh", seed=0)
    assert int(ops.convert_to_numpy(twin.optimizer.iterations)) == 0
    assert float(ops.convert_to_numpy(twin.optimizer.learning_rate)) == 0.25
    assert all(not v.any() for v in values(twin.optimizer)[2:])
    assert all(not ops.convert_to_numpy(v).any() for m in twin.metrics for v in m.variables)
    twin.fit(DATA, TARGETS, verbose=0)


def test_fresh_keeps_what_was_adapted():
    normalize = layers.Normalization()
    normalize.adapt(DATA * 3 + 5)
    model = keras.Sequential([keras.Input((3,)), normalize, layers.Dense(1)])
    twin = ramet.clone(model, weights="fresh", seed=0)
    assert np.array_equal(
        ops.convert_to_numpy(normalize(DATA)), ops.convert_to_numpy(twin.layers[0](DATA))
    )


def test_unbuilt_models_can_be_fresh():
    model = keras.Sequential([layers.Dense(4), layers.Dense(2)])
    twin = ramet.clone(model, weights="fresh")
    outputs = [ops.convert_to_numpy(m(DATA)) for m in (model, twin)]
    assert not np.array_equal(*outputs)
    assert [layer.name for layer in twin.layers] == [layer.name for layer in model.layers]


def test_a_graph_can_be_cloned_too():
    model = mlp()
    twin = ramet.clone(ramet.trace(model))
    assert np.array_equal(*(m.predict(DATA, verbose=0) for m in (model, twin)))


# --- Bad input ---


class Plain(keras.Model):
    def __init__(self):
        super().__init__(name="plain")
        self.dense = layers.Dense(2)

    def call(self, inputs):
        return self.dense(inputs)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, r"expected a Keras model, got None; pass an instance of keras\.Model"),
        (keras.Model, r"got the class Model; pass an instance of it, such as Model\(\.\.\.\)"),
        (Plain, r"got the class Plain; pass an instance"),
        (3, r"expected a Keras model, got 3; pass an instance"),
        (layers.Dense(2), r"got a Dense; wrap the layer in a model, such as keras\.Sequential"),
    ],
)
@pytest.mark.parametrize("function", [ramet.clone, ramet.clone_model, ramet.trace])
def test_what_is_not_a_model_is_refused(function, bad, message):
    with pytest.raises(ramet.ModelError, match=message) as caught:
        function(bad)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"weights": "fesh"},
            r"unknown weights='fesh'; expected one of .*; did you mean 'fresh'\?",
        ),
        ({"weights": None}, "unknown weights=None"),
        ({"seed": 1}, r"seed=1 has no effect with weights='copy'.*pass weights='fresh'"),
        ({"weights": "fresh", "seed": "x"}, "seed must be an integer, got 'x'"),
        ({"name": "a/b"}, "name must be a string without '/', got 'a/b'"),
        ({"name": ""}, "name must be a string"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ramet.OptionError, match=message) as caught:
        ramet.clone(mlp(), **options)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("weights", ["copy", "share"])
@pytest.mark.parametrize("make", [lambda: keras.Sequential([layers.Dense(2)], name="plain"), Plain])
def test_there_must_be_something_to_copy(make, weights):
    message = rf"model 'plain' has not been built.*no weights to {weights} yet; .*weights='fresh'"
    with pytest.raises(ramet.StateError, match=message) as caught:
        ramet.clone(make(), weights=weights)
    assert isinstance(caught.value, ValueError)


def test_trace_says_why_there_is_no_graph():
    with pytest.raises(ramet.ModelError, match=r"'plain' \(Plain\) has no graph: .* Python code"):
        ramet.trace(Plain())
    with pytest.raises(ramet.ModelError, match=r"Sequential model 's' has not been built.*Input"):
        ramet.trace(keras.Sequential([layers.Dense(1)], name="s"))


class Holder(layers.Layer):
    """Holds whatever it is given, which no config can tell."""

    def __init__(self, held, **kwargs):
        super().__init__(**kwargs)
        self.held = held

    def call(self, inputs):
        return inputs


@pytest.mark.parametrize(
    ("held", "kind"),
    [
        (threading.Lock, "lock"),
        (lambda: io.FileIO(0, closefd=False), "FileIO"),
        (lambda: (i for i in range(3)), "generator"),
        (lambda: [{"deep": threading.RLock()}], "RLock"),
    ],
)
def test_what_cannot_be_copied_is_named(held, kind):
    model = keras.Sequential([keras.Input((3,)), Holder(held(), name="holder")])
    before = dict(vars(model.layers[0]))
    message = rf"layer 'holder' \(Holder\) cannot be copied: its attribute 'held' holds a {kind}"
    with pytest.raises(ramet.CopyError, match=message) as caught:
        ramet.clone(model)
    assert "set it again on both" in str(caught.value)
    assert ("get_config" in str(caught.value)) == (kind == "lock")
    assert isinstance(caught.value, TypeError)
    assert vars(model.layers[0]) == before


class Locked(layers.Layer):
    """Makes its lock itself, so a copy made from its config has one too."""

    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.lock = threading.Lock()
        self.dense = layers.Dense(units)

    def call(self, inputs):
        with self.lock:
            return self.dense(inputs)


def test_a_lock_is_made_anew_and_all_else_is_copied():
    model = keras.Sequential([keras.Input((3,)), Locked()])
    model.layers[0].note = "set later"
    twin = ramet.clone(model)
    assert twin.layers[0].lock is not model.layers[0].lock
    assert twin.layers[0].note == "set later"
    with model.layers[0].lock:
        assert np.array_equal(ops.convert_to_numpy(twin(DATA)), twin.predict(DATA, verbose=0))
    ramet.verify(model, twin).raise_if_different()


class OpensFile(layers.Layer):
    def __init__(self, path, **kwargs):
        super().__init__(**kwargs)
        self.path_to_log = path
        self.log = open(path, "w")  # noqa: PTH123, SIM115  held open on purpose

    def call(self, inputs):
        return inputs


def test_a_file_is_never_opened_again(tmp_path):
    layer = OpensFile(str(tmp_path / "log"), name="logger")
    model = keras.Sequential([keras.Input((3,)), layer])
    layer.log.write("kept")
    layer.log.flush()
    with pytest.raises(ramet.CopyError, match=r"layer 'logger' .* 'log' holds a TextIOWrapper"):
        ramet.clone(model)
    layer.log.close()
    assert (tmp_path / "log").read_text() == "kept"


class Once(layers.Layer):
    """Can be constructed one time only."""

    made = 0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        type(self).made += 1
        if type(self).made > 1:
            raise RuntimeError("only once")

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1],))

    def call(self, inputs):
        return inputs * self.kernel


def test_exceptions_of_user_code_pass_through_with_the_layers_name():
    Once.made = 0
    model = keras.Sequential([keras.Input((3,)), Once(name="once")])
    assert np.array_equal(*(m.predict(DATA, verbose=0) for m in (model, ramet.clone(model))))
    with pytest.raises(RuntimeError, match="only once") as caught:
        ramet.clone(model, weights="fresh")
    assert any("layer 'once'" in note for note in caught.value.__notes__)


def test_an_unknown_initializer_is_an_error():
    class Early(layers.Layer):
        def __init__(self, fn, **kwargs):
            del fn
            super().__init__(**kwargs)
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

        def call(self, inputs):
            return inputs * self.scale

    model = keras.Sequential([keras.Input((3,)), Early(object(), name="early")])
    with pytest.raises(ramet.StateError, match=r"layer 'early' .* 'early/scale'|'scale'"):
        ramet.clone(model, weights="fresh")


# --- Odd company ---


def test_clone_of_a_clone_of_a_loaded_model(tmp_path):
    model = mlp()
    model.compile("adam", "mse")
    model.fit(DATA, TARGETS, verbose=0)
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    twin = ramet.clone(ramet.clone(loaded))
    ramet.verify(loaded, twin).raise_if_different()
    assert_equal(values(model.optimizer), values(twin.optimizer))


def test_clone_inside_a_callback():
    model = mlp()
    model.compile("sgd", "mse")
    kept = []

    class Keep(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            del epoch, logs
            kept.append((ramet.clone(self.model), values(self.model)))

    model.fit(DATA, TARGETS, epochs=3, verbose=0, callbacks=[Keep()])
    for twin, expected in kept:
        assert_equal(values(twin), expected)
    kept[0][0].fit(DATA, TARGETS, verbose=0)


def test_clone_in_a_thread():
    model, found = mlp(), []
    thread = threading.Thread(target=lambda: found.append(ramet.clone(model)))
    thread.start()
    thread.join()
    assert np.array_equal(*(m.predict(DATA, verbose=0) for m in (model, found[0])))


def test_a_deep_chain_needs_no_deep_stack(monkeypatch):
    import sys

    monkeypatch.setattr(sys, "setrecursionlimit", sys.setrecursionlimit)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(30000)
    try:
        x = inputs = keras.Input((2,))
        for _ in range(1500):
            x = layers.Activation("relu")(x)
        model = keras.Model(inputs, x)
    finally:
        sys.setrecursionlimit(limit)
    twin = ramet.clone(model)
    assert len(twin.layers) == 1501
    assert [layer.name for layer in twin.layers] == [layer.name for layer in model.layers]


def test_the_target_network_pattern():
    online = mlp(name="online")
    target = ramet.clone(online, name="target")
    frozen = values(target)
    online.compile("sgd", "mse")
    online.fit(DATA, TARGETS, epochs=2, verbose=0)
    assert_equal(values(target), frozen)
    target.set_weights(online.get_weights())
    assert np.array_equal(*(m.predict(DATA, verbose=0) for m in (online, target)))


# --- clone_model beyond what Keras allows ---


def test_call_function_on_a_sequential_model():
    model = keras.Sequential([keras.Input((3,)), layers.Dense(4), layers.Dense(2)])

    def call(layer, *args, **kwargs):
        out = layer(*args, **kwargs)
        return layers.Dropout(0.5)(out) if isinstance(layer, layers.Dense) else out

    twin = ramet.clone_model(model, call_function=call)
    assert isinstance(twin, keras.Sequential)
    assert [type(layer).__name__ for layer in twin.layers] == ["Dense", "Dropout"] * 2
    twin.compile("sgd", "mse")
    twin.fit(DATA, TARGETS, verbose=0)


def test_a_sequential_model_that_branches_becomes_functional():
    model = keras.Sequential([keras.Input((3,)), layers.Dense(3), layers.Dense(3)], name="s")
    twin = ramet.clone_model(
        model, call_function=lambda layer, x, **kwargs: layers.Add()([x, layer(x, **kwargs)])
    )
    assert not isinstance(twin, keras.Sequential)
    assert twin.name == "s"
    assert twin.predict(DATA, verbose=0).shape == (4, 3)


@pytest.mark.since_keras(3, 14)
def test_clone_model_keeps_optional_inputs_and_the_class():
    class Named(keras.Model):
        pass

    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b", optional=True)
    model = Named([a, b], layers.Dense(2)(a))
    twin = ramet.clone_model(model, clone_function=lambda x: type(x).from_config(x.get_config()))
    assert type(twin) is Named
    assert twin.inputs[1]._keras_history.operation.optional


def test_clone_model_on_other_shapes():
    model = mlp()
    twin = ramet.clone_model(model, input_tensors=keras.Input((7,), name="wide"))
    assert twin.input.name == "wide"
    assert twin.layers[1].kernel.shape == (7, 4)


def test_clone_model_compiles_alike():
    model = mlp()
    model.compile(keras.optimizers.Adam(0.125), loss=lambda y, p: ops.mean((y - p) ** 2))
    model.fit(DATA, TARGETS, verbose=0)
    twin = ramet.clone_model(model, clone_function=lambda x: type(x).from_config(x.get_config()))
    assert float(ops.convert_to_numpy(twin.optimizer.learning_rate)) == 0.125
    assert int(ops.convert_to_numpy(twin.optimizer.iterations)) == 0
    twin.fit(DATA, TARGETS, verbose=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (DATA, r"input_tensors of model 'm' must be symbolic Keras tensors, got a ndarray"),
        ([1, 2], "must be symbolic Keras tensors, got a int"),
    ],
)
def test_input_tensors_must_be_symbolic(given, message):
    with pytest.raises(ramet.OptionError, match=message):
        ramet.clone_model(mlp(name="m"), input_tensors=given)


def test_input_tensors_must_have_the_models_structure():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    model = keras.Model({"a": a, "b": b}, layers.Add()([a, b]), name="m")
    new = [keras.Input((3,), name="p"), keras.Input((3,), name="q")]
    message = r"same structure as model.input of 'm': expected \{'a': 'a', 'b': 'b'\}, got \['p'"
    with pytest.raises(ramet.OptionError, match=message):
        ramet.clone_model(model, input_tensors=new)


def test_input_tensors_in_a_dict_go_by_key():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    model = keras.Model({"b": b, "a": a}, layers.Subtract()([a, b]))
    new = {"a": keras.Input((3,), name="a"), "b": keras.Input((3,), name="b")}
    twin = ramet.clone_model(model, input_tensors=new)
    assert list(twin.input) == ["b", "a"]
    data = {"a": DATA, "b": DATA * 0}
    assert np.array_equal(ops.convert_to_numpy(twin(data)), DATA)


def test_a_model_without_a_graph_takes_no_functions():
    model = Plain()
    model(DATA)
    with pytest.raises(ramet.OptionError, match=r"model 'plain' \(Plain\) has no graph"):
        ramet.clone_model(model, clone_function=lambda layer: layer)
    assert ramet.clone_model(model)(DATA).shape == (4, 2)


def test_call_function_needs_calls():
    model = keras.Sequential([layers.Dense(2)], name="s")
    with pytest.raises(ramet.OptionError, match=r"'s' has not been built.* pass input_tensors"):
        ramet.clone_model(model, call_function=lambda layer, x: layer(x))
    twin = ramet.clone_model(
        model, call_function=lambda layer, x: layer(x), input_tensors=keras.Input((3,))
    )
    assert twin.predict(DATA, verbose=0).shape == (4, 2)
    with pytest.raises(ramet.OptionError, match=r"has one input, but input_tensors holds int"):
        ramet.clone_model(model, input_tensors=[1])


def test_clone_function_errors_name_the_layer():
    def fail(layer):
        raise KeyError(layer.name)

    with pytest.raises(KeyError) as caught:
        ramet.clone_model(mlp(), clone_function=fail)
    assert any("while cloning layer 'dense" in note for note in caught.value.__notes__)
    with pytest.raises(ZeroDivisionError) as caught:
        ramet.clone_model(mlp(), call_function=lambda *_, **__: 1 / 0)
    assert any("while calling layer 'dense" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("made", [None, 3, lambda x: x])
def test_clone_function_must_return_a_layer(made):
    with pytest.raises(ramet.OptionError, match=r"clone_function .* for layer 'dense.*a layer"):
        ramet.clone_model(mlp(), clone_function=lambda _: made)


@pytest.mark.parametrize("made", [None, 3])
def test_call_function_must_return_tensors(made):
    with pytest.raises(
        ramet.OptionError, match=r"calling layer 'dense.* returned .*symbolic tensors"
    ):
        ramet.clone_model(mlp(), call_function=lambda *_, **__: made)


def test_a_clone_needs_the_memory_of_its_weights_and_little_more():
    model = keras.Sequential([keras.Input((2048,)), *(layers.Dense(2048) for _ in range(12))])
    ramet.clone(mlp())  # What is imported, and made once, is not the clone's.
    growth = peak_growth(lambda: ramet.clone(model))
    if growth is None:
        pytest.skip("this system does not tell peaks")
    assert growth <= 1.1 * sum(array.nbytes for array in model.get_weights())
