"""`fold`: what is folded computes the same, and what would not is kept, with the reason."""

import re
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from foldmodels import Norm, branches, data, difference, trained
from ramet.compress import fold, foldable

BACKEND = keras.backend.backend()
SHAPES = {"row": (7, 4), "image": (7, 7, 4), "cube": (4, 4, 4, 4), "flat": (4,)}


def reasons(model: Any, **options: Any) -> dict[str, str]:
    return {each.place: each.reason for each in foldable(model, **options).kept}


AFTER: dict[str, tuple[str, list[Any]]] = {
    "conv1": ("row", [layers.Conv1D(6, 3, padding="causal", use_bias=False), Norm()]),
    "conv2": ("image", [layers.Conv2D(6, 3, padding="same", strides=2), Norm()]),
    "conv3": ("cube", [layers.Conv3D(3, 2), Norm(scale=False)]),
    "groups": ("image", [layers.Conv2D(6, 3, groups=2, use_bias=False), Norm(center=False)]),
    "depthwise1": ("row", [layers.DepthwiseConv1D(3, depth_multiplier=2), Norm()]),
    "depthwise2": ("image", [layers.DepthwiseConv2D(3, depth_multiplier=3), Norm()]),
    "separable1": ("row", [layers.SeparableConv1D(5, 3, use_bias=False), Norm()]),
    "separable2": ("image", [layers.SeparableConv2D(5, 3, depth_multiplier=2), Norm()]),
    "transpose1": ("row", [layers.Conv1DTranspose(5, 3, strides=2), Norm()]),
    "transpose2": ("image", [layers.Conv2DTranspose(5, 3, use_bias=False), Norm()]),
    "transpose3": ("cube", [layers.Conv3DTranspose(3, 2, strides=2), Norm()]),
    "dense": ("flat", [layers.Dense(5, use_bias=False), Norm(), layers.ReLU()]),
    "dense3": ("row", [layers.Dense(5), Norm()]),
    "einsum": ("row", [layers.EinsumDense("abc,cd->abd", (None, 5)), Norm()]),
    "heads": ("row", [layers.EinsumDense("abc,chd->abhd", (None, 2, 5), bias_axes="hd"), Norm()]),
    "twice": ("flat", [layers.Dense(5), Norm(), Norm(), layers.Rescaling(2.0, 1.0)]),
    "between": (
        "image",
        [
            layers.Conv2D(5, 2),
            layers.Dropout(0.5),
            layers.UpSampling2D(2),
            layers.Cropping2D(1),
            layers.AveragePooling2D(2),
            Norm(),
        ],
    ),
    "operations": ("flat", [layers.Dense(3), lambda x: 1 - (x + np.arange(3.0, dtype="f4")) / 4]),
}

BEFORE: dict[str, tuple[str, list[Any]]] = {
    "conv1": ("row", [Norm(), layers.Conv1D(6, 3, activation="relu")]),
    "conv2": ("image", [Norm(), layers.Conv2D(6, 3, strides=2, use_bias=False)]),
    "conv3": ("cube", [Norm(), layers.Conv3D(3, 2)]),
    "one": ("image", [Norm(), layers.Conv2D(3, 1, padding="same", strides=2)]),
    "groups": ("image", [Norm(), layers.Conv2D(6, 3, groups=2)]),
    "depthwise1": ("row", [Norm(), layers.DepthwiseConv1D(3, depth_multiplier=2)]),
    "depthwise2": ("image", [Norm(), layers.DepthwiseConv2D(3, depth_multiplier=3)]),
    "separable1": ("row", [Norm(), layers.SeparableConv1D(5, 3)]),
    "separable2": ("image", [Norm(), layers.SeparableConv2D(5, 3, depth_multiplier=2)]),
    "transpose": ("image", [layers.Rescaling(0.5), layers.Conv2DTranspose(5, 3, strides=2)]),
    "same": ("image", [layers.Rescaling(0.5), layers.Conv2D(5, 3, padding="same")]),
    "dense": ("row", [Norm(), layers.Dense(5)]),
    "einsum": ("row", [Norm(), layers.EinsumDense("abc,cd->abd", (None, 5), bias_axes="d")]),
    "flatten": ("image", [Norm(), layers.Flatten(), layers.Dense(3)]),
    "pool": ("image", [Norm(), layers.GlobalAveragePooling2D(), layers.Dense(3)]),
    "padded": ("image", [layers.Rescaling(0.5), layers.ZeroPadding2D(), layers.Conv2D(3, 2)]),
    "known": (
        "image",
        [layers.Normalization(mean=[1.0, 2, 3, 4], variance=[2.0, 1, 3, 4]), layers.Conv2D(3, 2)],
    ),
    "adapted": ("image", [layers.Normalization(), layers.Conv2D(3, 2)]),
    "inverted": ("flat", [layers.Normalization(None, 2.0, 3.0, invert=True), layers.Dense(3)]),
    "both": ("image", [Norm(), layers.Conv2D(3, 2), Norm()]),
}


@pytest.mark.parametrize("made", [AFTER, BEFORE], ids=["after", "before"])
def test_every_kind_of_layer_absorbs_what_is_beside_it(made: Any) -> None:
    if BACKEND == "jax":  # which compiles each of them
        made = {name: branch for name, branch in made.items() if branch[0] not in ("row", "cube")}
    model = branches(SHAPES, made)
    before = [
        variable.numpy().copy() if hasattr(variable, "numpy") else None
        for variable in model.variables
    ]
    graph = fold(model)
    folded = graph.build()
    kinds = {layer.kind for layer in graph.layers.values()}
    assert not kinds & {"BatchNormalization", "Normalization", "Rescaling", "Multiply", "Subtract"}
    assert not foldable(graph)
    assert {name: d for name, d in difference(model, folded).items() if d > 2e-6} == {}
    for variable, old in zip(model.variables, before, strict=True):
        assert old is None or (variable.numpy() == old).all(), "the source has changed"


def test_the_journal_has_one_line_and_a_promise() -> None:
    model = branches(SHAPES, {"a": AFTER["dense"], "b": AFTER["conv2"], "c": BEFORE["same"]})
    (entry,) = fold(model).journal
    assert entry.text == "fold: 2 BatchNormalization, 1 Rescaling folded"
    assert entry.promise == "inference-equal"
    assert entry.count == 3
    assert {part.promise for part in entry.parts} == {"inference-equal", "equal"}
    (single,) = fold(branches(SHAPES, {"c": BEFORE["same"]})).journal
    assert single.promise == "equal"
    assert single.text.endswith("(Conv2D)")


def test_nothing_to_fold_changes_nothing() -> None:
    graph = ramet.trace(branches(SHAPES, {"a": ("flat", [layers.Dense(2)])}))
    assert fold(graph) is graph
    assert not foldable(graph)


KEPT: dict[str, tuple[str, list[Any], str]] = {
    "activation": ("image", [layers.Conv2D(3, 2, activation="relu"), Norm()], "has an activation"),
    "relu": ("image", [layers.Conv2D(3, 2), layers.ReLU(), Norm()], "is not a layer with a kernel"),
    "border": (
        "image",
        [Norm(), layers.Conv2D(3, 3, padding="same")],
        "padding='same' pads its input with zeros",
    ),
    "zeros": (
        "image",
        [Norm(), layers.ZeroPadding2D(), layers.Conv2D(3, 3)],
        "pads with zeros, which a shift would change",
    ),
    "axis": ("row", [layers.Dense(4), Norm(axis=1)], "it scales axis 1, but the channels of"),
    "training": (
        "image",
        [layers.Conv2D(3, 2), lambda x: Norm(name="training")(x, training=True)],
        "training=True",
    ),
    "constraint": (
        "flat",
        [layers.Dense(3, kernel_constraint="unit_norm"), Norm()],
        r"have a constraint \(UnitNorm\), which",
    ),
    "transposed": (
        "row",
        [Norm(), layers.Conv1DTranspose(3, 2)],
        "sum over different numbers of inputs",
    ),
    "heads": (
        "row",
        [Norm(), layers.EinsumDense("abc,chd->abhd", (None, 2, 5))],
        "has several output axes",
    ),
    "own": ("row", [layers.Dense(4), layers.LayerNormalization()], "statistics from each input"),
    "converted": ("flat", [layers.Dense(4), layers.Rescaling(2.0, dtype="float16")], "it converts"),
    "variable": (
        "flat",
        [layers.Dense(4), lambda x: x * keras.ops.reshape(keras.ops.sum(x), (1, 1))],
        "",
    ),
    "positions": (
        "row",
        [layers.Dense(4), lambda x: x * np.ones((7, 4), "float32")],
        "not one number for each channel",
    ),
}


def test_what_would_not_be_the_same_is_kept_with_the_reason() -> None:
    made = {name: (start, chain) for name, (start, chain, _) in KEPT.items()}
    model = branches(SHAPES, made)
    ends = {name: model.output[name]._keras_history.operation.name for name in made}
    assert not fold(model).journal, "nothing can be folded"
    kept = reasons(model)
    for name, (_, chain, reason) in KEPT.items():
        starts = [each.name for each in chain if isinstance(each, keras.layers.Layer)][:1]
        found = [text for place, text in kept.items() if place in {ends[name], *starts}]
        assert (not reason and not found) or re.search(reason, found[0]), (name, found)


class OwnNorm(layers.BatchNormalization):
    """A norm that may do anything."""


class OwnDense(layers.Dense):
    """A layer that may do anything."""


def test_shared_layers_and_tensors_are_kept() -> None:
    x = keras.Input((6, 6, 4), name="x")
    shared = layers.Conv2D(4, 1, name="shared")
    held = layers.Dense(4, name="held")
    outputs = {
        "called": Norm(name="called")(shared(shared(x))),
        "held": Norm(name="held_norm")(held(x)),
        "around": layers.TimeDistributed(held)(x),
        "own": OwnNorm(name="own")(layers.Dense(4)(x)),
        "owner": Norm(name="owner")(OwnDense(4)(x)),
    }
    conv = layers.Conv2D(4, 2, name="conv")(x)
    outputs |= {"read": Norm(name="read")(conv), "reader": layers.ReLU(name="reader")(conv)}
    last = outputs["last"] = layers.Conv2D(4, 2, name="last")(x)
    outputs["after"] = Norm(name="after")(last)
    model = trained(keras.Model(x, outputs))
    assert not fold(model).journal
    kept = reasons(model)
    expected = {
        "called": "'shared' is called 2 times",
        "held_norm": "'held' is also part of another layer",
        "own": "OwnNorm may compute something else than BatchNormalization",
        "owner": "may compute something else than Dense",
        "read": "'conv' is also used by 'reader'",
        "after": "'last' is an output of the model",
    }
    assert {name: text in kept[name] for name, text in expected.items()} == dict.fromkeys(
        expected, True
    )


def test_a_shared_norm_is_folded_at_each_call_that_allows_it() -> None:
    x = keras.Input((6, 6, 4))
    norm = Norm(name="norm")
    a, b = norm(layers.Conv2D(4, 2, name="a")(x)), norm(layers.Conv2D(4, 2)(x))
    c = norm(layers.Conv2D(4, 3, activation="relu", name="c")(x))
    model = trained(keras.Model(x, {"a": a, "b": b, "c": c}))
    graph = fold(model)
    assert len(foldable(model).folded) == 2
    assert max(difference(model, graph.build()).values()) < 2e-6


def test_joined_and_added_tensors() -> None:
    x = keras.Input((6, 6, 4))
    parts = [layers.Conv2D(n, 3)(x) for n in (3, 5)]
    joined = Norm(name="joined")(layers.Concatenate()(parts))
    rows = [layers.Conv2D(3, (n, 1), padding="same")(x) for n in (1, 2)]
    stacked = Norm()(layers.Concatenate(axis=1)(rows))
    added = Norm()(layers.Add()([layers.Dense(3)(x), layers.Dense(3, use_bias=False)(x)]))
    model = trained(keras.Model(x, {"joined": joined, "stacked": stacked, "added": added}))
    graph = fold(model)
    assert not foldable(graph)
    assert max(difference(model, graph.build()).values()) < 2e-6


def repeated(x: Any, **options: Any) -> Any:
    """A block of RepVGG."""
    three = layers.Conv2D(4, 3, padding="same", use_bias=False, **options)(x)
    one = layers.Conv2D(4, 1, padding="same", **options)(x)
    same = [] if options.get("strides") else [Norm()(x)]
    return layers.Add()([Norm()(three), Norm()(one), *same])


def test_parallel_branches_become_one_convolution() -> None:
    x = keras.Input((7, 7, 4))
    y = keras.Input((8, 8, 4))
    deep = [layers.DepthwiseConv2D(n, padding="same", dilation_rate=2)(x) for n in (3, 1)]
    causal = layers.Reshape((49, 4))(x)
    outputs = {
        "plain": repeated(x),
        "odd": repeated(x, strides=2),
        "even": repeated(y, strides=2),
        "groups": repeated(x, groups=2),
        "deep": layers.Add()([*map(Norm(), deep), x]),
        "cross": layers.Add()([layers.Conv2D(3, n, padding="same")(x) for n in ((1, 3), (3, 1))]),
        "operator": layers.Conv2D(4, 3, padding="same")(x) + x,
        "rest": layers.Add()(
            [layers.Conv2D(4, n, padding="same")(x) for n in (3, 1)] + [layers.ReLU()(x)]
        ),
        "causal": layers.Add()(
            [layers.Conv1D(4, n, padding="causal")(causal) for n in (4, 2)] + [causal]
        ),
    }
    model = trained(keras.Model([x, y], outputs))
    graph = fold(model)
    sums = [layer.name for layer in graph.layers.values() if layer.kind == "Add"]
    assert len(sums) == 1, "only the sum with a ReLU is left"
    assert not foldable(graph)
    assert {name: d for name, d in difference(model, graph.build()).items() if d > 2e-6} == {}


def test_branches_that_differ_are_not_merged() -> None:
    x = keras.Input((8, 8, 4))
    pairs = {
        "strides": [
            layers.Conv2D(3, 3, padding="same", strides=2)(x),
            layers.Conv2D(3, 1)(x)[:, ::2, ::2],
        ],
        "dilation": [layers.Conv2D(3, 3, padding="same", dilation_rate=d)(x) for d in (1, 2)],
        "groups": [layers.Conv2D(4, 3, padding="same", groups=g)(x) for g in (1, 2)],
        "activation": [
            layers.Conv2D(4, 3, padding="same", activation=a)(x) for a in (None, "relu")
        ],
        "source": [layers.Conv2D(4, 3)(x), layers.Conv2D(4, 3)(layers.ReLU()(x))],
    }
    outputs = {name: layers.Add()(pair) for name, pair in pairs.items()}
    assert not fold(trained(keras.Model(x, outputs))).journal


def test_layers_that_do_nothing_are_dropped() -> None:
    x = keras.Input((4, 5, 3))
    y = layers.Identity()(layers.Dense(3, activation="relu")(x))
    y = layers.Activation("linear")(layers.Dropout(0.0)(y))
    y = layers.Permute((2, 3, 1))(layers.Permute((3, 1, 2))(y))
    y = layers.Permute((1, 2, 3))(layers.Dropout(0.5, name="drop")(y))
    y = layers.ReLU()(layers.Dropout(0.5, name="forced")(y, training=True))
    kept = layers.Permute((3, 1, 2), name="kept")(y)
    model = trained(keras.Model(x, [layers.Permute((2, 3, 1))(kept), kept]))
    graph = fold(model)
    left = [layer.kind for layer in graph.layers.values()]
    assert left == ["InputLayer", "Dense", "Dropout", "Dropout", "ReLU", "Permute"]
    assert graph.journal[-1].promise == "equal"
    graph.build()
    graph = fold(model, inference_only=True)
    assert "drop" not in graph.layers
    assert "forced" in graph.layers
    assert graph.journal[-1].promise == "inference-equal"


def test_nested_models() -> None:
    inside = keras.Input((6, 6, 4))
    y = Norm(name="norm")(layers.Conv2D(4, 3, padding="same", name="conv")(inside))
    block = keras.Model(inside, layers.ReLU()(y), name="block")
    bare = keras.Sequential([keras.Input((6, 6, 4)), layers.Conv2D(4, 2)], name="bare")
    x = keras.Input((6, 6, 4))
    model = trained(keras.Model(x, Norm(name="outside")(bare(block(block(x))))))
    graph = fold(model)
    assert graph.journal[-1].text.startswith(
        "fold 'block/norm' (BatchNormalization) into 'block/conv'"
    )
    assert "'bare' is a nested model; flatten the graph first" in reasons(model)["outside"]
    folded = graph.build()
    assert difference(model, folded)[""] < 2e-6
    flat = fold(graph.flatten())
    assert not foldable(flat)
    assert difference(model, flat.build())[""] < 2e-6


def test_masks_pass_where_the_norm_was() -> None:
    tokens = keras.Input((5,), dtype="int32")
    x = layers.Dense(4)(layers.Embedding(4, 3, mask_zero=True)(tokens))
    model = trained(keras.Model(tokens, layers.GlobalAveragePooling1D()(Norm()(x))))
    graph = fold(model)
    assert not foldable(graph)
    assert difference(model, graph.build())[""] < 2e-6


def test_kernels_with_lora_or_quantized_are_kept() -> None:
    x = keras.Input((16,))
    lora, coarse = layers.Dense(4, name="lora"), layers.Dense(4, name="coarse")
    model = keras.Model(x, [Norm(name="a")(lora(x)), Norm(name="b")(coarse(x))])
    lora.enable_lora(2)
    coarse.quantize("int8")
    kept = reasons(model)
    assert "'lora' has LoRA factors; merge them into it first" in kept["a"]
    assert "'coarse' is quantized (int8); fold before you quantize" in kept["b"]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(policy: str) -> None:
    x = keras.Input((6, 6, 4))
    y = layers.Conv2D(4, 3, dtype=policy, name="conv")(x)
    model = trained(keras.Model(x, Norm(dtype=policy, name="norm")(y)))
    graph = fold(model)
    assert graph.layers["conv"].recipe is not None
    folded = graph.build()
    assert folded.get_layer("conv").compute_dtype == policy[6:]
    assert difference(model, folded)[""] < 0.05
    model.get_layer("norm").gamma.assign(np.full(4, 1e6))
    if "bfloat16" not in policy:
        assert reasons(model) == {
            "norm": "above, the folded weights of 'conv' overflow float16; below, 'norm' is an "
            "output of the model"
        }


@pytest.mark.skipif(
    BACKEND == "tensorflow", reason="TensorFlow convolves channels first on GPUs only"
)
def test_channels_first() -> None:
    x = keras.Input((4, 6, 6))
    options = {"data_format": "channels_first"}
    y = Norm(axis=1)(layers.Conv2D(6, 3, groups=2, **options)(Norm(axis=1)(x)))
    wrong = Norm(axis=-1, name="wrong")(layers.Conv2D(6, 3, **options)(x))
    model = trained(keras.Model(x, {"y": y, "wrong": wrong}))
    graph = fold(model)
    assert [*reasons(graph)] == ["wrong"]
    assert max(difference(model, graph.build()).values()) < 2e-6


def compiled() -> keras.Model:
    x = keras.Input((6, 6, 3), name="x")
    y = Norm(name="norm")(layers.Conv2D(4, 3, use_bias=False, name="conv")(x))
    y = layers.Dense(2, name="head")(layers.GlobalAveragePooling2D()(layers.ReLU()(y)))
    model = keras.Model(x, Norm(name="last")(y))
    model.compile("adam", "mse")
    model.fit(data(model, 4)[0], np.ones((4, 2)), verbose=0)
    return trained(model)


def test_a_compiled_model_trains_clones_and_is_saved(tmp_path: Any) -> None:
    model = compiled()
    graph = fold(model)
    report = graph.transfer_report()
    assert {each.path for each in report.of("computed")} == {
        *("conv/kernel", "conv/bias", "head/kernel", "head/bias"),
    }
    folded = graph.build()
    assert "norm" not in [layer.name for layer in folded.layers]
    assert difference(model, folded)[""] < 2e-6
    assert ramet.verify(model, graph)
    assert ramet.verify(folded, ramet.clone(folded))
    folded.save(tmp_path / "folded.keras")
    assert difference(folded, keras.saving.load_model(tmp_path / "folded.keras"))[""] == 0
    folded.fit(data(model, 4)[0], np.ones((4, 2)), verbose=0)
    shared = graph.build(weights="share")
    assert difference(model, shared)[""] < 2e-6
    assert graph.build(weights="fresh", seed=1).get_layer("conv").use_bias


def test_what_is_trained_afterwards_changes_no_other_model() -> None:
    model = compiled()
    graph = fold(model)
    trained_one, other = graph.build(), graph.build()
    before = [[np.copy(v) for v in each.get_weights()] for each in (model, other)]
    start = [np.copy(value) for value in trained_one.get_weights()]
    trained_one.compile("sgd", "mse")
    trained_one.fit(data(model, 4)[0], np.ones((4, 2)), verbose=0)
    changed = zip(start, trained_one.get_weights(), strict=True)
    assert any((old != new).any() for old, new in changed)
    for each, weights in zip((model, other), before, strict=True):
        for old, new in zip(weights, each.get_weights(), strict=True):
            assert (old == new).all()


def test_folding_after_other_edits() -> None:
    model = compiled()
    graph = ramet.trace(model).rename({"conv": "stem"}).configure("head", activation="linear")
    graph = fold(graph.freeze("stem"))
    folded = graph.build()
    assert not folded.get_layer("stem").trainable
    assert difference(model, folded)[""] < 2e-6
    new = ramet.trace(model).insert_after("conv", Norm(name="new"))
    assert "build the graph and trace the model first" in reasons(new)["new"]


def test_wrong_arguments() -> None:
    with pytest.raises(ramet.errors.OptionError, match="inference_only must be True or False"):
        fold(compiled(), inference_only="yes")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ramet.errors.ModelError, match="has no graph"):
        foldable(keras.Sequential([layers.Dense(2)]))


def test_the_listing_says_what_happens() -> None:
    listing = foldable(compiled())
    assert listing.ok
    assert "2 BatchNormalization folded; 0 layers kept" in listing.title
    assert listing.to_dict()["folds"][0]["into"] == ["'conv' (Conv2D)"]
    assert "'head' (Dense)" in str(listing)
