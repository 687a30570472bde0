"""Whatever is done to a model of sequences, it agrees with its own layers called by hand."""

import itertools
import os
import tempfile

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from keras import ops

import ramet
from sequences import (
    Kind,
    by_hand,
    data_for,
    edited,
    layers_of,
    live_layers,
    make_layer,
    make_model,
    new_layers,
    places,
    plans,
    randomize,
    with_kind,
    with_step_after,
    without_layer,
)

EXAMPLES = int(os.environ.get("RAMET_EXAMPLES", "0"))
"""Raises the number of examples, which are then others each time, to hunt for faults."""

pytestmark = [pytest.mark.sampled, pytest.mark.filterwarnings("ignore")]


def examples(number: int):
    fewer = number if keras.backend.backend() == "torch" else number // 3
    return settings(
        max_examples=EXAMPLES or fewer,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )


def numbers(outputs) -> list[np.ndarray]:
    return [np.asarray(ops.convert_to_numpy(x)) for x in keras.tree.flatten(outputs)]


def called(model, data) -> list[np.ndarray]:
    given = {name: ops.convert_to_tensor(value) for name, value in data.items()}
    return numbers(model(given if len(given) > 1 else next(iter(given.values()))))


def assert_agree(found, expected, atol: float = 1e-6) -> None:
    found, expected = numbers(found), numbers(expected)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=atol * 10, atol=atol)


def assert_same_bits(found, expected) -> None:
    for ours, theirs in zip(numbers(found), numbers(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def loaded(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/m.keras")
        return keras.saving.load_model(f"{folder}/m.keras")


WAYS = {"built": lambda m: m, "loaded": loaded, "cloned": ramet.clone}


@st.composite
def models(draw, **options):
    """Draws a plan and its model: as built, loaded from a file, or cloned."""
    plan = draw(plans(**options))
    way = draw(st.sampled_from(["built", "built", "loaded", "cloned"]))
    return plan, WAYS[way](randomize(make_model(plan)))


def assert_agrees_with_its_layers(model, plan, data, **options) -> None:
    hand = by_hand(plan, live_layers(plan, model), data, **options)
    assert_agree(called(model, data), hand)


def assert_excused(error, plan, data) -> None:
    """An edit may fail only if the layers fail by hand, or a mask is of another length.

    Nested models are called whole here: their inputs may be of a fixed length.
    """
    misfits = []
    try:
        by_hand(plan, new_layers(plan), data, misfits=misfits)
        if not misfits:
            make_model(plan)  # Keras may infer less than it computes.
    except Exception:  # noqa: BLE001  whatever Keras raises
        return
    if not misfits:
        raise AssertionError(f"the layers can be called by hand: {plan}") from error
    if isinstance(error, ramet.GraphError):
        assert "mask" in str(error)
        assert str(error).count("'") >= 6, f"does not name both layers: {error}"


def check_edit(edit, model, plan, data) -> None:
    """Edits a model, and compares it with its own layers in the order of the edited plan."""
    try:
        made = edit(ramet.trace(model)).build()
    except Exception as error:  # noqa: BLE001  a GraphError, or what a layer raised
        assert_excused(error, plan, data)
        return
    misfits = []
    try:
        hand = by_hand(plan, live_layers(plan, made), data, misfits=misfits)
        found = called(made, data)
    except Exception as error:  # noqa: BLE001  whatever Keras raises
        assert_excused(error, plan, data)
        return
    if not misfits:
        assert_agree(found, hand)


# --- copies --------------------------------------------------------------------------


@given(plans())
@examples(20)
def test_keras_agrees_with_layers_by_hand(plan):
    model = randomize(make_model(plan))
    assert_agrees_with_its_layers(model, plan, data_for(plan))


@given(models())
@examples(25)
def test_a_clone_agrees_bit_for_bit(drawn):
    plan, model = drawn
    twin, data = ramet.clone(model), data_for(plan)
    expected = called(model, data)
    assert_same_bits(called(twin, data), expected)
    assert_agrees_with_its_layers(twin, plan, data)


@given(plans())
@examples(12)
def test_a_saved_clone_agrees_bit_for_bit(plan):
    model = randomize(make_model(plan))
    data = data_for(plan)
    expected = called(model, data)
    assert_same_bits(called(loaded(ramet.clone(model)), data), expected)


# --- edits ---------------------------------------------------------------------------


@given(models())
@examples(25)
def test_masking_of_embeddings_can_be_flipped(drawn):
    plan, model = drawn
    after, changes = plan, {}
    for path, kind in layers_of(plan):
        if kind.name == "Embedding":
            flipped = Kind(kind.name, {**kind.options, "mask_zero": not kind.options["mask_zero"]})
            after = edited(after, path[:-1], lambda p, k=path[-1], f=flipped: with_kind(p, k, f))
            changes["/".join(path)] = flipped.options["mask_zero"]
    assume(changes)

    def edit(graph):
        for path, mask_zero in changes.items():
            graph = graph.configure(path, mask_zero=mask_zero)
        return graph

    check_edit(edit, model, after, data_for(plan))


NEW = [
    Kind("Dropout", {"rate": 0.0}),
    Kind("LayerNormalization"),
    Kind("MaxPooling1D", {"pool_size": 2}),
    Kind("Cropping1D", {"cropping": (0, 1)}),
    Kind("ZeroPadding1D", {"padding": (0, 1)}),
    Kind("UpSampling1D", {"size": 2}),
    Kind("Masking", {"mask_value": 1.0}),
    Kind("EverySecond"),
    Kind("Positive"),
]


def insertion(data, plan):
    """Draws a new layer after a tensor: the edit, and the edited plan."""
    found = [p for p in places(plan) if len(p.plan.shape(p.tensor)) == 2]
    assume(found)
    place, kind = data.draw(st.sampled_from(found)), data.draw(st.sampled_from(NEW))
    after = edited(plan, place.path, lambda p: with_step_after(p, place.tensor, "added", kind))
    return (lambda graph: graph.insert_after(place.name, make_layer("added", kind))), after


@given(models(), st.data())
@examples(20)
def test_a_layer_can_be_inserted_anywhere(drawn, data):
    plan, model = drawn
    edit, after = insertion(data, plan)
    check_edit(edit, model, after, data_for(plan))


def replacement(data, plan):
    """Draws another layer for one that makes a mask."""
    kinds = [(p, k) for p, k in layers_of(plan) if k.name in ("Embedding", "Masking")]
    assume(kinds)
    path, kind = data.draw(st.sampled_from(kinds))
    if kind.name == "Embedding":
        options = {**kind.options, "input_dim": 12, "mask_zero": data.draw(st.booleans())}
    else:
        options = {"mask_value": 1.0 - kind.options["mask_value"]}
    new = Kind(kind.name, options)
    after = edited(plan, path[:-1], lambda p: with_kind(p, path[-1], new))
    return (lambda graph: graph.replace("/".join(path), make_layer(path[-1], new))), after


@given(models(), st.data())
@examples(25)
def test_what_makes_a_mask_can_be_replaced(drawn, data):
    plan, model = drawn
    edit, after = replacement(data, plan)
    check_edit(edit, model, after, data_for(plan))


def removal(data, plan):
    """Draws a layer that can be left out."""
    kinds = ("Masking", "Dropout", "LayerNormalization", "BatchNormalization", "Positive")
    paths = [
        path for path, kind in layers_of(plan) if kind.name in kinds and not _is_all(plan, path)
    ]
    assume(paths)
    path = data.draw(st.sampled_from(paths))
    after = edited(plan, path[:-1], lambda p: without_layer(p, path[-1]))
    return (lambda graph: graph.remove("/".join(path))), after


def _is_all(plan, path) -> bool:
    """Tells whether a layer reads an input and gives an output: nothing would be left."""
    for key in path[:-1]:
        plan = plan.layers[key].plan
    gone = without_layer(plan, path[-1])
    return any(tensor.step in plan.inputs for tensor in gone.outputs)


@given(models(), st.data())
@examples(25)
def test_a_layer_can_be_removed(drawn, data):
    plan, model = drawn
    edit, after = removal(data, plan)
    check_edit(edit, model, after, data_for(plan))


@given(models(), st.data())
@examples(15)
def test_edits_go_together(drawn, data):
    plan, model = drawn
    first, after = insertion(data, plan)
    second, after = data.draw(st.sampled_from([removal, replacement]))(data, after)
    check_edit(lambda graph: second(first(graph)), model, after, data_for(plan))


@given(models(unroll=False), st.booleans())
@examples(8)
def test_inputs_can_be_longer(drawn, known):
    plan, model = drawn
    time = 8
    inputs = {name: (time, *shape[1:]) for name, shape in plan.inputs.items()}
    shapes = inputs if known else {name: (None, *s[1:]) for name, s in inputs.items()}

    def edit(graph):
        new = {
            name: keras.Input(shape, dtype="int32" if len(shape) == 1 else "float32", name=name)
            for name, shape in shapes.items()
        }
        return graph.with_inputs(new)

    after = type(plan)(shapes, plan.layers, plan.steps, plan.outputs)
    check_edit(edit, model, after, data_for(plan, time))


def flip_masking(layer):
    config = layer.get_config()
    if isinstance(layer, keras.layers.Embedding):
        config["mask_zero"] = not config["mask_zero"]
    return type(layer).from_config(config)


def call_and_crop(layer, *args, **kwargs):
    """Calls a layer, and goes on without the mask of what an Embedding gives."""
    made = layer(*args, **kwargs)
    if isinstance(layer, keras.layers.Embedding):
        return ops.concatenate([made[:, :1], made[:, 1:]], axis=1)
    return made


NUMBERS = itertools.count()


def call_and_mask(layer, *args, **kwargs):
    """Calls a layer, and masks what an Embedding or a normalization gives."""
    made = layer(*args, **kwargs)
    kinds = (keras.layers.Embedding, keras.layers.LayerNormalization)
    if isinstance(layer, kinds) and len(made.shape) == 3:
        return keras.layers.Masking(0.25, name=f"extra_{next(NUMBERS)}")(made)
    return made


@given(
    models(),
    st.sampled_from([None, flip_masking]),
    st.sampled_from([None, call_and_crop, call_and_mask]),
)
@examples(25)
def test_clone_model_derives_masks_again(drawn, clone, call):
    plan, model = drawn
    twin = ramet.clone_model(model, clone_function=clone, call_function=call, recursive=True)
    randomize(twin, 1)
    options = {} if call is None else {"call": call}
    assert_agrees_with_its_layers(twin, plan, data_for(plan), **options)


# --- cuts ----------------------------------------------------------------------------


def cut(draw, plan) -> list[str] | str:
    """Draws where to cut: one tensor, or all that the steps from some one on still need."""
    found = [place for place in places(plan) if not place.path]
    if draw(st.booleans()):
        return draw(st.sampled_from(found)).name
    count = draw(st.integers(1, len(plan.steps)))
    above = {step.name for step in plan.steps[:count]}
    needed = {t for step in plan.steps[count:] for t in step.tensors()} | set(plan.outputs)
    names = [p.name for p in found if p.tensor in needed and p.tensor.step in above]
    return names + [name for name in plan.inputs if any(t.step == name for t in needed)]


def halves(model, at):
    try:
        head, tail = ramet.trace(model).split(at)
    except ramet.GraphError as error:
        assume("still depends on" not in str(error))
        raise
    return head.build(), tail.build()


def assert_halves_agree(plan, model, at, call=lambda model, x: model(x)) -> None:
    head, tail = halves(model, at)
    given = only(data_for(plan))
    expected = numbers(call(model, given))
    between = call(head, given)
    assert_agree(call(tail, between), expected)
    plain = keras.tree.map_structure(lambda x: np.asarray(ops.convert_to_numpy(x)), between)
    assert_agree(call(tail, plain), expected)


def only(data):
    return data if len(data) > 1 else next(iter(data.values()))


@given(models(), st.data())
@examples(20)
def test_a_model_can_be_cut_in_two(drawn, data):
    plan, model = drawn
    assert_halves_agree(plan, model, cut(data.draw, plan))


@given(models(largest=4), st.data())
@examples(6)
def test_halves_predict_alike(drawn, data):
    plan, model = drawn
    assert_halves_agree(plan, model, cut(data.draw, plan), lambda m, x: m.predict(x, verbose=0))
