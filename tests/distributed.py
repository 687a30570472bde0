"""Checks of models on several devices, run as a script by test_distribution.py.

The number of devices is fixed when JAX starts, so they need a process of their own. It
prints what went wrong in each check as JSON; nothing if all is well.
"""

import contextlib
import functools
import json
import traceback

import keras
import numpy as np
from keras import distribution, layers

import exact
import ramet
from ramet.copying import fresh_weights as fresh

DEVICES = 8
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def each_distribution(function):
    """Makes two checks: one on replicated variables, one on some that are cut."""
    for make in (data_parallel, model_parallel):
        both = functools.partial(function, make)
        CHECKS[f"{function.__name__}[{make.__name__}]"] = both
    return function


def data_parallel():
    return distribution.DataParallel(devices=distribution.list_devices())


def model_parallel():
    mesh = distribution.DeviceMesh((2, 4), ("batch", "model"), distribution.list_devices())
    layouts = distribution.LayoutMap(mesh)
    layouts[".*embeddings"] = ("model", None)
    layouts[".*dense.*kernel"] = (None, "model")
    layouts[".*dense.*bias"] = ("model",)
    return distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch")


def model_of(*, dtype="float32", fitted=True):
    """Has an embedding, a nested model, a layer that both share, state, and a seed."""
    keras.utils.set_random_seed(0)
    shared = layers.Dense(16, name="dense_shared", dtype=dtype)
    inside = keras.Input((16,))
    normal = layers.BatchNormalization(dtype=dtype)(inside)
    inner = keras.Model(inside, shared(normal), name="inner")
    tokens = keras.Input((6,), dtype="int32")
    x = layers.Embedding(32, 8, name="embedding", dtype=dtype)(tokens)
    x = layers.GlobalAveragePooling1D(dtype=dtype)(x)
    x = inner(shared(layers.Dense(16, name="dense_first", dtype=dtype)(x)))
    x = layers.Dropout(0.3, seed=3, name="dropout")(x)
    model = keras.Model(tokens, layers.Dense(3, name="head", dtype=dtype)(x))
    if fitted:
        model.compile("adam", "mse", metrics=["mae"])
        train(model)
    return model


def train(model):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 32, (16, 6)).astype("int32"), rng.normal(size=(16, 3))
    model.fit(x, y, batch_size=8, verbose=0, shuffle=False)


def state_of(model):
    """Lists all variables: those of layers, seeds, metrics and the optimizer."""
    slots = model.optimizer.variables if model.compiled else []
    found = {id(v): v for v in (*model.variables, *slots, *model.metrics_variables)}
    return list(found.values())


def places_of(array):
    return [(shard.device, shard.index) for shard in array.addressable_shards]


def buffers_of(array):
    return {shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards}


def assert_laid_out_alike(model, copy, *, own=True, same=True):
    import jax

    for old, new in zip(state_of(model), state_of(copy), strict=True):
        first, second = old._value, new._value
        assert first.sharding == second.sharding, (old.path, first.sharding, second.sharding)
        assert first.committed == second.committed, old.path
        assert places_of(first) == places_of(second), old.path
        assert getattr(old._layout, "axes", None) == getattr(new._layout, "axes", None), old.path
        if own:
            assert not buffers_of(first) & buffers_of(second), old.path
        if same:
            assert np.asarray(first).tobytes() == np.asarray(second).tobytes(), old.path
    kinds = {type(v._value.sharding) for v in state_of(copy)}
    assert kinds == {jax.sharding.NamedSharding}


@contextlib.contextmanager
def without_gathering(model):
    """Fails if a value is moved by itself, or comes together on the host."""
    import jax

    def gathered():  # JAX keeps what it brought to the host
        return {v.path for v in state_of(model) if v._value._npy_value is not None}

    before = gathered()
    with jax.transfer_guard("disallow"):
        yield
    assert gathered() == before


def assert_both_train(model, copy):
    """Each trains while the other is there: no buffer is donated under the other."""
    layouts = [v._value.sharding for v in state_of(copy)]
    train(copy)
    train(model)
    for variable, before in zip(state_of(copy), layouts, strict=True):
        after = variable._value.sharding  # outside a scope JAX may write P(None,) as P()
        assert after.is_equivalent_to(before, len(variable.shape)), (variable.path, before, after)


@each_distribution
def a_copy_inside_the_scope(make):
    with make().scope():
        model = model_of()
        with without_gathering(model):
            copy = ramet.clone(model)
        assert_laid_out_alike(model, copy)
        ramet.verify(model, copy).raise_if_different()
        assert_both_train(model, copy)
        assert_laid_out_alike(model, copy)


@each_distribution
def a_copy_outside_of_the_scope(make):
    scope = make()
    with scope.scope():
        model = model_of(dtype="bfloat16")
    with without_gathering(model):
        copy = ramet.clone(model)
    assert keras.distribution.distribution() is None
    assert_laid_out_alike(model, copy)
    with scope.scope():
        assert_both_train(model, copy)
    assert_laid_out_alike(model, copy)


@check
def training_outside_of_the_scope():
    with model_parallel().scope():
        model = model_of()
    copy = ramet.clone(model)
    model.make_train_function(force=True)  # its first was compiled in the scope, and rounds so
    assert_both_train(model, copy)
    exact.assert_same_state(model, copy)


@check
def shared_variables():
    with model_parallel().scope():
        model = model_of()
    with without_gathering(model):
        view = ramet.clone(model, weights="share")
    assert all(v is w for v, w in zip(model.weights, view.weights, strict=True))
    assert_laid_out_alike(model, view, own=False)


@each_distribution
def fresh_weights(make):
    scope = make()
    with scope.scope():
        model = model_of()
        inside = ramet.clone(model, weights="fresh", seed=7)
    outside = ramet.clone(model, weights="fresh", seed=7)
    for member in (inside, outside):
        assert_laid_out_alike(model, member, same=False)
    assert_laid_out_alike(inside, outside)
    assert np.asarray(inside.weights[0]).tobytes() != np.asarray(model.weights[0]).tobytes()
    with scope.scope():
        assert_both_train(inside, outside)


@check
def fresh_weights_never_lie_on_one_device():
    with model_parallel().scope():
        model = model_of(fitted=False)
    made, remake = [], fresh.remake
    fresh.remake = lambda layer, **options: made.append(remake(layer, **options)) or made[-1]
    try:
        ramet.clone(model, weights="fresh")
    finally:
        fresh.remake = remake
    shardings = [v._value.sharding for layer in made for v in layer.variables]
    assert shardings
    assert all(len(sharding.device_set) == DEVICES for sharding in shardings)


@check
def fresh_weights_follow_the_scope():
    """As with Keras's own clone_model: new variables are laid out by the scope they are made in."""
    plain = model_of()
    with model_parallel().scope():
        expected = model_of()
        made = ramet.clone(plain, weights="fresh")
        assert_laid_out_alike(expected, made, same=False)
        train(made)
        copy = ramet.clone(plain)
    assert all(len(v._value.sharding.device_set) == 1 for v in state_of(copy))
    with data_parallel().scope():
        replicated = ramet.clone(expected, weights="fresh")
        assert all(v._value.is_fully_replicated for v in state_of(replicated))
        train(replicated)


@each_distribution
def edits(make):
    scope = make()
    with scope.scope():
        model = model_of()
    graph = ramet.trace(model).rename({"dense_first": "first"})
    graph = graph.configure("dense_shared", activation="relu")
    graph = graph.insert_after("first", layers.Dense(16, name="dense_new"))
    outside = graph.build()
    assert keras.distribution.distribution() is None
    with scope.scope():
        inside = graph.build()
    for copy in (outside, inside):
        assert all(len(v._value.sharding.device_set) == DEVICES for v in state_of(copy))
        assert_carried(model, copy, {"first": "dense_first"})
        with scope.scope():
            train(copy)
            train(model)


@check
def edits_with_fresh_weights():
    with model_parallel().scope():
        model = model_of()
    graph = ramet.trace(model).rename({"dense_first": "first"}).remove("dropout")
    outside = graph.build(weights="fresh")
    assert_carried(model, outside, {"first": "dense_first"})
    with model_parallel().scope():
        inside = graph.build(weights="fresh")
        train(inside)
    # What the scope's map does not know by its new name is not cut.
    assert inside.get_layer("first").kernel._value.is_fully_replicated
    assert not inside.get_layer("dense_shared").kernel._value.is_fully_replicated


def assert_carried(model, copy, names):
    """Variables lie like those that they come from; `names` has the old names of layers."""
    old = {v.path: v for v in model.variables}
    met = 0
    for variable in copy.variables:
        layer, _, rest = variable.path.partition("/")
        before = old.get(f"{names.get(layer, layer)}/{rest}")
        if before is not None:
            met += 1
            assert before._value.sharding == variable._value.sharding, variable.path
            assert not buffers_of(before._value) & buffers_of(variable._value), variable.path
    assert met > 5


@check
def carried_values_are_not_gathered():
    with model_parallel().scope():
        model = model_of(fitted=False)
    graph = ramet.trace(model).rename({"dense_first": "first"})
    graph = graph.configure("dense_shared", trainable=False)
    before = [v._value for v in model.variables]
    copy = graph.build()
    assert all(value._npy_value is None for value in before)
    for old, new in zip(model.variables, copy.variables, strict=True):
        assert old._value.sharding == new._value.sharding, old.path
        assert old._layout.axes == new._layout.axes, old.path
        assert not buffers_of(old._value) & buffers_of(new._value), old.path


@check
def grown_weights():
    with model_parallel().scope():
        model = model_of(fitted=False)
    graph = ramet.trace(model)
    wide = graph.configure("embedding", input_dim=64, weights="grow").build()
    embeddings = wide.get_layer("embedding").embeddings
    assert embeddings._value.sharding == model.get_layer("embedding").embeddings._value.sharding
    odd = graph.configure("embedding", input_dim=33, weights="grow").build()
    assert odd.get_layer("embedding").embeddings._value.is_fully_replicated


@check
def models_put_together():
    def tower(name):
        x = keras.Input((8,))
        dense = layers.Dense(8, name=f"dense_{name}")
        return keras.Model(x, layers.BatchNormalization(name=f"norm_{name}")(dense(x)), name=name)

    with model_parallel().scope():
        first, second = tower("first"), tower("second")
    merged = ramet.merge([first, second]).build()
    assert_carried(first, merged, {})
    assert_carried(second, merged, {})


@check
def a_model_without_a_graph():
    class Plain(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(8, name="dense")
            self.parts = [layers.Dense(4, name="dense_last")]
            self.constant = keras.ops.ones((4,))

        def call(self, inputs):
            return self.parts[0](self.dense(inputs)) * self.constant

    with model_parallel().scope():
        model = Plain()
        model.compile("sgd", "mse")
        x = np.ones((8, 8), "float32")
        model.fit(x, np.ones((8, 4)), verbose=0)
        with without_gathering(model):
            copy = ramet.clone(model)
        ramet.verify(model, copy, inputs=x).raise_if_different()
    assert_laid_out_alike(model, copy)
    outside = ramet.clone(model)
    assert_laid_out_alike(model, outside)


def main():
    import jax

    jax.config.update("jax_disable_most_optimizations", val=True)
    assert jax.device_count() == DEVICES
    found = {}
    for name, function in CHECKS.items():
        try:
            function()
        except Exception:  # noqa: BLE001 whatever it is, it is told
            found[name] = traceback.format_exc()
    print(json.dumps(found))  # noqa: T201 the test reads it


if __name__ == "__main__":
    main()
