"""The bug this project began with, and five ways to repair it wrongly.

`clone_model` once failed on a layer with several outputs and no mask support:
masks, tensors and outputs were zipped, and a single `None` for the mask ended
the zip after the first output. Each faulty repair is built into the machinery
here, and each has to be caught by a guard that passes without it.
"""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet import keras_internals as internals
from ramet.copying import keras_calls, keras_graphs, keras_layers
from ramet.copying.deep_copy import HANDLERS


class SwapLayer(layers.Layer):
    """Gives its two inputs in the other order."""

    def call(self, inputs):
        return [inputs[1], inputs[0]]


def historic_model() -> keras.Model:
    """A two-output Lambda without mask support, chained into a swap."""
    inputs = layers.Input((4,), name="x")
    halves = layers.Lambda(lambda x: [x[:, :2], x[:, 2:] * 10], name="split")(inputs)
    first, second = SwapLayer(name="swap")(halves)
    return keras.Model(inputs, [layers.Dense(3, name="dense")(first), second])


DATA = np.arange(8, dtype="float32").reshape(2, 4)


@pytest.mark.since_keras(3, 15)
def test_keras_still_refuses_the_historic_model():
    with pytest.raises(ValueError, match=r"deserialization of a `Lambda` layer .* disallowed"):
        keras.models.clone_model(historic_model())


@pytest.mark.parametrize("copied", [ramet.clone, ramet.clone_model])
def test_the_historic_model_is_cloned(copied):
    model = historic_model()
    twin = copied(model)
    twin.set_weights(model.get_weights())
    for predict in (lambda m: m(DATA), lambda m: m.predict(DATA, verbose=0)):
        expected, found = predict(model), predict(twin)
        kernel, bias = (ops.convert_to_numpy(w) for w in model.get_layer("dense").weights)
        by_hand = DATA[:, 2:] * 10 @ kernel + bias
        np.testing.assert_allclose(ops.convert_to_numpy(found[0]), by_hand, rtol=1e-5)
        for a, b in zip(expected, found, strict=True):
            assert np.array_equal(ops.convert_to_numpy(a), ops.convert_to_numpy(b))
    assert not np.array_equal(*(ops.convert_to_numpy(o)[:, :2] for o in twin(DATA)))


# --- Guards: what a copy must hold on to, each a function that fails if it does not ---


class TwoMasks(layers.Layer):
    """Gives two outputs of which only the second carries a mask."""

    def call(self, inputs, mask=None):
        del mask
        return [inputs * 1.0, inputs * 2.0]

    def compute_mask(self, inputs, previous_mask):
        del inputs
        return [None, previous_mask]


def masked_model() -> keras.Model:
    tokens = layers.Input((5,), dtype="int32", name="tokens")
    embedded = layers.Embedding(7, 3, mask_zero=True, name="embedding")(tokens)
    plain, masked = TwoMasks(name="two")(embedded)
    return keras.Model(tokens, layers.Add(name="add")([plain, masked]))


def assert_same_numbers(model: keras.Model, twin: keras.Model) -> None:
    """Both compute the same outputs, bit by bit."""
    ours, theirs = (keras.tree.flatten(m(DATA)) for m in (model, twin))
    for at, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        same = np.array_equal(ops.convert_to_numpy(a), ops.convert_to_numpy(b))
        assert same, f"output {at} has other numbers"


def guard_masks_live_on():
    """Masks of layers that support them are on the copy's tensors, one per output."""
    model = masked_model()
    twin = ramet.clone(model)
    for name in ("embedding", "two"):
        old = [internals.get_keras_mask(t) for t in ops_outputs(model, name)]
        new = [internals.get_keras_mask(t) for t in ops_outputs(twin, name)]
        masked = [[mask is not None for mask in masks] for masks in (old, new)]
        assert masked[0] == masked[1], f"the masks of {name!r} are not those of the source"
    tokens = np.array([[1, 2, 0, 0, 0]])
    tail = [
        keras.Model(m.input, layers.GlobalAveragePooling1D()(m.get_layer("embedding").output))
        for m in (model, twin)
    ]
    assert np.array_equal(*(ops.convert_to_numpy(t(tokens)) for t in tail))
    embedded = ops.convert_to_numpy(model.get_layer("embedding")(tokens))
    by_hand = embedded[:, :2].mean(axis=1)
    np.testing.assert_allclose(ops.convert_to_numpy(tail[1](tokens)), by_hand, rtol=1e-5)


def ops_outputs(model: keras.Model, name: str) -> list:
    return keras.tree.flatten(model.get_layer(name).output)


def guard_every_output_is_mapped():
    """Every output of a layer with several is found again."""
    model = historic_model()
    assert_same_numbers(model, ramet.clone(model))


def guard_layers_are_told_apart():
    """Layers are copied once each, by identity, not by class."""
    inputs = layers.Input((4,))
    shared = layers.Dense(4)
    model = keras.Model(inputs, layers.Dense(4)(shared(shared(inputs))))
    twin = ramet.clone(model)
    counts = [len({id(layer) for layer in m.layers}) for m in (model, twin)]
    assert counts == [3, 3], f"{counts[0]} layers became {counts[1]}"
    assert_same_numbers(model, twin)


def guard_outputs_are_the_authors():
    """The outputs are those that were named, not those of the last layer."""
    inputs = layers.Input((4,))
    early = layers.Dense(4, name="early")(inputs)
    late = layers.Dense(4, name="late")(early)
    model = keras.Model(inputs, {"late": late, "early": early})
    twin = ramet.clone(model)
    structure = keras.tree.map_structure(lambda _: None, twin.output)
    assert structure == {"late": None, "early": None}, "the outputs are not those of the source"
    assert_same_numbers(model, twin)


def guard_tensors_are_new():
    """The copy has tensors of its own."""
    model = historic_model()
    twin = ramet.clone(model)
    ours, theirs = ({id(t) for t in (*m.inputs, *m.outputs)} for m in (model, twin))
    assert not ours & theirs, "the copy has tensors of the source"


def guard_order_follows_the_data():
    """A call comes after what it needs, whatever the order of the layers is."""
    inputs = layers.Input((4,))
    shared = layers.Dense(4, name="a")
    y = layers.Dense(4, name="b")(shared(inputs))
    model = keras.Model(inputs, layers.Add(name="c")([shared(y), y]))
    twin = ramet.clone(model)
    done = set()
    for call in ramet.trace(twin).calls.values():
        assert {ref.call for ref in call.refs} <= done, f"{call.name} comes before what it needs"
        done.add(call.name)
    assert_same_numbers(model, twin)


class Scale(layers.Layer):
    """Takes one tensor or a list of one, and tells them apart."""

    def call(self, inputs, factor=1.0, offset=None):
        if isinstance(inputs, list):
            return inputs[0] * factor + 100.0
        return inputs * factor + (0.0 if offset is None else offset)


def guard_arguments_survive():
    """Call arguments are kept, and a list of one tensor is not one tensor."""
    inputs = layers.Input((4,))
    y = Scale(name="single")(inputs, factor=3.0, offset=inputs)
    model = keras.Model(inputs, [y, Scale(name="listed")([y], factor=2.0)])
    assert_same_numbers(model, ramet.clone(model))


def guard_inputs_are_kept():
    """New inputs have the shape, dtype, name and flags of the old ones."""
    a = layers.Input((4,), name="a", dtype="float64")
    b = layers.Input((4,), name="b", optional=True, batch_size=2)
    model = keras.Model([a, b], layers.Subtract()([a, b]))
    twin = ramet.clone(model)
    facts = [
        [
            (t.name, t.shape, t.dtype, t.sparse, t._keras_history.operation.optional)
            for t in m.inputs
        ]
        for m in (model, twin)
    ]
    assert facts[0] == facts[1], "the inputs are not those of the source"


GUARDS = [
    guard_masks_live_on,
    guard_every_output_is_mapped,
    guard_layers_are_told_apart,
    guard_outputs_are_the_authors,
    guard_tensors_are_new,
    guard_order_follows_the_data,
    guard_arguments_survive,
    guard_inputs_are_kept,
]


@pytest.mark.parametrize("guard", GUARDS)
def test_guards_pass(guard):
    guard()


# --- Faults: the five proposals, built into the machinery one mistake at a time ---


def s0_layers_by_class(patch):
    made = {}
    make_shell = keras_layers.make_shell

    def by_class(copier, operation):
        shell = made.get(type(operation))
        if shell is None or isinstance(operation, keras.Function):
            shell = made[type(operation)] = make_shell(copier, operation)
        copier.memo[id(operation)] = shell
        return shell

    for module in (keras_layers, keras_graphs):
        patch.setattr(module, "make_shell", by_class)


def after(patch, module, name, change):
    """Change what a step of the copier has just made."""
    patch.setattr(module, name, changing(getattr(module, name), change))


def after_tensors(patch, change):
    """Change every symbolic tensor that was just copied."""
    handler = HANDLERS[keras.KerasTensor]
    patch.setitem(HANDLERS, keras.KerasTensor, changing(handler, change))


def changing(step, change):
    def changed(copier, source):
        result = step(copier, source)
        change(source, copier.memo[id(source)])
        return result

    return changed


def s0_last_layer_is_the_output(patch):
    def last(source, made):
        if isinstance(source, keras.Function) and isinstance(made._outputs_struct, dict):
            vars(made)["_outputs_struct"] = made._outputs[0]

    after(patch, keras_layers, "fill_shell", last)


def s0_old_tensors(patch):
    patch.setitem(HANDLERS, keras.KerasTensor, lambda _, value: value)


def without_mask(tensor):
    vars(tensor).pop("_keras_mask", None)


def s1_no_masks(patch):
    after_tensors(patch, lambda _, made: without_mask(made))


def s1_dictionary_order(patch):
    def by_name(source, made):
        if isinstance(source, keras.Function):
            nodes = [node for same in made._nodes_by_depth.values() for node in same]
            vars(made)["_nodes_by_depth"] = {0: sorted(nodes, key=lambda n: n.operation.name)}

    after(patch, keras_layers, "fill_shell", by_name)


def s1_inputs_from_shape_alone(patch):
    def forget(source, made):
        if isinstance(source, layers.InputLayer):
            made.optional = False

    after(patch, keras_layers, "fill_shell", forget)


def s2_one_none_for_several_outputs(patch):
    def first_only(_, made):
        made.outputs = made.outputs[:1]

    after(patch, keras_calls, "fill_call", first_only)


def s2_masks_only_where_call_takes_one(patch):
    def only_with_argument(source, made):
        operation = source._keras_history.operation
        if "mask" not in getattr(operation, "call_signature_parameters", ()):
            without_mask(made)

    after_tensors(patch, only_with_argument)


def s3_always_a_list(patch):
    def listed(_, made):
        args, kwargs = made.arguments.args, made.arguments.kwargs
        single = len(args) == 1 and not isinstance(args[0], list)
        made.arguments = type(made.arguments)(*(([args[0]],) if single else args), **kwargs)

    after(patch, keras_calls, "fill_call", listed)


def s3_call_arguments_dropped(patch):
    def dropped(_, made):
        made.arguments = type(made.arguments)(*made.arguments.args)

    after(patch, keras_calls, "fill_call", dropped)


def s4_none_everywhere(patch):
    after_tensors(patch, lambda _, made: vars(made).update(_keras_mask=None))


LOST_MASKS = (AssertionError, "the masks of '(embedding|two)' are not those of the source")
NOT_CONNECTED = (ValueError, "Output with path `0?` is not connected to `inputs`")
if tuple(int(part) for part in keras.__version__.split(".")[:2]) < (3, 14):
    NOT_CONNECTED = (KeyError, "encountered when calling Functional")  # It is noticed later.
OTHER_NUMBERS = (AssertionError, "output 0 has other numbers")


@pytest.mark.parametrize(
    ("fault", "guard", "symptom"),
    [
        (
            s0_layers_by_class,
            guard_layers_are_told_apart,
            (AssertionError, "3 layers became 2"),
        ),
        (
            s0_last_layer_is_the_output,
            guard_outputs_are_the_authors,
            (AssertionError, "the outputs are not those of the source"),
        ),
        (
            s0_old_tensors,
            guard_tensors_are_new,
            (AssertionError, "the copy has tensors of the source"),
        ),
        (s1_no_masks, guard_masks_live_on, LOST_MASKS),
        (
            s1_dictionary_order,
            guard_order_follows_the_data,
            NOT_CONNECTED,
        ),
        (
            s1_inputs_from_shape_alone,
            guard_inputs_are_kept,
            (AssertionError, "the inputs are not those of the source"),
        ),
        (
            s2_one_none_for_several_outputs,
            guard_every_output_is_mapped,
            NOT_CONNECTED,
        ),
        (s2_masks_only_where_call_takes_one, guard_masks_live_on, LOST_MASKS),
        (s3_always_a_list, guard_arguments_survive, OTHER_NUMBERS),
        (s3_call_arguments_dropped, guard_arguments_survive, OTHER_NUMBERS),
        (s4_none_everywhere, guard_masks_live_on, LOST_MASKS),
    ],
)
def test_faulty_repairs_are_caught(fault, guard, symptom, monkeypatch):
    guard()
    fault(monkeypatch)
    kind, message = symptom
    with pytest.raises(kind, match=message) as caught:
        guard()
    assert type(caught.value) is kind


def test_an_output_that_cannot_be_computed_is_named():
    model = historic_model()
    with pytest.raises(ramet.GraphError, match=r"layer 'split' .* returns 1 output, .* 'swap'"):
        ramet.clone_model(
            model,
            clone_function=lambda old: (
                layers.Lambda(lambda x: x * 2.0, name=old.name)
                if old.name == "split"
                else SwapLayer(name=old.name)
            ),
        )


def test_a_tensor_that_is_no_input_is_wrapped_under_a_name_that_tells():
    model = historic_model()
    inner = layers.Dense(4, name="inner")(layers.Input((9,)))
    twin = ramet.clone_model(model, input_tensors=inner)
    assert twin.inputs[0].name == f"input_wrapper_for_{inner.name}"
    assert twin.inputs[0].shape == (None, 4)
    assert inner._keras_history.operation.name == "inner"
