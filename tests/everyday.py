"""Models as people build them, edits that people make, and the lines that say each of them.

The edits of one model are at different places, so that any of them may be combined: what is
expected of several is what is expected of each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers, ops

Line = tuple[str, str]


@dataclass(frozen=True)
class Edit:
    """One edit, and the lines that say it, from the old model to the new one and back."""

    change: Callable[[Any], Any]
    forward: tuple[Line, ...]
    backward: tuple[Line, ...]


def rename(old: str, new: str) -> Edit:
    whole = old.rpartition("/")[0]
    back = f"{whole}/{new}" if whole else new
    return Edit(lambda g: g.rename({old: new}), (("renamed", old),), (("renamed", back),))


def add(at: str, new: Callable[[], Any], name: str) -> Edit:
    whole = at.rpartition("/")[0]
    path = f"{whole}/{name}" if whole else name
    return Edit(lambda g: g.insert_after(at, new()), (("added", path),), (("removed", path),))


def remove(at: str, **options: Any) -> Edit:
    return Edit(lambda g: g.remove(at, **options), (("removed", at),), (("added", at),))


def replace(at: str, new: Callable[[], Any], name: str, **options: Any) -> Edit:
    whole = at.rpartition("/")[0]
    path = f"{whole}/{name}" if whole else name
    return Edit(
        lambda g: g.replace(at, new(), **options), (("replaced", at),), (("replaced", path),)
    )


def one(kind: str, where: str, change: Callable[[Any], Any]) -> Edit:
    return Edit(change, ((kind, where),), ((kind, where),))


def configure(at: str, **options: Any) -> Edit:
    return one("config", at, lambda g: g.configure(at, **options))


def freeze(at: str) -> Edit:
    return one("config", at, lambda g: g.freeze(at))


def rewire(at: str, argument: int, tensor: str) -> Edit:
    return one("arguments", at, lambda g: g.rewire(at, argument, tensor))


def output(at: str) -> Edit:
    return one("outputs", "outputs", lambda g: g.add_output(at))


def dense(units: int, name: str, **options: Any) -> Any:
    return layers.Dense(units, name=name, **options)


def distinct(model: keras.Model) -> keras.Model:
    """Gives a model weights that differ from layer to layer, as training does."""
    random = np.random.default_rng(5)
    for weight in model.weights:
        if "int" not in keras.backend.standardize_dtype(weight.dtype):
            weight.assign(random.normal(0.0, 0.3, weight.shape).astype("float32"))
    return model


# --- image models --------------------------------------------------------------------


def resnet50() -> keras.Model:
    return distinct(keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=7))


def _squeeze(x: Any) -> Any:
    y = layers.GlobalAveragePooling2D(keepdims=True, name="se_pool")(x)
    y = layers.Conv2D(x.shape[-1], 1, activation="sigmoid", name="se_gate")(y)
    return layers.Multiply(name="se_scale")([x, y])


SQUEEZE = ("se_pool", "se_gate", "se_scale")

RESNET50 = {
    "head": replace("predictions", lambda: dense(3, "head"), "head"),
    "dropout": add("avg_pool", lambda: layers.Dropout(0.2, name="drop"), "drop"),
    "rename": rename("conv3_block2_1_conv", "stage3"),
    "group norm": replace(
        "conv4_block1_2_bn", lambda: layers.GroupNormalization(8, name="gn"), "gn"
    ),
    "gelu": configure("conv2_block1_1_relu", activation="gelu"),
    "no relu": remove("conv5_block2_1_relu"),
    "freeze": freeze("conv1_conv"),
    "skip": rewire("conv3_block3_add", 0, "conv3_block1_out"),
    "tap": output("conv4_block6_out"),
    "squeeze": Edit(
        lambda g: g.insert_after("conv5_block3_3_bn", _squeeze),
        tuple(("added", name) for name in SQUEEZE),
        tuple(("removed", name) for name in SQUEEZE),
    ),
}


def mobilenet() -> keras.Model:
    return distinct(
        keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=7)
    )


MOBILENET = {
    "head": replace("predictions", lambda: dense(3, "head"), "head"),
    "hidden": add("global_average_pooling2d", lambda: dense(1280, "hidden"), "hidden"),
    "rename": rename("block_5_expand", "widen5"),
    "swish": replace(
        "block_9_expand_relu", lambda: layers.Activation("silu", name="swish9"), "swish9"
    ),
    "no skip": Edit(
        lambda g: g.remove("block_4_add", reconnect="block_4_project_BN"),
        (("removed", "block_4_add"),),
        (("added", "block_4_add"),),
    ),
    "momentum": configure("block_7_project_BN", momentum=0.9),
    "dilate": add(
        "block_12_expand_relu",
        lambda: layers.SpatialDropout2D(0.1, name="drop12"),
        "drop12",
    ),
    "freeze": freeze("Conv1"),
}

# --- sequences -----------------------------------------------------------------------


def encoder() -> keras.Model:
    """A text classifier with masks, of two attention blocks."""
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(11, 8, mask_zero=True, name="embed")(tokens)
    for block in ("a", "b"):
        y = layers.LayerNormalization(name=f"{block}_norm1")(x)
        y = layers.MultiHeadAttention(2, 4, name=f"{block}_attention")(y, y)
        x = layers.Add(name=f"{block}_add1")([x, y])
        y = layers.LayerNormalization(name=f"{block}_norm2")(x)
        y = dense(16, f"{block}_up", activation="gelu")(y)
        y = layers.Dropout(0.1, name=f"{block}_drop")(y)
        y = dense(8, f"{block}_down")(y)
        x = layers.Add(name=f"{block}_add2")([x, y])
    x = layers.GlobalAveragePooling1D(name="pool")(x)
    return distinct(keras.Model(tokens, dense(3, "classes")(x), name="encoder"))


ENCODER = {
    "head": replace("classes", lambda: dense(5, "labels"), "labels"),
    "no mask": configure("embed", mask_zero=False),
    "dropout": add("a_attention", lambda: layers.Dropout(0.3, name="a_drop0"), "a_drop0"),
    "rename": rename("b_up", "b_expand"),
    "rms": replace("b_norm1", lambda: layers.RMSNormalization(name="b_rms"), "b_rms"),
    "heads": configure("b_attention", num_heads=4),
    "relu": configure("a_up", activation="relu"),
    "no drop": remove("b_drop"),
    "freeze": freeze("a_down"),
    "skip": rewire("b_add2", 0, "a_add2"),
    "post": add("pool", lambda: layers.UnitNormalization(name="unit"), "unit"),
}


def sequential() -> keras.Model:
    """A model in which Keras makes up all names."""
    steps = [keras.Input((8, 8, 3))]
    for filters in (4, 4, 8, 8):
        steps += [layers.Conv2D(filters, 3, padding="same"), layers.BatchNormalization()]
        steps += [layers.ReLU()]
    steps += [layers.GlobalAveragePooling2D(), layers.Dense(6), layers.Dense(3)]
    return distinct(keras.Sequential(steps, name="chain"))


SEQUENTIAL = {
    "head": replace("dense_1", lambda: dense(2, "head"), "head"),
    "dropout": add("global_average_pooling2d", lambda: layers.Dropout(0.5, name="drop"), "drop"),
    "rename": rename("conv2d_2", "third"),
    "no norm": remove("batch_normalization_3"),
    "leaky": replace("re_lu_1", lambda: layers.LeakyReLU(0.2, name="leaky"), "leaky"),
    "slope": configure("re_lu_2", negative_slope=0.1),
    "bias": configure("conv2d", use_bias=False),
    "tanh": configure("dense", activation="tanh"),
    "twice": add("re_lu", lambda: layers.ReLU(name="again"), "again"),
    "freeze": freeze("conv2d_1"),
}


def siamese() -> keras.Model:
    """Two inputs through one encoder, in which a trunk is nested."""
    start = keras.Input((6,), name="start")
    x = dense(6, "in", activation="relu")(start)
    x = layers.LayerNormalization(name="norm")(dense(6, "mid")(x))
    trunk = keras.Model(start, x, name="trunk")
    begin = keras.Input((6,), name="begin")
    y = layers.Dropout(0.1, name="drop")(trunk(begin))
    tower = keras.Model(begin, dense(4, "embedding")(y), name="tower")
    left, right = keras.Input((6,), name="left"), keras.Input((6,), name="right")
    a, b = tower(left), tower(right)
    x = layers.Subtract(name="difference")([a, b])
    x = layers.Concatenate(name="both")([a, b, x])
    return distinct(keras.Model([left, right], dense(1, "same")(x), name="siamese"))


SIAMESE = {
    "head": replace("same", lambda: dense(2, "verdict"), "verdict"),
    "inner": rename("tower/trunk/mid", "middle"),
    "inserted": add("tower/trunk/in", lambda: layers.UnitNormalization(name="unit"), "unit"),
    "no drop": remove("tower/drop"),
    "epsilon": configure("tower/trunk/norm", epsilon=1e-2),
    "freeze": freeze("tower/embedding"),
    "minus": replace("difference", lambda: layers.Multiply(name="product"), "product"),
    "swap": rewire("both", 0, "tower#2"),
    "outer": rename("left", "before"),
}


def unet() -> keras.Model:
    """Down and up again, with skip connections."""
    image = x = keras.Input((16, 16, 1), name="image")
    kept = []
    for level, filters in enumerate((4, 6, 8)):
        for half in "ab":
            name = f"down{level}{half}"
            x = layers.Conv2D(filters, 3, padding="same", activation="relu", name=name)(x)
        kept.append(x)
        x = layers.MaxPooling2D(name=f"pool{level}")(x)
    x = layers.Conv2D(10, 3, padding="same", name="bottom")(x)
    for level, filters in reversed([*enumerate((4, 6, 8))]):
        x = layers.Conv2DTranspose(filters, 2, strides=2, name=f"open{level}")(x)
        x = layers.Concatenate(name=f"join{level}")([x, kept[level]])
        x = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"up{level}")(x)
    return distinct(keras.Model(image, layers.Conv2D(2, 1, name="mask")(x), name="unet"))


UNET = {
    "head": replace("mask", lambda: layers.Conv2D(3, 1, name="classes"), "classes"),
    "dropout": add("bottom", lambda: layers.SpatialDropout2D(0.2, name="drop"), "drop"),
    "norm": add("down1a", lambda: layers.BatchNormalization(name="norm1"), "norm1"),
    "rename": rename("down2b", "deep"),
    "average": replace("pool1", lambda: layers.AveragePooling2D(2, name="mean1"), "mean1"),
    "smooth": replace(
        "open2",
        lambda: layers.Conv2DTranspose(8, 4, strides=2, padding="same", name="grow2"),
        "grow2",
        weights="fresh",
    ),
    "on a skip": Edit(
        lambda g: g.insert_on("join0", 1, layers.Conv2D(4, 1, name="narrow0")),
        (("added", "narrow0"),),
        (("removed", "narrow0"),),
    ),
    "skip": rewire("join1", 1, "down1a"),
    "tanh": configure("up2", activation="tanh"),
    "tap": output("up1"),
    "freeze": freeze("down0a"),
}


def several() -> keras.Model:
    """Several inputs and outputs, with operators and operations between them."""
    price = keras.Input((1,), name="price")
    words = keras.Input((5,), dtype="int32", name="words")
    pixels = keras.Input((4, 4, 3), name="pixels")
    x = layers.GRU(4, name="gru")(layers.Embedding(9, 4, mask_zero=True, name="lookup")(words))
    y = layers.Flatten(name="flat")(layers.Conv2D(2, 3, name="conv")(pixels * 2.0 - 1.0))
    z = dense(4, "scale")(ops.log(ops.abs(price) + 1.0))
    joined = layers.Concatenate(name="joined")([x, y, z])
    shared = dense(6, "shared", activation="relu")(joined)
    gate = ops.sigmoid(dense(6, "gate")(joined))
    mixed = shared * gate + shared
    out = {
        "cost": dense(1, "cost")(mixed),
        "kind": layers.Softmax(name="kind")(dense(3, "logits")(mixed)),
    }
    inputs = {"price": price, "words": words, "pixels": pixels}
    return distinct(keras.Model(inputs, out, name="several"))


SEVERAL = {
    "head": replace("logits", lambda: dense(5, "labels"), "labels"),
    "dropout": add("joined", lambda: layers.Dropout(0.2, name="drop"), "drop"),
    "rename": rename("gate", "door"),
    "lstm": replace("gru", lambda: layers.LSTM(4, name="lstm"), "lstm"),
    "no sigmoid": remove("sigmoid"),
    "tanh": configure("shared", activation="tanh"),
    "no mask": configure("lookup", mask_zero=False),
    "freeze": freeze("conv"),
    "hidden": add("shared", lambda: dense(6, "hidden"), "hidden"),
}

EVERYDAY: dict[str, tuple[Callable[[], keras.Model], dict[str, Edit]]] = {
    "resnet50": (resnet50, RESNET50),
    "mobilenet": (mobilenet, MOBILENET),
    "encoder": (encoder, ENCODER),
    "sequential": (sequential, SEQUENTIAL),
    "siamese": (siamese, SIAMESE),
    "unet": (unet, UNET),
    "several": (several, SEVERAL),
}
