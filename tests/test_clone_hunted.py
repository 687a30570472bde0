"""Odd things that layers hold, and that once came out wrong in a copy."""

import collections
import functools
import threading
import weakref

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from smallmodels import DATA, TARGETS, result, small


class Holder(layers.Layer):
    """A layer that holds something, and passes on what it is given."""

    def __init__(self, held=None):
        super().__init__()
        self.held = held

    def call(self, x):
        return x


class Box:
    """Anything, out of Keras's sight."""

    def __init__(self, **held):
        vars(self).update(held)


def copied(held, **options):
    """Returns what a layer of a copy holds."""
    return ramet.clone(small(Holder(held)), **options).layers[0].held


class Noting:
    """Notes in a layer that it was restored."""

    def __init__(self, layer):
        self.layer = layer

    def __setstate__(self, state):
        vars(self).update(state)
        self.layer.log.append("restored")


def test_code_that_runs_during_a_copy_cannot_reach_the_source():
    holder = Holder()
    holder.helper, holder.log = Noting(holder), []
    made = ramet.clone(small(holder)).layers[0]
    assert list(holder.log) == []
    assert list(made.log) == ["restored"]


class Writing:
    """Writes into a dict that holds it when it is restored."""

    def __init__(self, table):
        self.table = table

    def __setstate__(self, state):
        vars(self).update(state)
        for log in self.table.values():
            if isinstance(log, list):
                log.append("restored")


def test_code_that_runs_while_a_dict_is_copied_cannot_reach_the_source():
    table = {}
    table.update(helper=Writing(table), log=[])  # The list comes after what writes into it.
    made = copied(Box(table=table)).table
    assert made["helper"].table is made
    assert table["log"] == []


def test_a_key_of_jax_is_copied(backend):
    if backend != "jax":
        pytest.skip("keys are JAX's")
    import jax

    key = jax.random.key(3)
    made = copied(Box(key=key)).key
    assert made is not key
    assert jax.random.bits(made) == jax.random.bits(key)


class Filling:
    """Lets its layer have one more attribute when it is asked for its state."""

    def __init__(self, layer):
        self.layer = layer

    def __getstate__(self):
        vars(self.layer)["computed"] = 1
        return vars(self)


def test_a_source_that_computes_an_attribute_while_it_is_copied():
    holder = Holder()
    holder.helper = Filling(holder)
    twin = ramet.clone(small(holder))
    assert twin.layers[0].helper.layer is twin.layers[0]


@pytest.mark.parametrize("weights", ["copy", "share"])
def test_a_variable_of_a_metric_that_a_helper_knows_too(weights):
    holder = Holder()
    holder.mean = keras.metrics.Mean()
    holder.helper = Box(total=holder.mean.total)
    model = small(layers.Dense(3), holder)
    made = ramet.clone(model, weights=weights).layers[1]
    assert made.helper.total is made.mean.total
    assert made.mean.total is not holder.mean.total


def test_a_weak_reference_to_an_empty_dict_follows_it():
    box = Box(hooks=collections.OrderedDict())
    box.reference = weakref.ref(box.hooks)
    made = copied(box)
    assert made.reference() is made.hooks
    assert made.hooks is not box.hooks


def test_attributes_of_an_ordered_dict_are_kept():
    table = collections.OrderedDict(a=[1])
    table.note = [2]
    made = copied(Box(table=table)).table
    assert (made, made.note) == (table, [2])
    assert made.note is not table.note


class Streamed(list):
    """A list that tells its items one by one, and keeps none of what it tells."""

    def __reduce_ex__(self, protocol):
        return list, (), None, ([item] for item in self)


def test_what_a_reduction_makes_is_not_taken_for_something_else():
    assert copied(Box(items=Streamed(range(50)))).items == [[item] for item in range(50)]


class Weak(weakref.WeakValueDictionary):
    """A subclass of a weak dict."""


def test_a_subclass_of_a_weak_dict_leads_to_the_copy():
    holder = Holder()
    holder.table = Weak(me=holder)
    made = ramet.clone(small(holder)).layers[0]
    assert type(made.table) is Weak
    assert made.table["me"] is made


def test_a_weak_reference_out_of_the_model_is_kept():
    inner = small(Holder())
    outer = keras.Sequential([inner, layers.Dense(2)])
    inner.parent = weakref.ref(outer)
    assert ramet.clone(inner).parent() is outer
    whole = ramet.clone(outer)
    assert whole.layers[0].parent() is whole


def test_a_partial_has_copies_of_what_it_holds():
    seen = []
    box = Box(seen=seen, see=functools.partial(list.append, seen), same=functools.partial(int, "1"))
    box.see.note = seen
    made = copied(box)
    made.see(1)
    assert (made.seen, seen) == ([1], [])
    assert made.see.note is made.seen
    assert made.same is box.same
    box.see = functools.partial(print, threading.Lock())  # kept, as it cannot be copied
    assert copied(box).see is box.see


def test_a_partial_that_holds_what_holds_it():
    box = Box()
    box.call = functools.partial(len, [box])
    made = copied(box)
    assert made.call.args[0][0] is made


class Listed(list):
    """A list with attributes."""


def reachable(layer, how):
    """Returns a function that leads to a layer in an odd way."""
    listed, array = Listed(), np.empty(1, object)
    listed.layer, array[0] = layer, layer
    table, method = {layer: 1}, [layer].copy
    return {
        "key": lambda: next(iter(table)),
        "attribute": lambda: listed.layer,
        "array": lambda: array[0],
        "method": lambda: method()[0],
    }[how]


@pytest.mark.parametrize("how", ["key", "attribute", "array", "method"])
def test_a_function_that_reaches_a_layer_in_an_odd_way(how):
    holder = Holder()
    holder.inner = layers.Dense(3)
    holder.find = reachable(holder.inner, how)
    made = ramet.clone(small(layers.Dense(3), holder), weights="fresh").layers[1]
    assert made.find() is made.inner


NAMED = layers.Dense(3, name="named")


def repeatedly(x, times):
    return x if times == 0 else repeatedly(NAMED(x), times - 1)


def test_a_function_that_calls_itself_by_name_and_reaches_a_layer():
    model = small(NAMED, layers.Lambda(lambda x: repeatedly(x, 2), output_shape=(3,)))
    twin = ramet.clone(model)
    np.testing.assert_array_equal(result(twin), result(model))
    twin.layers[0].kernel.assign(twin.layers[0].kernel * 0)
    assert not np.array_equal(result(twin), result(model))


def test_a_value_that_a_layer_also_holds_by_itself():
    model = small(Holder())
    model.layers[0].start = model.layers[1].kernel.value
    model.compile("sgd", "mse")
    twin, before = ramet.clone(model), ops.convert_to_numpy(model.layers[1].kernel).tobytes()
    model.fit(DATA, TARGETS, verbose=0)
    assert ops.convert_to_numpy(twin.layers[0].start).tobytes() == before
    ramet.clone(model)  # What JAX has deleted is no obstacle.


def test_a_reference_of_jax_is_copied(backend):
    if backend != "jax":
        pytest.skip("references are JAX's")
    import jax

    holder = Holder()
    holder.count = jax.new_ref(jax.numpy.zeros(2))
    made = ramet.clone(small(holder)).layers[0]
    made.count[...] += 1
    np.testing.assert_array_equal(holder.count[...], [0, 0])
    np.testing.assert_array_equal(made.count[...], [1, 1])


def test_exclusions_of_a_tracker_may_be_sets():
    from keras.src.utils.tracking import Tracker

    tracker = Tracker({"all": (lambda _: True, [])}, exclusions={"all": {"none"}})
    assert copied(Box(tracker=tracker)).tracker.exclusions == {"all": {"none"}}


def torch_only(backend):
    if backend != "torch":
        pytest.skip("parameters are PyTorch's")
    import torch

    return torch


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse", "to_mkldnn"])
def test_parameters_of_other_layouts(backend, layout):
    torch = torch_only(backend)
    holder = Holder()
    holder.parameter = torch.nn.Parameter(getattr(torch.eye(3), layout)())
    made = ramet.clone(small(holder)).layers[0].parameter
    assert made is not holder.parameter
    assert torch.equal(made.to_dense(), torch.eye(3))


def test_parameters_are_shared_whoever_else_has_them(backend):
    torch = torch_only(backend)

    class Own(torch.nn.Parameter):
        pass

    for kind in (torch.nn.Parameter, Own):
        holder = Holder()
        holder.parameter = kind(torch.ones(2))
        holder.mean = keras.metrics.Mean()
        holder.mean.known = Box(parameter=holder.parameter)
        made = ramet.clone(small(holder), weights="share").layers[0]
        assert made.parameter is holder.parameter
        assert made.mean.known.parameter is holder.parameter
        assert ramet.clone(small(holder)).layers[0].parameter is not holder.parameter


def test_a_parameter_without_data_is_not_shared(backend):
    torch = torch_only(backend)
    holder = Holder(Box(empty=torch.nn.Parameter(torch.empty(2, device="meta"))))
    made = ramet.clone(small(holder)).layers[0].held.empty
    made.requires_grad_(requires_grad=False)
    assert made.is_meta
    assert holder.held.empty.requires_grad


class Tagged(layers.Layer):
    """A layer that others look up by its tag."""

    def __init__(self, tag, inner=None):
        super().__init__()
        self.tag, self.inner = tag, inner

    def __hash__(self):
        return hash(self.tag)

    def __eq__(self, other):
        return type(other) is type(self) and other.tag == self.tag

    def call(self, x):
        return x


@pytest.mark.parametrize("weights", ["copy", "share", "fresh"])
def test_layers_that_are_looked_up_by_what_they_hold(weights):
    first, second = Tagged("first", inner=layers.Dense(2)), Tagged("second")
    second.inner = Tagged("inner", inner=first)
    holder = Holder(Box(set={first, second}, frozen=frozenset({second}), dict={first: second}))
    holder.layers, holder.by_layer = {first, second}, {second: "value"}
    made = ramet.clone(small(holder), weights=weights).layers[0]
    twin = made.held.dict[Tagged("first")]
    assert twin.tag == "second"
    assert twin is not second
    assert twin.inner.inner in made.held.set
    assert made.held.set == {Tagged("first"), Tagged("second")}
    assert {id(layer) for layer in made.held.set} == {id(layer) for layer in made.layers}
    assert [*made.held.frozen] == [twin]
    assert made.by_layer[Tagged("second")] == "value"
    assert not {id(layer) for layer in made.layers} & {id(first), id(second)}


class Reading:
    """A helper that looks at its layers when it is given them."""

    def __init__(self, *layers):
        self.layers = layers

    def __getstate__(self):
        return {"layers": self.layers}

    def __setstate__(self, state):
        self.layers = state["layers"]
        self.tags = [layer.tag for layer in self.layers]
        self.weights = [layer.get_weights() for layer in self.layers]


class Pair(layers.Layer):
    """A layer with a helper that knows it, met before and after the layer's own things."""

    def __init__(self, tag):
        super().__init__()
        self.before = Reading(self)
        self.tag = tag
        self.after = Reading(self)

    def build(self, shape):
        self.scale = self.add_weight(shape=shape[-1:], initializer="ones")

    def call(self, x):
        return x * self.scale


@pytest.mark.parametrize("weights", ["copy", "share"])
def test_helpers_that_look_at_their_layers(weights):
    layer, other = Pair("one"), Pair("other")
    layer.both = Reading(other, layer)
    other.nested = Reading(Box(tag="box", get_weights=list, held=Reading(layer)))
    model = keras.Sequential([keras.Input((4,)), layer, other])
    made, twin = ramet.clone(model, weights=weights).layers
    for helper in (made.before, made.after):
        assert helper.layers == (made,)
        assert helper.tags == ["one"]
        np.testing.assert_array_equal(helper.weights[0][0], np.ones(4))
    assert made.both.layers == (twin, made)
    assert made.both.tags == ["other", "one"]
    assert twin.nested.layers[0].held.layers == (made,)
    assert twin.nested.tags == ["box"]


def test_what_a_helper_says_about_its_layer_is_not_lost():
    class Refusing(Reading):
        def __setstate__(self, state):
            message = f"not for {state['layers'][0].tag}"
            raise ValueError(message)

    layer = Pair("one")
    layer.helper = Refusing(layer)
    with pytest.raises(ValueError, match="not for one") as caught:
        ramet.clone(small(layer))
    assert any("Refusing" in note for note in caught.value.__notes__)


def test_objects_without_layers_have_their_state_at_once():
    import uuid

    names = {uuid.UUID(int=number): number for number in range(5)}
    assert copied(Box(names=names)).names == names
