"""Models written as source, and the source run."""

from __future__ import annotations

import ast
import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
import zoo
from ramet.tracing.trace import has_graph
from zoo import Case, sample_for_backend

pytestmark = pytest.mark.sampled

CASES = sample_for_backend(keras.backend.backend())

REFUSED = {
    "layers-shared_seed_generator": "two layers draw from one generator that was given to both",
    "layers-lambda_layer_closure": "a lambda reads a layer of the model",
    "preprocessing-string_lookup_tf_idf": "the weights of its words come from data",
    "sequential-subclass": "its own constructor has an argument that it does not keep",
    "state-lora_einsum_in_attention": "LoRA inside of an attention layer, put in later",
    "state-quantized_float8": "its weights stand in another order",
    "state-variable_shared_by_layers": "a layer was given a variable of another",
    "subclass-functional_keeps_tensors": "its constructor has positional arguments, not kept",
    "subclass-functional_no_config": "the layers that its constructor makes are named by counting",
}
"""Models that no source can make."""

NOTED = {
    "layers-remat": "a scope around the author's calls",
    "preprocessing-normalization_inverted": "built by adapt, not by the model",
    "preprocessing-discretization_adapted": "a summary of data",
    "preprocessing-feature_space": "inputs in a container of Keras's own",
    "preprocessing-lookup_outside_graph": "an attribute set later",
    "sequential-nested": "built by the outer model",
    "state-quantized_int4": "a tuple that is a list",
    "state-attributes_set_later": "attributes set later",
    "state-untracked_variable": "an attribute set later",
    "structure-feature_extractor": "cut out of a Sequential model",
}
"""Models with something that the source does not say, and says so."""

VERSION = tuple(int(part) for part in keras.__version__.split(".")[:2])
if VERSION < (3, 14):
    del NOTED["state-quantized_int4"]
if VERSION < (3, 13):
    NOTED["structure-optional_given"] = "configs of inputs lack `optional`"

NUMBERS_APART = {
    "recurrent-stateful": "states are no weights",
    "recurrent-stateful_trained": "states are no weights",
}
"""Models that compute something else until more than their weights is brought over."""


NEVER_FIRST = {"state-changed_hyperparameters": "it names a layer as the first one is counted"}
"""Models that cannot be made in a fresh session."""


@pytest.fixture(scope="module", autouse=True)
def _quick_compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have JAX compile each program once, and simply: model and twin are the same program."""
    if keras.backend.backend() != "jax":
        yield
        return
    import jax

    settings = {
        "jax_disable_most_optimizations": True,
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("jax")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: jax.config.values[name] for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def run(source: ramet.Source) -> Any:
    """Run a source, and return the model that it makes."""
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102 it was just written by ramet
    return names["build_model"](**source.parameters)


def bring_over(model: Any, twin: Any) -> None:
    """Give a model the weights of another one, and its seeds."""
    twin.set_weights(model.get_weights())
    for old, new in zip(model.variables, twin.variables, strict=True):
        new.assign(old)
    for layer in twin._flatten_layers():
        if isinstance(layer, layers.Normalization):
            layer.finalize_state()


def assert_public(source: str) -> None:
    """No private name of Keras, no private attribute, and no function but those of models."""
    assert "keras.src" not in source
    for node in ast.walk(ast.parse(source)):
        assert not isinstance(node, ast.Attribute) or not node.attr.startswith("_"), source
        assert not isinstance(node, ast.FunctionDef) or node.name.startswith("build_"), source


def assert_clean(source: str) -> None:
    """No line is too long, and no name is unused or undefined."""
    ast.parse(source)
    assert source.isascii()
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    if ruff:
        for command in (["check", "--select=E,F,W,I"], ["format", "--check"]):
            done = subprocess.run(  # noqa: S603 ruff, on text
                [ruff, *command, "--isolated", "--ignore=E501", "-"]
                if command[0] == "check"
                else [ruff, *command, "--isolated", "-"],
                input=source,
                text=True,
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr + source


def small_model() -> keras.Model:
    x = keras.Input((8, 8, 3), name="image")
    y = layers.Conv2D(4, 3, padding="same", name="stem")(x)
    z = layers.BatchNormalization(name="norm")(y)
    z = layers.ReLU(name="relu")(z)
    y = layers.Add(name="sum")([y, z])
    y = layers.GlobalAveragePooling2D(name="pool")(y)
    y = keras.ops.multiply(y, 0.5)
    start = keras.initializers.HeNormal(seed=3)
    y = layers.Dense(2, activation="softmax", kernel_initializer=start, name="head")(y)
    model = keras.Model(x, y, name="small")
    model.get_layer("stem").trainable = False
    model.get_layer("head").trainable = True
    return model


SMALL = """\
def build_model():
    image = keras.Input((8, 8, 3), name="image")
    stem = keras.layers.Conv2D(4, 3, padding="same", name="stem")(image)
    x = keras.layers.BatchNormalization(name="norm")(stem)
    x = keras.layers.ReLU(name="relu")(x)
    x = keras.layers.Add(name="sum")([stem, x])
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    x = x * 0.5
    outputs = keras.layers.Dense(
        2,
        activation="softmax",
        kernel_initializer=keras.initializers.HeNormal(seed=3),
        name="head",
    )(x)
    model = keras.Model(image, outputs, name="small")
    model.get_layer("stem").trainable = False
    return model
"""


def test_golden_chain_with_a_branch() -> None:
    model = small_model()
    source = ramet.emit(model)
    assert source[source.index("def build_model") :] == SMALL
    assert source.startswith("# Model 'small': 8 layers, from Keras ")
    assert source.parameters == {}
    assert source.differences == ()
    assert_clean(source)


def siamese() -> keras.Model:
    x = keras.Input((5,), dtype="int32", name="tokens")
    y = layers.Embedding(9, 3, mask_zero=True, name="embed")(x)
    encoder = keras.Model(x, layers.LSTM(2, name="lstm")(y), name="encoder")
    a, b = (keras.Input((5,), dtype="int32", name=name) for name in ("left", "right"))
    gate = layers.Dense(2, activation="sigmoid", name="gate")
    joined = layers.Lambda(lambda pair: pair[0] - pair[1], name="minus")(
        [gate(encoder(a)), gate(encoder(b))]
    )
    outputs = {"score": layers.Dense(1, name="score")(joined), "joined": joined}
    return keras.Model({"left": a, "right": b}, outputs, name="siamese")


SIAMESE = """\
def build_encoder():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(9, 3, mask_zero=True, name="embed")(tokens)
    outputs = keras.layers.LSTM(2)(x)
    return keras.Model(tokens, outputs, name="encoder")


def build_model(*, minus_function):
    encoder = build_encoder()
    left = keras.Input((5,), dtype="int32", name="left")
    right = keras.Input((5,), dtype="int32", name="right")
    x = encoder(left)
    gate = keras.layers.Dense(2, activation="sigmoid", name="gate")
    x = gate(x)
    y = encoder(right)
    y = gate(y)
    minus = keras.layers.Lambda(minus_function, name="minus")([x, y])
    score = keras.layers.Dense(1, name="score")(minus)
    return keras.Model(
        {"left": left, "right": right},
        {"score": score, "joined": minus},
        name="siamese",
    )
"""


def test_golden_nested_shared_and_a_parameter() -> None:
    model = siamese()
    source = ramet.emit(model, names="exact")
    inner = ramet.trace(model).layers["encoder"].graph
    assert inner is not None
    operation = next(name for name in inner.calls if name.startswith("not_equal"))
    naming = f'    name_operations([tokens], [outputs], ["{operation}"])\n'
    before, after = SIAMESE.split("    return", 1)
    expected = f"{before}{naming}    return{after}".replace("LSTM(2)", 'LSTM(2, name="lstm")')
    assert source[source.index("def build_encoder") :] == expected
    assert_clean(source)
    source = ramet.emit(model)
    assert source[source.index("def build_encoder") :] == SIAMESE
    assert "#   minus_function: the function that 'minus' uses" in source
    assert source.parameters == {"minus_function": model.get_layer("minus").function}
    assert_clean(source)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_model_of_the_zoo(case: Case) -> None:
    if case.name not in NEVER_FIRST:
        keras.utils.clear_session(free_memory=False)
    model = case.build()
    if not has_graph(model):
        with pytest.raises(ramet.ModelError, match="graph"):
            ramet.emit(model)
        return
    if case.name in REFUSED:
        with pytest.raises(ramet.SourceError, match=r"layer '|model '"):
            ramet.emit(model)
        return
    source = ramet.emit(model)
    assert_public(source)
    twin = run(source)
    bring_over(model, twin)
    if case.name not in NUMBERS_APART:
        assert bool(source.differences) == (case.name in NOTED), source.differences
        given = case.inputs(np.random.default_rng(0))
        # Keras takes the sparse matrices of SciPy in fit and predict only.
        report = ramet.verify(model, twin, inputs=None if hasattr(given, "tocsr") else given)
        for check in report.checks[-2:]:
            assert check.ok, f"{check.differences}\n{source}"


# JAX compiles each of them for half a minute, operation by operation.
ON_JAX = ("ResNet50",)
SELECTION = ("ResNet50", "MobileNetV2", "MobileNetV3Small", "EfficientNetB0")


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ON_JAX if keras.backend.backend() == "jax" else SELECTION)
def test_keras_applications(name: str) -> None:
    keras.utils.clear_session()
    make = getattr(keras.applications, name)
    model = make(weights=None, classes=3, input_shape=(32, 32, 3))
    source = ramet.emit(model, check=False)
    keras.utils.clear_session()
    twin = run(source)
    bring_over(model, twin)
    report = ramet.verify(model, twin)
    assert report.ok, str(report)
    assert source.parameters == {}
    assert_clean(source)


def test_an_edited_graph() -> None:
    graph = ramet.trace(small_model()).replace("relu", layers.ELU(name="elu"))
    source = ramet.emit(graph, names="exact")
    assert 'keras.layers.ELU(name="elu")' in source
    assert run(source).get_layer("elu").alpha == 1.0


def test_a_local_class_a_large_constant_and_an_activation_are_parameters() -> None:
    class Scale(layers.Layer):
        def __init__(self, factor, **kwargs):
            super().__init__(**kwargs)
            self.factor = factor

        def call(self, x):
            return x * self.factor

        def get_config(self):
            return {**super().get_config(), "factor": self.factor}

    def bend(x):
        return ops.maximum(x, 0.1 * x)

    keras.utils.clear_session(free_memory=False)
    x = keras.Input((6,), name="x")
    table = np.arange(36, dtype="float32").reshape(6, 6)
    y = ops.matmul(layers.Dense(6, activation=bend, name="dense")(x), table)
    model = keras.Model(x, Scale(2.0, name="scale")(y), name="odd")
    source = ramet.emit(model)
    keras.utils.clear_session(free_memory=False)
    assert source.parameters["bend"] is bend
    assert source.parameters["Scale"] is Scale
    assert any(value is table for value in source.parameters.values())
    assert "Scale(2.0)" in source
    twin = run(source)
    bring_over(model, twin)
    assert ramet.verify(model, twin).ok
    assert_clean(source)


def test_what_is_set_later_is_told() -> None:
    model = small_model()
    model.get_layer("head").note = "keep"
    source = ramet.emit(model)
    assert source.differences == ("layer 'head' has note 'keep' and absent",)
    assert "# What the source does not say:\n#   layer 'head' has note" in source
    assert ramet.emit(model, check=False).differences == ()


def test_an_initializer_that_needs_an_argument() -> None:
    start = keras.initializers.Constant(0.5)
    model = keras.Sequential([keras.Input((2,)), layers.Dense(2, bias_initializer=start)])
    source = ramet.emit(model)
    assert "bias_initializer=keras.initializers.Constant(0.5)" in source
    assert source.differences == ()


def test_frozen_inside() -> None:
    model = siamese()
    model.get_layer("encoder").trainable = False
    model.get_layer("encoder").get_layer("lstm").trainable = True
    source = ramet.emit(model)
    assert source.differences == ()
    twin = run(source)
    assert [v.trainable for v in twin.weights] == [v.trainable for v in model.weights]


def test_names_that_python_has_and_names_that_operations_take() -> None:
    x = keras.Input((4,), name="class")
    _ = x * 2.0  # so that the next product is not called `multiply`
    y = layers.Dense(4, name="lambda")(x)
    y = layers.Add(name="multiply")([x, y * 2.0])
    model = keras.Model(x, [y, layers.Dense(2, name="2nd-head")(y)], name="for")
    with pytest.raises(ramet.SourceError, match=r"layer 'multiply' has the name .*names=\"exact\""):
        ramet.emit(model, check=False)
    source = ramet.emit(model, names="exact")
    assert "class_ = keras.Input" in source
    twin = run(source)
    bring_over(model, twin)
    assert ramet.verify(model, twin).ok
    assert_clean(source)


@pytest.mark.parametrize("given", [None, 3, layers.Dense(2)])
def test_what_is_no_model(given: Any) -> None:
    with pytest.raises(ramet.ModelError, match="expected a Keras model"):
        ramet.emit(given)


def test_a_function_that_reads_the_model_is_refused() -> None:
    x = keras.Input((4,))
    dense = layers.Dense(4, name="tied")
    y = layers.Lambda(lambda t: ops.matmul(t, dense.kernel), name="again")(dense(x))
    with pytest.raises(ramet.SourceError, match="layer 'again' holds a function or variable"):
        ramet.emit(keras.Model(x, y))


def test_the_lists_name_models_of_the_zoo() -> None:
    assert {*REFUSED, *NOTED, *NUMBERS_APART, *NEVER_FIRST} <= zoo.CASES.keys()


def unnamed() -> keras.Model:
    x = keras.Input((4, 3))
    y = layers.Bidirectional(layers.GRU(2, return_sequences=True))(x)
    y = layers.Conv1D(4, 3, strides=2, padding="same")(y)
    y = layers.LayerNormalization()(y)
    y = layers.MultiHeadAttention(2, 2, dropout=0.5)(y, y) + y
    y = layers.Dropout(0.5)(layers.Add()([y, -y / 2.0]))
    return keras.Model(x, layers.Dense(2)(y))


UNNAMED = """\
def build_model():
    inputs = keras.Input((4, 3))
    x = keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True))(inputs)
    x = keras.layers.Conv1D(4, 3, strides=2, padding="same")(x)
    layer_normalization = keras.layers.LayerNormalization()(x)
    x = keras.layers.MultiHeadAttention(2, 2, dropout=0.5)(
        layer_normalization, layer_normalization
    )
    add = x + layer_normalization
    x = -add / 2.0
    x = keras.layers.Add()([add, x])
    x = keras.layers.Dropout(0.5)(x)
    outputs = keras.layers.Dense(2)(x)
    return keras.Model(inputs, outputs)
"""


def test_golden_without_names() -> None:
    keras.utils.clear_session(free_memory=False)
    model = unnamed()
    source = ramet.emit(model)
    assert source[source.index("def build_model") :] == UNNAMED
    assert "# Names that are left out are automatic ones, as in a fresh session." in source
    assert source.differences == ()
    assert ramet.emit(model, check=False)[-len(UNNAMED) :] == UNNAMED
    assert_clean(source)
    keras.utils.clear_session(free_memory=False)
    twin = run(source)
    assert [layer.name for layer in twin.layers] == [layer.name for layer in model.layers]
    run(source)  # and in a session that has counted before


def test_names_that_were_counted_in_a_long_session_are_written() -> None:
    layers.Dense(1), layers.Dense(1)
    x = keras.Input((3,), name="x")
    model = keras.Model(x, layers.Dense(2)(layers.Dense(3)(x)))
    names = [layer.name for layer in model.layers]
    source = ramet.emit(model)
    assert [layer.name for layer in run(source).layers] == names
    assert [f'name="{name}"' in source for name in names] == [True] * 3


def test_layers_that_are_found_by_name_are_named() -> None:
    keras.utils.clear_session(free_memory=False)
    x = keras.Input((3,))
    model = keras.Model(x, layers.ReLU()(layers.Dense(2)(layers.Dense(3)(x))))
    model.layers[1].trainable = False
    source = ramet.emit(model)
    assert source.count("name=") == 2
    for _ in range(2):  # also where Keras counts on
        assert [layer.trainable for layer in run(source).layers][1:3] == [False, True]


def test_an_automatic_name_that_an_operation_could_get() -> None:
    keras.utils.clear_session(free_memory=False)
    x = keras.Input((3,), name="x")
    layers.Add(), layers.Add()
    model = keras.Model(x, layers.Add()([x, x + 1.0]), name="sums")
    source = ramet.emit(model)
    assert model.layers[-1].name == "add_2"
    assert "keras.layers.Add()([x, y])" in source
    assert len(source.differences) == 1
    assert "layer 'add_2' is named by counting" in source.differences[0]
    assert ramet.emit(model, check=False).differences == source.differences
    run(source)
    exact = ramet.emit(model, names="exact")
    assert exact.differences == ()
    assert [one.name for one in run(exact).operations] == [one.name for one in model.operations]


def test_the_number_of_layers_is_the_one_of_the_graph(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    outer = siamese()
    for model in (small_model(), outer, outer.get_layer("encoder"), unnamed()):
        count = str(ramet.trace(model)).split(": ")[1].split(",")[0]
        assert f"# Model '{model.name}': {count}, from Keras" in ramet.emit(model)
    inner = str(ramet.trace(outer.get_layer("encoder"))).split(": ")[1].split(",")[0]
    ramet.show(outer)
    assert f"Functional ({inner})" in capsys.readouterr().out


def test_a_loaded_model_with_masks_is_accused_of_nothing(tmp_path: Path) -> None:
    keras.utils.clear_session(free_memory=False)
    x = keras.Input((5,), dtype="int32")
    y = layers.Embedding(9, 3, mask_zero=True)(x)
    keras.Model(x, layers.LSTM(2)(layers.Concatenate()([y, y]))).save(tmp_path / "m.keras")
    model = keras.saving.load_model(tmp_path / "m.keras")
    for names in ("given", "exact"):
        told = ramet.emit(model, names=names).differences
        assert not told


SABOTAGES = {
    "an operation": ("x * 0.5", "x + 0.5", "layer 'multiply.*' has class Multiply and Add"),
    "a constant": ("x * 0.5", "x * 0.25", "call 'multiply.*' has x2 0.5 and 0.25"),
    "an operand": ("x * 0.5", "0.5 * x", "call 'multiply.*' has x1 'pool' and 0.5"),
    "an option": ("axis=-2", "axis=-3", "layer 'flip.*' has axis -2 and -3"),
    "wiring": (
        "([stem, x])",
        "([x, stem])",
        "call 'sum' has inputs .'stem', 'relu'. and .'relu', 'stem'",
    ),
    "an argument": ('"softmax"', '"relu"', "layer 'head' has activation softmax and relu"),
    "a name": ('name="pool"', 'name="pond"', "layer 'pool' has name 'pool' and 'pond'"),
    "a flag": ("= False", "= True", "layer 'stem' has trainable False and True"),
    "a layer": ("keras.layers.ReLU", "keras.layers.ELU", "layer 'relu' has class ReLU and ELU"),
    "sharing": (
        "    x = keras.layers.ReLU",
        '    x = keras.layers.BatchNormalization(name="again")(x)\n    x = keras.layers.ReLU',
        "has other weights than a newly constructed one",
    ),
    "syntax": ("return model", "return modal", "running it fails with NameError"),
}
"""What is written otherwise, and what the check says to it."""


@pytest.mark.parametrize("what", SABOTAGES)
@pytest.mark.parametrize("names", ["given", "exact"])
def test_the_check_can_fail(what: str, names: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, message = SABOTAGES[what]
    model = small_model()
    if what == "an option":
        flipped = ops.flip(model.get_layer("relu").output, axis=-2)
        model = keras.Model(model.input, flipped, name="flipped")
    from ramet import _emit

    lay_out = _emit.laid_out

    def sabotaged(*args: Any) -> list[str]:
        text = "\n".join(lay_out(*args))
        assert old in text
        return text.replace(old, new).split("\n")

    monkeypatch.setattr(_emit, "laid_out", sabotaged)
    try:
        told = "\n".join(ramet.emit(model, names=names).differences)
    except ramet.SourceError as error:
        told = str(error)
    assert re.search(message, told), told


@pytest.mark.parametrize("names", ["exakt", "", None, True])
def test_which_names(names: Any) -> None:
    hint = "; did you mean 'exact'[?]" if names == "exakt" else ""
    with pytest.raises(ramet.OptionError, match=f"unknown names=.*'given', 'exact'{hint}$"):
        ramet.emit(small_model(), names=names)


def test_nothing_is_left_behind() -> None:
    with contextlib.suppress(AttributeError):
        keras.utils.clear_session()
    model = small_model()
    before = layers.Dense(1).name
    ramet.emit(model)
    number = int(before.rpartition("_")[2]) + 1 if before != "dense" else 1
    assert layers.Dense(1).name == f"dense_{number}"
