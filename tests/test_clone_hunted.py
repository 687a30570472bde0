"""Odd things that layers hold, and that once came out wrong in a copy."""

import collections
import copy
import dataclasses
import functools
import threading
import weakref
from xml.etree import ElementTree as ET

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
    with pytest.raises(AttributeError, match="log"):
        ramet.clone(small(holder))
    assert list(holder.log) == []


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


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """Something to look up by, of which Python itself sets the state."""

    tag: str
    layer: object


def test_keys_that_hold_layers():
    first, second, holder = layers.Dense(4), layers.Dense(4), Holder()
    table = {Key("first", first): 1, Key("second", second): 2}
    holder.table, holder.box = table, Box(table=table, keys=frozenset(table), set=set(table))
    made = ramet.clone(keras.Sequential([keras.Input((4,)), first, second, holder]))
    keys = [Key("first", made.layers[0]), Key("second", made.layers[1])]
    assert [made.layers[2].box.table[key] for key in keys] == [1, 2]
    assert made.layers[2].box.keys == made.layers[2].box.set == set(made.layers[2].table) == {*keys}


class Inner:
    """A helper with a state that is set by code."""

    def __init__(self, layer):
        self.layer, self.units = layer, layer.units

    def __setstate__(self, state):
        vars(self).update(state)


class View:
    """Looks at what it is given when it is made."""

    def __init__(self, seen):
        self.seen, self.units = seen, seen.units

    def __reduce__(self):
        return type(self), (self.seen,)


class Registry(dict):
    """Looks at what it is given."""

    def __setitem__(self, name, value):
        vars(self).setdefault("units", []).append(value.units)
        super().__setitem__(name, value)


def test_helpers_that_look_at_other_helpers_and_earlier_layers():
    dense, holder = layers.Dense(4), Holder()
    inner, registry = Inner(dense), Registry()
    registry["inner"], registry["layer"] = inner, dense
    holder.held = Box(inner=inner, views=[View(inner), View(dense)], registry=registry)
    made = ramet.clone(keras.Sequential([keras.Input((4,)), dense, holder])).layers
    held = made[1].held
    assert [view.units for view in held.views] == [4, 4]
    assert [view.seen for view in held.views] == [held.inner, made[0]]
    assert held.registry == {"inner": held.inner, "layer": made[0]}
    assert held.inner.layer is made[0]


def test_a_helper_reads_the_values_of_an_earlier_layer():
    """More than one batch of them: some are copied in the background by then."""

    class Kernel(View):
        def __init__(self, layer):
            self.seen, self.kernel = layer, ops.convert_to_numpy(layer.kernel)

    dense, holder = [layers.Dense(50) for _ in range(40)], Holder()
    model = keras.Sequential([keras.Input((50,)), *dense, holder])
    holder.held = [Kernel(layer) for layer in dense]
    for view, layer in zip(ramet.clone(model).layers[-1].held, dense, strict=True):
        np.testing.assert_array_equal(view.kernel, ops.convert_to_numpy(layer.kernel))


class Tagged(Holder):
    """A layer that others look up by its tag."""

    def __init__(self, tag, held=None):
        super().__init__(held)
        self.tag = tag

    def __hash__(self):
        return hash(self.tag)

    def __eq__(self, other):
        return type(other) is type(self) and other.tag == self.tag


def test_a_long_chain_of_layers_with_a_hash_of_their_own():
    last = None
    for tag in range(200):
        last = Tagged(tag, Box(next=last))
    made, count = ramet.clone(small(last)).layers[0], 0
    while made is not None:
        made, count = made.held.next, count + 1
    assert count == 200


def test_a_layer_that_knows_a_filled_one_by_its_tag():
    parent, child = Tagged("parent"), Tagged("child")
    parent.held, child.held = Box(child=child), Box(parents={parent})
    made = ramet.clone(small(parent)).layers[0]
    assert made.held.child.held.parents == {made}
    assert made.held.child.held.parents.pop() is made


def test_a_helper_among_the_arguments_of_an_edited_call():
    class Scale(layers.Layer):
        def call(self, x, helper=None):
            return x * helper.units

        def compute_output_spec(self, x, helper=None):
            return keras.KerasTensor((*x.shape[:-1], helper.units), x.dtype)

    inputs = keras.Input((4,))
    dense = layers.Dense(4)
    x = Scale(name="scale")(dense(inputs), helper=Inner(dense))
    graph = ramet.trace(keras.Model(inputs, layers.Dense(2)(x)))
    made = graph.replace("scale", Scale(name="other")).build()
    assert made.get_layer("other").output.shape == (None, 4)


def test_a_symbolic_tensor_that_no_call_made_is_copied():
    tensor = keras.KerasTensor((None, 3))
    made = copied(Box(tensor=tensor)).tensor
    assert made is not tensor
    assert (made.shape, made.dtype, made.name) == (tensor.shape, tensor.dtype, tensor.name)
    assert not hasattr(made, "_keras_history")


def test_a_history_that_a_layer_holds_brings_no_call_along():
    dense = layers.Dense(2)
    inputs = keras.Input((3,))
    model = keras.Model(inputs, dense(inputs))
    other = dense(keras.Input((3,)))
    dense.seen = Box(history=other._keras_history, gone=other._keras_history._replace(node_index=7))
    twin = ramet.clone(model).layers[1]
    assert len(twin._inbound_nodes) == 1
    assert tuple(twin.seen.history) == (twin, 1, 0)
    assert tuple(twin.seen.gone) == (twin, 7, 0)


def test_the_method_that_build_wraps_is_the_copys_under_any_name():
    first, second = layers.Identity(), layers.Dense(2)
    first.__dict__["saved"] = second.build.__wrapped__
    second.build.original = second.build.__wrapped__
    inputs = keras.Input((3,))
    twin = ramet.clone(keras.Model(inputs, second(first(inputs))))
    made = twin.layers[2].build
    assert made.__wrapped__.__self__ is twin.layers[2]
    assert made.original is made.__wrapped__ is twin.layers[1].saved


def test_the_wrapper_of_a_default_build_is_the_copys():
    identity = layers.Identity()
    twin = ramet.clone(small(identity)).layers[0]
    assert twin.build is not identity.build
    assert twin.build.__wrapped__.__self__ is twin
    assert vars(twin.build).keys() == vars(identity.build).keys()


def test_collections_that_show_their_items_otherwise_keep_them():
    from keras.src.utils.tracking import TrackedDict

    class Shown(TrackedDict):
        def __iter__(self):
            return iter(sorted(dict.keys(self)))

        def __getitem__(self, key):
            return f"shown {dict.__getitem__(self, key)}"

        def keys(self):
            return sorted(dict.keys(self))

    holder = Holder()
    holder.__dict__["shown"] = shown = Shown({"b": "1", "a": "2"}, tracker=holder._tracker)
    shown.mark = ["set later"]
    made = vars(ramet.clone(small(holder)).layers[0])["shown"]
    assert list(dict.items(made)) == [("b", "1"), ("a", "2")]
    assert made.mark == shown.mark
    assert made.mark is not shown.mark


def test_a_store_of_a_tracker_may_be_in_a_list():
    holder = Holder()
    holder._tracker.config["mine"] = [lambda _: False, [DATA]]
    holder._tracker.stored_ids["mine"] = {id(DATA)}
    made = ramet.clone(small(holder)).layers[0]._tracker
    (kept,) = made.config["mine"][1]
    assert kept is not DATA
    assert made.stored_ids["mine"] == {id(kept)}


def test_an_empty_ordered_dict_may_have_attributes():
    hooks = collections.OrderedDict()
    hooks.mark = 7
    assert copied(Box(hooks=hooks)).hooks.mark == 7


def test_a_lock_may_have_any_name():
    class Locked(Holder):
        def __init__(self, held=None):
            super().__init__(held)
            self.__dict__[None] = threading.Lock()
            self.after = [1]

        def get_config(self):
            return {"held": None}

    source = small(Locked())
    made = vars(ramet.clone(source).layers[0])
    assert type(made[None]) is type(threading.Lock())
    assert made[None] is not vars(source.layers[0])[None]
    assert made["after"] == [1]


def test_things_nested_without_end_are_an_error():
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ramet.CopyError, match="nested too deeply"):
        copied(Box(deep=deep))


class Itself:
    """Copies itself, and what it holds by `copy.deepcopy`."""

    def __init__(self, **held):
        vars(self).update(held)

    def __deepcopy__(self, memo):
        assert isinstance(memo, dict)
        made = memo[id(self)] = type(self)()
        memo["a key of its own"] = memo[1 << 100] = memo[-1] = 1
        vars(made).update({name: copy.deepcopy(held, memo) for name, held in vars(self).items()})
        return made


def test_objects_that_copy_themselves_share_with_all_others():
    shared, second = Box(name="shared"), Box(name="second")
    holder = Holder()
    first = Itself(box=second, holder=[holder])
    vars(holder).update(before=shared, itself=first, after=second)
    holder.later, holder.pair = Itself(box=shared, first=first), [first, second]
    made = ramet.clone(small(holder)).layers[0]
    assert made.itself.holder[0] is made
    assert made.itself.box is made.after is made.pair[1]
    assert made.later.box is made.before
    assert made.later.first is made.itself is made.pair[0]
    assert made.after is not second
    assert made.before is not shared


def test_an_element_of_a_document_copies_itself():
    element = ET.fromstring("<a><b/></a>")  # noqa: S314  written here
    made = copied(Box(element=element, again=[element]))
    assert made.element is made.again[0] is not element
    assert ET.tostring(made.element) == ET.tostring(element)


class Renewing(Itself):
    """Says what the copy of another is, whatever it was before."""

    def __deepcopy__(self, memo):
        made = memo[id(self)] = type(self)()
        made.other = memo[id(self.other)] = Box(name="new")
        return made


def test_an_object_that_copies_itself_may_say_what_others_become():
    other = Box(name="old")
    holder = Holder()
    vars(holder).update(before=other, itself=Renewing(other=other), after=[other])
    made = ramet.clone(small(holder)).layers[0]
    assert made.before.name == "old"
    assert made.after[0] is made.itself.other
