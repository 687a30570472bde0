"""The models that are copied."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
from keras import layers

from benchmarks.results import CHAIN, EFFICIENTNET, ENCODER, KEPT, LONG, MLP, MOBILENET, RESNET


@dataclass(frozen=True)
class Case:
    """One model, and which ways of copying it are left out."""

    build: Callable[[], Any]
    not_run: dict[str, str] = field(default_factory=dict[str, str])
    """The ways that are not tried, and why."""


def encoder(depth: int = 12, width: int = 512, heads: int = 8, words: int = 30_522) -> Any:
    """Build an encoder like BERT, with masks from its ids (0 is padding)."""
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    positions = keras.Input((None,), dtype="int32", name="positions")
    x = layers.Add()([
        layers.Embedding(words, width, mask_zero=True)(tokens),
        layers.Embedding(513, width, mask_zero=True)(positions),
    ])  # fmt: skip
    x = layers.Dropout(0.1)(layers.LayerNormalization()(x))
    for _ in range(depth):
        seen = layers.MultiHeadAttention(heads, width // heads)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(seen)]))
        wide = layers.Dense(4 * width, activation="gelu")(x)
        thought = layers.Dropout(0.1)(layers.Dense(width)(wide))
        x = layers.LayerNormalization()(layers.Add()([x, thought]))
    pooled = layers.GlobalAveragePooling1D()(x)
    return keras.Model([tokens, positions], layers.Dense(2)(pooled), name="encoder")


def chain(depth: int) -> Any:
    """Build a chain of small layers, which Keras constructs by recursion."""
    with recursion_limit(100 * depth):
        x = inputs = keras.Input((8,))
        for place in range(depth):
            x = layers.ReLU()(x) if place % 2 else layers.Dense(8)(x)
        return keras.Model(inputs, x, name="chain")


def mlp(depth: int = 8, units: int = 8192) -> Any:
    """Build a few layers with large weights: 2.1 GB by default."""
    x = inputs = keras.Input((units,))
    for _ in range(depth):
        x = layers.Dense(units, activation="relu")(x)
    return keras.Model(inputs, x, name="mlp")


@contextmanager
def recursion_limit(limit: int) -> Generator[None]:
    """Raise Python's recursion limit, for a while."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, before))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


CASES = {
    MOBILENET: Case(lambda: keras.applications.MobileNetV2(weights=None)),
    RESNET: Case(lambda: keras.applications.ResNet50(weights=None)),
    EFFICIENTNET: Case(lambda: keras.applications.EfficientNetB7(weights=None)),
    ENCODER: Case(encoder),
    CHAIN: Case(lambda: chain(LONG)),
    MLP: Case(mlp, {KEPT: "five copies need 11 GB"}),
}
