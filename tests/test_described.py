"""Files shown without Keras: the table is the one that the loaded model has."""

import json
import zipfile

import keras
import pytest
from keras import layers

import zoo
from ramet._show import text_of
from ramet.errors import FileError
from ramet.files import load
from ramet.files.description import UndescribedError, describe, read_graph
from ramet.files.load import checked_file

pytestmark = pytest.mark.one_backend  # Files are the same on each.

CASES = {
    case.name: case
    for case in zoo.for_backend(keras.backend.backend())
    if "torch" in case.backends
    and case.saveable
    and not case.name.startswith(("subclass-", "preprocessing-"))
}


@pytest.fixture
def saved(tmp_path):
    def save(model, name="model"):
        path = tmp_path / f"{name}.keras"
        model.save(path)
        return path

    return save


def graph_in(path):
    """Read a file as `describe` does, which would leave a failure to Keras."""
    return read_graph(path, checked_file(path, trust=True)[0][0])


@pytest.mark.parametrize("name", CASES)
def test_a_table_from_a_file_is_that_of_the_model(name, saved):
    path = saved(CASES[name].build())
    try:
        graph = graph_in(path)
    except UndescribedError as reason:
        pytest.skip(f"only Keras can tell {reason}")
    own = CASES[name].custom_objects
    assert text_of(graph) == text_of(load(path, trust=True, custom_objects=own))


def small():
    """Convolutions, a nested model, a layer that is called twice, and frozen weights."""
    shared = layers.Dense(4, name="shared")
    x = keras.Input((8, 8, 3), name="image")
    y = layers.Conv2D(4, 3, strides=2, padding="same", name="conv")(x)
    y = layers.DepthwiseConv2D(3, name="deep", trainable=False)(y)
    y = shared(shared(layers.GlobalAveragePooling2D(name="pool")(y)))
    start = keras.Input((4,), name="start")
    inner = keras.Model(start, layers.BatchNormalization(name="norm")(start), name="inner")
    y = layers.Concatenate(name="both")([inner(y), y])
    heads = {"b": layers.Dense(2, name="b")(y), "a": layers.Dropout(0.1, name="a")(y)}
    return keras.Model(x, heads, name="small")


def test_what_a_file_tells(saved):
    path = saved(small())
    graph = describe(path)
    assert graph is not None
    assert text_of(graph) == text_of(load(path))


@pytest.mark.parametrize(
    "layer",
    [
        layers.Embedding(9, 4, mask_zero=True),
        layers.Lambda(lambda x: x),
        layers.Bidirectional(layers.LSTM(2)),
        layers.LSTM(2, return_state=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_what_only_keras_can_tell(layer, saved):
    x = keras.Input((5,) if isinstance(layer, layers.Embedding) else (5, 3))
    y = layer(x)
    y = y[0] if isinstance(y, (list, tuple)) else y
    path = saved(keras.Model(x, layers.Flatten()(y)))
    assert describe(path, trust=True) is None
    with pytest.raises(UndescribedError, match=type(layer).__name__):
        graph_in(path)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (lambda x: keras.ops.reshape(x, (-1, 15)), r"the output of reshape\w*, a Reshape"),
        (lambda x: layers.Identity(name="both")([x, x]), "the shape or dtype .* of both"),
    ],
)
def test_an_output_that_only_keras_can_tell(output, reason, saved):
    x = keras.Input((5, 3))
    y = output(x)
    path = saved(keras.Model(x, y[0] if isinstance(y, list) else y))
    assert describe(path) is None
    with pytest.raises(UndescribedError, match=reason):
        graph_in(path)


def changed(path, change):
    """Writes a file again with another config."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    change(config)
    members["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config["config"].update(layers=[]),
        lambda config: config["config"].update(layers=7),
        lambda config: config["config"].update(output_layers=["none", 0, 0]),
        lambda config: config["config"].update(output_layers=["conv", -1, 0]),
        lambda config: config["config"]["layers"][1].update(module=None),
        lambda config: config["config"]["layers"][-1]["config"].pop("units", None),
        lambda config: config["config"]["layers"][1].update(inbound_nodes=[[]]),
    ],
)
def test_a_config_that_makes_no_sense_is_left_to_keras(change, saved):
    assert describe(changed(saved(small()), change)) is None


def as_other(config, layer, **changes):
    config["config"]["layers"][layer]["config"].update(changes)


@pytest.mark.parametrize(
    "change",
    [
        lambda config: as_other(config, 1, filters=5),
        lambda config: as_other(config, 1, use_bias=False),
        lambda config: as_other(config, 2, depth_multiplier=2),
        lambda config: as_other(config, -1, units=9),
        lambda config: config["config"]["layers"][-1].update(
            build_config={"input_shape": [None, 9]}
        ),
        lambda config: as_other(
            config, 1, kernel_initializer={"class_name": "no", "module": "keras"}
        ),
    ],
)
def test_a_file_that_keras_refuses_is_not_described(change, saved):
    path = changed(saved(small()), change)
    assert describe(path) is None
    with pytest.raises(FileError, match=r"cannot be loaded|does not know"):
        load(path)


def test_a_damaged_member_is_not_described(saved):
    path = saved(small())
    data = bytearray(path.read_bytes())
    data[data.index(b"HDF") + 5000] ^= 1
    path.write_bytes(data)
    for read in (describe, load):
        with pytest.raises(
            FileError, match=r"the checksum of its member 'model.weights.h5' is wrong"
        ):
            read(path)


def test_a_broken_file_is_an_error(saved, tmp_path):
    path = saved(small())
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(FileError, match="broken or truncated"):
        describe(path)
    with pytest.raises(FileError, match="there is no file"):
        describe(tmp_path / "none.keras")


def test_compressed_weights_are_read(saved):
    path = saved(small())
    graph = describe(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert text_of(describe(path)) == text_of(graph)
