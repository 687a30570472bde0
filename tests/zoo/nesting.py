"""Models inside models, and layers that several of them share."""

from __future__ import annotations

import keras
from keras import layers, ops

from zoo.base import case, floats


def _block(width: int, name: str | None = None) -> keras.Model:
    x = keras.Input((width,))
    y = layers.Dense(width, activation="relu")(x)
    return keras.Model(x, layers.Add()([x, layers.Dropout(0.2)(y)]), name=name)


@case("nesting-functional_in_functional", inputs=floats(4), targets=floats(2))
def functional_in_functional() -> keras.Model:
    x = keras.Input((4,))
    return keras.Model(x, layers.Dense(2)(_block(4, "block")(x)))


@case("nesting-sequential_in_functional", inputs=floats(4), targets=floats(2))
def sequential_in_functional() -> keras.Model:
    x = keras.Input((4,))
    stem = keras.Sequential([layers.Dense(3), layers.BatchNormalization()], name="stem")
    return keras.Model(x, layers.Dense(2)(stem(x)))


@case("nesting-functional_in_sequential", inputs=floats(4), targets=floats(2))
def functional_in_sequential() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), _block(4), layers.Dense(2)])


@case("nesting-four_levels", inputs=floats(4), targets=floats(4))
def four_levels() -> keras.Model:
    model = _block(4, "level_0")
    for level in range(1, 4):
        x = keras.Input((4,))
        y = layers.Dense(4, name="dense")(model(x))
        model = keras.Model(x, layers.Add(name="add")([x, y]), name=f"level_{level}")
    return model


@case("nesting-called_several_times", inputs=[floats(4), floats(4)], targets=floats(1))
def called_several_times() -> keras.Model:
    a, b = keras.Input((4,)), keras.Input((4,))
    block = _block(4, "block")
    y = layers.Concatenate()([block(block(a)), block(b)])
    return keras.Model([a, b], layers.Dense(1)(y))


@case("nesting-siamese", inputs={"left": floats(6), "right": floats(6)}, targets=floats(1))
def siamese() -> keras.Model:
    left, right = keras.Input((6,), name="left"), keras.Input((6,), name="right")
    tower = keras.Sequential([keras.Input((6,)), layers.Dense(4), layers.UnitNormalization()])
    distance = ops.sum(ops.square(tower(left) - tower(right)), axis=-1, keepdims=True)
    return keras.Model(
        {"left": left, "right": right}, layers.Dense(1, activation="sigmoid")(distance)
    )


@case("nesting-layer_shared_with_nested", inputs=floats(4), targets=floats(4))
def layer_shared_with_nested() -> keras.Model:
    shared = layers.Dense(4, name="shared")
    inner_x = keras.Input((4,))
    inner = keras.Model(inner_x, ops.relu(shared(inner_x)), name="inner")
    x = keras.Input((4,))
    return keras.Model(x, shared(inner(shared(x))))


@case("nesting-layer_shared_by_two_nested", inputs=floats(4), targets=floats(4), saveable=False)
def layer_shared_by_two_nested() -> keras.Model:
    shared = layers.Dense(4, name="shared")
    a_x, b_x = keras.Input((4,)), keras.Input((4,))
    a = keras.Model(a_x, layers.Dense(4)(shared(a_x)), name="a")
    b = keras.Sequential([b_x, shared, layers.Dropout(0.3)], name="b")
    x = keras.Input((4,))
    return keras.Model(x, layers.Add()([a(x), b(x)]))


@case("nesting-nested_shared_by_two_nested", inputs=floats(4), targets=floats(4), saveable=False)
def nested_shared_by_two_nested() -> keras.Model:
    core = _block(4, "core")
    a_x, b_x = keras.Input((4,)), keras.Input((4,))
    a = keras.Model(a_x, layers.Dense(4)(core(a_x)), name="a")
    b = keras.Model(b_x, core(layers.Dense(4)(b_x)), name="b")
    x = keras.Input((4,))
    return keras.Model(x, core(layers.Add()([a(x), b(x)])))


@case("nesting-nested_structures", inputs=[floats(3), floats(3)], targets=floats(3))
def nested_structures() -> keras.Model:
    p, q = keras.Input((3,), name="p"), keras.Input((3,), name="q")
    inner = keras.Model(
        {"p": p, "q": q}, {"sum": layers.Add()([p, q]), "dense": layers.Dense(3)(q)}
    )
    a, b = keras.Input((3,)), keras.Input((3,))
    y = inner({"p": a, "q": b})
    return keras.Model([a, b], layers.Multiply()([y["dense"], y["sum"]]))


@case("nesting-backbone_with_head", inputs=floats(8, 8, 3), targets=floats(2))
def backbone_with_head() -> keras.Model:
    x = keras.Input((8, 8, 3))
    y = layers.Conv2D(4, 3, use_bias=False, name="stem")(x)
    y = layers.BatchNormalization(name="stem_bn")(y)
    backbone = keras.Model(x, layers.ReLU()(y), name="backbone")
    backbone.trainable = False
    image = keras.Input((8, 8, 3))
    features = backbone(image, training=False)
    return keras.Model(image, layers.Dense(2)(layers.GlobalAveragePooling2D()(features)))


@case("nesting-extended_from_output", inputs=floats(4), targets=floats(2))
def extended_from_output() -> keras.Model:
    # The usual way to add a head: the new model flattens the old one's graph.
    base = _block(4, "base")
    return keras.Model(base.input, layers.Dense(2, name="head")(base.output))


@case("nesting-tap_inside", inputs=floats(4), targets=[floats(4), floats(4)])
def tap_inside() -> keras.Model:
    base = _block(4, "base")
    return keras.Model(base.input, [base.layers[1].output, base.output], name="tapped")


@case("nesting-time_distributed_model", inputs=floats(3, 4), targets=floats(3, 4))
def time_distributed_model() -> keras.Model:
    x = keras.Input((3, 4))
    return keras.Model(x, layers.TimeDistributed(_block(4, "frame"))(x))


class Residual(keras.layers.Wrapper):
    """Adds the input of the wrapped layer to its output."""

    def call(self, x, training=None):
        return x + self.layer(x, training=training)

    def compute_output_shape(self, input_shape):
        return input_shape


@case(
    "nesting-wrapper_around_model",
    inputs=floats(4),
    targets=floats(4),
    custom_objects={"Residual": Residual},
)
def wrapper_around_model() -> keras.Model:
    x = keras.Input((4,))
    return keras.Model(x, Residual(Residual(_block(4)))(x))


class Holder(keras.layers.Layer):
    """A layer that makes a functional model of its own, as many research codes do."""

    def __init__(self, width: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.width = width
        x = keras.Input((width,))
        hidden = layers.Dense(width, activation="tanh")(x)
        self.net = keras.Model(x, [hidden, layers.Dense(width)(hidden)])
        self.first = keras.Model(x, hidden)

    def call(self, x):
        return self.net(x)[1] + self.first(x)

    def get_config(self):
        return {**super().get_config(), "width": self.width}


@case(
    "nesting-layer_holds_models",
    inputs=floats(4),
    targets=floats(2),
    custom_objects={"Holder": Holder},
)
def layer_holds_models() -> keras.Model:
    x = keras.Input((4,))
    return keras.Model(x, layers.Dense(2)(Holder(4)(x)))


@case("nesting-function", inputs=[floats(4), floats(4)], targets=floats(4), saveable=False)
def function() -> keras.Model:
    a, b = keras.KerasTensor((None, 4)), keras.KerasTensor((None, 4))
    blend = keras.Function([a, b], ops.sigmoid(a) * b, name="blend")
    x, y = keras.Input((4,)), keras.Input((4,))
    return keras.Model([x, y], blend([layers.Dense(4)(x), y]))


@case("nesting-untrainable_inside_trainable", inputs=floats(4), targets=floats(2))
def untrainable_inside_trainable() -> keras.Model:
    inner = _block(4, "inner")
    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(2)(inner(x)))
    inner.layers[1].trainable = False
    return model


@case("nesting-same_names_inside", inputs=floats(4), targets=floats(4))
def same_names_inside() -> keras.Model:
    def part(name: str) -> keras.Model:
        x = keras.Input((4,), name="x")
        return keras.Model(x, layers.Dense(4, name="dense")(x), name=name)

    x = keras.Input((4,), name="x")
    return keras.Model(x, layers.Dense(4, name="dense")(part("a")(x) + part("b")(x)))


@case("nesting-inner_mask", inputs=floats(5, 3), targets=floats(2))
def inner_mask() -> keras.Model:
    inner_x = keras.Input((5, 3))
    masked = layers.Masking(0.0)(inner_x)
    inner = keras.Model(inner_x, layers.LSTM(3, return_sequences=True)(masked), name="inner")
    x = keras.Input((5, 3))
    return keras.Model(x, layers.GRU(2)(inner(x)))
