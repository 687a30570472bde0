"""What a file may ask for is limited by what is in it, all of its parts taken together."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
from keras import layers

import attacks
import ramet
from hostile import Tally, attempt
from ramet import keras_internals as internals
from ramet.files import hdf5, limits, load
from ramet.files.description import describe

pytestmark = pytest.mark.filterwarnings("ignore")


def keras_file(tmp_path: Path, *described: Any, **options: Any) -> Path:
    return attacks.archive(tmp_path / "m.keras", attacks.model(*described, **options))


def refused(path: Path, match: str) -> None:
    """Check that a file is refused, without taking memory or time."""

    def read(path: Path) -> None:
        with pytest.raises(ramet.FileError, match=match):
            load(path)

    attempt(path, read, Tally())


LARGE = [
    attacks.layer("Dense", units=60_000_000 // 7),
    attacks.layer("Embedding", input_dim=60_000, output_dim=60_000),
    attacks.layer("Dense", units=3) | {"build_config": {"input_shape": [None, 1 << 30]}},
    attacks.layer("Conv2D", filters=60_000, kernel_size=[60_000, 60_000]),
    attacks.layer("STFTSpectrogram", frame_length=60_000, frame_step=1, fft_length=1 << 16),
]


@pytest.mark.parametrize("described", LARGE, ids=lambda each: each["class_name"])
def test_variables_that_are_not_in_the_file(tmp_path: Path, described: Any) -> None:
    shape = {"Conv2D": (None, 1 << 16, 1 << 16, 3), "STFTSpectrogram": (None, 1 << 16, 1)}
    path = keras_file(tmp_path, described, shape=shape.get(described["class_name"], (None, 3)))
    refused(path, r"variable 'evil/\w+' is to have .* values, and all variables together more than")


def test_many_small_variables(tmp_path: Path) -> None:
    many = [attacks.layer("Dense", units=60_000) for _ in range(200)]
    for number, described in enumerate(many):
        described["name"] = described["config"]["name"] = f"d{number}"
    refused(keras_file(tmp_path, *many), r"variable 'd\d+/\w+' .* all variables together more than")


def test_variables_of_training(tmp_path: Path) -> None:
    metric = attacks.layer("MeanIoU", "keras.metrics", num_classes=60_000)
    config = attacks.model(attacks.layer("ReLU"))
    config["compile_config"] = {"optimizer": "adam", "loss": "mse", "metrics": [metric]}
    refused(attacks.archive(tmp_path / "m.keras", config), "all variables together more than")


def test_variables_in_what_a_layer_holds(tmp_path: Path) -> None:
    hidden = attacks.layer("Dense", units=60_000)
    hidden["build_config"] = {"input_shape": [None, 1 << 30]}
    described = attacks.layer("Dense", units=2, activation=hidden)
    refused(keras_file(tmp_path, described), "all variables together more than")
    inputs = keras.Input((3,), name="x")
    layer = layers.Lambda(lambda x, extra: x, arguments={"extra": None}, name="l")  # noqa: ARG005 it is passed by name
    outputs = layer(inputs)
    layer.arguments["extra"] = [hidden]
    source = ramet.emit(keras.Model(inputs, outputs), check=False)
    assert "60000" in source


def test_numbers(tmp_path: Path) -> None:
    for units in (10**18, 2**63, 10**30, 2**31):
        refused(keras_file(tmp_path, attacks.layer("Dense", units=units)), "which is too large")
    many = attacks.layer("Dense", units=1 << 25)
    refused(keras_file(tmp_path, many), "that add up to 33554432 .*; .*pass trust=True")
    described = attacks.layer("StringLookup", vocabulary=["a"], num_oov_indices=10**6)
    refused(keras_file(tmp_path, described, dtype="string"), "num_oov_indices=1e\\+06, which is")
    described = attacks.layer(
        "Lambda",
        function=attacks.function("keras.ops", "bincount"),
        arguments={"minlength": 1 << 24},
    )
    refused(keras_file(tmp_path, described, dtype="int32"), "arguments=.* which is too large")


def test_numbers_that_are_no_sizes(tmp_path: Path) -> None:
    config = [{"seed": 10**12, "salt": [10**15, 2**63], "vocabulary": [10**18]}, True, 1e300]
    limits.check_numbers(tmp_path, config, set())
    shapes = [{"batch_shape": [None, 1 << 30]}] * 100
    limits.check_numbers(tmp_path, shapes, set())
    rows = [{"input_dim": 1 << 30}] * 3
    limits.check_numbers(tmp_path, rows, {1 << 30})
    with pytest.raises(ramet.FileError, match="add up to"):
        limits.check_numbers(tmp_path, rows, {7})


def test_no_layer_is_run_to_infer_a_shape(tmp_path: Path, backend: str) -> None:
    described = attacks.layer("Lambda", function=attacks.function("keras.ops", "nonzero"))
    path = keras_file(tmp_path, described, shape=(None, 1 << 24))
    if backend != "tensorflow":  # which infers it from a graph
        refused(path, "could not automatically infer the shape of the Lambda's output")
    else:
        attempt(path, load, Tally())


def test_a_config_that_takes_much_memory_to_read(tmp_path: Path) -> None:
    for item, count in ((b'{"":{}},', 3_000_000), (b"[],", 10_000_000)):
        text = b'{"class_name": "Functional", "config": [' + item * count + b"1]}"
        refused(attacks.archive(tmp_path / "m.keras", text), r"a config that may take \d+ bytes")


def test_many_assets_that_are_small(tmp_path: Path) -> None:
    path = keras_file(tmp_path, attacks.layer("ReLU"))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for number in range(9):
            archive.writestr(f"assets/{number}", bytes(4 << 20))
    refused(path, r"has \d+ bytes and members that declare 377\d+; more than 32 to 1")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_expand_before_they_are_counted(tmp_path: Path, method: int) -> None:
    path = keras_file(tmp_path, attacks.layer("ReLU"))
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr("assets/x", bytes(1000))
    refused(path, "'assets/x' that is compressed in an unusual way")


def with_weights(tmp_path: Path, write: Any) -> Path:
    config = attacks.model(attacks.layer("ReLU"))
    return attacks.archive(tmp_path / "m.keras", config, write)


def test_many_weights_that_are_small(tmp_path: Path) -> None:
    def write(file: Any) -> None:
        for number in range(9):
            data = np.zeros(1 << 20, "float32")
            file.create_dataset(f"layers/{number}", data=data, compression="gzip")

    refused(with_weights(tmp_path, write), r"weights that declare 37748736; more than 32 to 1")


def test_weights_of_other_types(tmp_path: Path) -> None:
    texts = h5py.string_dtype()
    pairs = np.dtype([("a", "f4"), ("b", "f4")])
    for dtype in (texts, h5py.ref_dtype, pairs):
        path = with_weights(tmp_path, lambda f, d=dtype: f.create_dataset("layers/x", (3,), d))
        refused(path, "'/layers/x' of the type")


def test_filters_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5, "_FILTERS", frozenset({2}))
    data = np.zeros(100, "float32")
    path = with_weights(
        tmp_path, lambda f: f.create_dataset("layers/x", data=data, compression="gzip")
    )
    refused(path, "a filter which HDF5 has not built in")


def test_lists_of_texts(tmp_path: Path) -> None:
    def write(file: Any) -> None:
        file.attrs.create("names", ["a" * 10, "b"], dtype=h5py.string_dtype())

    refused(with_weights(tmp_path, write), "an attribute 'names' of '/' with 2 texts")
    path = attacks.legacy(
        tmp_path / "m.h5", attacks.legacy_model("ReLU", max_value="x" * 2_000_000)
    )
    with h5py.File(path, "a") as file:
        names = ["a"] * 1000
        file["model_weights"].attrs.create("more", names, dtype=h5py.string_dtype())
    refused(path, "'more' of '/model_weights/' with 1000 texts, which may have 2")


def test_objects_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5, "MAX_OBJECTS", 3)
    path = with_weights(tmp_path, lambda f: [f.create_group(f"layers/{n}") for n in range(9)])
    refused(path, "more than 3 groups and weights")


def test_what_a_model_needs_is_not_limited(tmp_path: Path) -> None:
    x = keras.Input((64,))
    y = layers.Dense(512)(layers.Dense(1024)(x))
    model = keras.Model(x, y)
    model.compile(keras.optimizers.Adam(amsgrad=True), "mse")
    model.save(tmp_path / "m.keras")
    assert load(tmp_path / "m.keras").count_params() == model.count_params()


def test_tensors_are_counted(tmp_path: Path) -> None:
    described = attacks.layer("Unstack", "keras.src.ops.core", axis=1, num=None)
    path = keras_file(tmp_path, described, shape=(None, 1 << 30))
    refused(path, "its layers have more outputs than the config has calls for")
    described = attacks.layer(
        "Lambda", function=attacks.function("keras.ops", "unstack"), arguments={"axis": 1}
    )
    refused(keras_file(tmp_path, described, shape=(None, 1 << 30)), "unstack' of .* can run code")


def test_the_limit_counts_every_variable_once() -> None:
    with internals.limited_memory(400, 0):
        keras.Variable(np.zeros(50, "float32"))
        with pytest.raises(internals.TooLargeError, match=re.escape("is to have 51 values")):
            keras.Variable("zeros", shape=(51,), dtype="float32")
    with internals.limited_memory(4 * 50, 0):
        keras.Variable("zeros", shape=(50,), dtype="float32")
    keras.Variable("zeros", shape=(1000,), dtype="float32")


def test_describing_takes_no_more_than_loading(tmp_path: Path) -> None:
    for described in LARGE:
        path = keras_file(tmp_path, described)
        attempt(path, lambda path: describe(path) is None or 1 // 0, Tally())
