"""Sources that read as their authors would have written them."""

import textwrap
from typing import Any

import keras
import pytest
from keras import layers, ops

import ramet
from test_emit import assert_clean, assert_public, bring_over, run

pytestmark = pytest.mark.one_backend  # The text is the same on all.


def written(build: Any, *expected: str) -> None:
    """Check the functions of a source, and that it builds the model again."""
    keras.utils.clear_session()
    model = build()
    source = ramet.emit(model)
    assert source.ok, source.differences
    code = source[source.index("def ") :]
    assert code == "\n\n".join(textwrap.dedent(text).strip() + "\n" for text in expected)
    assert_public(source)
    assert_clean(source)
    keras.utils.clear_session()
    twin = run(source)
    bring_over(model, twin)
    report = ramet.verify(model, twin)
    assert report.ok, str(report)


def distance() -> keras.Model:
    a, b = keras.Input((16,), name="a"), keras.Input((16,), name="b")
    near = ops.sum((a - b) ** 2, axis=-1, keepdims=True)
    part = a[:, :8] * 2.0 + b[:, 8:] / 3
    y = layers.Dense(8, activation="relu")(ops.concatenate([part, near], axis=-1))
    y = -(1 - y)
    y = ops.where(y > 0.5, y, ops.zeros_like(y))
    return keras.Model([a, b], layers.Dense(1)(y))


def test_operators_are_combined() -> None:
    written(
        distance,
        """
        def build_model():
            a = keras.Input((16,), name="a")
            b = keras.Input((16,), name="b")
            x = a[:, :8] * 2.0 + b[:, 8:] / 3
            y = keras.ops.sum((a - b) ** 2, axis=-1, keepdims=True)
            x = keras.ops.concatenate([x, y], axis=-1)
            x = keras.layers.Dense(8, activation="relu")(x)
            negative = -(1 - x)
            x = keras.ops.where(negative > 0.5, negative, keras.ops.zeros_like(negative))
            outputs = keras.layers.Dense(1)(x)
            return keras.Model([a, b], outputs)
        """,
    )


FORMULAS = """
    (x - y) * (x + y)
    x - (y - x)
    x - y - x
    x / (y * 2.0)
    x / y * 2.0
    (-x) ** 2
    -(x**2)
    -(x + y)
    (x**y) ** 2
    x ** (y**2)
    (x + y) ** 2
    x**2
    x * (1 / 3)
    x * 1e-5
    x + 1e-8
    2.0 ** (-x)
    x * -2.0
    (x > 0) != (y > 0)
    x @ y @ x
    x @ (y @ x)
    x[:, 0] - y[:, -1]
    x % 2 // y
    keras.ops.abs(x - y)
    keras.ops.cast(x > y, "float32")
    keras.ops.exp(x) / keras.ops.exp(y)
    x * keras.ops.mean(y, axis=1)
    keras.ops.cast(x, "int32")[:, None]
    keras.ops.maximum(x * 2, -y)
"""


@pytest.mark.parametrize("formula", [line.strip() for line in FORMULAS.strip().splitlines()])
def test_a_formula_is_written_as_it_was(formula: str) -> None:
    keras.utils.clear_session()
    x, y = (keras.Input(batch_shape=(4, 4), name=name) for name in "xy")
    z = eval(formula, {"x": x, "y": y, "keras": keras})  # noqa: S307 the texts above
    model = keras.Model([x, y], z)
    source = ramet.emit(model)
    lines = [line.strip() for line in source.splitlines() if " = " in line][2:]
    assert lines == [f"outputs = {formula}"]
    keras.utils.clear_session()
    assert_clean(source)
    twin = run(source)
    report = ramet.verify(model, twin)
    assert report.ok, f"{report}\n{source}"


def test_what_is_used_twice_or_returned_has_a_name() -> None:
    def build() -> keras.Model:
        x = keras.Input((4,), name="x")
        twice = x * 2.0
        shown = twice + 1.0
        return keras.Model(x, [shown, twice * shown])

    written(
        build,
        """
        def build_model():
            x = keras.Input((4,), name="x")
            multiply = x * 2.0
            add = multiply + 1.0
            multiply_1 = multiply * add
            return keras.Model(x, [add, multiply_1])
        """,
    )


def test_a_layer_is_counted_with_the_operation_before_it() -> None:
    def build() -> keras.Model:
        x = keras.Input((4,), name="x")
        y = x + 1.0
        return keras.Model(x, layers.Add()([y, x]))

    keras.utils.clear_session()
    model = build()
    source = ramet.emit(model)
    keras.utils.clear_session()
    assert run(source).layers[-1].name == model.layers[-1].name == "add_1"


def backbone() -> keras.Model:
    image = keras.Input((8, 8, 3))
    x = layers.Rescaling(1 / 127.5, offset=-1)(image)
    x = layers.RandomFlip("horizontal")(x)
    x = layers.RandomRotation(0.1)(x)
    x = layers.Conv2D(
        4,
        3,
        kernel_regularizer=keras.regularizers.L2(1e-4),
        bias_initializer=keras.initializers.Constant(0.1),
    )(x)
    base = keras.Model(image, layers.Normalization(mean=2.0, variance=1.0)(x), name="base")
    base.trainable = False
    picture = keras.Input((8, 8, 3), name="picture")
    y = layers.GlobalAveragePooling2D()(base(picture, training=False))
    return keras.Model(picture, layers.Dense(1, activation="sigmoid")(y), name="classifier")


def test_nested_models_come_first_and_are_frozen_by_name() -> None:
    keras.utils.clear_session()
    source = ramet.emit(backbone())
    assert source[source.index("def ") :] == textwrap.dedent("""\
        def build_base():
            inputs = keras.Input((8, 8, 3))
            x = keras.layers.Rescaling(2 / 255, offset=-1)(inputs)
            x = keras.layers.RandomFlip("horizontal")(x)
            x = keras.layers.RandomRotation(0.1)(x)
            x = keras.layers.Conv2D(
                4,
                3,
                bias_initializer=keras.initializers.Constant(0.1),
                kernel_regularizer=keras.regularizers.L2(0.0001),
            )(x)
            outputs = keras.layers.Normalization(mean=2.0, variance=1.0)(x)
            return keras.Model(inputs, outputs, name="base")


        def build_model():
            base = build_base()
            picture = keras.Input((8, 8, 3), name="picture")
            x = base(picture, training=False)
            x = keras.layers.GlobalAveragePooling2D()(x)
            outputs = keras.layers.Dense(1, activation="sigmoid")(x)
            model = keras.Model(picture, outputs, name="classifier")
            base.trainable = False
            return model
    """)
    assert_clean(source)
    assert not run(source).get_layer("base").trainable


def test_the_header_counts_layers_as_trace_does() -> None:
    keras.utils.clear_session()
    tokens = keras.Input((5,), dtype="int32")
    masked = layers.LSTM(2)(layers.Embedding(9, 3, mask_zero=True)(tokens))
    for model in (backbone(), distance(), keras.Model(tokens, masked)):
        counted = repr(ramet.trace(model)).split(": ")[1].split(",")[0]
        assert f": {counted}, from Keras {keras.__version__}.\n" in ramet.emit(model)


class Own(keras.Model):
    """A model that builds its graph in its own constructor."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        x = keras.Input((2,))
        super().__init__(x, layers.Dense(units)(x), **kwargs)
        self.units = units

    def get_config(self) -> dict[str, Any]:
        return {"units": self.units, "name": self.name}


def test_keras_is_imported_only_if_it_is_used() -> None:
    source = ramet.emit(Own(3, name="mine"))
    code = ["def build_model():", '    return Own(3, name="mine")']
    assert source.splitlines()[-5:] == [f"from {Own.__module__} import Own", "", "", *code]
    assert "import keras" not in source


def test_a_note_with_both_quotes_is_not_escaped() -> None:
    model = small()
    model.get_layer("head").note = 'it\'s "odd"\n'
    (line,) = [line for line in ramet.emit(model).splitlines() if "note" in line]
    assert line == f"#   layer 'head' has note {model.get_layer('head').note!r} and absent"


def small() -> keras.Model:
    x = keras.Input((2,), name="x")
    return keras.Model(x, layers.Dense(2, name="head")(x), name="small")
