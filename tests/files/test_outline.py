"""Files with classes that nobody has are looked at as far as they say what they hold."""

import json
import sys
import zipfile

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet.errors import FileError, OptionError
from ramet.files.look import look
from test_cli import run  # noqa: F401 a fixture

pytestmark = pytest.mark.one_backend


@keras.saving.register_keras_serializable("lab")
class Twist(layers.Layer):
    """A layer with a weight, a layer inside, and two outputs."""

    def __init__(self, angles=3, **options):
        super().__init__(**options)
        self.angles = angles

    def build(self, shape):
        self.angle = self.add_weight(shape=(shape[-1], self.angles), name="angle")
        self.dense = layers.Dense(self.angles)
        self.dense.build((None, self.angles))

    def call(self, x):
        return self.dense(x @ self.angle), x

    def compute_output_spec(self, x):
        return keras.KerasTensor((*x.shape[:-1], self.angles), x.dtype), keras.KerasTensor(
            x.shape, x.dtype
        )

    def get_config(self):
        return {**super().get_config(), "angles": self.angles}


@keras.saving.register_keras_serializable("lab")
class Double(layers.Layer):
    """A layer with one output of the shape of its input."""

    def call(self, x):
        return 2 * x

    def compute_output_shape(self, shape):
        return shape


@keras.saving.register_keras_serializable("lab")
class Net(keras.Model):
    """A functional subclass."""


@keras.saving.register_keras_serializable("lab")
class Plain(keras.Model):
    """A model whose graph only its code knows."""

    def __init__(self, **options):
        super().__init__(**options)
        self.dense = layers.Dense(2)

    def call(self, x):
        return self.dense(x)


@keras.saving.register_keras_serializable("lab")
def bent(x):
    return x * keras.ops.tanh(x)


@keras.saving.register_keras_serializable("lab")
class Small(keras.initializers.Initializer):
    """An initializer."""

    def __call__(self, shape, dtype=None):
        return keras.ops.full(shape, 0.1, dtype)


def twisted(angles=3, units=2, head="head"):
    x = keras.Input((4,), name="x")
    first, second = Twist(angles, name="twist")(layers.Dense(4, name="in")(x))
    y = layers.Concatenate(name="both")([first, second])
    inner_x = keras.Input((4 + angles,), name="inner_x")
    inner = Net(inner_x, Twist(name="last")(inner_x)[0], name="inner")
    return Net(x, layers.Dense(units, name=head)(inner(y)), name="net")


def plain():
    return keras.Sequential([keras.Input((3,)), layers.Dense(2, name="dense")], name="plain")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outline")
    keras.utils.set_random_seed(0)
    model = twisted()
    model.save(folder / "model.keras")
    plain().save(folder / "plain.keras")
    twisted(angles=5, head="logits").save(folder / "other.keras")
    angle = model.get_layer("twist").angle
    angle.assign(angle + 1)
    model.save(folder / "trained.keras")
    subclassed = Plain(name="subclassed")
    subclassed(keras.ops.ones((1, 3)))
    subclassed.save(folder / "subclassed.keras")
    return folder


def test_an_outline_has_names_connections_and_weights(models):
    model, foreign = look(models / "model.keras")
    graph = ramet.trace(model)
    assert {layer.kind for layer in graph.layers.values()} >= {"Twist", "Net", "Dense"}
    assert graph.calls["both"].refs[0].call == "twist"
    assert [ref.index for ref in graph.calls["both"].refs] == [0, 1]
    assert graph.calls["twist"].outputs[0].shape == (None, 3)
    assert graph.layers["inner"].graph is not None
    assert any("Twist" in name for name in foreign)
    twist = model.get_layer("twist")
    assert [tuple(weight.shape) for weight in twist.weights] == [(4, 3), (3, 3), (3,)]
    assert type(twist) is not Twist


def test_an_outline_has_the_values_of_all_weights(models):
    model = keras.saving.load_model(models / "model.keras")
    outline, _ = look(models / "model.keras")
    for name in ("in", "twist", "head"):
        for ours, theirs in zip(
            outline.get_layer(name).weights, model.get_layer(name).weights, strict=True
        ):
            np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (ours, theirs)))


def test_diff_pairs_layers_of_unknown_classes(models):
    paths = [models / name for name in ("model.keras", "other.keras", "trained.keras")]
    assert ramet.diff(paths[0], paths[0]).ok
    changes = ramet.diff(paths[0], paths[1])
    texts = {(entry.kind, entry.where): entry.text for entry in changes}
    assert texts["renamed", "head"] == "now 'logits'"
    assert "angles=3 is now 5" in texts["config", "twist"]
    (entry,) = ramet.diff(paths[0], paths[2]).entries
    assert (entry.kind, entry.where) == ("weights", "twist")
    assert "weight_0 differs" in entry.text
    assert any("is an outline" in note for note in changes.notes)
    assert "is an outline" in str(changes)


def test_diff_of_a_file_with_unknown_classes_and_one_without(models):
    changes = ramet.diff(models / "model.keras", models / "plain.keras")
    assert {entry.where for entry in changes.of("removed")} >= {"twist", "both"}
    assert len(changes.notes) == 1
    assert ramet.diff(models / "plain.keras", models / "model.keras").of("added")


def test_profile_counts_what_is_known(models):
    profile = ramet.profile(models / "model.keras", batch=2)
    costs = {call.path: call for call in profile.calls}
    assert costs["in"].macs == 2 * 4 * 4
    assert costs["twist"].uncounted
    assert costs["twist"].params == 12 + 9 + 3
    assert costs["twist"].outputs == ((2, 3), (2, 4))
    assert profile.params == twisted().count_params()
    assert "at least" in str(profile)
    assert any("is an outline" in note for note in profile.notes)
    with pytest.raises(OptionError, match=r"time of layers cannot be measured where '.*outline"):
        ramet.profile(models / "model.keras", time=True)


def test_show_says_what_it_knows_and_loads_nothing(run):  # noqa: F811 the fixture
    text = run("show", "model.keras")
    assert "Twist" in text
    assert "is an outline: " in text
    assert "use --trust" in text
    data = run("show", "model.keras", "--json")
    (twist,) = (call for call in data["calls"] if call["name"] == "twist")
    assert twist["parameters"] == 24
    assert data["note"]
    assert "outline" not in run("show", "plain.keras")


def test_pages_of_outlines(run, models):  # noqa: F811 the fixture
    assert "outline" in run("show", "model.keras", "--to", models / "model.html")
    page = (models / "model.html").read_text(encoding="utf-8")
    assert "Twist" in page
    assert "is an outline" in page
    run("show", "model.keras", "--to", models / "model.svg")
    run("show", "model.keras", "--to", models / "cost.html", "--cost", "macs")


def test_the_command_line_compares_and_counts(run, models):  # noqa: F811 the fixture
    assert "renamed" in run("diff", "model.keras", "other.keras", code=1)
    data = run("diff", "model.keras", "plain.keras", "--json", code=1)
    assert data["diff"]["notes"]
    assert run("diff", "model.keras", "model.keras", "--json")["same"]
    assert "at least" in run("profile", "model.keras")
    assert run("profile", "model.keras", "other.keras", "--json")
    assert "logits" in run("show", "model.keras", "other.keras")
    assert "twist" in run("show", "model.keras", "plain.keras")
    run("show", "model.keras", "other.keras", "--to", models / "diff.html")


def test_python_takes_paths(models, capsys):
    ramet.show(models / "model.keras")
    assert "is an outline" in capsys.readouterr().out
    ramet.show(models / "model.keras", models / "other.keras")
    assert "renamed from 'head'" in " ".join(capsys.readouterr().out.split())


def test_other_commands_still_refuse(run):  # noqa: F811 the fixture
    assert "not part of Keras" in run("clone", "model.keras", "new.keras", code=2)
    assert "not part of Keras" in run("verify", "model.keras", "model.keras", code=2)
    text = run("masks", "model.keras", code=2)
    assert "only its code says what it does with masks" in text
    assert "use --trust and use --import for the class" in text


def test_what_has_no_graph_lists_its_weights(run, models):  # noqa: F811 the fixture
    with pytest.raises(FileError, match="how its layers are connected: only the code of"):
        look(models / "subclassed.keras")
    with pytest.raises(FileError, match=r"only the code of .*Plain.* does; .ramet show. lists"):
        ramet.profile(models / "subclassed.keras")
    text = run("show", "subclassed.keras")
    assert "dense/0" in text
    assert "(3, 2)" in text
    data = run("show", "subclassed.keras", "--json")
    assert data["weights"][0] == {"path": "dense/0", "shape": [3, 2], "dtype": "float32"}


def test_parts_of_layers_of_keras_may_be_unknown(tmp_path):
    x = keras.Input((5, 4), name="x")
    y = layers.Dense(3, activation=bent, kernel_initializer=Small(), name="dense")(x)
    y = layers.TimeDistributed(Double(name="twice"), name="each")(y)
    y = layers.Lambda(lambda z: z + 1, name="plus")(y)
    keras.Model(x, y, name="odd").save(tmp_path / "odd.keras")
    model, foreign = look(tmp_path / "odd.keras")
    assert len(foreign) == 4
    profile = ramet.profile(tmp_path / "odd.keras")
    costs = {call.path: call for call in profile.calls}
    assert costs["dense"].macs == 5 * 4 * 3
    assert costs["each"].uncounted
    assert costs["plus"].uncounted
    assert costs["each"].outputs == ((1, 5, 3),)
    assert None in costs["plus"].outputs[0]
    assert ramet.diff(tmp_path / "odd.keras", tmp_path / "odd.keras").ok
    with pytest.raises(ramet.RametError, match="cannot be called"):
        model.get_layer("plus")(np.ones((1, 5, 3)))


def test_sequences_shared_layers_and_frozen_ones(tmp_path):
    def build(count=2):
        double = Double(name="twice")
        core = keras.Sequential(
            [layers.Input((4,)), double, layers.Dense(4, name="d"), Double(name="end")],
            name="core",
        )
        core.trainable = False
        x = keras.Input((4,), name="x")
        y = x
        for _ in range(count):
            y = double(core(y))
        return keras.Model(x, y, name="outer")

    build().save(tmp_path / "two.keras")
    build(3).save(tmp_path / "three.keras")
    model, _ = look(tmp_path / "two.keras")
    graph = ramet.trace(model)
    assert graph.calls["core"].outputs[0].shape == (None, 4)
    # The last call reads a tensor as the first one does, and so its output has the same shape.
    assert graph.calls[graph.outputs.call].outputs[0].shape == (None, 4)
    assert ramet.diff(tmp_path / "two.keras", tmp_path / "two.keras").ok
    assert len(ramet.diff(tmp_path / "two.keras", tmp_path / "three.keras").of("added")) == 2


def test_outputs_that_nothing_reads_are_unknown(tmp_path, capsys):
    x = keras.Input((4,), name="x")
    inner_x = keras.Input((4,), name="inner_x")
    inner = keras.Model(inner_x, Twist(name="end")(inner_x)[1], name="inner")
    keras.Model(x, inner(x), name="outer").save(tmp_path / "model.keras")
    model, _ = look(tmp_path / "model.keras")
    graph = ramet.trace(model)
    assert not graph.calls["inner"].outputs[0].known
    ramet.show(tmp_path / "model.keras")
    assert "?" in capsys.readouterr().out
    (cost,) = ramet.profile(tmp_path / "model.keras").calls
    assert None in cost.outputs[0]
    assert ramet.diff(tmp_path / "model.keras", tmp_path / "model.keras").ok


def test_nothing_is_imported_run_or_unpickled(tmp_path, monkeypatch):
    """A class that is registered and importable here is not used, and no code is read."""
    model = keras.Sequential(
        [keras.Input((4,)), Double(name="twice"), layers.Lambda(lambda x: x, name="lambda")]
    )
    model.save(tmp_path / "model.keras")

    def fail(*_args, **_options):
        raise AssertionError

    monkeypatch.setattr(Double, "__init__", fail)
    monkeypatch.setattr("marshal.loads", fail)
    before = {*sys.modules}
    ramet.show(tmp_path / "model.keras")
    assert ramet.diff(tmp_path / "model.keras", tmp_path / "model.keras").ok
    ramet.profile(tmp_path / "model.keras")
    ramet.show(tmp_path / "model.keras", to=tmp_path / "model.html")
    assert not {name for name in {*sys.modules} - before if name.split(".")[0] == "test_outline"}


def test_a_number_of_outputs_is_no_bomb(tmp_path):
    model = twisted()
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members["config.json"].decode().replace('["twist", 0, 1]', '["twist", 0, 2000000000]')
    assert text != members["config.json"].decode()
    members["config.json"] = text.encode()
    with zipfile.ZipFile(tmp_path / "bomb.keras", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(FileError, match="no layer has an output number 2000000000"):
        look(tmp_path / "bomb.keras")


def test_the_rest_of_the_file_is_checked_as_always(tmp_path):
    """A foreign class does not open the door for what would be refused without it."""
    model = keras.Sequential(
        [keras.Input((4,)), Double(name="twice"), layers.Dense(2, name="dense")]
    )
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    dense = config["config"]["layers"][-1]
    attacks = [
        {"module": "keras.utils", "class_name": "get_file", "registered_name": None},
        {"config": {**dense["config"], "units": 1 << 30}},
        {
            "config": {
                **dense["config"],
                "kernel_initializer": {
                    "module": "keras.saving",
                    "class_name": "function",
                    "config": "load_model",
                    "registered_name": "load_model",
                },
            }
        },
    ]
    for attack in attacks:
        config["config"]["layers"][-1] = {**dense, **attack}
        members["config.json"] = json.dumps(config).encode()
        with zipfile.ZipFile(tmp_path / "bad.keras", "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        with pytest.raises(FileError):
            look(tmp_path / "bad.keras")


def test_a_file_that_was_loaded_and_saved_again_is_no_other(tmp_path):
    x = keras.Input((6,), name="x")
    inner = keras.Sequential([keras.Input((6,)), Double(name="second")], name="inner")
    model = keras.Model(x, inner(Double(name="first")(x)), name="net")
    files = tmp_path / "first.keras", tmp_path / "again.keras"
    model.save(files[0])
    keras.models.load_model(files[0]).save(files[1])
    texts = [zipfile.ZipFile(file).read("config.json") for file in files]
    assert b"shared_object_id" in texts[0]
    assert b"shared_object_id" not in texts[1]
    assert not ramet.diff(*files)
