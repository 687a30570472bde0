"""Models and objects that once broke a copy, or a verification."""

import collections
import dataclasses
import functools
import inspect
import io
import threading
import weakref

import keras
import numpy as np
import pytest
from keras import layers, ops

import exact
import ramet
from smallmodels import DATA, TARGETS, result, small


def bits(model) -> list[bytes]:
    return [ops.convert_to_numpy(v).tobytes() for v in model.variables]


class Unnamed(layers.Layer):
    """The layer of Keras's own guide: weights without names."""

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], 3), initializer="random_normal")
        self.b = self.add_weight(shape=(3,), initializer="zeros")

    def call(self, x):
        return x @ self.w + self.b


def test_fresh_weights_need_no_names():
    model = small(Unnamed())
    twin = ramet.clone(model, weights="fresh", seed=1)
    assert bits(twin)[0] != bits(model)[0]
    assert ramet.clone_model(model)(DATA).shape == (4, 2)


def test_checkpoints_of_a_copy_are_its_own(backend, tmp_path):
    if backend != "tensorflow":
        pytest.skip("checkpoints are TensorFlow's")
    import tensorflow as tf

    for model in (small(), keras.Model(i := keras.Input((3,)), layers.Dense(2)(i))):
        twin = ramet.clone(model)
        twin.set_weights([w + 1 for w in twin.get_weights()])
        changed, source = bits(twin), bits(model)
        path = tf.train.Checkpoint(twin).save(str(tmp_path / "c"))
        twin.set_weights([w * 0 for w in twin.get_weights()])
        tf.train.Checkpoint(twin).restore(path)
        assert bits(twin) == changed
        assert bits(model) == source


def test_a_copy_does_not_keep_its_source_alive():
    import gc

    model = small()
    twin, source = ramet.clone(model), weakref.ref(model.layers[0])
    del model
    gc.collect()
    assert source() is None
    assert twin(DATA).shape == (4, 2)


def test_a_loss_scaled_model_trains_on():
    model = small()
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), "mse")
    model.fit(DATA, TARGETS, verbose=0)
    twin = ramet.clone(model)
    for one in (model, twin):
        keras.utils.set_random_seed(0)
        one.fit(DATA, TARGETS, verbose=0, shuffle=False)
    assert bits(model) == bits(twin)


def test_a_mirrored_model_trains_on(backend):
    if backend != "tensorflow":
        pytest.skip("strategies are TensorFlow's")
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = small()
        model.compile("adam", "mse")
    twin = ramet.clone(model)
    twin.fit(DATA, TARGETS, verbose=0)
    model.fit(DATA, TARGETS, verbose=0)
    ramet.clone(model).fit(DATA, TARGETS, verbose=0)


class Twins(layers.Layer):
    """Holds two layers of one name, so that their variables share a path."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.parts = [layers.Dense(3, name="part"), layers.Dense(3, name="part")]

    def build(self, shape):
        for part in self.parts:
            part.build(shape)

    def call(self, x):
        return self.parts[1](self.parts[0](x))


def test_variables_of_one_path_train_alike():
    """On PyTorch, Keras does not clear the gradients of one of them before a step."""
    model = small(Twins(name="twins"))
    model.compile("adam", "mse")
    model.fit(DATA, TARGETS, verbose=0)
    for twin in (ramet.clone(model), ramet.clone(ramet.trace(model).build())):
        trained = ramet.clone(twin)
        for _ in range(2):
            exact.assert_same_training(trained, twin, DATA, TARGETS)
    exact.assert_same_training(model, ramet.clone(model), DATA, TARGETS)


class Holding(layers.Layer):
    """Computes with whatever it holds."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")
        self.times = None

    def by(self):
        return self.scale * 1.0

    def call(self, x):
        return x * (self.scale if self.times is None else self.times())


@pytest.mark.parametrize(
    "bind",
    [
        lambda layer: layer.by,
        lambda layer: functools.partial(Holding.by, layer),
        lambda layer: lambda held=collections.deque([layer]): held[0].by(),
        lambda layer: functools.partial(lambda ref: ref().by(), weakref.ref(layer)),
        lambda layer: weakref.proxy(layer).by,
        lambda layer: functools.wraps(layer.by)(lambda: layer.by() * 1.0),
    ],
)
def test_functions_in_attributes_reach_the_copy(bind):
    layer = Holding(name="holding")
    model = small(layer)
    layer.times = bind(layer)
    twin = ramet.clone(model)
    before = result(twin)
    layer.scale.assign(5.0)
    assert np.array_equal(result(twin), before)
    twin.get_layer("holding").scale.assign(5.0)
    assert np.array_equal(result(twin), result(model))


def test_cached_functions_reach_the_copy():
    layer = Holding(name="holding")
    model = small(layer)
    layer.cached = functools.lru_cache(maxsize=3)(layer.by)
    cached = ramet.clone(model).get_layer("holding").cached
    assert cached.__wrapped__.__self__ is not layer
    assert cached.cache_parameters()["maxsize"] == 3


def test_functions_over_one_variable_still_share_it():
    layer = Holding(name="holding")
    total = layer

    def read():
        return total

    def write(value):
        nonlocal total
        total = value

    layer.pair = [read, write]
    read2, write2 = ramet.clone(small(layer)).get_layer("holding").pair
    assert read2() is not layer
    write2("changed")
    assert read2() == "changed"
    assert read() is layer


def test_only_locks_are_lent():
    """Anything else that cannot be copied has state that would be lost."""
    layer = Holding(name="holding")
    model = small(layer)
    layer.lock = threading.Lock()
    with pytest.raises(ramet.CopyError, match="'lock' holds a lock"):
        ramet.clone(model)
    del layer.lock
    layer.view = {"a": 1}.keys()
    with pytest.raises(ramet.CopyError, match=r"layer 'holding' .* 'view' holds a dict_keys"):
        ramet.clone(model)


def test_odd_attributes():
    class Slotted(layers.Layer):
        __slots__ = ("__hidden", "seen")

        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.__hidden = [1]

        def hidden(self):
            return self.__hidden

        def call(self, x):
            return x

    layer = Slotted(name="slotted")
    model = small(layer)
    outside = collections.UserList()
    layer.outside = weakref.ref(outside)
    layer.fixed = np.arange(3)
    layer.fixed.flags.writeable = False
    new = ramet.clone(model).get_layer("slotted")
    assert new.hidden() == [1]
    assert new.hidden() is not layer.hidden()
    assert new.outside() is outside
    assert not new.fixed.flags.writeable


class Rough:
    def __deepcopy__(self, memo):
        raise ZeroDivisionError("rough")


def test_exceptions_of_attributes_name_layer_and_attribute():
    layer = Holding(name="holding")
    model = small(layer)
    layer.rough = Rough()
    with pytest.raises(ZeroDivisionError) as caught:
        ramet.clone(model)
    assert caught.value.__notes__ == ["while copying attribute 'rough' of 'holding'"]


def test_a_call_argument_that_cannot_be_copied(backend):
    if backend == "jax":
        pytest.skip("Keras itself takes nothing but arrays there")

    class Takes(layers.Layer):
        def call(self, x, what=None):
            del what
            return x

    inputs = keras.Input((3,))
    model = keras.Model(inputs, Takes(name="takes")(inputs, what=threading.Lock()), name="m")
    with pytest.raises(ramet.CopyError, match=r"call 'takes' of model 'm' .* holds a lock"):
        ramet.clone(model)


@pytest.mark.parametrize("seed", [2**70, -1, np.int64(3), 0])
def test_any_integer_is_a_seed(seed):
    first, second = (ramet.clone(small(), weights="fresh", seed=seed) for _ in range(2))
    assert bits(first) == bits(second)


@pytest.mark.since_keras(3, 15)
def test_an_optimizer_that_cannot_start_anew():
    class Own(keras.optimizers.SGD):
        def __init__(self, secret):
            del secret
            super().__init__(0.1)

    model = small()
    model.compile(Own(object()), "mse")
    with pytest.raises(ramet.StateError, match=r"optimizer 'own' \(Own\) cannot have fresh slots"):
        ramet.clone(model, weights="fresh")
    assert ramet.clone(model).optimizer.learning_rate is not model.optimizer.learning_rate


@pytest.mark.parametrize("option", ["clone_function", "call_function"])
def test_functions_must_be_functions(option):
    with pytest.raises(ramet.OptionError, match=f"{option} must be a function of a layer.*, got 3"):
        ramet.clone_model(small(), **{option: 3})


def test_a_disconnected_call_is_refused():
    stray = keras.Input((3,), name="stray")
    with pytest.raises(ramet.GraphError, match="depends on input 'stray', which is not one"):
        ramet.clone_model(small(), call_function=lambda *_, **__: layers.Dense(2)(stray))


def test_weights_that_are_not_a_word():
    with pytest.raises(ramet.OptionError, match="unknown weights="):
        ramet.clone(small(), weights=np.zeros(2))


def test_a_fitted_copy_is_exported_and_checkpointed(backend, tmp_path):
    if backend != "tensorflow":
        pytest.skip("what is wrapped and watched is TensorFlow's")
    import tensorflow as tf

    for optimizer in ("adam", "sgd", keras.optimizers.AdamW(0.1)):
        model = small()
        model.compile(optimizer, "mse")
        model.fit(DATA, TARGETS, verbose=0)
        twin = ramet.clone(model)
        assert ramet.verify(model, twin).ok
        twin.export(tmp_path / "export", verbose=False)
        tf.train.Checkpoint(model=twin).save(str(tmp_path / "c"))
        twin.fit(DATA, TARGETS, verbose=0)


def test_what_tensorflow_bound_to_the_source_is_named(backend):
    if backend != "tensorflow":
        pytest.skip("concrete functions and checkpoints are TensorFlow's")
    import tensorflow as tf

    model = small()
    traced = tf.function(model, input_signature=[tf.TensorSpec((4, 3))])
    for held in (traced.get_concrete_function(), tf.train.Checkpoint(model=model)):
        model.held = held
        with pytest.raises(ramet.CopyError, match=r"model 'sequential.* attribute 'held' holds a"):
            ramet.clone(model)
        del model.held
        ramet.clone(model)
    model.held = tf.function(lambda x: x * 2).get_concrete_function(tf.TensorSpec((4, 3)))
    assert ramet.clone(model).held is model.held


def test_a_tensor_kept_from_a_call_does_not_disturb():
    class Keeps(layers.Layer):
        def call(self, x):
            self.last = x * 2
            return self.last

    model = small(Keeps())
    assert ramet.verify(model, ramet.clone(model)).ok


relu = None


def named_like_an_attribute(x):
    return ops.relu(x)


def test_attributes_are_not_names_of_the_module(monkeypatch):
    import sys

    monkeypatch.setattr(sys.modules[__name__], "relu", layers.ReLU())
    model = small(layers.Lambda(named_like_an_attribute, name="lambda"))
    assert ramet.clone(model).get_layer("lambda").function is named_like_an_attribute


@pytest.mark.parametrize(
    "held", [np.log1p, io.StringIO("text"), io.BytesIO(b"bytes")], ids=["ufunc", "text", "bytes"]
)
def test_what_deepcopy_copies_is_copied(held):
    layer = Holding(name="holding")
    model = small(layer)
    layer.held = held
    new = ramet.clone(model).get_layer("holding").held
    assert (new is held) == isinstance(held, np.ufunc)
    assert isinstance(held, np.ufunc) or new.getvalue() == held.getvalue()


class Composite(layers.Layer):
    """Has no config, and builds a layer of its own in its build."""

    def __init__(self, secret, **kwargs):
        del secret
        super().__init__(**kwargs)
        self.dense = layers.Dense(3)

    def build(self, shape):
        self.dense.build(shape)
        self.scale = self.add_weight(shape=(3,), initializer="random_normal", name="scale")

    def call(self, x):
        return self.dense(x) * self.scale


def test_fresh_weights_of_a_composite_layer_without_a_config():
    model = small(Composite(object()))
    first, second = (ramet.clone(model, weights="fresh", seed=2) for _ in range(2))
    assert bits(first) == bits(second)
    for index in (0, 1):
        assert bits(first)[index] != bits(model)[index]


def test_a_method_called_adapt_does_not_make_weights_data():
    class Adapter(layers.Dense):
        def adapt(self, data):
            del data

    model = small(Adapter(3))
    assert bits(ramet.clone(model, weights="fresh", seed=2))[0] != bits(model)[0]


def test_a_graph_is_built_as_it_was_traced():
    model = small(layers.Dense(3))
    graph = ramet.trace(model)
    assert dataclasses.replace(graph, name="other").build().name == "other"
    call = dataclasses.replace(next(iter(graph.calls.values())), name="odd")
    unused = dataclasses.replace(graph, calls={**graph.calls, "odd": call})
    assert len(unused.build().layers) == len(model.layers)
    model.pop()
    with pytest.raises(ramet.GraphError, match=r"was rebuilt after .* trace it again"):
        graph.build()


def test_layers_deep_in_a_closure_are_found():
    dense = layers.Dense(3)
    held = [[[[[[{"deep": [dense]}]]]]]]
    inputs = keras.Input((3,))
    function = layers.Lambda(lambda x: held[0][0][0][0][0][0]["deep"][0](x * 1))
    model = keras.Model(inputs, function(dense(inputs)))
    twin = ramet.clone(model)
    before = result(twin)
    dense.kernel.assign(dense.kernel * 2)
    assert np.array_equal(result(twin), before)


class LockedLoss(keras.losses.Loss):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def call(self, y, p):
        return ops.mean((y - p) ** 2)


def same(layer):
    return type(layer).from_config(layer.get_config())


def test_what_a_model_was_compiled_with_cannot_be_copied():
    model = small()
    model.compile("sgd", LockedLoss())
    with pytest.raises(ramet.CopyError, match=r"compiled with cannot be copied: it holds a lock"):
        ramet.clone_model(model, clone_function=same)


def test_names_stay_unique():
    def twice(layer, *args, **kwargs):
        return layers.Dropout(0.5, name="drop")(layer(*args, **kwargs))

    with pytest.raises(ramet.GraphError, match=r"has 2 layers named 'drop', so it could not be"):
        ramet.clone_model(small(layers.Dense(3)), call_function=twice)


def test_a_layer_that_is_left_out_is_not_tracked():
    inputs = keras.Input((3,))
    outputs = layers.Dense(2, name="b")(layers.Dense(3, name="a")(inputs))
    model = keras.Model(inputs, outputs)
    twin = ramet.clone_model(
        model,
        clone_function=lambda layer: layer,
        call_function=lambda layer, x: x if layer.name == "a" else layer(x),
    )
    assert [v.path for v in twin.weights] == ["b/kernel", "b/bias"]
    assert [layer.name for layer in twin.layers][1:] == ["b"]


def test_layers_beside_the_graph_are_cloned_too():
    class WithAux(keras.Model):
        def __init__(self):
            inputs = keras.Input((3,))
            super().__init__(inputs, layers.Dense(2)(inputs))
            self.aux = layers.Dense(4)
            self.aux.build((None, 3))

    model = WithAux()
    twin = ramet.clone_model(model, clone_function=same)
    assert type(twin) is WithAux
    assert twin.aux is not model.aux
    assert not twin.aux.built
    assert twin.layers[-1] is not model.layers[-1]


def test_a_failed_clone_leaves_the_source_as_it_was():
    model = small(layers.Dense(3), layers.Dense(3, name="bad"))
    counts = [(len(x._inbound_nodes), len(x._outbound_nodes)) for x in model.layers]

    def fails(layer):
        if layer.name == "bad":
            raise KeyError(layer.name)
        return layer

    with pytest.raises(KeyError):
        ramet.clone_model(model, clone_function=fails)
    assert [(len(x._inbound_nodes), len(x._outbound_nodes)) for x in model.layers] == counts


def test_public_names_and_keras_own_signature():
    assert ramet.__all__ == sorted(ramet.__all__)
    ours, theirs = (
        [(p.name, p.default) for p in inspect.signature(f).parameters.values()]
        for f in (ramet.clone_model, keras.models.clone_model)
    )
    assert ours == [p for p in theirs if p[0] != "kwargs"]


# --- verify ---


def test_verify_does_not_build_what_is_not_built():
    class Sometimes(keras.Model):
        def __init__(self):
            super().__init__()
            self.main, self.aux = layers.Dense(2), layers.Dense(2)

        def call(self, x, training=None):
            return self.main(x) + self.aux(x) if training else self.main(x)

    model = Sometimes()
    model(DATA)
    assert ramet.verify(model, ramet.clone(model)).ok
    assert len(model.weights) == 2
    assert not model.aux.built
    model(DATA, training=True)
    assert len(model.weights) == 4


def test_what_was_not_checked_is_not_proven():
    report = ramet.verify(*(keras.Sequential([layers.Dense(2, name="d")], name="s") for _ in "ab"))
    assert not report.ok
    assert not report.different
    assert not report.complete
    assert "the same in what was checked" in str(report)


def compiled() -> keras.Model:
    model = small(layers.Masking(mask_value=float("nan"), name="masking"), Holding(name="holding"))
    model.layers[-1].kernel_regularizer = None
    model.compile(keras.optimizers.Adam(0.1, clipnorm=1.0), keras.losses.Huber(1.0))
    return model


def test_not_a_number_is_not_a_difference():
    model = compiled()
    ramet.verify(model, ramet.clone(model)).raise_if_different()


def fails(twin):
    twin.get_layer("holding").call = lambda _: 1 / 0


DAMAGES = {
    "a call that fails": fails,
    "an optimizer option": lambda t: setattr(t.optimizer, "clipnorm", 2.0),
    "the loss": lambda t: t.compile(t.optimizer, keras.losses.Huber(2.0)),
    "eager": lambda t: setattr(t, "run_eagerly", True),
    "a regularizer": lambda t: setattr(
        t.layers[-1].kernel, "regularizer", keras.regularizers.L2(0.1)
    ),
    "a list": lambda t: t.get_layer("holding").__setattr__("names", ["b"]),
    "an array": lambda t: t.get_layer("holding").__setattr__("table", np.ones(2)),
    "mask support": lambda t: setattr(t.get_layer("holding"), "supports_masking", True),
    "a tensor": lambda t: t.get_layer("holding").__setattr__("held", ops.ones(2)),
    "a sign": lambda t: t.layers[-1].bias.assign(-t.layers[-1].bias),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(damage):
    model = compiled()
    model.get_layer("holding").names = ["a"]
    model.get_layer("holding").table = np.zeros(2)
    model.get_layer("holding").held = ops.zeros(2)
    twin = ramet.clone(model)
    DAMAGES[damage](twin)
    assert not ramet.verify(model, twin).ok


def test_verify_leaves_attributes_and_buffers_alone(backend):
    class Counting(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.count = 0

        def call(self, x):
            self.count = self.count + 1
            return x

    counting = Counting()
    extra = [counting]
    if backend == "torch":
        import torch

        norm = torch.nn.BatchNorm1d(3)
        extra.append(keras.layers.TorchModuleWrapper(norm, output_shape=(None, 3)))
    model = small(*extra)
    before = counting.count
    batches = int(norm.num_batches_tracked) if backend == "torch" else 0
    ramet.verify(model, ramet.clone(model))
    assert counting.count == before
    if backend == "torch":
        assert int(norm.num_batches_tracked) == batches


Pair = collections.namedtuple("Pair", "first second")  # noqa: PYI024  a user's own


class Holder(layers.Layer):
    """A layer with attributes of all kinds that hold something."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.ordered = collections.OrderedDict(b=layers.Dense(3), a=[1], c="x")
        self.numbered = {2: [1], (1, "a"): None}
        self.counted = collections.Counter("abca")
        self.grouped = collections.defaultdict(list, a=[1])
        self.recent = collections.deque([1, 2, 3], maxlen=3)
        self.pair = Pair([1], {"a": 2})
        self.members, self.fixed = {1, "a"}, frozenset({2})
        self.column = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        self.constant = np.arange(4.0)
        self.constant.flags.writeable = False
        self.sparse_view = np.arange(8)[::2]

    def call(self, x):
        return self.ordered["b"](x)


def plain(value):
    """A value with the classes of its containers, in the order of their items."""
    if isinstance(value, dict):
        value = [(plain(key), plain(item)) for key, item in value.items()]
    elif isinstance(value, (list, tuple, collections.deque)):
        value = (type(value).__name__, [plain(item) for item in value])
    elif isinstance(value, np.ndarray):
        value = (value.tolist(), value.strides, value.flags.writeable)
    return value.name if isinstance(value, layers.Layer) else value


@pytest.mark.parametrize("count", [1, 5])
def test_attributes_of_all_kinds(count):
    model = small(Holder(name="holder"))
    source = model.layers[0]
    for twin in ramet.clones(model, count):
        holder = twin.layers[0]
        for name in ("ordered", "numbered", "counted", "grouped", "recent", "pair", "members",
                     "fixed", "column", "constant"):  # fmt: skip
            expected, found = getattr(source, name), getattr(holder, name)
            assert type(found) is type(expected), name
            assert plain(found) == plain(expected), name
            assert found is not expected or name == "fixed", name
        assert holder.sparse_view.tolist() == [0, 2, 4, 6]
        assert holder.ordered["b"] in holder._layers
        if hasattr(source.ordered, "move_to_end"):  # Older versions of Keras make a dict of it.
            holder.ordered.move_to_end("b")
        assert [*source.ordered] == ["b", "a", "c"]
