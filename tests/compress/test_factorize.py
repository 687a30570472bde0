"""`factorize`: kernels become products of smaller ones, and the errors are those reported."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from foldmodels import branches, data, difference, trained
from ramet.compress import factorizable, factorize

SHAPES = {"row": (5, 20), "image": (7, 7, 12), "cube": (4, 4, 4, 12), "flat": (30,)}
RANK = 3


def array(variable: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(variable), "float64")


def of_low_rank(model: keras.Model) -> keras.Model:
    """Give each kernel a rank of 3 on either side, for each group."""
    rng = np.random.default_rng(0)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.Model) or not hasattr(layer, "kernel"):
            continue
        shape = tuple(layer.kernel.shape)
        groups = getattr(layer, "groups", 1)
        if "Conv" in type(layer).__name__:
            window, (inside, out) = shape[:-2], shape[-2:]
            into, outer = rng.normal(size=(inside, RANK)), rng.normal(size=(RANK, out // groups))
            middle = rng.normal(size=(*window, RANK, groups, RANK))
            kernel = np.einsum("ir,...rgq,qo->...igo", into, middle, outer)
        else:
            rows = 2 if shape == (4, 10, 20) else 1
            size = int(np.prod(shape[:rows]))
            other = int(np.prod(shape[rows:]))
            kernel = rng.normal(size=(size, RANK)) @ rng.normal(size=(RANK, other))
        layer._kernel.assign(kernel.reshape(shape) / np.sqrt(np.prod(shape[:-1])))
    return model


KINDS: dict[str, tuple[str, list[Any]]] = {
    "dense": ("flat", [layers.Dense(20, activation="relu", name="firm")]),
    "wide": ("row", [layers.Dense(60, use_bias=False)]),
    "einsum": ("row", [layers.EinsumDense("abc,cd->abd", (None, 30), bias_axes="d")]),
    "steps": ("row", [layers.EinsumDense("abc,cd->adb", (30, 5), bias_axes="d")]),
    "heads": ("row", [layers.EinsumDense("abc,chd->abhd", (None, 4, 10), bias_axes="hd")]),
    "merged": (
        "row",
        [layers.Dense(40), layers.Reshape((5, 4, 10)), layers.EinsumDense("...hd,hdc->...c", 20)],
    ),
    "conv1": ("row", [layers.Conv1D(16, 3, padding="causal", dilation_rate=2)]),
    "conv2": ("image", [layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")]),
    "conv3": ("cube", [layers.Conv3D(12, 2, use_bias=False)]),
    "groups": ("image", [layers.Conv2D(24, 3, groups=2, dilation_rate=2)]),
    "one": ("image", [layers.Conv2D(16, 1, strides=2)]),
    "small": ("image", [layers.Conv2D(9, 1)]),
}


def test_kernels_of_low_rank_are_equal_in_fewer_parameters() -> None:
    kinds = KINDS
    if keras.backend.backend() == "jax":  # which compiles each of them
        kinds = {name: KINDS[name] for name in ("dense", "merged", "conv2", "groups")}
    model = of_low_rank(branches(SHAPES, kinds))
    graph = factorize(model, energy=1.0)
    built = graph.build()
    (entry,) = graph.journal
    assert entry.promise == "equal"
    assert entry.count == len(kinds) + 1
    listing = factorizable(model, energy=1.0)
    assert not listing.kept
    assert max(each.error for each in listing) < 1e-6
    assert model.count_params() - built.count_params() == listing.saved > 0
    assert {name: d for name, d in difference(model, built).items() if d > 4e-6} == {}
    dense = built.get_layer("firm")
    assert (dense.activation.__name__, dense.use_bias) == ("relu", True)
    assert not built.get_layer("firm_in").use_bias


def rebuilt_kernel(model: keras.Model, name: str, groups: int) -> np.ndarray:
    """Return the kernel that three convolutions of a model are the factors of."""
    into, core, out = (
        array(model.get_layer(f"{name}{end}").kernel) for end in ("_in", "_core", "")
    )
    into, out = (each.reshape(each.shape[-2:]) for each in (into, out))
    rank = core.shape[2]
    parts = []
    for g in range(groups):
        width, last = core.shape[-1] // groups, out.shape[-1] // groups
        left = into[:, g * rank : (g + 1) * rank]
        middle = core[..., g * width : (g + 1) * width]
        right = out[:, g * last : (g + 1) * last]
        parts.append(np.einsum("ir,xyrq,qo->xyio", left, middle, right))
    return np.concatenate(parts, -1)


@pytest.mark.parametrize("groups", [1, 2])
def test_what_is_lost_is_what_the_report_says(groups: int) -> None:
    options = {"strides": 2, "padding": "same", "groups": groups, "name": "conv"}
    model = branches(SHAPES, {"a": ("image", [layers.Conv2D(16, 3, **options)])})
    graph = factorize(model, at="conv", rank=4)
    built = graph.build()
    (report,) = factorizable(model, at="conv", rank=4)
    before, after = array(model.get_layer("conv").kernel), rebuilt_kernel(built, "conv", groups)
    lost = np.linalg.norm(before - after) / np.linalg.norm(before)
    assert report.error == pytest.approx(lost, rel=1e-4)
    assert 0.1 < lost < 1
    assert report.ranks == (4, 4)
    assert report.before - report.after == model.count_params() - built.count_params()
    assert graph.journal[-1].promise == "changed"
    model.get_layer("conv")._kernel.assign(after)
    assert max(difference(model, built).values()) < 2e-6


def test_the_best_matrix_of_a_rank_is_found() -> None:
    model = branches(SHAPES, {"a": ("flat", [layers.Dense(20, name="dense")])})
    built = factorize(model, at="dense", rank=5).build()
    kernel = array(model.get_layer("dense").kernel)
    product = array(built.get_layer("dense_in").kernel) @ array(built.get_layer("dense").kernel)
    values = np.linalg.svd(kernel, compute_uv=False)
    assert np.linalg.norm(kernel - product) == pytest.approx(np.linalg.norm(values[5:]), rel=1e-4)


def tower() -> keras.Model:
    """Return a model with a shared layer, one in a nested model, and a frozen one."""
    inside = keras.Input((16,))
    encoder = keras.Model(
        inside, layers.Dense(16, activation="tanh", name="hidden")(inside), name="encoder"
    )
    first, second = keras.Input((16,)), keras.Input((16,))
    shared = layers.Dense(16, name="shared")
    frozen = layers.Dense(16, name="frozen", trainable=False)
    x = layers.Add()([shared(first), shared(encoder(second)), encoder(first)])
    return of_low_rank(trained(keras.Model([first, second], frozen(x), name="tower")))


def test_shared_nested_frozen_and_compiled(tmp_path: Any) -> None:
    model = tower()
    model.compile("adam", "mse")
    graph = factorize(model, rank=3)
    assert [each.place for each in factorizable(model, rank=3)] == [
        "shared",
        "encoder/hidden",
        "frozen",
    ]
    built = graph.build()
    assert max(difference(model, built).values()) < 4e-6
    assert len(built.get_layer("shared_in")._inbound_nodes) == 2
    assert not built.get_layer("frozen_in").trainable
    assert built.get_layer("encoder").get_layer("hidden_in").trainable
    assert built.count_params() == sum(2 * 3 * 16 + 16 for _ in range(3))
    assert {each.status for each in graph.transfer_report().transfers} >= {"computed"}
    assert ramet.verify(built, ramet.clone(built))
    built.save(tmp_path / "built.keras")
    again = keras.saving.load_model(tmp_path / "built.keras")
    assert max(difference(built, again).values()) == 0
    built.fit(data(model), np.zeros((2, 16)), verbose=0)
    assert max(difference(model, graph.build(weights="share")).values()) < 4e-6
    flags = graph.freeze("shared").build()
    assert not flags.get_layer("shared").trainable
    frozen = factorize(ramet.trace(model).freeze("shared"), at="shared", rank=3)
    assert not frozen.layers["shared_in"].trainable


def test_a_budget_of_parameters() -> None:
    model = branches(
        SHAPES,
        {
            "a": ("flat", [layers.Dense(40, name="a")]),
            "b": ("image", [layers.Conv2D(24, 3, name="b")]),
        },
    )
    budget = model.count_params() // 2
    graph = factorize(model, params=budget)
    assert 0.9 * budget < graph.build().count_params() <= budget
    with pytest.raises(ramet.errors.OptionError, match=r"cannot have only 100: .* rank 1, \d+ are"):
        factorize(model, params=100)
    assert factorize(model, params=10**9) is not None


class OwnDense(layers.Dense):
    """A layer that may do anything."""


def test_what_cannot_be_factorized_is_left_alone_with_the_reason() -> None:
    x = keras.Input((16,), name="x")
    held = layers.Dense(16, name="held")
    made = {
        "lora": layers.Dense(16, name="lora"),
        "coarse": layers.Dense(16, name="coarse"),
        "own": OwnDense(16, name="own"),
        "bound": layers.Dense(16, kernel_constraint="unit_norm", name="bound"),
        "held": held,
        "thin": layers.Dense(2, name="thin"),
        "batch": layers.EinsumDense("ab,b->ab", 16, name="batch"),
    }
    outputs = [layer(x) for layer in made.values()]
    outputs.append(layers.TimeDistributed(held)(layers.Reshape((1, 16))(x)))
    model = keras.Model(x, outputs)
    made["lora"].enable_lora(2)
    made["coarse"].quantize("int8")
    kept = {each.place: each.reason for each in factorizable(model, rank=2).kept}
    expected = {
        "lora": "LoRA factors; merge them into it first",
        "coarse": "is quantized",
        "own": "is not one of Keras's own classes",
        "bound": "have a constraint (UnitNorm)",
        "held": "is also part of another layer",
        "thin": "its factors would have 36 parameters instead of 32",
        "batch": "is not a matrix from inputs to outputs",
    }
    assert {name: text in kept.get(name, "") for name, text in expected.items()} == dict.fromkeys(
        expected, True
    )
    assert factorize(model, rank=2).layers == ramet.trace(model).layers


def test_after_other_edits() -> None:
    model = of_low_rank(branches(SHAPES, {"a": KINDS["dense"], "b": KINDS["conv2"]}))
    graph = factorize(ramet.trace(model).rename({"firm": "main"}), at="main", rank=3)
    assert "main_in" in graph.layers
    assert max(difference(model, graph.build()).values()) < 4e-6
    twice = factorize(graph, at="*", rank=3)
    assert "an edit changed it" in factorizable(graph, at="main", rank=1).kept[0].reason
    assert max(difference(model, twice.build()).values()) < 4e-6


def test_half_precision() -> None:
    x = keras.Input((16,))
    dense = layers.Dense(16, dtype="mixed_bfloat16", name="dense")
    model = of_low_rank(trained(keras.Model(x, dense(x))))
    built = factorize(model, at="dense", rank=3).build()
    assert built.get_layer("dense_in").compute_dtype == "bfloat16"
    assert difference(model, built)[""] < 0.05


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, "OptionError", "one of rank, energy and params says what is kept, got none of them; "),
        ({"rank": 2, "energy": 0.5}, "OptionError", "got rank and energy; pass one"),
        ({"rank": 0}, "OptionError", "rank must be a positive integer, got 0"),
        ({"rank": True}, "OptionError", "rank must be a positive integer, got True"),
        ({"energy": 1.5}, "OptionError", "energy must be a number above 0 and up to 1, got 1.5"),
        ({"params": 2.5}, "OptionError", "params must be a positive integer, got 2.5"),
        (
            {"at": "shared", "rank": 17},
            "OptionError",
            r"rank=17 is larger than the kernel of 'shared' \(Dense\), whose rank is 16 at most; ",
        ),
        ({"at": "sharde", "rank": 2}, "GraphError", "no layer 'sharde'.*did you mean 'shared'"),
        (
            {"at": "conv*", "rank": 2},
            "GraphError",
            "with a kernel to factorize is in the at='conv.*name one that has, such as 'shared'",
        ),
        ({"at": 3, "rank": 2}, "OptionError", "at must be the name of a layer, a glob or a selec"),
    ],
)
def test_wrong_arguments(options: Any, error: str, message: str) -> None:
    for verb in (factorize, factorizable):
        with pytest.raises(getattr(ramet.errors, error), match=message):
            verb(tower(), **options)


def test_a_rank_that_some_layers_do_not_have() -> None:
    model = branches(SHAPES, {"a": ("flat", [layers.Dense(40), layers.ReLU(), layers.Dense(2)])})
    kept = factorizable(model, rank=4).kept
    assert [each.reason for each in kept] == ["its rank is 2 at most"]
    assert "2 layers" not in str(factorize(model, rank=4).journal)


def test_the_listing_prints_and_converts() -> None:
    listing = factorizable(tower(), rank=3)
    assert listing.ok
    assert listing.title == "'tower': 3 layers factorized, 480 parameters fewer"
    assert listing.to_dict()["layers"][0]["ranks"] == [3]
    assert "encoder/hidden" in str(listing)
