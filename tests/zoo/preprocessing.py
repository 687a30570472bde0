"""Preprocessing layers: adapted, looked up, hashed, random."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

from zoo.base import BATCH, Draw, case, floats, ints, unit

WORDS = np.array(["red", "green", "blue", "other", "black"])
TF = ("tensorflow",)


def _text(rows: Any) -> Any:
    """Make a string tensor: Keras feeds no numpy strings to `predict` and `fit`."""
    import tensorflow as tf

    return tf.constant(rows)


def _words(*shape: int) -> Draw:
    return lambda rng: _text(rng.choice(WORDS, size=(BATCH, *shape)))


def _sentences(rng: np.random.Generator) -> Any:
    return _text([[" ".join(rng.choice(WORDS, size=4))] for _ in range(BATCH)])


def _data(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(3.0, 2.0, size=shape).astype("float32")


@case("preprocessing-normalization_adapted", inputs=floats(3), targets=floats(2))
def normalization_adapted() -> keras.Model:
    norm = layers.Normalization()
    norm.adapt(_data(50, 3))
    x = keras.Input((3,))
    return keras.Model(x, layers.Dense(2)(norm(x)))


@case("preprocessing-normalization_given", inputs=floats(3), targets=floats(2))
def normalization_given() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(
        x, layers.Dense(2)(layers.Normalization(mean=[1.0, 2.0, 3.0], variance=[1.0, 4.0, 9.0])(x))
    )


@case("preprocessing-normalization_inverted", inputs=floats(3), targets=floats(3))
def normalization_inverted() -> keras.Model:
    there, back = layers.Normalization(), layers.Normalization(invert=True)
    there.adapt(_data(50, 3))
    back.adapt(_data(50, 3))
    return keras.Sequential([keras.Input((3,)), there, layers.Dense(3), back])


@case("preprocessing-discretization_adapted", inputs=floats(3), targets=floats(3, 2))
def discretization_adapted() -> keras.Model:
    bins = layers.Discretization(num_bins=4)
    bins.adapt(_data(50, 3))
    x = keras.Input((3,))
    return keras.Model(x, layers.Embedding(4, 2)(bins(x)))


@case("preprocessing-discretization_given", inputs=floats(3))
def discretization_given() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(
        x, layers.Discretization(bin_boundaries=[-0.5, 0.0, 0.5], output_mode="one_hot")(x[:, :1])
    )


@case("preprocessing-category_encoding", inputs=ints(5, 3), targets=floats(2))
def category_encoding() -> keras.Model:
    x = keras.Input((3,), dtype="int32")
    return keras.Model(x, layers.Dense(2)(layers.CategoryEncoding(5, output_mode="multi_hot")(x)))


@case("preprocessing-hashing", inputs=ints(1000, 3), backends=TF)
def hashing() -> keras.Model:
    x = keras.Input((3,), dtype="int32")
    return keras.Model(x, layers.Hashing(7, salt=3)(x))


@case("preprocessing-hashed_crossing", inputs=(ints(9, 1), ints(9, 1)), backends=TF)
def hashed_crossing() -> keras.Model:
    a, b = keras.Input((1,), dtype="int32"), keras.Input((1,), dtype="int32")
    return keras.Model((a, b), layers.HashedCrossing(5, output_mode="one_hot")((a, b)))


@case("preprocessing-integer_lookup_adapted", inputs=ints(30, 3), targets=floats(3, 2), backends=TF)
def integer_lookup_adapted() -> keras.Model:
    lookup = layers.IntegerLookup()
    lookup.adapt(np.array([[12], [7], [7], [29]]))
    x = keras.Input((3,), dtype="int64")
    return keras.Model(x, layers.Embedding(6, 2)(lookup(x)))


@case("preprocessing-string_lookup_given", inputs=_words(2), targets=floats(2, 3), backends=TF)
def string_lookup_given() -> keras.Model:
    x = keras.Input((2,), dtype="string")
    ids = layers.StringLookup(vocabulary=["red", "green", "blue"], num_oov_indices=2)(x)
    return keras.Model(x, layers.Embedding(5, 3)(ids))


@case("preprocessing-string_lookup_adapted", inputs=_words(2), backends=TF)
def string_lookup_adapted() -> keras.Model:
    lookup = layers.StringLookup(output_mode="count")
    lookup.adapt(np.array(["blue", "red", "red", "green"]))
    x = keras.Input((2,), dtype="string")
    return keras.Model(x, lookup(x))


@case("preprocessing-string_lookup_tf_idf", inputs=_words(2), backends=TF)
def string_lookup_tf_idf() -> keras.Model:
    lookup = layers.StringLookup(output_mode="tf_idf")
    lookup.adapt(np.array([["blue", "red"], ["red", "green"]]))
    x = keras.Input((2,), dtype="string")
    return keras.Model(x, lookup(x))


@case("preprocessing-string_lookup_inverted", inputs=ints(4, 2), backends=TF)
def string_lookup_inverted() -> keras.Model:
    x = keras.Input((2,), dtype="int64")
    return keras.Model(x, layers.StringLookup(vocabulary=["red", "green", "blue"], invert=True)(x))


@case("preprocessing-text_vectorization", inputs=_sentences, targets=floats(2), backends=TF)
def text_vectorization() -> keras.Model:
    vectorize = layers.TextVectorization(max_tokens=6, output_sequence_length=5)
    vectorize.adapt(np.array(["red green", "blue red", "red"]))
    x = keras.Input((1,), dtype="string")
    y = layers.Embedding(6, 3, mask_zero=True)(vectorize(x))
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(y)))


@case("preprocessing-text_vectorization_ngrams", inputs=_sentences, backends=TF)
def text_vectorization_ngrams() -> keras.Model:
    vectorize = layers.TextVectorization(ngrams=2, output_mode="multi_hot", standardize="lower")
    vectorize.adapt(np.array(["red green", "blue red", "red"]))
    return keras.Sequential([keras.Input((1,), dtype="string"), vectorize])


@case("preprocessing-lookup_outside_graph", inputs=ints(8, 3))
def lookup_outside_graph() -> keras.Model:
    # On every backend a layer can hang on the model without being in its graph.
    x = keras.Input((3,), dtype="int32")
    model = keras.Model(x, layers.Embedding(8, 2)(x))
    model.class_names = ["a", "b"]
    return model


@case("preprocessing-image_augmentation", inputs=unit(6, 6, 3), targets=floats(2))
def image_augmentation() -> keras.Model:
    augment = keras.Sequential(
        [
            layers.RandomFlip("horizontal"),
            layers.RandomRotation(0.1, seed=2),
            layers.RandomTranslation(0.1, 0.1),
            layers.RandomZoom(0.2),
            layers.RandomContrast(0.2, value_range=(0, 1)),
        ],
        name="augment",
    )
    x = keras.Input((6, 6, 3))
    y = layers.Rescaling(1 / 0.5, offset=-1)(augment(x))
    return keras.Model(x, layers.Dense(2)(layers.Flatten()(y)))


@case("preprocessing-image_crop_resize", inputs=unit(6, 6, 3))
def image_crop_resize() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((6, 6, 3)),
            layers.RandomCrop(5, 5),
            layers.RandomBrightness(0.2, value_range=(0, 1)),
            layers.Resizing(4, 4),
            layers.CenterCrop(3, 3),
        ]
    )


@case("preprocessing-pipeline", inputs=unit(6, 6, 3))
def pipeline() -> keras.Model:
    x = keras.Input((6, 6, 3))
    steps = layers.Pipeline([layers.RandomFlip(seed=1), layers.Rescaling(0.5)])
    return keras.Model(x, steps(x))


@case("preprocessing-mel_spectrogram", inputs=floats(64))
def mel_spectrogram() -> keras.Model:
    x = keras.Input((64,))
    y = layers.MelSpectrogram(num_mel_bins=4, sampling_rate=800, sequence_stride=16, fft_length=32)(
        x
    )
    return keras.Model(x, y)


def _feature_space() -> keras.utils.FeatureSpace:
    space = keras.utils.FeatureSpace(
        features={
            "age": keras.utils.FeatureSpace.float_normalized(),
            "rooms": keras.utils.FeatureSpace.integer_categorical(num_oov_indices=1),
        },
        output_mode="concat",
    )
    import tensorflow as tf

    rows = {"age": _data(20), "rooms": np.arange(20, dtype="int64") % 4}
    space.adapt(tf.data.Dataset.from_tensor_slices(rows))
    return space


@case(
    "preprocessing-feature_space",
    inputs={"age": floats(1), "rooms": ints(5, 1)},
    targets=floats(2),
    backends=TF,
)
def feature_space() -> keras.Model:
    space = _feature_space()
    inputs = space.get_inputs()
    return keras.Model(inputs, layers.Dense(2)(space.get_encoded_features()))
