"""Files shown without Keras: the table is the one that the loaded model has."""

import json
import zipfile

import keras
import pytest
from keras import layers

import zoo
from ramet.errors import FileError
from ramet.files import load
from ramet.files.described import describe
from ramet.show import text_of

BACKEND = keras.backend.backend()
CASES = {
    case.name: case
    for case in zoo.sample_for_backend(BACKEND)
    if case.saveable and not case.name.startswith(("subclass-", "preprocessing-"))
}


@pytest.fixture
def saved(tmp_path):
    def save(model, name="model"):
        path = tmp_path / f"{name}.keras"
        model.save(path)
        return path

    return save


@pytest.mark.skipif(BACKEND != "torch", reason="files are alike; PyTorch makes models quickest")
@pytest.mark.parametrize("name", CASES)
def test_a_table_from_a_file_is_that_of_the_model(name, saved):
    path = saved(CASES[name].build())
    graph = describe(path)
    if graph is None:
        pytest.skip("only Keras can tell")
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


def test_two_files(saved):
    model = small()
    first = saved(model)
    kernel = model.get_layer("conv").kernel
    kernel.assign(kernel.value + 1)
    second = saved(model, "second")
    graphs = describe(first), describe(second)
    assert text_of(*graphs) == text_of(load(first), load(second))
    assert "changed; weights" in text_of(*graphs)


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
    assert describe(saved(keras.Model(x, layers.Flatten()(y)))) is None


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
