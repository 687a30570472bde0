"""Models whose channels were once not followed, or followed wrongly."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from masking_by_hand import scattered
from ramet.compress import groups, prune, prune_channels

pytestmark = pytest.mark.sampled


def model_of(x: Any, y: Any) -> Any:
    y = y if len(y.shape) == 2 else layers.Flatten()(y)
    return scattered(keras.Model(x, layers.Dense(2, name="head")(y)))


def pixels_moved() -> Any:
    image = keras.Input((4, 4, 3))
    x = layers.Conv2D(16, 3, padding="same", name="up")(image)
    x = layers.Conv2D(6, 3, name="mid")(ops.depth_to_space(x, 2))
    return model_of(image, layers.Conv2D(3, 1, name="down")(ops.space_to_depth(x, 2)))


def resized() -> Any:
    image = keras.Input((4, 4, 3))
    x = layers.Conv2D(6, 3, name="first")(image)
    return model_of(image, layers.Resizing(3, 4)(ops.image.resize(x, (5, 5))))


def gated() -> Any:
    x = keras.Input((6,))
    return model_of(x, ops.glu(layers.Dense(12, name="both")(x)))


def rolled() -> Any:
    x = keras.Input((5, 6))
    y = ops.roll(layers.Dense(8, name="first")(x), -2, axis=-1)
    y = ops.roll(layers.Dense(8, name="second")(y), (1, 3), axis=(1, 2))
    return model_of(x, y)


MODELS = [pixels_moved, resized, gated, rolled]


@pytest.mark.parametrize("maker", MODELS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_pruned_model_is_its_source_masked(maker: Callable[[], Any], seed: int) -> None:
    model = maker()
    listing = groups(model)
    assert listing.free
    assert all(group.exact for group in listing.free)
    graph = prune(model, ratio=0.5, by="random", seed=seed)
    proof = ramet.prove(graph)
    assert proof.edits[0].judgement == "kept", str(proof)
    assert graph.build().count_params() < model.count_params() * 0.7


def test_each_end_of_a_rolled_axis_may_shrink() -> None:
    model = rolled()
    for gone in ([0, 1], [6, 7], [0, 7], [2, 3, 4]):
        proof = ramet.prove(prune_channels(model, {"first": gone, "second": gone}))
        assert proof.edits[0].judgement == "kept", gone


def test_channels_first_is_left_alone_where_backends_differ(backend: str) -> None:
    if backend == "tensorflow":
        pytest.skip("TensorFlow computes channels-first convolutions on GPUs only")
    image = keras.Input((3, 4, 4))
    x = layers.Conv2D(16, 1, data_format="channels_first", name="up")(image)
    x = ops.depth_to_space(x, 2, data_format="channels_first")
    (group,) = (each for each in groups(model_of(image, x)) if each.name == "up")
    assert "(DepthToSpace) is not known" in group.locked[0]


@pytest.mark.parametrize(
    ("function", "state"),
    [
        (lambda: layers.ReLU(negative_slope=0.1, threshold=0.5), "lossy"),
        (lambda: layers.ReLU(negative_slope=0.1), "exact"),
        (lambda: layers.ReLU(threshold=0.5), "exact"),
        (lambda: layers.Resizing(6, 3, pad_to_aspect_ratio=True, fill_value=2.0), "lossy"),
        (lambda: layers.Resizing(6, 3, pad_to_aspect_ratio=True), "exact"),
        (lambda: layers.Resizing(6, 3, fill_value=2.0), "exact"),
    ],
)
def test_what_is_not_zero_at_zero_is_lossy(function: Callable[[], Any], state: str) -> None:
    image = keras.Input((4, 4, 3))
    x = function()(layers.Conv2D(6, 3, padding="same", name="first")(image))
    model = model_of(image, layers.Conv2D(2, 1, name="last")(x))
    assert groups(model)["first"].state == state
    proof = ramet.prove(prune(model, ratio=0.5, only="first"))
    (edit,) = proof.edits
    assert edit.judgement == ("kept" if state == "exact" else "changed")
    if state == "lossy":
        assert np.isfinite(edit.absolute or 0)
        assert not edit.detail.startswith("0 from"), edit.detail


@pytest.mark.parametrize("words", [5, 8])
def test_activations_are_those_of_each_call(words: int) -> None:
    """An embedding that is called in reverse returns something else than in its first call."""
    tokens = keras.Input((4,), dtype="int32")
    embedding = layers.ReversibleEmbedding(words, 8, name="embedding")
    x = layers.Dense(8, name="mid")(embedding(tokens))
    model = keras.Model(tokens, embedding(x, reverse=True))
    values = np.ones((words, 8), "float32") * np.arange(8)[::-1]
    embedding.embeddings.assign(values)
    model.get_layer("mid").kernel.assign(np.eye(8))
    data = np.arange(4)[None]
    graph = prune(model, ratio=0.5, by="activation", data=data)
    left = keras.ops.convert_to_numpy(graph.build().get_layer("embedding").embeddings)
    assert left[0].tolist() == [7, 6, 5, 4]
    assert ramet.prove(graph).edits[0].judgement == "kept"
