"""Where masks come from, who uses them, and where they go wrong."""

import re
import textwrap
from collections import Counter
from dataclasses import FrozenInstanceError, replace

import keras
import numpy as np
import pytest
from keras import layers, ops

import maskmodels as made
import ramet
from ramet import keras_internals as internals

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask:UserWarning"),
]


@pytest.fixture(autouse=True)
def names_start_anew():
    keras.utils.clear_session(free_memory=False)


def named(builder):
    return builder.__name__


def loaded(model, tmp_path):
    model.save(tmp_path / "m.keras")
    return keras.saving.load_model(tmp_path / "m.keras")


def rows(flow):
    """Returns the rows of a flow, in no order. Keras's clone may number calls anew."""
    return Counter(re.sub(r"#\d+", "", repr(replace(t, spec=None))) for t in flow.tensors)


@pytest.mark.parametrize("build", made.FAULTS, ids=named)
def test_a_seeded_fault_is_found_and_nothing_else(build):
    kind, names = made.FAULTS[build]
    flow = ramet.masks(build())
    assert [(found.kind, found.layers) for found in flow.findings] == [(kind, names)]
    assert not flow.ok
    found = flow.findings[0]
    for name in (names[0], names[-1]):
        assert f"'{name}'" in found.message + found.remedy
    assert found.remedy
    assert f"1. {kind}: {found.message}" in str(flow)


@pytest.mark.parametrize("build", made.CLEAN, ids=named)
def test_nothing_is_invented(build):
    flow = ramet.masks(build())
    assert flow.findings == ()
    assert flow.ok


@pytest.mark.parametrize("build", [*made.CLEAN, *made.FAULTS], ids=named)
def test_copies_of_any_make_have_the_same_flow(build, tmp_path):
    model = build()
    expected = ramet.masks(model)
    copies = [ramet.clone(model)]
    if not any(isinstance(layer, layers.Lambda) for layer in model.layers):  # not revived by Keras
        copies += [loaded(model, tmp_path), keras.models.clone_model(model)]
    for copy in copies:
        found = ramet.masks(copy)
        assert rows(found) == rows(expected)
        assert Counter(found.findings) == Counter(expected.findings)


@pytest.mark.parametrize(
    "name", ["ConvNeXtTiny", "DenseNet121", "EfficientNetB0", "MobileNet", "ResNet50", "VGG16"]
)
def test_models_for_images_have_no_masks(name):
    build = getattr(keras.applications, name)
    with keras.StatelessScope(initialize_variables=False):  # no weights are needed
        model = build(input_shape=(32, 32, 3), weights=None, include_top=False)
    flow = ramet.masks(model)
    assert flow.ok
    assert not any(tensor.masked for tensor in flow.tensors)
    assert str(flow).startswith("no masks in ")


# --- what a flow says ---


def golden(text):
    return textwrap.dedent(text).strip()


def test_a_flow_is_printed_as_a_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    t = made.tokens()
    x = layers.LSTM(3, return_sequences=True, name="lstm")(made.embedding()(t))
    y = layers.Conv1D(2, 2, name="conv")(x)
    y = layers.GlobalAveragePooling1D(name="average")(y)
    assert str(ramet.masks(made.model(t, [x, y]))) == golden(
        """
        masks in 'net': 2 of 5 tensors
        ┏━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━━━┓
        ┃ tensor    ┃ shape        ┃ mask from ┃ used by  ┃ dropped at ┃
        ┡━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━━━┩
        │ embedding │ [None, 5, 3] │ embedding │ lstm     │            │
        │ lstm      │ [None, 5, 3] │ embedding │ (output) │ conv       │
        └───────────┴──────────────┴───────────┴──────────┴────────────┘
        1. dropped: Conv1D 'conv' loses the mask that 'embedding' makes; 'average'
           further down would use it
           remedy: compute the mask for the output length of 'conv' and pass mask=... to
           'average' explicitly, move 'conv' below 'average', or subclass Conv1D with a
           compute_mask
        """
    )


def test_a_clean_flow_is_printed_with_nested_paths_and_outputs():
    start = made.tokens("start")
    encoder = keras.Model(start, made.embedding("inner")(start), name="encoder")
    t = made.tokens()
    both = layers.Bidirectional(
        layers.GRU(2, return_sequences=True, return_state=True), name="both"
    )
    flow = ramet.masks(made.model(t, both(encoder(t))[0]))
    assert str(flow) == golden(
        """
        masks in 'net': 3 of 7 tensors
        ┏━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━┳━━━━━━━━━━┓
        ┃ tensor        ┃ shape        ┃ mask from     ┃ used by  ┃
        ┡━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━╇━━━━━━━━━━┩
        │ encoder/inner │ [None, 5, 3] │ encoder/inner │          │
        │ encoder       │ [None, 5, 3] │ encoder/inner │ both     │
        │ both.0        │ [None, 5, 4] │ encoder/inner │ (output) │
        └───────────────┴──────────────┴───────────────┴──────────┘
        no findings
        """
    )
    assert len(flow.text(every=True).splitlines()) == 4 + 7 + 2


def test_a_mask_that_the_author_passed_is_shown_where_it_is_made():
    flow = ramet.masks(made.explicit_mask())
    assert [(t.path, t.passed_to) for t in flow.tensors if t.passed_to] == [
        ("not_equal", ("lstm",))
    ]
    assert "lstm (passed)" in str(flow)


def test_each_use_of_a_nested_model_has_its_own_rows():
    found = {tensor.path: tensor for tensor in ramet.masks(made.nested_twice()).tensors}
    assert found["encoder"].sources == ("encoder/inner",)
    assert found["encoder#2"].sources == ("encoder#2/inner",)
    assert found["concatenate"].sources == ("encoder/inner", "encoder#2/inner")
    assert found["concatenate"].users == ("lstm",)


def test_masks_go_into_nested_models():
    found = {tensor.path: tensor for tensor in ramet.masks(made.nested()).tensors}
    assert found["embedding"].users == ("encoder",)
    assert found["encoder/start"].sources == ("embedding",)
    assert found["encoder/dense"].users == ("encoder/lstm",)
    assert not found["encoder"].masked


def test_a_merged_mask_has_all_its_sources():
    found = {tensor.path: tensor for tensor in ramet.masks(made.merged()).tensors}
    assert found["average"].sources == ("e1", "e2")


def test_a_flow_and_its_parts_are_frozen():
    flow = ramet.masks(made.conv_before_lstm())
    for part, name in ((flow, "name"), (flow.tensors[0], "path"), (flow.findings[0], "kind")):
        with pytest.raises(FrozenInstanceError):
            setattr(part, name, "other")


def test_a_graph_will_do_and_the_model_is_not_touched():
    model = made.conv_inside_nested()
    before = {layer.name: len(layer._inbound_nodes) for layer in model.layers}
    assert ramet.masks(ramet.trace(model)) == ramet.masks(model)
    assert {layer.name: len(layer._inbound_nodes) for layer in model.layers} == before


def test_what_has_no_graph_is_refused():
    with pytest.raises(ramet.ModelError, match="has not been built"):
        ramet.masks(keras.Sequential([layers.Dense(2)]))
    with pytest.raises(ramet.ModelError, match="expected a Keras model"):
        ramet.masks(3)


# --- how findings are decided ---


def test_a_change_made_by_ramet_leaves_nothing_frozen():
    def without_masking(layer):
        config = layer.get_config()
        if isinstance(layer, layers.Embedding):
            config["mask_zero"] = False
        return type(layer).from_config(config)

    flow = ramet.masks(ramet.clone_model(made.lstm_stack(), clone_function=without_masking))
    assert str(flow) == "no masks in 'net'"


def test_frozen_findings_say_what_the_layer_does_now():
    (found,) = ramet.masks(made.masking_value_changed()).findings
    assert "'masking' now masks the value 9.0" in found.message
    (found,) = ramet.masks(made.embedding_switched_off()).findings
    assert "'embedding' now makes no mask (mask_zero=False)" in found.message


def test_the_mask_of_another_live_layer_is_not_frozen():
    t = made.tokens()
    x, y = made.embedding("on")(t), made.embedding("off", mask_zero=False)(t)
    read = layers.LSTM(2, name="read")(y, mask=ops.not_equal(t, 0))
    assert ramet.masks(made.model(t, [layers.LSTM(2, name="own")(x), read])).ok


def test_the_same_mask_passed_by_hand_hides_nothing():
    t = made.tokens()
    x = made.embedding()(t)
    assert ramet.masks(made.model(t, layers.LSTM(2)(x, mask=ops.not_equal(t, 0)))).ok


def test_a_mask_that_the_author_passes_below_is_not_missed():
    t, s = made.tokens(), made.tokens("s")
    x = layers.Conv1D(3, 3, padding="same")(made.embedding()(t))
    y = layers.LSTM(2, name="lstm")(x, mask=ops.not_equal(s, 3))
    (found,) = ramet.masks(made.model([t, s], y)).findings
    assert found.kind == "unused"


def test_an_operation_is_called_one():
    (found,) = ramet.masks(made.operation_before_lstm()).findings
    assert found.message.startswith("operation Multiply 'multiply' loses the mask")


@pytest.mark.skipif(
    not hasattr(layers, "ReversibleEmbedding"), reason="older versions of Keras do not have it"
)
def test_a_mask_that_is_made_only_when_the_model_runs_is_followed():
    t = made.tokens()
    x = layers.ReversibleEmbedding(9, 3, mask_zero=True, name="embedding")(t)
    assert ramet.masks(made.model(t, layers.LSTM(2)(x))).ok
    (found,) = ramet.masks(made.model(t, layers.LSTM(2, name="lstm")(x * 2.0))).findings
    assert found.layers == ("embedding", "multiply", "lstm")


@pytest.mark.parametrize(
    ("operation", "kept"),
    [
        (lambda x: ops.mean(x, axis=1, keepdims=True), False),
        (lambda x: ops.transpose(x, (0, 2, 1)), False),
        (lambda x: ops.swapaxes(x, 1, 2), False),
        (lambda x: ops.expand_dims(x[:, 0], 1), False),
        (lambda x: ops.matmul(ops.transpose(x, (0, 2, 1)), x), False),
        (lambda x: ops.flip(x, axis=1), True),
        (lambda x: ops.concatenate([x, x], axis=1), True),
        (lambda x: ops.cumsum(x, axis=1), True),
        (lambda x: x[:, ::2], True),
        (lambda x: ops.reshape(x, (-1, 5, 3)), True),
    ],
)
def test_a_mask_is_missed_only_where_time_goes_on(operation, kept):
    t = made.tokens()
    x = made.embedding()(t)
    missing = layers.LSTM(2, name="lstm")(operation(x))
    used = layers.LSTM(2, name="used")(x)
    flow = ramet.masks(made.model(t, [missing, used]))
    assert [found.kind for found in flow.findings] == ["dropped"] * kept


# --- what the flow says is what happens ---

RUN = [
    made.attention,
    made.bidirectional_apart,
    made.concatenated,
    made.cross_attention,
    made.custom_block,
    made.encoder_decoder,
    made.mask_computed_for_conv,
    made.nested,
    made.nested_in_nested,
    made.nested_twice,
    made.nested_with_two_inputs,
    made.sequential_in_functional,
    made.state_with_mask,
    made.time_distributed,
    made.conv_inside_nested,
    made.nested_loses_for_outer,
    made.embedding_inside_nested,
    made.initial_state,
    made.unmasked_positions,
    made.mask_for_nested_hides,
    made.switched_off_two_lstms,
]
"""Models whose masks are watched while they run."""


def layers_that_get_masks(model, monkeypatch):
    """Runs a model and returns the names of the layers whose `call` is given a mask."""
    names, call = set(), keras.Operation.__call__

    def spy(self, *args, **kwargs):
        if any(kwargs.get(n) is not None for n in ("mask", "query_mask", "value_mask")):
            names.add(self.name)
        return call(self, *args, **kwargs)

    data = [np.ones((2, *x.shape[1:]), x.dtype) for x in model.inputs]
    with monkeypatch.context() as patch:
        patch.setattr(keras.Operation, "__call__", spy)
        outputs = model(data if len(data) > 1 else data[0])
    masks = [internals.get_keras_mask(x) is not None for x in keras.tree.flatten(outputs)]
    return names, masks


@pytest.mark.parametrize("build", RUN, ids=named)
def test_layers_get_masks_where_the_flow_says_so(build, monkeypatch):
    model = build()
    tensors = ramet.masks(model).tensors
    taking = {path for tensor in tensors for path in (*tensor.users, *tensor.passed_to)}
    said = {re.sub(r"#\d+", "", path.split("/")[-1]) for path in taking}
    got, masks = layers_that_get_masks(model, monkeypatch)
    # These hand on what they get, or have no use for it.
    idle = {"encoder", "deep", "pair", "head", "time_distributed", "hidden"}
    got = {name for name in got if not name.startswith(("forward_", "backward_"))}
    assert said - idle == got - idle
    assert sorted(masks) == sorted(tensor.masked for tensor in tensors if tensor.is_output)
