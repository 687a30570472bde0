"""Plain objects, functions and values: what a copy shares, and what it must not."""

import collections
import dataclasses
import enum
import functools
import random
import re
import sys
import threading
import types
import weakref

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.backends.values import ValueCopies, copy_value, same_bits
from ramet.copying.deep_copy import Copier
from ramet.copying.functions import reaches_state
from ramet.copying.handlers import Uncopyable
from ramet.copying.models import copy_layer


def copied(value):
    return Copier().copy(value)


@dataclasses.dataclass
class Record:
    items: list
    parent: object = None


class Weak:
    """What can be referred to weakly, and be a key."""

    def __init__(self, items):
        self.items = items

    def first(self):
        return self.items[0]


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = [1]


class Color(enum.Enum):
    RED = (1,)


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024  a user's own

MUTABLE = [
    [1, [2]],
    {"a": [1]},
    {1, 2},
    collections.OrderedDict(b=[1], a=2),
    collections.defaultdict(list, a=[1]),
    collections.deque([[1], 2], maxlen=3),
    collections.Counter("abca"),
    Record([1, 2]),
    np.arange(6.0).reshape(2, 3).T,
    np.array([[1], "x", None], dtype=object),
    bytearray(b"ab"),
    types.SimpleNamespace(a=[1]),
]


@pytest.mark.parametrize("value", MUTABLE, ids=lambda v: type(v).__name__)
def test_mutable_objects_are_copied(value):
    made = copied(value)
    assert made is not value
    assert type(made) is type(value)
    if isinstance(value, np.ndarray):
        assert np.array_equal(made, value)
        assert made.strides == value.strides or value.dtype.hasobject
        assert not np.shares_memory(made, value)
    else:
        assert made == value


@pytest.mark.parametrize(
    "value",
    [None, 1, "a", (1, (2, "b")), frozenset({1}), int, len, np.float32(1), np.dtype("int8"),
     Color.RED, slice(1, 2), range(3), sys, weakref.ref, functools.partial(max), re.compile("a")],
    ids=str,
)  # fmt: skip
def test_immutable_objects_are_kept(value):
    made = copied(value)
    assert made is value or made == value


def test_sharing_and_cycles_are_kept():
    shared = [1]
    record = Record([shared, shared])
    record.parent = record
    made = copied(record)
    assert made.items[0] is made.items[1]
    assert made.items[0] is not shared
    assert made.parent is made


def test_slots_and_named_tuples():
    value = Slotted()
    made = copied(value)
    assert made.a == [1]
    assert made.a is not value.a
    assert not hasattr(made, "b")
    point = copied(Point([1], 2))
    assert type(point) is Point
    assert point == Point([1], 2)


def test_generators_of_random_numbers_go_on_alike_and_apart():
    for value in (np.random.default_rng(3), random.Random(3)):
        value.random()
        made = copied(value)
        assert [value.random() for _ in range(3)] == [made.random() for _ in range(3)]


def test_weak_references_and_bound_methods_follow_the_copy():
    record = Record([3, 1, 2])
    value = {"owner": record, "ref": weakref.ref(record), "append": record.items.append,
             "eq": record.__eq__}  # fmt: skip
    made = copied(value)
    assert made["ref"]() is made["owner"]
    assert made["eq"].__self__ is made["owner"]
    made["append"](9)
    assert made["owner"].items == [3, 1, 2, 9]
    assert record.items == [3, 1, 2]


def test_weak_containers_and_methods_follow_the_copy():
    record, other = Weak([3]), Weak([4])
    value = {"owner": record, "keys": weakref.WeakKeyDictionary({record: [1], other: 2}),
             "values": weakref.WeakValueDictionary(own=record, other=other),
             "set": weakref.WeakSet([record]), "method": weakref.WeakMethod(record.first),
             "foreign": weakref.WeakMethod(other.first)}  # fmt: skip
    made = copied(value)
    owner = made["owner"]
    assert owner is not record
    assert made["keys"][owner] == [1]
    assert made["keys"][owner] is not value["keys"][record]
    assert made["keys"][other] == 2
    assert record not in made["keys"]
    assert made["values"]["own"] is owner
    assert made["values"]["other"] is other
    assert [*made["set"]] == [owner]
    assert made["method"]().__self__ is owner
    assert made["foreign"]() == other.first


def test_weak_methods_of_many_objects_are_told_apart():
    records = [Weak([number]) for number in range(5)]
    made = copied([records, [weakref.WeakMethod(record.first) for record in records]])
    assert [method()() for method in made[1]] == [0, 1, 2, 3, 4]
    assert all(method().__self__ is owner for owner, method in zip(*made, strict=True))


def test_own_deepcopy_is_respected():
    class Special:
        def __deepcopy__(self, memo):
            return Special()

    value = Special()
    pair = copied([value, value])
    assert pair[0] is pair[1]
    assert pair[0] is not value


def test_what_has_no_copy_says_so():
    with pytest.raises(Uncopyable) as caught:
        copied([{"deep": (j for j in ())}])
    assert caught.value.class_name == "generator"


# --- Functions ---

module_layer = None


def uses_module_layer(x):
    return module_layer(x)


def test_functions_are_kept_unless_they_reach_state():
    numbers = [1]
    dense = layers.Dense(1)
    plain, bound = (lambda x: x + numbers[0]), (lambda x: dense(x * 1))
    assert not reaches_state(plain)
    assert reaches_state(bound)
    assert reaches_state(functools.partial(lambda layer, x: layer(x), dense))
    assert reaches_state(lambda x, layer=dense: layer(x))
    assert reaches_state(lambda x: [d(x) for d in [dense]])
    assert reaches_state(dense.call)
    assert not reaches_state(keras.activations.relu)
    assert not reaches_state(np.mean)


DATA = np.ones((2, 3), "float32")


def assert_bound_to_the_copy(model, twin, change):
    """Changes what the source's function reaches; the copy must not follow."""
    before = ops.convert_to_numpy(twin(DATA))
    assert np.array_equal(ops.convert_to_numpy(model(DATA)), before)
    change()
    assert not np.array_equal(ops.convert_to_numpy(model(DATA)), before)
    assert np.array_equal(ops.convert_to_numpy(twin(DATA)), before)


def test_a_closure_over_a_layer_of_the_model():
    dense = layers.Dense(3, use_bias=False, name="tied")
    inputs = keras.Input((3,))
    outputs = layers.Lambda(lambda x: x @ ops.transpose(dense.kernel))(dense(inputs))
    model = keras.Model(inputs, outputs)
    twin = ramet.clone(model)
    assert_bound_to_the_copy(model, twin, lambda: dense.kernel.assign(dense.kernel * 2))
    own = twin.get_layer("tied").kernel
    before = ops.convert_to_numpy(twin(DATA))
    own.assign(own * 2)
    np.testing.assert_allclose(ops.convert_to_numpy(twin(DATA)), before * 4, rtol=1e-5)


def test_a_name_of_the_module_that_is_a_layer(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "module_layer", layers.Dense(3, name="global"))
    inputs = keras.Input((3,))
    model = keras.Model(inputs, layers.Lambda(uses_module_layer)(module_layer(inputs)))
    twin = ramet.clone(model)
    kernel = module_layer.kernel
    assert_bound_to_the_copy(model, twin, lambda: kernel.assign(kernel * 2))


def test_a_closure_over_a_loose_variable():
    scale = keras.Variable(2.0)
    model = keras.Sequential([keras.Input((3,)), layers.Lambda(lambda x: x * scale)])
    twin = ramet.clone(model)
    assert_bound_to_the_copy(model, twin, lambda: scale.assign(5.0))


def test_a_closure_over_plain_data_is_shared():
    seen = []
    model = keras.Sequential([keras.Input((3,)), layers.Lambda(lambda x: (seen.append(1), x)[1])])
    twin = ramet.clone(model)
    assert twin.layers[0].function is model.layers[0].function


def test_recursive_and_decorated_functions():
    dense = layers.Dense(3)

    def wrapper(function):
        @functools.wraps(function)
        def inner(*args):
            return function(*args) + 0 * ops.sum(dense(DATA))

        return inner

    def power(x, n=2):
        return x if n == 0 else power(x * 2, n - 1)

    inputs = keras.Input((3,))
    model = keras.Model(inputs, layers.Lambda(wrapper(power))(dense(inputs)))
    twin = ramet.clone(model)
    assert np.array_equal(*(ops.convert_to_numpy(m(DATA)) for m in (model, twin)))
    function = twin.layers[-1].function
    assert function.__name__ == "power"
    assert function.__wrapped__ is power


def test_compiled_functions_of_a_backend(backend):
    class Compiled(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.dense = layers.Dense(3)
            self.fast = None

        def build(self, shape):
            self.dense.build(shape)

        def slow(self, x):
            return self.dense(x)

        def call(self, x):
            return self.slow(x) if self.fast is None else self.fast(x)

    layer = Compiled(name="compiled")
    model = keras.Sequential([keras.Input((3,)), layer])
    if backend == "tensorflow":
        import tensorflow as tf

        layer.fast = tf.function(layer.slow)
        twin = ramet.clone(model)
        kernel = layer.dense.kernel
        assert_bound_to_the_copy(model, twin, lambda: kernel.assign(kernel * 2))
    elif backend == "jax":
        import jax

        layer.fast = jax.jit(layer.slow)
        twin = ramet.clone(model)
        assert twin.layers[0].fast is not layer.fast
        assert twin.layers[0].fast.__wrapped__.__self__ is twin.layers[0]
        layer.fast = jax.jit(layer.slow, device=jax.devices()[0])
        with pytest.raises(ramet.CopyError, match=r"layer 'compiled' .* 'fast' holds a"):
            ramet.clone(model)
        layer.fast = jax.jit(lambda x: x * 2)
        assert ramet.clone(model).layers[0].fast is layer.fast


# --- Values ---


def test_values_are_copied_bit_by_bit_and_apart():
    for dtype in ("float32", "bfloat16", "float16", "int8", "bool", "int32"):
        old = keras.Variable(np.array([0, 1, 1]), dtype=dtype, trainable=False)
        new = copy_value(old.value)
        assert same_bits(*(ops.convert_to_numpy(v) for v in (old.value, new)))
        assert new is not old.value


def test_special_floats_keep_their_bits():
    bits = np.array([0x7FC00001, 0xFF800000, 0x80000000, 0x00000001], "uint32")
    old = keras.Variable(bits.view("float32"))
    fields = {}
    copies = ValueCopies()
    copies.put(fields, "value", old.value)
    copies.finish()
    assert np.array_equal(ops.convert_to_numpy(fields["value"]).view("uint32"), bits)


def test_same_bits_sees_types_shapes_and_signs():
    a = np.zeros(2, "float32")
    assert same_bits(a, a.copy())
    assert not same_bits(a, -a)
    assert not same_bits(a, a.astype("float64"))
    assert not same_bits(a, a.reshape(2, 1))


def test_a_layer_alone_can_be_copied():
    layer = layers.Dense(3)
    layer(DATA)
    made = copy_layer(layer)
    assert np.array_equal(*(ops.convert_to_numpy(one(DATA)) for one in (layer, made)))
    assert made.kernel is not layer.kernel
    assert made.build.__closure__ is not layer.build.__closure__


def test_tensorflow_variables_have_memory_of_their_own(backend):
    """TensorFlow would let two variables have one buffer, until the first write."""
    if backend != "tensorflow":
        pytest.skip("variables that share a buffer are TensorFlow's")

    def address(variable):
        value = np.asarray(memoryview(variable.value.read_value()))
        return value.__array_interface__["data"][0]

    model = keras.Sequential([keras.Input((3,)), layers.Dense(2), layers.BatchNormalization()])
    twin = ramet.clone(model)
    view = ramet.clone(model, weights="share")
    for old, new, same in zip(model.variables, twin.variables, view.variables, strict=True):
        assert address(old) != address(new)
        assert address(old) == address(same)


@pytest.mark.parametrize("count", [3, 70])
def test_values_that_are_begun_early_are_copied_once_each(count):
    variables = [keras.Variable([float(number), 1.0]) for number in range(count)]
    values = [vars(variable)["_value"] for variable in variables]
    copies, fields = ValueCopies(), {}
    copies.begin([*values[1:], *values[:2]])
    for place in range(count - 1, -1, -1):
        copies.put(fields, place, values[place])
    late = vars(keras.Variable([5.0]))["_value"]
    copies.put(fields, "late", late)
    copies.put(fields, "again", values[0])
    copies.finish()
    for place, value in [*enumerate(values), ("late", late), ("again", values[0])]:
        assert fields[place] is not value
        assert same_bits(ops.convert_to_numpy(fields[place]), ops.convert_to_numpy(value))
    assert len({id(made) for made in fields.values()}) == count + 2


def test_one_value_in_two_variables_and_an_attribute_is_one_in_the_copy(backend):
    if backend != "jax":
        pytest.skip("only values of JAX can be put into a second variable")
    first, second = layers.Dense(3, use_bias=False), layers.Dense(3, use_bias=False)
    model = keras.Sequential([keras.Input((3,)), first, second])
    value = second.kernel._value = first.kernel._value
    second.note = [value]
    made = ramet.clone(model).layers
    assert made[0].kernel._value is made[1].kernel._value
    assert made[1].note[0] is made[0].kernel._value
    assert made[0].kernel._value is not value
    assert same_bits(np.asarray(made[0].kernel._value), np.asarray(value))


class Hooks:
    """An object like a module: several dicts, mostly empty."""


def holding(**things) -> Hooks:
    made = Hooks()
    vars(made).update(things)
    return made


def copied_by_fields(value):
    copier = Copier()
    fields = dict(vars(value))
    copier.copy_fields(fields)
    return fields


def test_an_empty_dict_that_nobody_else_holds_is_made_anew():
    alone = holding(before=collections.OrderedDict(), after=collections.OrderedDict())
    fields = copied_by_fields(alone)
    assert fields["before"] == collections.OrderedDict()
    assert type(fields["before"]) is collections.OrderedDict
    assert len({id(thing) for thing in [*fields.values(), *vars(alone).values()]}) == 4


def test_an_empty_dict_that_is_held_twice_is_one_in_the_copy():
    both = collections.OrderedDict()
    shared = holding(before=both, after=both)
    del both
    fields = copied_by_fields(shared)
    assert fields["before"] is fields["after"]
    assert fields["before"] is not shared.before


def test_copiers_do_not_learn_from_an_instance_what_its_class_is_not():
    class Disguised:
        __class__ = dict

        def __init__(self):
            self.items = [1]

    first, second = Disguised(), Disguised()
    twin = copied(first)
    assert type(twin) is Disguised
    assert twin.items == [1]
    assert twin.items is not first.items
    assert copied(second).items is not second.items


class Gauge(keras.Metric):
    """A metric with a variable of its own, and one of a layer."""

    def __init__(self, watched, **options):
        super().__init__(**options)
        self.holder = types.SimpleNamespace(variable=watched)
        self.total = self.add_variable((), "zeros", name="total")

    def update_state(self, y_true, y_pred, sample_weight=None):
        del y_true, sample_weight
        self.total.assign_add(ops.sum(y_pred))

    def result(self):
        return self.total / (1.0 + ops.sum(ops.abs(self.holder.variable)))

    def reset_state(self):
        self.total.assign(0.0)


class Watching(layers.Layer):
    """A layer that holds metrics before and after variables, in plain containers too."""

    def __init__(self, watched, **options):
        super().__init__(**options)
        self.gauge = Gauge(watched, name="gauge")
        self.kept = {"variable": watched, "gauges": [self.gauge]}

    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")
        self.late = Gauge(self.scale, name="late")

    def call(self, x):
        return x * self.scale


def test_sharing_keeps_the_variables_of_layers_and_copies_those_of_metrics():
    dense = layers.Dense(3)
    inputs = keras.Input((3,))
    hidden = dense(inputs)
    outputs = Watching(dense.kernel, name="watching")(hidden)
    model = keras.Model(inputs, outputs)
    model.compile("adam", "mse", metrics=[Gauge(dense.bias, name="of_bias")])
    data = np.ones((4, 3), "float32")
    model.train_on_batch(data, data)
    twin = ramet.clone(model, weights="share")
    old, new = model.get_layer("watching"), twin.get_layer("watching")
    for gauge, other in ((old.gauge, new.gauge), (old.late, new.late)):
        assert other is not gauge
        assert other.holder.variable is gauge.holder.variable
        assert other.total is not gauge.total
    assert new.scale is old.scale
    assert new.kept["variable"] is dense.kernel
    assert new.kept["gauges"][0] is new.gauge
    assert twin.optimizer.variables[0] is not model.optimizer.variables[0]
    twin.train_on_batch(data, data)
    assert int(ops.convert_to_numpy(twin.optimizer.iterations)) == 2
    assert int(ops.convert_to_numpy(model.optimizer.iterations)) == 1


class Flags(layers.Layer):
    """A layer that takes tensors and flags in many ways."""

    def call(self, x, factor=1, also=None, lists=None, training=None):
        del lists, training
        extra = 0 if also is None else sum(ops.sum(part) for part in also)
        return x * factor + extra


@pytest.mark.parametrize(
    "call",
    [
        lambda layer, x, _: layer(x),
        lambda layer, x, _: layer(x, training=True),
        lambda layer, x, _: layer(x, factor=2.0, lists=[1, [2]]),
        lambda layer, x, _: layer(x=x, factor=3),
        lambda layer, x, _: layer(x, also=[x]),
        lambda layer, x, y: layer(x, also=(y, y)),
        lambda layer, x, y: layer(x, y),
    ],
)
def test_arguments_of_calls_are_those_of_the_source(call):
    inputs = [keras.Input((3,)), keras.Input((3,))]
    called = call(Flags(name="flags"), *inputs)
    model = keras.Model(inputs, layers.Add()([called, *inputs]))
    twin = ramet.clone(model)
    flags = [net.get_layer("flags") for net in (model, twin)]
    old, new = (layer._inbound_nodes[0].arguments for layer in flags)
    pairs = dict(zip([*map(id, model.inputs)], twin.inputs, strict=True))
    translated = keras.tree.map_structure(lambda leaf: pairs.get(id(leaf), leaf), vars(old))
    assert list(vars(new)) == list(vars(old))
    for name, value in translated.items():
        flat, expected = keras.tree.flatten(vars(new)[name]), keras.tree.flatten(value)
        assert type(vars(new)[name]) is type(vars(old)[name])
        assert len(flat) == len(expected)
        assert all(a is b or a == b for a, b in zip(flat, expected, strict=True))
    for name in ("kwargs", "_flat_arguments", "keras_tensors"):
        assert vars(new)[name] is not vars(old)[name]
    data = [np.ones((2, 3), "float32"), np.full((2, 3), 2.0, "float32")]
    np.testing.assert_array_equal(
        ops.convert_to_numpy(twin(data)), ops.convert_to_numpy(model(data))
    )


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the records are TensorFlow's")
def test_what_a_record_cannot_copy_is_named_as_its_author_did():
    import tensorflow as tf

    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.numbers = (n for n in range(3))

    class Holding(layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.lock = threading.Lock()
            self.module = Module()

        def call(self, x):
            return x

    model = keras.Sequential([keras.Input((3,)), Holding(name="holding")])
    message = r"layer 'holding' \(Holding\) cannot be copied: its attribute 'module' holds a gen"
    with pytest.raises(ramet.CopyError, match=message):
        ramet.clone(model)


def test_noted_arguments_that_are_held_twice_are_one_in_the_copy():
    class Noting(layers.Layer):
        def __init__(self, units=3, **options):
            super().__init__(**options)
            self.units = units
            self.box = Weak([self._auto_config.config])

        def call(self, x):
            return x

    model = keras.Sequential([keras.Input((3,)), Noting(name="noting")])
    old, new = (net.get_layer("noting") for net in (model, ramet.clone(model)))
    assert new.box.first() is new._auto_config.config
    assert new.box.first() is not old.box.first()
    assert new.box.first() == {"units": 3}
