"""Files: hostile ones are refused in one line, and none is ever left half written."""

import json
import os
import pickle
import stat
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet.files import archive, config, load, save, save_text


def small_model():
    x = keras.Input((3,), name="x")
    y = layers.Dense(4, activation="relu", name="a")(x)
    return keras.Model(x, layers.Dense(2, name="b")(y), name="small")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "small.keras"
    small_model().save(path)
    return path


def rewritten(source, target, change=None, extra=(), without=()):
    """Copies an archive, with another config, more members or fewer."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "config.json" and change is not None:
                data = change(data)
            if name not in without:
                new.writestr(name, data)
        for info, data in extra:
            new.writestr(info, data)
    return target


def changed_layer(**changes):
    def change(data):
        read = json.loads(data)
        read["config"]["layers"][1].update(changes)
        return json.dumps(read).encode()

    return change


def refused(path, match, **options):
    with pytest.raises(ramet.FileError, match=match) as caught:
        load(path, **options)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


# --- loading -------------------------------------------------------------------------


def test_a_model_that_was_compiled_is_compiled(tmp_path):
    model = small_model()
    model.compile("adam", "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    save(model, tmp_path / "m.keras")
    again = load(tmp_path / "m.keras")
    assert again.compiled
    assert ramet.verify(load(tmp_path / "m.keras"), again).ok


def test_what_a_file_does_not_hold_is_the_same_each_time(tmp_path):
    x = keras.Input((5,), dtype="int32")
    y = layers.LSTM(3, dropout=0.5)(layers.Embedding(9, 4, mask_zero=True)(x))
    save(keras.Model(x, y), tmp_path / "m.keras")
    ramet.verify(load(tmp_path / "m.keras"), load(tmp_path / "m.keras")).raise_if_different()


def test_loading_leaves_names_and_random_numbers_as_they_were(saved):
    def drawn():
        name = layers.Dense(1).name
        return int(name.rpartition("_")[2]), np.random.rand()  # noqa: NPY002 the global one is meant

    layers.Dense(1)
    before = drawn()[0]
    keras.utils.set_random_seed(1)
    expected = drawn()[1]
    keras.utils.set_random_seed(1)
    load(saved)
    assert drawn() == (before + 2, expected)


def test_legacy_files_are_read(tmp_path, saved):
    model = load(saved)
    model.save(tmp_path / "m.h5")
    again = load(tmp_path / "m.h5")
    x = np.ones((2, 3), "float32")
    assert np.array_equal(model.predict(x, verbose=0), again.predict(x, verbose=0))


def test_paths_that_lead_to_no_file(tmp_path, saved):
    refused(tmp_path / "no.keras", "there is no file")
    refused(tmp_path, "is a directory")
    other = tmp_path / "model.onnx"
    other.write_bytes(saved.read_bytes())
    refused(other, "suffix '.onnx'; models are .keras or .h5")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes by name")
def test_a_pipe_is_not_a_file(tmp_path):
    os.mkfifo(tmp_path / "m.keras")
    refused(tmp_path / "m.keras", "not a regular file")


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_wrong_magic(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    path.write_bytes(pickle.dumps({"a": 1}))
    refused(path, "despite its suffix")
    path.write_bytes(b"")
    refused(path, "despite its suffix")


@pytest.mark.parametrize("part", [0.3, 0.6, 0.99])
def test_truncated_files(tmp_path, saved, part):
    data = saved.read_bytes()
    path = tmp_path / "m.keras"
    path.write_bytes(data[: int(len(data) * part)])
    refused(path, "broken or truncated")
    load(saved).save(tmp_path / "m.h5")
    data = (tmp_path / "m.h5").read_bytes()
    (tmp_path / "m.h5").write_bytes(data[: int(len(data) * part)])
    refused(tmp_path / "m.h5", "broken or truncated")


def test_damaged_weights(tmp_path, saved):
    path = rewritten(saved, tmp_path / "m.keras", without=["model.weights.h5"])
    with zipfile.ZipFile(path, "a") as target:
        target.writestr("model.weights.h5", b"\x89HDF\r\n\x1a\n" + b"\0" * 100)
    refused(path, "broken or truncated weights")


@pytest.mark.parametrize(
    "name",
    [
        "../evil.py",
        "assets/../../evil.py",
        "/etc/evil",
        "C:/evil.txt",
        "c:evil",
        "assets\\..\\evil",
        "a\nb",
        "a\0b",
    ],
)
def test_unsafe_names(tmp_path, saved, name):
    info = zipfile.ZipInfo("harmless")
    info.filename = name
    refused(rewritten(saved, tmp_path / "m.keras", extra=[(info, b"x")]), "unsafe name")


def test_links_among_the_members(tmp_path, saved):
    link = zipfile.ZipInfo("assets/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refused(rewritten(saved, tmp_path / "m.keras", extra=[(link, b"/etc/passwd")]), "is a link")


def test_the_same_member_twice(tmp_path, saved):
    with pytest.warns(UserWarning, match="Duplicate"):
        path = rewritten(saved, tmp_path / "m.keras", extra=[("config.json", b"{}")])
    refused(path, "two members named 'config.json'")


def test_a_bomb_by_its_ratio(tmp_path, saved):
    info = zipfile.ZipInfo("assets/zeros")
    info.compress_type = zipfile.ZIP_DEFLATED
    data = bytes(archive.RATIO_FLOOR + 1)
    refused(rewritten(saved, tmp_path / "m.keras", extra=[(info, data)]), "refused as a bomb")


def patched_sizes(path, name, **sizes):
    """Lets the directory of an archive declare other sizes for a member."""
    with zipfile.ZipFile(path, "a") as target:
        for key, value in sizes.items():
            setattr(target.getinfo(name), key, value)
        target.writestr("assets/more", b"")
    return path


def test_a_bomb_by_its_declared_size(tmp_path, saved, monkeypatch):
    path = rewritten(saved, tmp_path / "m.keras", extra=[("assets/big", b"x")])
    refused(patched_sizes(path, "assets/big", file_size=1 << 42), "refused as a bomb")
    monkeypatch.setattr(archive, "MAX_RATIO", 1 << 60)
    refused(path, "declares .* bytes; .* is the limit")


def test_members_that_lie_over_one_another(tmp_path, saved):
    path = rewritten(saved, tmp_path / "m.keras", extra=[("assets/big", b"x")])
    refused(patched_sizes(path, "assets/big", compress_size=1 << 30), "its members claim")


def test_too_many_members_and_too_long_a_config(saved, monkeypatch):
    monkeypatch.setattr(archive, "MAX_CONFIG", 10)
    refused(saved, "config of .* bytes; 10 is the limit")
    monkeypatch.setattr(archive, "MAX_MEMBERS", 2)
    refused(saved, "3 members; 2 is the limit")


@pytest.mark.parametrize("name", ["config.json", "metadata.json", "model.weights.h5"])
def test_missing_members(tmp_path, saved, name):
    refused(rewritten(saved, tmp_path / "m.keras", without=[name]), f"it has no '{name}'")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe\xff", "not JSON"),
        (b"[]", "does not describe a model"),
        (b"{}", "does not describe a model"),
        (b"[" * 100_000 + b"]" * 100_000, "levels"),
        (b"[" * 300 + b"]" * 300, "levels"),
    ],
)
def test_configs_that_are_none(tmp_path, saved, text, match):
    refused(rewritten(saved, tmp_path / "m.keras", lambda _: text), match)


def test_depth_is_counted():
    deep = "[" * config.MAX_DEPTH + "]" * config.MAX_DEPTH
    assert config.parse(Path("m"), deep)
    with pytest.raises(ramet.FileError, match="levels"):
        config.parse(Path("m"), f"[{deep}]")


# --- what a config may name ----------------------------------------------------------


@keras.saving.register_keras_serializable("shop")
class Twice(layers.Layer):
    def call(self, x):
        return 2 * x


class Thrice(layers.Layer):
    def call(self, x):
        return 3 * x


def shift(x):
    return x + 1


def saved_with(layer, path):
    x = keras.Input((3,), name="x")
    keras.Model(x, layer(x)).save(path)
    return path


def test_classes_that_are_not_part_of_keras(tmp_path):
    path = saved_with(Twice(name="mine"), tmp_path / "registered.keras")
    refused(path, r"Twice' of layer 'mine', which is not part of Keras.*pass trust=True")
    assert type(load(path, trust=True).layers[-1]) is Twice
    path = saved_with(Thrice(name="own"), tmp_path / "plain.keras")
    refused(path, r"Thrice' of layer 'own', which is not part of Keras")
    unknown = r"Thrice' of layer 'own', which Keras does not know; .*pass it in custom_objects"
    refused(path, unknown, trust=True)
    own = load(path, trust=True, custom_objects={"Thrice": Thrice})
    assert type(own.layers[-1]) is Thrice


def test_functions_that_are_not_part_of_keras(tmp_path):
    dense = layers.Dense(2, activation=shift, name="d")
    path = saved_with(dense, tmp_path / "m.keras")
    refused(
        path, "names 'builtins.shift' of layer 'd', which Keras does not know; .*custom_objects"
    )
    own = load(path, trust=True, custom_objects={"shift": shift})
    assert own.layers[-1].activation is shift


def test_pickled_functions(tmp_path):
    path = saved_with(layers.Lambda(lambda x: x + 1, name="plus"), tmp_path / "m.keras")
    refused(path, "a pickled Python function in layer 'plus'")
    assert load(path, trust=True).predict(np.zeros((1, 3)), verbose=0).tolist() == [[1.0] * 3]


@pytest.mark.parametrize("module", ["os", "subprocess", "keras_evil", "builtins.evil", ""])
def test_modules_outside_keras(tmp_path, saved, module):
    change = changed_layer(class_name="system", module=module)
    path = rewritten(saved, tmp_path / "m.keras", change)
    refused(path, "'a', which is not part of Keras" if module else "system")


def test_a_class_hidden_in_the_arguments_of_a_layer(tmp_path, saved):
    hidden = {"module": "os", "class_name": "system", "config": {}, "registered_name": None}

    def change(data):
        read = json.loads(data)
        read["config"]["layers"][1]["config"]["kernel_initializer"] = hidden
        return json.dumps(read).encode()

    refused(rewritten(saved, tmp_path / "m.keras", change), "'os.system' of layer 'a'")


def test_a_class_in_the_training_config_of_a_legacy_file(tmp_path, saved):
    load(saved).save(tmp_path / "m.h5")
    loss = {"class_name": "Evil", "module": "evil", "config": {}, "registered_name": "evil>Evil"}
    with h5py.File(tmp_path / "m.h5", "a") as file:
        file.attrs["training_config"] = json.dumps({"loss": loss})
    refused(tmp_path / "m.h5", "'evil.Evil' of layer 'the model'")


def test_a_layer_that_keras_does_not_know(tmp_path, saved):
    path = rewritten(saved, tmp_path / "m.keras", changed_layer(class_name="Dance"))
    refused(path, r"'keras.layers.Dance' of layer 'a', which Keras does not know.*custom_objects")


def test_arguments_that_a_layer_does_not_know(tmp_path, saved):
    def change(data):
        read = json.loads(data)
        read["config"]["layers"][1]["config"]["wheels"] = 4
        return json.dumps(read).encode()

    refused(rewritten(saved, tmp_path / "m.keras", change), "cannot be loaded: .*wheels")


def test_a_layer_of_another_backend(tmp_path, saved, backend):
    kind = "TFSMLayer" if backend != "tensorflow" else "TorchModuleWrapper"
    path = rewritten(saved, tmp_path / "m.keras", changed_layer(class_name=kind))
    wanted = "tensorflow" if backend != "tensorflow" else "torch"
    refused(path, f"layer 'a' is a {kind}, which runs on {wanted} and not on {backend}")


def test_names_that_would_steer_a_terminal(tmp_path, saved):
    change = changed_layer(class_name="\x1b[2Jevil\n\nb", module="keras.layers")
    with pytest.raises(ramet.FileError) as caught:
        load(rewritten(saved, tmp_path / "m.keras", change))
    assert str(caught.value).isprintable()


# --- weights -------------------------------------------------------------------------


def with_weights(saved, path, write):
    """Copies an archive, with other weights."""
    weights = path.with_suffix(".weights")
    with zipfile.ZipFile(saved) as old:
        weights.write_bytes(old.read("model.weights.h5"))
    with h5py.File(weights, "a") as file:
        write(file)
    return rewritten(
        saved,
        path,
        without=["model.weights.h5"],
        extra=[("model.weights.h5", weights.read_bytes())],
    )


def test_weights_that_lie_elsewhere(tmp_path, saved):
    def link(file):
        file["layers/evil"] = h5py.ExternalLink("/etc/passwd", "/x")

    def soft(file):
        file["layers/evil"] = h5py.SoftLink("/layers")

    def external(file):
        file.create_dataset("layers/evil", (4,), "u1", external=[("/etc/passwd", 0, 4)])

    def virtual(file):
        layout = h5py.VirtualLayout((4,), "u1")
        layout[:] = h5py.VirtualSource("other.h5", "x", (4,))
        file.create_virtual_dataset("layers/evil", layout)

    for write, match in ((link, "link"), (soft, "link"), (external, "other"), (virtual, "other")):
        refused(with_weights(saved, tmp_path / "m.keras", write), f"'/layers/evil' that .*{match}")


def test_weights_that_declare_more_than_they_store(tmp_path, saved):
    def bomb(file):
        file.create_dataset("layers/evil", (1 << 30,), "f4", chunks=(1024,))

    refused(with_weights(saved, tmp_path / "m.keras", bomb), "weights that declare .* as a bomb")


def test_groups_that_hold_themselves_end(tmp_path, saved):
    def loop(file):
        file["layers/again"] = file["layers"]

    assert load(with_weights(saved, tmp_path / "m.keras", loop)).name == "small"


# --- saving --------------------------------------------------------------------------


def test_saving_gives_the_model_and_nothing_else(tmp_path):
    model = small_model()
    save(model, tmp_path / "m.keras")
    assert [path.name for path in tmp_path.iterdir()] == ["m.keras"]
    again = load(tmp_path / "m.keras")
    assert all(map(np.array_equal, model.get_weights(), again.get_weights()))


def test_where_nothing_may_be_written(tmp_path):
    model = small_model()
    save(model, tmp_path / "m.keras")
    before = (tmp_path / "m.keras").read_bytes()
    for path, match in (
        (tmp_path / "m.keras", "already exists; pass force=True to overwrite it"),
        (tmp_path / "m.h5", "name a .keras file"),
        (tmp_path / "no" / "m.keras", "no folder"),
    ):
        with pytest.raises(ramet.FileError, match=match):
            save(model, path)
    (tmp_path / "d.keras").mkdir()
    with pytest.raises(ramet.FileError, match="is a directory"):
        save(model, tmp_path / "d.keras", force=True)
    assert (tmp_path / "m.keras").read_bytes() == before
    save(model, tmp_path / "m.keras", force=True)


def test_a_crash_leaves_the_old_file_and_no_half_one(tmp_path, monkeypatch):
    model = small_model()
    save(model, tmp_path / "m.keras")
    before = (tmp_path / "m.keras").read_bytes()

    def crash(path):
        Path(path).write_bytes(b"half a fi")
        raise OSError("the disk is full\nand more")

    for error, kind in ((None, ramet.FileError), (KeyboardInterrupt, KeyboardInterrupt)):

        def interrupted(path, error=error):
            if error is not None:
                Path(path).write_bytes(b"half a fi")
                raise error
            crash(path)

        monkeypatch.setattr(model, "save", interrupted)
        for name in ("m.keras", "new.keras"):
            with pytest.raises(kind):
                save(model, tmp_path / name, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m.keras"]
    assert (tmp_path / "m.keras").read_bytes() == before


def test_texts_are_written_in_the_same_way(tmp_path):
    save_text("a = 1\n", tmp_path / "m.py")
    assert (tmp_path / "m.py").read_text() == "a = 1\n"
    with pytest.raises(ramet.FileError, match="already exists; pass force=True to overwrite it"):
        save_text("b = 2\n", tmp_path / "m.py")
