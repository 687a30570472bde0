"""Which handler copies which class: one order, nothing hidden, each class looked up once."""

import collections
import enum
import functools
import io
import tempfile
import types

import keras
import numpy as np
import pytest

from ramet import keras_internals as internals
from ramet.copying import any_object, containers, functions, immutable, keras_layers, keras_state
from ramet.copying.core import Core
from ramet.copying.deep_copy import HANDLERS
from ramet.copying.handlers import Handlers, Registry


class Base:
    pass


class Special(Base):
    pass


class Slotted(Base):
    __slots__ = ("a",)


def first(_, value):
    return value


def second(_, value):
    return value


def default(_, value):
    return value


def table(*registries):
    last = Registry()
    last(object)(default)
    return Handlers(*registries, last, by_attributes=any_object.copy_by_attributes)


def registry(*general, exactly=()):
    made = Registry()
    for key, handler in general:
        (made if isinstance(key, type) else made.where)(key)(handler)
    for key, handler in exactly:
        made.exactly(key)(handler)
    return made


def test_a_handler_copies_subclasses_too_unless_it_is_for_exactly_one_class():
    handlers = table(registry((Base, first), exactly=[(Special, second)]))
    assert handlers[Base] is first
    assert handlers[Special] is second
    assert handlers[type("Own", (Special,), {})] is first
    assert handlers[int] is default


def test_the_order_of_registries_decides_between_unrelated_bases():
    class Other:
        pass

    both = type("Both", (Base, Other), {})
    one, other = registry((Base, first)), registry((Other, second))
    assert table(one, other)[both] is first
    assert table(other, one)[both] is second


def test_a_test_of_classes_has_its_place_in_the_order():
    tests = registry((lambda kind: kind.__name__ == "Special", first))
    classes = registry((Base, second))
    assert table(tests, classes)[Special] is first
    assert table(classes, tests)[Special] is second


def test_a_class_is_looked_up_once():
    asked = []

    def test(kind):
        asked.append(kind)
        return True

    handlers = table(registry((test, first)))
    assert [handlers[Base], handlers[Base]] == [first, first]
    assert asked == [Base]


def test_attributes_without_slots_are_copied_by_the_core():
    handlers = table(registry((Base, any_object.copy_by_attributes)))
    assert handlers[Special] is Core.copy_object
    assert handlers[Slotted] is any_object.copy_by_attributes


@pytest.mark.parametrize(
    ("registries", "message"),
    [
        ([registry((Base, first), (Special, second))], "second would never copy a Special: first"),
        ([registry((Base, first)), registry((Special, second))], "first is registered for Base"),
        ([registry((Base, first)), registry((Base, second))], "second would never copy a Base"),
        (
            [registry(exactly=[(Base, first)]), registry(exactly=[(Base, second)])],
            "register the more specific class first",
        ),
    ],
)
def test_a_handler_that_would_never_be_used_is_refused(registries, message):
    with pytest.raises(TypeError, match=message):
        table(*registries)


class Level(int, enum.Enum):
    LOW = 1


class PairLevel(tuple, enum.Enum):  # noqa: SLOT001  a member is no plain tuple
    LOW = (1, 2)


class MeasuringLayer(keras.metrics.Mean, keras.layers.Layer):
    pass


class TupleLayer(tuple, keras.layers.Layer):  # noqa: SLOT001  layers have attributes
    pass


Pair = collections.namedtuple("Pair", "first second")  # noqa: PYI024  a user's own


@pytest.mark.parametrize(
    ("kind", "handler"),
    [
        (int, immutable.keep),
        (Level, immutable.keep),
        (PairLevel, immutable.keep),
        (np.float32, immutable.keep),
        (keras.layers.Dense, keras_layers.copy_operation),
        (MeasuringLayer, keras_layers.copy_operation),
        (TupleLayer, keras_layers.copy_operation),
        (keras.Variable, keras_state.copy_variable),
        (keras.metrics.Mean, keras_state.copy_owner),
        (keras.optimizers.Adam, keras_state.copy_optimizer),
        (keras.initializers.GlorotUniform, keras_state.copy_initializer),
        (internals.TRACKED_LIST, Core.copy_list_object),
        (list, Core.copy_list),
        (types.FunctionType, Core.copy_function),
        (Pair, containers.copy_tuple_object),
        (np.ndarray, containers.copy_array),
        (io.StringIO, containers.copy_file),
        (io.TextIOWrapper, containers.copy_file),
        (functools.partial, functions.copy_partial),
        (keras.losses.MeanSquaredError, Core.copy_object),
        (tempfile.TemporaryDirectory, any_object.copy_by_reduction),
        (Base, any_object.copy_by_reduction),
    ],
)
def test_who_copies_what(kind, handler):
    assert HANDLERS[kind] is handler
