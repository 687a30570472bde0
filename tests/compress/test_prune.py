"""Pruning by a ratio or a budget: which channels go, and what is left."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from masking_by_hand import apart, samples, scattered
from ramet.compress import groups, prune
from ramet.errors import OptionError


def small() -> Any:
    image = keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", name="first")(image)
    x = layers.ReLU()(layers.BatchNormalization(name="norm")(x))
    x = layers.Conv2D(16, 3, padding="same", activation="relu", name="second")(x)
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(image, layers.Dense(4, name="head")(x), name="small")


def attending() -> Any:
    steps = keras.Input((5, 8))
    x = layers.MultiHeadAttention(4, 6, name="attention")(steps, steps)
    x = layers.Dense(8, activation="relu", name="up")(layers.Dense(12, name="mid")(x))
    return keras.Model(steps, layers.Dense(2, name="head")(x))


def filters(graph: Any) -> tuple[int, int]:
    model = graph.build()
    return tuple(model.get_layer(name).filters for name in ("first", "second"))


@pytest.mark.sampled
def test_the_channels_with_the_smallest_weights_go() -> None:
    model = small()
    for name in ("first", "second"):
        kernel = model.get_layer(name).kernel
        sizes = 3.0 * np.arange(kernel.shape[-1]) % kernel.shape[-1] + 1
        kernel.assign(np.ones(kernel.shape) * sizes)
    for by in ("l1", "l2", "lamp"):
        pruned = prune(model, ratio=0.25, by=by).build()
        kept = [1, 2, 4, 5, 6, 7]  # The sizes are 1, 4, 7, 2, 5, 8, 3, 6.
        expected = keras.ops.convert_to_numpy(model.get_layer("first").kernel)[..., kept]
        found = keras.ops.convert_to_numpy(pruned.get_layer("first").kernel)
        assert (found == expected).all(), by
    gamma = model.get_layer("norm").gamma
    gamma.assign(np.arange(8, 0, -1))
    graph = prune(model, ratio=0.5, by="bn")
    assert str(graph.journal) == "1. prune 'first': 8 → 4 channels [changed]"
    kept = keras.ops.convert_to_numpy(graph.build().get_layer("norm").gamma)
    assert kept.tolist() == [8, 7, 6, 5]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ratio": 0.5}, (4, 8)),
        ({"ratio": 0.5, "by": "random", "seed": 3}, (4, 8)),
        ({"ratio": 0.5, "by": "fpgm", "scope": "isomorphic"}, (4, 8)),
        ({"ratio": 0.3, "round_to": 4}, (4, 12)),
        ({"ratio": 0.9, "max_ratio": 0.5}, (4, 8)),
        ({"ratio": 0.5, "steps": 3}, (4, 8)),
        ({"ratio": 0.9, "steps": 2, "max_ratio": 0.5}, (4, 8)),
        ({"ratio": 0.5, "keep": "first"}, (8, 8)),
        ({"ratio": 0.5, "only": ["fir*"]}, (4, 16)),
        ({"ratio": 0.99}, (1, 1)),
        ({"ratio": 0}, (8, 16)),
    ],
)
def test_options(options: dict[str, Any], expected: tuple[int, int]) -> None:
    assert filters(prune(small(), **options)) == expected


@pytest.mark.sampled
def test_scopes() -> None:
    model = small()
    for name, scale in (("first", 1.0), ("second", 9.0)):
        kernel = model.get_layer(name).kernel
        values = np.ones(kernel.shape) * scale
        values[..., :4] *= 0.01
        kernel.assign(values)
    first, second = filters(prune(model, ratio=8 / 24, scope="global", by="l1"))
    assert first + second == 16
    assert (first, second) == (4, 12)
    assert filters(prune(model, ratio=0.5, scope="local")) == (4, 8)


@pytest.mark.sampled
def test_budgets_are_met_and_used() -> None:
    model = small()
    before = ramet.profile(model)
    for what in ("macs", "params"):
        for scope in ("local", "global"):
            after = ramet.profile(prune(model, **{what: 0.5}, scope=scope))
            left = getattr(after, what) / getattr(before, what)
            assert 0.3 < left <= 0.5, (what, scope, left)
    message = r"params=0.01 cannot be met: .* 'small' still has \d+ of [\d,]+ params .*; allow more"
    with pytest.raises(OptionError, match=message):
        prune(model, params=0.01)
    with pytest.raises(OptionError, match=r"macs=0\.2 cannot be met"):
        prune(model, macs=0.2, max_ratio=0.1)


@pytest.mark.parametrize("by", ["activation", "taylor", "hessian"])
def test_criteria_that_run_the_model_do_not_change_it(by: str) -> None:
    model = scattered(small())
    for name in ("first", "second"):  # Every other channel computes nothing.
        kernel, bias = model.get_layer(name).weights
        alive = np.arange(kernel.shape[-1]) % 2
        kernel.assign(keras.ops.convert_to_numpy(kernel) * alive)
        bias.assign(np.abs(keras.ops.convert_to_numpy(bias)) * alive)
    model.get_layer("norm").beta.assign(np.arange(8) % 2)
    model.get_layer("norm").moving_mean.assign(np.zeros(8))
    model.compile("sgd", "mse")
    twin = ramet.clone(model)
    inputs = samples(model)
    data = inputs if by == "activation" else (inputs, np.ones((2, 4), "float32"))
    graph = prune(model, ratio=0.5, by=by, data=data)  # type: ignore[arg-type] a Criterion
    assert filters(graph) == (4, 8)
    assert ramet.verify(twin, model).ok
    assert apart(graph.build(), model, inputs) < 1e-5


@pytest.mark.sampled
def test_heads_are_pruned_if_they_are_named() -> None:
    model = attending()
    width = prune(model, ratio=0.5).build().get_layer("attention")
    assert (width.num_heads, width.key_dim, width.value_dim) == (4, 3, 3)
    heads = prune(model, ratio=0.5, only="attention:heads").build()
    assert (heads.get_layer("attention").num_heads, heads.get_layer("attention").key_dim) == (2, 6)
    assert heads.get_layer("mid").units == 12
    listing = groups(model)
    assert listing["attention:heads"].crosses == ("attention:key_dim",)


@pytest.mark.sampled
def test_what_is_wrong_is_said_before_anything_is_built() -> None:
    model = small()
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"ratio": 1.5}, "ratio must be a number between 0 and 1, got 1.5"),
        ({"ratio": -0.1}, "ratio must be a number between 0 and 1, got -0.1"),
        ({"ratio": 1}, "ratio=1 would remove all channels; pass less"),
        ({}, r"pass one of ratio=, macs= and params=, got none; for example ratio=0\.5"),
        ({"ratio": 0.5, "macs": 0.5}, "got ratio=0.5, macs=0.5"),
        ({"ratio": 0.5, "keep": "none"}, "'none' is in no group of 'small'; ramet.compress.groups"),
        ({"ratio": 0.5, "only": ["pool"]}, "'pool' is in no group of 'small'"),
        ({"ratio": 0.5, "only": "head"}, "no channels of 'small' can be removed: it reaches the"),
        ({"ratio": 0.5, "keep": 3}, "keep must be names of layers or groups, in a list"),
        ({"ratio": 0.5, "by": "l3"}, "unknown by='l3'; expected one of 'l1', 'l2'"),
        ({"ratio": 0.5, "scope": "all"}, "unknown scope='all'"),
        ({"ratio": 0.5, "by": "activation"}, "runs the model, so it needs data; pass data=inputs"),
        ({"ratio": 0.5, "by": "taylor"}, r"needs data; pass data=\(inputs, targets\)"),
        ({"ratio": 0.5, "by": "obd", "data": np.ones((2, 8, 8, 3))}, "needs inputs and targets"),
        (
            {"ratio": 0.5, "by": "obd", "data": (np.ones((2, 8, 8, 3)), np.ones((2, 4)))},
            "needs a loss, and the model is not compiled with one; pass loss=",
        ),
        ({"ratio": 0.5, "data": np.ones(3)}, "by='l2' needs no data; leave data= out"),
        ({"ratio": 0.5, "round_to": 0}, "round_to must be an integer from 1"),
        ({"ratio": 0.5, "steps": 2.5}, "steps must be an integer from 1 to 1,000, got 2.5"),
        ({"ratio": 0.5, "max_ratio": 0}, "max_ratio must be a number between 0 and 1, got 0"),
        ({"ratio": 0.5, "seed": -1}, "seed must be an integer from 0"),
    )
    for options, message in wrong:
        with pytest.raises(OptionError, match=message):
            prune(model, **options)
    with pytest.raises(OptionError, match=r"by='bn' cannot score any of .*; use by='l2'"):
        prune(attending(), ratio=0.5, by="bn")


@pytest.mark.sampled
def test_a_layer_that_has_a_part_of_a_group_keeps_a_channel() -> None:
    x = keras.Input((6,))
    both = [layers.Dense(4, name=name) for name in ("low", "high")]
    joined = layers.Concatenate()([layer(x) for layer in both])
    y = layers.Add()([joined, layers.Dense(8, name="sum")(joined)])
    model = keras.Model(x, layers.Dense(2, name="head")(y))
    for layer, scale in zip(both, (0.01, 9.0), strict=True):
        layer.kernel.assign(np.full((6, 4), scale))
    assert len(groups(model).free) == 1
    pruned = prune(model, ratio=0.5).build()
    assert [pruned.get_layer(name).units for name in ("low", "high", "sum")] == [1, 4, 5]
    with pytest.raises(OptionError, match="nothing would be left of axis 1 of the kernel of 'low'"):
        ramet.compress.prune_channels(model, {"low": range(4)})


@pytest.mark.sampled
def test_pruning_and_training_in_turn() -> None:
    model = small()
    model.compile(keras.optimizers.Adam(0.01), "mse")
    images, targets = samples(model), np.ones((2, 4), "float32")
    for _ in range(3):
        model.fit(images, targets, verbose=0)
        model = prune(model, ratio=0.25).build()
    assert [model.get_layer(name).filters for name in ("first", "second")] == [4, 7]
    assert int(model.optimizer.iterations) == 3
    model.fit(images, targets, verbose=0)


# --- random architectures ---


@pytest.mark.sampled
def test_a_layer_with_other_weights_than_its_class_has_stays() -> None:
    model = ramet.adapt.quantize(small(), {"second": "int8"}).build()
    listing = groups(model)
    assert [group.name for group in listing.free] == []
    reasons = {group.name: " ".join(group.locked) for group in listing}
    assert "what the axes of the kernel_scale of 'second' (Int8Conv2D) are" in reasons["second"]
    with pytest.raises(OptionError, match="the axes of the kernel_scale of"):
        ramet.compress.prune_channels(model, {"second": [0]})


def layer_of(numbers: np.random.Generator, tensors: list[Any]) -> Any:
    """Return the output of a random layer on a random tensor."""
    x = tensors[numbers.integers(len(tensors))]
    size = x.shape[-1]
    same = [t for t in tensors if t.shape == x.shape]
    choices: list[Callable[[], Any]] = [
        lambda: layers.Conv2D(int(numbers.integers(2, 7)) * 2, 3, padding="same")(x),
        lambda: layers.Conv2D(8, 1, activation="relu")(x),
        lambda: layers.SeparableConv2D(6, 3, padding="same")(x),
        lambda: layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2)(x),
        lambda: layers.BatchNormalization()(x),
        lambda: layers.Activation(str(numbers.choice(["relu", "sigmoid", "gelu", "softplus"])))(x),
        lambda: layers.LayerNormalization()(x),
        lambda: layers.Add()([x, same[numbers.integers(len(same))]]),
        lambda: layers.Multiply()([x, same[numbers.integers(len(same))]]),
        lambda: layers.Concatenate()([x, tensors[numbers.integers(len(tensors))]]),
        lambda: layers.Dense(size)(x),
        lambda: x[..., : size // 2],
        lambda: layers.Conv2D(size, 1, groups=2)(x) if size % 2 == 0 else x,
        lambda: (
            layers.Reshape((16, size))(layers.Reshape((4, 4, size))(x))
            if numbers.integers(2)
            else keras.ops.flip(x, axis=-1)
        ),
        lambda: layers.PReLU()(x),
    ]
    y = choices[numbers.integers(len(choices))]()
    return layers.Reshape((4, 4, y.shape[-1]))(y) if len(y.shape) == 3 else y


def random_model(seed: int) -> Any:
    numbers = np.random.default_rng(seed)
    image = keras.Input((4, 4, 4))
    tensors: list[Any] = [layers.Conv2D(8, 1)(image)]
    for _ in range(12):
        tensors.append(layer_of(numbers, tensors))
    outputs = [layers.Dense(2)(layers.GlobalAveragePooling2D()(t)) for t in tensors[-3:]]
    return keras.Model(image, outputs)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(10))
def test_random_models_without_channels_are_their_masks(seed: int) -> None:
    from masking_by_hand import masked

    model = scattered(random_model(seed), 0.3, seed)
    listing = groups(model)
    numbers = np.random.default_rng(seed)
    removed = {
        group.name: numbers.choice(group.size, group.size // 2, replace=False).tolist()
        for group in listing.free
        if group.exact and group.size > 1
    }
    graph = ramet.compress.prune_channels(model, removed)
    assert apart(graph.build(), masked(model, listing, removed), samples(model)) < 1e-5
    assert prune(model, ratio=0.5).build().count_params() < model.count_params()
