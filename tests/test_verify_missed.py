"""What `verify` once missed, told badly, or found where nothing differs."""

import string
import types

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet

pytestmark = pytest.mark.filterwarnings("ignore")

STATIC = ("structure", "sharing", "state")


class Hold(layers.Layer):
    """Holds something that Keras does not track."""

    def __init__(self, held, **kwargs):
        super().__init__(**kwargs)
        object.__setattr__(self, "held", held)

    def call(self, x):
        return x


def holding(held) -> keras.Model:
    x = keras.Input((2,), name="x")
    return keras.Model(x, Hold(held, name="hold")(x), name="m")


def told(first, second, aspect="structure", **kwargs) -> tuple[str, ...]:
    return ramet.verify(first, second, only=aspect, **kwargs).check(aspect).differences


def clone_of(model: keras.Model) -> keras.Model:
    """A clone, which is the same in everything that can be read."""
    twin = ramet.clone(model)
    report = ramet.verify(model, twin, only=STATIC)
    assert report.ok, report
    return twin


# --- what a layer holds ----------------------------------------------------------------


def untracked(activation="relu", *, swapped=False, by=2.0) -> keras.Model:
    x = keras.Input((2,), name="x")
    a = layers.Dense(3, activation=activation, name="a", kernel_initializer="ones")(x)
    b = layers.Dense(3, activation=activation, name="b", kernel_initializer="ones")(x)
    return keras.Model(x, (a - b) * (b if swapped else a) * by, name="held")


def in_order(*names) -> keras.Model:
    parts = {
        "drop": layers.Dropout(0.5, seed=1),
        "relu": layers.ReLU(),
        "tanh": layers.Activation("tanh"),
    }
    return keras.Sequential([keras.Input((2,)), *(parts[name] for name in names)])


def test_models_that_are_not_tracked_are_read():
    model = holding(untracked())
    clone_of(model)
    assert not told(model, holding(untracked()))
    tanh = told(model, holding(untracked("tanh")))
    assert tanh[0] == "layer 'hold' has held.layers.1.activation relu and tanh"
    assert (
        "<Functional> and another <Functional>" in told(model, holding(untracked(swapped=True)))[0]
    )
    assert told(model, holding(untracked(by=3.0)))
    assert told(model, holding(untracked(by=2)))
    ordered = holding(in_order("drop", "relu", "tanh"))
    clone_of(ordered)
    assert told(ordered, holding(in_order("relu", "drop", "tanh")))
    assert told(ordered, holding(in_order("drop", "relu")))
    empty = [keras.Sequential([layers.Dense(units)]) for units in (2, 3)]
    assert told(*map(holding, empty)) == ("layer 'hold' has held.layers.0.units 2 and 3",)


class Text(str):  # noqa: SLOT000 it has attributes
    """A text with attributes."""


class Secret(int):
    def __repr__(self):
        return "secret"


class Noted(np.ndarray):
    """An array with attributes."""


def noted(note) -> np.ndarray:
    array = np.arange(3.0).view(Noted)
    array.note = note
    return array


def text(note) -> str:
    value = Text("x")
    value.note = note
    return value


def test_values_of_user_classes_have_attributes_and_numbers():
    for make, line in ((noted, "held.note"), (text, "held.note")):
        model = holding(make([1]))
        twin = clone_of(model)
        kept = [each.get_layer("hold").held for each in (model, twin)]
        assert type(kept[1]) is type(kept[0])
        assert kept[1].note == [1]
        assert kept[1].note is not kept[0].note
        assert told(model, holding(make([2]))) == (f"layer 'hold' has {line} [1] and [2]",)
    assert told(holding(Secret(1)), holding(Secret(2)))
    assert not told(holding(Secret(1)), holding(Secret(1)))
    assert told(holding(Text("x")), holding("x")) == (
        "layer 'hold' has held 'x' (Text) and 'x' (str)",
    )


def test_modules_are_the_same_only_if_they_are_one():
    modules = [types.ModuleType("settings") for _ in range(2)]
    assert told(*map(holding, modules))
    clone_of(holding(string))


def test_a_masked_array_keeps_its_mask():
    model = holding(np.ma.masked_array([1.0, 2.0], mask=[False, True], fill_value=7.0))
    twin = clone_of(model)
    twin.get_layer("hold").held[0] = np.ma.masked
    assert not model.get_layer("hold").held.mask[0]
    assert told(model, twin) == ("layer 'hold' has held._mask bool[2] and another bool[2]",)


def test_hooks_and_layouts_of_torch(backend):
    if backend != "torch":
        pytest.skip("only layers on PyTorch have hooks")
    torch = pytest.importorskip("torch")
    model = holding(None)
    twin = clone_of(model)
    twin.get_layer("hold").register_forward_hook(lambda *_: None)
    assert any("_forward_hooks absent and" in line for line in told(model, twin))
    clone_of(twin)
    modules = [torch.nn.ReLU() for _ in range(2)]
    for module in modules:
        module.register_forward_hook(untracked)
    assert not told(*map(holding, modules))
    tensors = torch.eye(2), torch.eye(2).to_sparse()
    assert told(*map(holding, tensors)) == (
        "layer 'hold' has held.layout torch.strided and torch.sparse_coo",
    )


# --- training --------------------------------------------------------------------------


def trained(*, extra=False, optimizer="adam") -> keras.Model:
    x = keras.Input((4,), name="x")
    y = layers.Dense(4, name="d", kernel_initializer="ones")(x)
    if extra:
        y = layers.Dense(4, name="extra", kernel_initializer="identity")(y)
    model = keras.Model(x, layers.Dense(2, name="o", kernel_initializer="ones")(y), name="m")
    model.compile(optimizer, "mse")
    model.fit(np.ones((2, 4)), np.ones((2, 2)), verbose=0)
    return model


def test_optimizers_know_variables_by_name():
    model = trained()
    own = keras.optimizers.AdamW(0.1), keras.optimizers.AdamW(0.1)
    for optimizer in own:
        optimizer.exclude_from_weight_decay(var_names=["bias"])
    found = told(trained(optimizer=own[0]), trained(extra=True, optimizer=own[1]))
    assert found == ("layer 'extra' (Dense) is in the second model only",)
    assert told(model, trained(extra=True)) == (
        "layer 'extra' (Dense) is in the second model only",
    )
    assert told(trained(extra=True), model) == ("layer 'extra' (Dense) is in the first model only",)
    state = told(model, trained(extra=True), "state")
    assert "optimizer variable 'momentums of extra/kernel' is in the second model only" in state


class Net(keras.Model):
    """Sets its layers in one order or the other."""

    def __init__(self, *, turned=False, **kwargs):
        super().__init__(**kwargs)
        for name in ("b", "a") if turned else ("a", "b"):
            setattr(self, name, layers.Dense(3, kernel_initializer="ones", name=name))

    def call(self, x):
        return self.b(self.a(x))


def test_slots_are_not_paired_by_position():
    models = [Net(name="net"), Net(turned=True, name="net")]
    for model in models:
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
        model.fit(np.ones((2, 5)), np.zeros((2, 3)), verbose=0)
    report = ramet.verify(*models, only=STATIC)
    assert report.ok, report


def test_what_fit_noted_is_no_difference(tmp_path):
    model = trained()
    model.save(tmp_path / "model.keras")
    assert not told(model, tmp_path / "model.keras")
    model.history = [1]
    assert told(model, tmp_path / "model.keras") == ("the model has history [1] and absent",)


def test_arguments_of_compile_that_were_set_later():
    model = trained()
    twin = clone_of(model)
    twin.steps_per_execution = 3
    assert told(model, twin) == ("the model was compiled with steps_per_execution 1 and 3",)


def test_flags_of_loops_are_those_of_models():
    model = holding(None)
    twin = clone_of(model)
    twin.get_layer("hold").stop_training = True
    assert told(model, twin) == ("layer 'hold' has stop_training absent and True",)


# --- what lines say --------------------------------------------------------------------


def scaled(by) -> keras.Model:
    x = keras.Input((2,), name="x")
    return keras.Model(x, layers.Lambda(lambda y: y * 0.0 * by, name="scale")(x), name="m")


def test_by_how_much_zeros_and_nans_differ():
    found = told(scaled(1.0), scaled(-1.0), "outputs")
    assert found == ("output 'scale' differs in 4 of 4 values, in the sign of zero",)
    models = holding(keras.Variable([0.0, 1.0])), holding(keras.Variable([-0.0, 1.0]))
    assert told(*models, "state") == (
        "variable 'hold/held' differs in 1 of 2 values, in the sign of zero",
    )
    layer = layers.Dense(1, name="d", bias_initializer="zeros")
    x = keras.Input((2,), name="x")
    model = keras.Model(x, layer(x), name="m")
    twin = clone_of(model)
    twin.get_layer("d").bias.assign([-0.0])
    assert [entry.text for entry in ramet.diff(model, twin).entries] == [
        "bias differs in 1 of 1 values, in the sign of zero"
    ]


def multiplied(by) -> keras.Model:
    x = keras.Input((2,), name="x")
    return keras.Model(x, ops.multiply(x, by), name="m")


def test_arrays_in_calls_are_told_apart():
    found = told(multiplied(np.ones(2, "float32")), multiplied(np.zeros(2, "float32")))
    assert found[-1].endswith("has x2 float32[2] and another float32[2]")


def wide(units) -> keras.Model:
    x = keras.Input((2,), name="x")
    y = layers.BatchNormalization(name="bn")(layers.Dense(units, name="d")(x))
    head = layers.TimeDistributed(layers.Dense(1, name="inner"), name="words")
    return keras.Model(x, head(layers.Reshape((1, units), name="r")(y)), name="m")


def test_what_follows_from_another_shape_is_not_told():
    found = told(wide(3), wide(4))
    assert not any("_input_spec" in line for line in found)
    assert "layer 'd' has units 3 and 4" in found
    nets = Net(name="net"), Net(name="net")
    for net, size in zip(nets, (4, 5), strict=True):
        net(np.ones((1, size), "float32"))
    assert told(*nets) == ("layer 'a' has _input_spec.axes[-1] 4 and 5",)


def test_a_layer_that_became_several_is_told_with_both():
    one = layers.Dense(2, name="one")
    x = keras.Input((2,), name="x")
    tied = keras.Model(x, one(one(x)), name="m")
    x = keras.Input((2,), name="x")
    y = layers.Dense(2, name="one")(x)
    untied = keras.Model(x, layers.Dense(2, activation="relu", name="two")(y), name="m")
    found = told(tied, untied)
    assert found == ("layer 'one' ('two' in the second model) has activation linear and relu",)


def test_options_of_compiled_functions(backend):
    def function(x):
        return x

    if backend == "jax":
        jit = pytest.importorskip("jax").jit
        compiled = jit(function), jit(function, static_argnums=0)
        line = "layer 'hold' has held.static_argnums () and (0,)"
    elif backend == "tensorflow":
        compile_ = pytest.importorskip("tensorflow").function
        compiled = compile_(function), compile_(function, jit_compile=True)
        line = "layer 'hold' has held.jit_compile None and True"
    else:
        pytest.skip("PyTorch's compiled functions are objects of their own")
    clone_of(holding(compiled[0]))
    assert line in told(*map(holding, compiled))


def test_default_values_of_tables(backend):
    if backend != "tensorflow":
        pytest.skip("tables are TensorFlow's")
    lookup = pytest.importorskip("tensorflow").lookup
    tables = [
        lookup.StaticHashTable(lookup.KeyValueTensorInitializer(["a"], [1]), default)
        for default in (0, 5)
    ]
    assert told(*map(holding, tables))[0].startswith("layer 'hold' has held.default_value")


# --- calls -----------------------------------------------------------------------------


class Options:
    """What a call is called on."""

    def __init__(self, by):
        self.by = by


class Times(layers.Layer):
    def compute_output_spec(self, x, **_):
        return keras.KerasTensor(x.shape, x.dtype)

    def call(self, x, options=None, variable=None):
        if options is not None:
            x = x * options.by
        return x if variable is None else x * ops.convert_to_tensor(variable)


def called_on(**arguments) -> keras.Model:
    x = keras.Input((2,), name="x")
    return keras.Model(x, Times(name="times")(x, **arguments), name="m")


def test_objects_that_a_call_is_called_on():
    model = called_on(options=Options(1.0))
    clone_of(model)
    assert told(model, called_on(options=Options(1.0))) == ()
    assert told(model, called_on(options=Options(2.0))) == (
        "call 'times' has options.by 1.0 and 2.0",
    )
    assert not ramet.diff(model, called_on(options=Options(1.0)))


def test_variables_that_a_call_is_called_on():
    values = np.ones(2, "float32"), np.ones(2, "float32"), np.zeros(2, "float32")
    model, same, other = (called_on(variable=keras.Variable(value)) for value in values)
    clone_of(model)
    assert told(model, same, "state") == ()
    assert told(model, other, "state") == (
        "variable 'times/variable' differs in 2 of 2 values, by 1",
    )
    assert not ramet.diff(model, same)


class Around(keras.Model):
    """A model without a graph around one that has one."""

    def __init__(self, inner, **kwargs):
        super().__init__(**kwargs)
        self.inner = inner

    def call(self, x):
        return self.inner(x)


def test_wiring_inside_a_model_without_a_graph():
    models = [Around(untracked(by=by), name="around") for by in (2.0, 3.0)]
    clone_of(models[0])
    assert any(line.endswith("has x2 2.0 and 3.0") for line in told(*models))
