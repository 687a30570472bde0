"""Masks that are lost on the way to an output, where a loss or a metric would have used them.

Two models that compute the same numbers are evaluated, one that hands the mask on to its
output and one that loses it: what is found has to be what makes a difference.
"""

import keras
import numpy as np
import pytest
from keras import layers, losses, metrics, ops

import maskmodels
import ramet
from exact import assert_untouched, fingerprint
from ramet.tracing.trace import has_graph
from zoo import for_backend

pytestmark = pytest.mark.sampled

BACKEND = keras.backend.backend()
TOKENS = np.array([[3, 4, 0, 0, 0], [1, 2, 5, 8, 0], [7, 0, 0, 0, 0]], "int32")
rng = np.random.default_rng(0)
STEPS = rng.integers(0, 2, size=(3, 5, 2)).astype("float32")
CLASSES = rng.integers(0, 2, size=(3, 5)).astype("int32")


class Scale(layers.Layer):
    """Loses the mask, or hands it on."""

    def __init__(self, *, hands_on, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = hands_on

    def call(self, x):
        return x * 2.0

    def compute_output_shape(self, shape):
        return shape


def tagger(*, hands_on, build=keras.Model):
    keras.utils.set_random_seed(1)
    t = keras.Input((5,), dtype="int32", name="t")
    x = layers.Embedding(9, 3, mask_zero=True, name="words")(t)
    x = Scale(hands_on=hands_on, name="scale")(x)
    return build(t, layers.Dense(2, activation="sigmoid", name="tags")(x), name="tagger")


def compiled(model, *args, **options):
    model.compile("sgd", *args, run_eagerly=BACKEND == "tensorflow", **options)
    return model


def per_step(y_true, y_pred):
    return ops.mean(ops.square(y_true - y_pred), axis=-1)


def one_number(y_true, y_pred):
    return ops.mean(ops.square(y_true - y_pred))


class Summed(losses.Loss):
    """A loss of the user's own that Keras calls."""

    def call(self, y_true, y_pred):
        return ops.sum(ops.abs(y_true - y_pred), axis=-1)


class Unmasked(losses.Loss):
    """A loss of the user's own that does not look at masks."""

    def __call__(self, y_true, y_pred, sample_weight=None):
        del sample_weight
        return ops.mean(ops.abs(y_true - y_pred))


class Largest(metrics.Metric):
    """A metric of the user's own."""

    def __init__(self):
        super().__init__(name="largest")
        self.most = self.add_variable((), "zeros", name="most")

    def update_state(self, _, y_pred, sample_weight=None):
        del sample_weight
        self.most.assign(ops.maximum(self.most, ops.max(y_pred)))

    def result(self):
        return self.most * 1.0


LOSSES = {
    "mse": (lambda: "mse", STEPS),
    "list": (lambda: ["mae"], STEPS),
    "dict": (lambda: {"tags": losses.Huber()}, STEPS),
    "sum": (lambda: losses.MeanSquaredError(reduction="sum"), STEPS),
    "crossentropy": (lambda: losses.BinaryCrossentropy(), STEPS),
    "sparse": (lambda: "sparse_categorical_crossentropy", CLASSES),
    "own_function": (lambda: per_step, STEPS),
    "own_class": (Summed, STEPS),
    "one_number": (lambda: one_number, STEPS),
    "own_call": (Unmasked, STEPS),
    "dice": (losses.Dice, STEPS),
}


def wanted(model):
    """Gives the findings about outputs."""
    return [f for f in ramet.masks(model).findings if " of output " in f.message]


@pytest.mark.parametrize("case", LOSSES)
def test_a_loss_is_named_if_the_mask_makes_a_difference_to_it(case):
    loss, targets = LOSSES[case]
    masked, lost = (compiled(tagger(hands_on=on), loss()) for on in (True, False))
    values = [model.evaluate(TOKENS, targets, verbose=0) for model in (masked, lost)]
    assert ramet.masks(masked).ok
    assert bool(wanted(lost)) == (not np.isclose(*values, rtol=1e-4))


def test_some_losses_use_masks_and_some_do_not():
    unused = [
        case
        for case, (loss, _) in LOSSES.items()
        if not wanted(compiled(tagger(hands_on=False), loss()))
    ]
    assert unused == ["one_number", "own_call", "dice"]


def test_training_is_another_one_without_the_mask():
    steps = []
    for hands_on in (True, False):
        model = compiled(tagger(hands_on=hands_on), "mse")
        model.train_on_batch(TOKENS, STEPS)
        steps.append(model.get_weights())
    assert not all(np.allclose(a, b, rtol=1e-4) for a, b in zip(*steps, strict=True))


METRICS = {
    "mae": lambda: ["mae"],
    "accuracy": lambda: ["accuracy"],
    "class": lambda: [metrics.MeanSquaredError(name="error")],
    "function": lambda: [per_step],
    "auc": lambda: [metrics.AUC(name="auc")],
    "root": lambda: [metrics.RootMeanSquaredError(name="root")],
    "precision": lambda: [metrics.Precision(name="precision")],
    "own": lambda: [Largest()],
}


@pytest.mark.parametrize("argument", ["metrics", "weighted_metrics"])
@pytest.mark.parametrize("case", METRICS)
def test_a_metric_is_named_if_the_mask_makes_a_difference_to_it(case, argument):
    values = []
    for hands_on in (True, False):
        model = compiled(tagger(hands_on=hands_on), one_number, **{argument: METRICS[case]()})
        values.append(model.evaluate(TOKENS, STEPS, verbose=0)[1])
        found = wanted(model)
    assert bool(found) == (not np.isclose(*values, rtol=1e-4))
    assert all("metric '" in finding.message for finding in found)


def test_what_is_found_says_who_lost_the_mask_and_who_would_use_it():
    model = compiled(tagger(hands_on=False), "mse", metrics=["mae"])
    before = fingerprint(model)
    (found,) = ramet.masks(model).findings
    assert_untouched(before, fingerprint(model))
    assert found.kind == "dropped"
    assert found.layers == ("words", "scale", "tags")
    assert found.message == (
        "Scale 'scale' loses the mask that 'words' makes; loss 'mse' and metric 'mae' of output "
        "'tags' would use it, and now count masked steps like all others"
    )
    assert found.remedy == (
        "set supports_masking=True on 'scale' if its output has the same time steps as its input, "
        "give its class a compute_mask, or leave masked steps out by sample_weight=... in fit and "
        "evaluate (metrics use it as weighted_metrics); if sample_weight already leaves them out, "
        "no change is needed"
    )


def test_the_remedies_work():
    lost = compiled(tagger(hands_on=False), "mse")
    plain = lost.evaluate(TOKENS, STEPS, verbose=0)
    expected = compiled(tagger(hands_on=True), "mse").evaluate(TOKENS, STEPS, verbose=0)
    lost.get_layer("scale").supports_masking = True
    lost = compiled(lost, "mse")
    assert np.isclose(lost.evaluate(TOKENS, STEPS, verbose=0), expected)
    lost.get_layer("scale").supports_masking = False
    weights = (TOKENS != 0).astype("float32")
    weights *= weights.size / weights.sum()
    lost = compiled(lost, "mse")
    weighted = lost.evaluate(TOKENS, STEPS, sample_weight=weights, verbose=0)
    assert np.isclose(weighted, expected)
    assert not np.isclose(plain, expected)


def test_an_operation_after_the_last_layer_loses_the_mask():
    t = keras.Input((5,), dtype="int32", name="t")
    x = layers.Embedding(9, 2, mask_zero=True, name="words")(t)
    model = compiled(keras.Model(t, ops.sigmoid(x)), "mse")
    (found,) = wanted(model)
    assert found.layers == ("words", found.layers[-1])
    assert "operation Sigmoid" in found.message
    assert "put the operation into a layer" in found.remedy


def test_a_layer_that_changes_the_length():
    t = keras.Input((5,), dtype="int32", name="t")
    x = layers.Embedding(9, 2, mask_zero=True, name="words")(t)
    model = compiled(keras.Model(t, layers.Conv1D(2, 2, name="conv")(x)), "mse")
    (found,) = wanted(model)
    assert found.layers == ("words", "conv")
    assert "compute the mask for the output length of 'conv' and leave masked" in found.remedy


def test_an_open_length():
    t = keras.Input((None,), dtype="int32", name="t")
    x = layers.Embedding(9, 2, mask_zero=True, name="words")(t)
    model = compiled(keras.Model(t, layers.Conv1D(2, 3, name="conv")(x)), "mse")
    assert [found.layers for found in wanted(model)] == [("words", "conv")]


def test_a_mask_lost_inside_a_nested_model():
    inner = tagger(hands_on=False)
    t = keras.Input((5,), dtype="int32", name="t")
    model = compiled(keras.Model(t, inner(t), name="outer"), "mse")
    assert [f.layers for f in wanted(model)] == [("tagger/words", "tagger/scale", "tagger")]


def heads():
    """Two outputs of steps, the second without its mask, and one that is pooled."""
    t = keras.Input((5,), dtype="int32", name="t")
    x = layers.Embedding(9, 2, mask_zero=True, name="words")(t)
    y = Scale(hands_on=False, name="scale")(x)
    return t, {
        "kept": layers.Dense(2, name="kept")(x),
        "lost": layers.Dense(2, name="lost")(y),
        "pooled": layers.Dense(2, name="pooled")(layers.GlobalMaxPooling1D(name="max")(y)),
    }


@pytest.mark.parametrize(
    ("structure", "loss", "found"),
    [
        ("dict", "mse", True),
        ("dict", {"kept": "mse", "lost": "mae", "pooled": "mse"}, True),
        ("dict", {"kept": "mse", "pooled": "mse"}, False),
        ("dict", {"kept": "mse", "lost": None, "pooled": "mse"}, False),
        ("list", ["mse", "mse", "mse"], True),
        ("list", ["mse", None, "mse"], False),
        ("list", {"kept": "mse", "lost": "mae", "pooled": "mse"}, True),
    ],
)
def test_each_output_has_its_own_loss(structure, loss, found):
    t, outputs = heads()
    model = compiled(keras.Model(t, outputs if structure == "dict" else [*outputs.values()]), loss)
    assert [f.layers for f in wanted(model)] == [("words", "scale", "lost")] * found


def test_each_output_has_its_own_metrics():
    t, outputs = heads()
    nothing = {"kept": "mse", "lost": None, "pooled": "mse"}
    model = compiled(keras.Model(t, outputs), nothing, metrics={"kept": ["mae"]})
    assert not wanted(model)
    model = compiled(keras.Model(t, outputs), nothing, metrics={"lost": ["mae"]})
    (found,) = wanted(model)
    assert "metric 'mae' of output 'lost'" in found.message


class Stepped(keras.Model):
    """Is trained as its author wrote."""

    def train_step(self, *args):
        return super().train_step(*args)


class OwnLoss(keras.Model):
    """Has a loss that its author wrote."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):  # noqa: ARG002, FBT002 as Keras has it
        return ops.mean(ops.square(y - y_pred))


def pooled():
    t = keras.Input((5,), dtype="int32", name="t")
    x = Scale(hands_on=False)(layers.Embedding(9, 3, mask_zero=True)(t))
    return keras.Model(t, layers.Dense(2)(layers.GlobalMaxPooling1D()(x)))


def decided():
    t = keras.Input((5,), dtype="int32", name="t")
    x = layers.LSTM(3)(layers.Embedding(9, 3, mask_zero=True)(t))
    return keras.Model(t, layers.Dense(2)(ops.relu(x)))


@pytest.mark.parametrize(
    "model",
    [
        lambda: tagger(hands_on=False),
        lambda: compiled(tagger(hands_on=True), "mse", metrics=["mae"]),
        lambda: compiled(tagger(hands_on=False), None),
        lambda: compiled(tagger(hands_on=False), losses.CTC()),
        lambda: compiled(
            tagger(hands_on=False), losses.SparseCategoricalCrossentropy(ignore_class=0)
        ),
        lambda: compiled(tagger(hands_on=False, build=Stepped), "mse"),
        lambda: compiled(tagger(hands_on=False, build=OwnLoss), "mse"),
        lambda: compiled(tagger(hands_on=False), {"tags": "mse", "none": "mse"}),
        lambda: compiled(pooled(), "mse"),
        lambda: compiled(decided(), "mse"),
    ],
    ids=[
        *("not_compiled", "reaches", "no_loss", "ctc", "ignore_class", "own_step", "own_loss"),
        *("does_not_fit", "pooled", "decided"),
    ],
)
def test_nothing_is_found_where_no_loss_would_use_the_mask(model):
    assert not wanted(model())


def test_an_edited_graph_is_looked_at_as_it_is_built():
    model = compiled(tagger(hands_on=True), "mse")
    edited = ramet.trace(model).replace("scale", Scale(hands_on=False, name="scale"))
    assert [f.layers for f in wanted(edited)] == [("words", "scale", "tags")]


@pytest.mark.parametrize("build", maskmodels.CLEAN, ids=lambda build: build.__name__)
def test_no_alarm_for_clean_models(build):
    assert ramet.masks(compiled(build(), "mse", metrics=["mae"])).ok


def test_no_alarm_in_the_zoo():
    """None of these loses a mask on the way to steps that a loss sees."""
    cases = [c for c in for_backend(BACKEND) if c.name.split("-")[0] in ("compiled", "recurrent")]
    models = [model for case in cases if has_graph(model := case.build())]
    assert any(model.compiled for model in models)
    for model in models:
        assert not wanted(model if model.compiled else compiled(model, "mse")), model.name
